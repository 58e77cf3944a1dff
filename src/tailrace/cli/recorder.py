"""Records turns: one file per turn, with one line for each event and its time, and without secrets.

`tailrace preview`, `shadow --replay`, `deliver` and the tests read these files. Secrets are replaced before an event is
written: values of environment variables with names such as `API_KEY`, and tokens of known forms. A secret may come in
several pieces, with text of a subagent or a tool between them. So the events wait until the text of every source (the
agent, each subagent, each tool) is at the end of a word.
"""

from __future__ import annotations

import os
import re
import time
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from tailrace.errors import UsageError
from tailrace.events import ReasoningDelta, Status, TextDelta, ToolOutput, ToolProgress, TurnStarted, Usage
from tailrace.redaction import Redaction

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import BinaryIO

    from tailrace.events import Event

# Events with a piece of text. The source of the text is its kind, the subagent, the call and the stream.
_Piece: TypeAlias = TextDelta | ReasoningDelta | ToolOutput
_Source: TypeAlias = tuple[type, str | None, str | None, str]
_MAX_WAITING = 10_000
_KEY_BEGINS, _KEY_ENDS = "-----BEGIN", "-----END"


def _source(piece: _Piece) -> _Source:
    if isinstance(piece, ToolOutput):
        return ToolOutput, piece.parent_tool_id, piece.id, piece.stream
    return type(piece), piece.parent_tool_id, None, ""


def _text(piece: _Piece) -> str:
    return piece.data if isinstance(piece, ToolOutput) else piece.text


class Recorder:
    """Writes the events of each turn to a file of its own in a folder, while the events come."""

    def __init__(self, folder: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._folder = folder
        self._clock = clock
        self._redaction = Redaction(os.environ)
        self._file: BinaryIO | None = None
        self._began = 0.0
        self._waiting: list[tuple[float, _Piece | Usage | Status | ToolProgress]] = []
        self._in_word: set[_Source] = set()  # sources with an incomplete last word
        self._tails: dict[_Source, str] = {}  # the last text: perhaps half of a private key's BEGIN or END
        self._in_key: set[_Source] = set()  # sources inside a private key: there, a space does not end the secret
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"--record {folder}: {error.strerror}. Name a folder that can be written to.") from error

    def record(self, event: Event) -> None:
        """Record an event. A `turn_started` begins a new file."""
        if isinstance(event, TurnStarted):
            self._begin(event.turn_id)
        at = self._clock() - self._began
        if isinstance(event, _Piece):
            self._record_piece(at, event)
        elif self._in_word and isinstance(event, Usage | Status | ToolProgress) and len(self._waiting) < _MAX_WAITING:
            # These events can come in the middle of a word. All other events end the word.
            self._waiting.append((at, event))
        else:
            self._write_waiting()
            self._write(at, self._redaction.value(msgspec.to_builtins(event, str_keys=True)))

    def _record_piece(self, at: float, piece: _Piece) -> None:
        source, text = _source(piece), _text(piece)
        if text[:1].isspace() and source not in self._in_key:
            self._end_word(source)
        self._waiting.append((at, piece))
        self._look_for_key(source, text)
        if text:
            self._in_word.add(source)
        if (text[-1:].isspace() and source not in self._in_key) or len(self._waiting) > _MAX_WAITING:
            self._end_word(source)

    def _end_word(self, source: _Source) -> None:
        self._in_word.discard(source)
        if not self._in_word or len(self._waiting) > _MAX_WAITING:
            self._write_waiting()

    def _look_for_key(self, source: _Source, piece: str) -> None:
        text = self._tails.get(source, "") + piece
        begins, ends = text.rfind(_KEY_BEGINS), text.rfind(_KEY_ENDS)
        if begins > ends:
            self._in_key.add(source)
        elif ends >= 0:
            self._in_key.discard(source)
        self._tails[source] = text[1 - len(_KEY_BEGINS) :]

    def _waiting_text(self, source: _Source) -> str:
        return "".join(
            _text(event) for _, event in self._waiting if isinstance(event, _Piece) and _source(event) == source
        )

    def _write_waiting(self) -> None:
        """Write the waiting events.

        A secret may be spread over several events of one source (the agent, a subagent or a tool). If their joined text
        has a secret, the first of these events gets the whole text, redacted, and the others are left out.
        """
        redacted: dict[_Source, str | None] = {}
        for source in {_source(event) for _, event in self._waiting if isinstance(event, _Piece)}:
            text = self._waiting_text(source)
            if (without := self._redaction.text(text)) != text:
                redacted[source] = without
        waiting, self._waiting = self._waiting, []
        self._in_word.clear()
        self._tails.clear()
        self._in_key.clear()
        for at, event in waiting:
            fields = msgspec.to_builtins(event, str_keys=True)
            if not isinstance(event, _Piece):
                self._write(at, self._redaction.value(fields))
            elif (source := _source(event)) not in redacted:
                self._write(at, fields)
            elif (without_secrets := redacted[source]) is not None:
                self._write(at, {**fields, "data" if isinstance(event, ToolOutput) else "text": without_secrets})
                redacted[source] = None

    def _write(self, at: float, fields: Any) -> None:
        if self._file is not None:
            self._file.write(msgspec.json.encode({"at": round(at, 3), "event": fields}) + b"\n")
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
        """End the turn: write the waiting events, and close the file."""
        self._write_waiting()
        if self._file is not None:
            self._file.close()
            self._file = None
