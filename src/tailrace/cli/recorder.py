"""Keeps turns as they come: one file of lines for each, an event and when it came, with secrets left out.

The files are what `tailrace preview`, `shadow --replay`, `deliver` and the tests read. What looks like a secret is left
out before it is written: values of the environment whose names say so, and tokens of the usual makes. A secret may come
in pieces, with others' words between them, so pieces of text wait until the words of all who speak are whole.
"""

from __future__ import annotations

import os
import re
import time
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from tailrace.errors import UsageError
from tailrace.events import ReasoningDelta, Status, TextDelta, ToolOutput, ToolProgress, TurnStarted, Usage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from typing import BinaryIO

    from tailrace.events import Event

REDACTED = "[left out]"
_SHORTEST = 8  # a shorter value would be found in ordinary words
_NAMES = re.compile(r"(?i)key|token|secret|passw|credential|auth")
_TOKENS = re.compile(
    r"sk-[A-Za-z0-9_-]{16,}|xox[abeoprs]-[A-Za-z0-9-]{10,}|gh[oprsu]_[A-Za-z0-9]{20,}|github_pat_\w{20,}"
    r"|AKIA[0-9A-Z]{16}|AIza[0-9A-Za-z_-]{30,}|eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]{10,}|\b\d{8,10}:[A-Za-z0-9_-]{35}\b"
    r"|(?<=Bearer )[A-Za-z0-9._~+/-]{16,}|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
    re.DOTALL,
)


# What comes in pieces, and whose it is: the kind, the subagent, the call and its stream.
_Piece: TypeAlias = TextDelta | ReasoningDelta | ToolOutput
_Voice: TypeAlias = tuple[type, str | None, str | None, str]
_MOST_WAITING = 10_000
_KEY_BEGINS, _KEY_ENDS = "-----BEGIN", "-----END"


def _voice(piece: _Piece) -> _Voice:
    if isinstance(piece, ToolOutput):
        return ToolOutput, piece.parent_tool_id, piece.id, piece.stream
    return type(piece), piece.parent_tool_id, None, ""


def _text(piece: _Piece) -> str:
    return piece.data if isinstance(piece, ToolOutput) else piece.text


class Redaction:
    """Leaves out what must not be kept: what the environment calls a secret, and what looks like one."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        secrets = {value for name, value in environment.items() if _NAMES.search(name) and len(value) >= _SHORTEST}
        # The longest first: one may be part of another.
        told = "|".join(re.escape(secret) for secret in sorted(secrets, key=len, reverse=True))
        self._secrets = re.compile(told) if told else None

    def text(self, text: str) -> str:
        """The text without them."""
        if self._secrets is not None:
            text = self._secrets.sub(REDACTED, text)
        return _TOKENS.sub(REDACTED, text)

    def value(self, value: Any) -> Any:
        """The same for all text in a value made of lists and mappings."""
        match value:
            case str():
                return self.text(value)
            case dict():
                return {self.value(key): self.value(held) for key, held in value.items()}
            case list() | tuple():
                return [self.value(held) for held in value]
            case _:
                return value


class Recorder:
    """Writes each turn to a file of its own in a folder, as its events come."""

    def __init__(self, folder: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._folder = folder
        self._clock = clock
        self._redaction = Redaction(os.environ)
        self._file: BinaryIO | None = None
        self._began = 0.0
        self._waiting: list[tuple[float, _Piece | Usage | Status | ToolProgress]] = []
        self._unfinished: set[_Voice] = set()  # whose last word may not be whole
        self._ends: dict[_Voice, str] = {}  # of what waits, as much as may be half of a key's mark
        self._in_key: set[_Voice] = set()  # who is in the middle of a key, which has spaces in it
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"--record {folder}: {error.strerror}. Name a folder that can be written to.") from error

    def record(self, event: Event) -> None:
        """An event came; the first of a turn begins its file."""
        if isinstance(event, TurnStarted):
            self._begin(event.turn_id)
        at = self._clock() - self._began
        if isinstance(event, _Piece):
            self._keep_piece(at, event)
        elif (
            self._unfinished and isinstance(event, Usage | Status | ToolProgress) and len(self._waiting) < _MOST_WAITING
        ):
            self._waiting.append((at, event))
        else:
            self._write_waiting()
            self._write(at, self._redaction.value(msgspec.to_builtins(event, str_keys=True)))

    def _keep_piece(self, at: float, piece: _Piece) -> None:
        voice, text = _voice(piece), _text(piece)
        if text[:1].isspace() and voice not in self._in_key:
            self._finish(voice)
        self._waiting.append((at, piece))
        self._look_for_key(voice, text)
        if text:
            self._unfinished.add(voice)
        if (text[-1:].isspace() and voice not in self._in_key) or len(self._waiting) > _MOST_WAITING:
            self._finish(voice)

    def _finish(self, voice: _Voice) -> None:
        """Somebody's word is whole."""
        self._unfinished.discard(voice)
        if not self._unfinished or len(self._waiting) > _MOST_WAITING:
            self._write_waiting()

    def _look_for_key(self, voice: _Voice, piece: str) -> None:
        text = self._ends.get(voice, "") + piece
        begins, ends = text.rfind(_KEY_BEGINS), text.rfind(_KEY_ENDS)
        if begins > ends:
            self._in_key.add(voice)
        elif ends >= 0:
            self._in_key.discard(voice)
        self._ends[voice] = text[1 - len(_KEY_BEGINS) :]

    def _said(self, voice: _Voice) -> str:
        pieces = (event for _, event in self._waiting if isinstance(event, _Piece))
        return "".join(_text(piece) for piece in pieces if _voice(piece) == voice)

    def _write_waiting(self) -> None:
        """Write the pieces that make whole words: as they came, or as one where something is left out."""
        redacted: dict[_Voice, str | None] = {}
        for voice in {_voice(event) for _, event in self._waiting if isinstance(event, _Piece)}:
            whole = self._said(voice)
            if (kept := self._redaction.text(whole)) != whole:
                redacted[voice] = kept
        waiting, self._waiting = self._waiting, []
        self._unfinished.clear()
        self._ends.clear()
        self._in_key.clear()
        for at, event in waiting:
            told = msgspec.to_builtins(event, str_keys=True)
            if not isinstance(event, _Piece):
                self._write(at, self._redaction.value(told))
            elif (voice := _voice(event)) not in redacted:
                self._write(at, told)
            elif (kept_whole := redacted[voice]) is not None:
                self._write(at, {**told, "data" if isinstance(event, ToolOutput) else "text": kept_whole})
                redacted[voice] = None

    def _write(self, at: float, told: Any) -> None:
        if self._file is not None:
            self._file.write(msgspec.json.encode({"at": round(at, 3), "event": told}) + b"\n")
            self._file.flush()

    def _begin(self, turn_id: str) -> None:
        self.close()
        self._began = self._clock()
        name = re.sub(r"[^\w.-]", "_", turn_id)[:64] or "turn"
        number = 1 + sum(1 for _ in self._folder.glob("*.ndjson"))
        path = self._folder / f"{number:04}-{name}.ndjson"
        try:
            self._file = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")
        except OSError as error:
            raise UsageError(f"{path} cannot be written: {error.strerror}") from error

    def close(self) -> None:
        """Nothing more comes of the turn."""
        self._write_waiting()
        if self._file is not None:
            self._file.close()
            self._file = None
