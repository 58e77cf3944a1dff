"""What a message holds: the `Chunk` union and `Message`, in the form they are remembered, sent and shown in.

`msgspec.to_builtins(chunk)` and `msgspec.json.encode(chunk)` give the wire form: camelCase, the tag in
`type`, an optional field that is absent left out. How events become chunks is `tailrace.assembler`'s to say.

The text of a text or thinking chunk and the output of a shell grow by small pieces while a turn runs. Adding
to a `str` attribute copies all that is already there, so these attributes keep the pieces and join them when
they are read. msgspec takes a Struct's fields straight from memory, where a joining attribute has no say, but
reads a dataclass's fields as Python does: the classes that grow are dataclasses, the others are Structs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, cast

import msgspec
from msgspec import UNSET, UnsetType


class _Growing:
    """A `str` attribute held as pieces: growing costs what the piece costs, reading joins them once."""

    def __init__(self, default: str | None = None) -> None:
        self._default = default

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, holder: object, owner: type) -> str:
        if holder is None:
            # This is how a dataclass asks a descriptor for the field's default.
            if self._default is None:
                raise AttributeError(self._name)
            return self._default
        pieces = _pieces(holder, self._name)
        if len(pieces) > 1:
            pieces[:] = ["".join(pieces)]
        return pieces[0]

    def __set__(self, holder: object, text: str) -> None:
        if hasattr(holder, f"_{self._name}"):
            # In place, because the list may be known elsewhere as a `tail`.
            _pieces(holder, self._name)[:] = [text]
        else:
            setattr(holder, f"_{self._name}", [text])


def _pieces(holder: object, name: str) -> list[str]:
    """The pieces of a growing attribute; not declared on the class, which would make them a field."""
    pieces: list[str] = getattr(holder, f"_{name}")
    return pieces


MANY_PIECES = 100_000
"""So many pieces are worth joining before they are read: they take more memory than the text."""


def settle(pieces: list[str]) -> None:
    """Join the small pieces at the end of a text into one block; the blocks before it are not copied."""
    first_small = next((nth for nth, piece in enumerate(pieces) if len(piece) < MANY_PIECES), len(pieces))
    pieces[first_small:] = ["".join(pieces[first_small:])]


def _growing(default: str | None = None) -> str:
    """Declare a growing attribute; typed, like `dataclasses.field`, as what is read from it."""
    return cast("str", _Growing(default))


_NOBODY: frozenset[str | None] = frozenset()


@dataclass
class TextChunk:
    """A block of the answer.

    While the block is open and the agent itself speaks in it, `tail.append(piece)` adds to its text at the cost of
    the piece; a sealed block has no `tail`, and neither has one that a subagent speaks in, which is added to by `say`.
    Whether it is sealed, and by whom, and who said what of it, is not part of its value and not on the wire.
    """

    type: Literal["text"] = field(default="text", kw_only=True, repr=False)
    text: str = _growing()

    def __post_init__(self) -> None:
        self.tail = _pieces(self, "text")
        self._shares: list[tuple[str | None, list[str]]] | None = None  # where a subagent has a part in it
        self._sealed_by: frozenset[str | None] = _NOBODY

    def say(self, piece: str, speaker: str | None) -> None:
        """Add what somebody says: the agent, or the subagent under that call."""
        if self._shares is None and speaker is not None:
            self._shares = [(None, [self.text])] if self.text else []
            del self.tail
        pieces = _pieces(self, "text")
        pieces.append(piece)
        if self._shares is not None:
            if not self._shares or self._shares[-1][0] != speaker:
                self._shares.append((speaker, []))
            self._shares[-1][1].append(piece)

    def speaks(self, speaker: str | None) -> bool:
        """Whether that one has a part in it."""
        if self._shares is None:
            return speaker is None
        return any(whose == speaker for whose, _said in self._shares)

    def correct(self, speaker: str | None, text: str) -> None:
        """Let the part of one who speaks in it say this; what others said stands."""
        if self._shares is None:
            self.text = text
            return
        first = next(at for at, (whose, _said) in enumerate(self._shares) if whose == speaker)
        others = [(whose, said) for whose, said in self._shares if whose != speaker]
        self._shares = [*others[:first], *([(speaker, [text])] if text else []), *others[first:]]
        self.text = "".join(piece for _whose, said in self._shares for piece in said)

    def is_open_to(self, speaker: str | None) -> bool:
        """Whether what that one says goes on in it: if nobody is done with it, or others are who spoke in it, too."""
        if not self._sealed_by:
            return True
        return speaker not in self._sealed_by and self.speaks(speaker)

    def seal(self, speaker: str | None = None) -> None:
        """One who speaks in it is done with it for good."""
        self._sealed_by |= {speaker}
        if self._shares is None:
            del self.tail


@dataclass
class ThinkingChunk:
    """What the model thought aloud. `metadata` is the provider's own; a chunk that has it is sealed."""

    type: Literal["thinking"] = field(default="thinking", kw_only=True, repr=False)
    text: str = _growing()
    metadata: Any = UNSET

    def grow(self, piece: str) -> None:
        """Add a piece at the end, at the cost of the piece."""
        _pieces(self, "text").append(piece)


@dataclass
class ShellOutput:
    """What a tool printed while it ran."""

    stdout: str = _growing("")
    stderr: str = _growing("")

    def grow(self, stream: Literal["stdout", "stderr"], piece: str) -> None:
        """Add a piece at the end of one of the two, at the cost of the piece."""
        _pieces(self, stream).append(piece)


class ToolCall(msgspec.Struct, rename="camel"):
    """A call of a tool; `result` and `is_error` are unset until the tool has answered."""

    id: str
    name: str
    arguments: Any
    result: Any = UNSET
    is_error: bool | UnsetType = UNSET
    shell_output: ShellOutput | UnsetType = UNSET


class ToolBatchChunk(msgspec.Struct, tag_field="type", tag="tool-batch"):
    """Calls of tools with nothing else said between them."""

    calls: list[ToolCall]


class ErrorChunk(msgspec.Struct, tag_field="type", tag="error", rename="camel", omit_defaults=True):
    """Something went wrong, as it is told to the person."""

    message: str
    status_code: int | None = None


SystemKind: TypeAlias = Literal["notice", "model-changed", "config-reload"]


class SystemChunk(msgspec.Struct, tag_field="type", tag="system"):
    """A remark of the system that stays in the conversation."""

    kind: SystemKind
    text: str


Chunk: TypeAlias = TextChunk | ThinkingChunk | ToolBatchChunk | ErrorChunk | SystemChunk


class Message(msgspec.Struct):
    """One entry of a conversation: who speaks, and what was said, in order."""

    id: str
    role: Literal["user", "assistant", "system"]
    chunks: list[Chunk]


class SystemEvent(msgspec.Struct, frozen=True):
    """A remark of the system that may come while no turn is open."""

    kind: SystemKind
    text: str
