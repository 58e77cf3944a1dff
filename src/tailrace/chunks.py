"""The content of messages: the `Chunk` union and `Message`, in the form in which they are stored, sent and shown.

`msgspec.to_builtins(chunk)` and `msgspec.json.encode(chunk)` give the wire form: camelCase, the tag in `type`, absent
optional fields left out. `tailrace.assembler` turns events into chunks.

The text of a text or thinking chunk and the output of a shell grow in small pieces while a turn runs. Appending to a
`str` attribute copies the whole text. So a descriptor keeps each of these attributes as a list of pieces, and joins the
pieces when the attribute is read. msgspec bypasses the descriptors of a Struct, but not those of a dataclass. So the
growing classes are dataclasses, and the others are Structs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, cast

import msgspec
from msgspec import UNSET, UnsetType


class _Growing:
    """A `str` attribute stored as pieces: appending costs the length of the piece, reading joins the pieces once."""

    def __init__(self, default: str | None = None) -> None:
        self._default = default

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, holder: object, owner: type) -> str:
        if holder is None:
            # The decorator `dataclass` reads the default of a field from the class, without an instance.
            if self._default is None:
                raise AttributeError(self._name)
            return self._default
        pieces = _pieces(holder, self._name)
        if len(pieces) > 1:
            pieces[:] = ["".join(pieces)]
        return pieces[0]

    def __set__(self, holder: object, text: str) -> None:
        if hasattr(holder, f"_{self._name}"):
            # Change the list in place, because a `tail` may refer to it.
            _pieces(holder, self._name)[:] = [text]
        else:
            setattr(holder, f"_{self._name}", [text])


def _pieces(holder: object, name: str) -> list[str]:
    """The list of pieces of a growing attribute.

    It is an attribute of the instance that the class does not declare, because a declared one would be a dataclass
    field.
    """
    pieces: list[str] = getattr(holder, f"_{name}")
    return pieces


MANY_PIECES = 100_000
"""More pieces than this are joined before the text is read, because they would take too much memory."""


def join_small_pieces(pieces: list[str]) -> None:
    """Join the small pieces at the end of the list into one piece, because many small ones take much memory.

    The long pieces before them are not copied.
    """
    first_small = next((nth for nth, piece in enumerate(pieces) if len(piece) < MANY_PIECES), len(pieces))
    pieces[first_small:] = ["".join(pieces[first_small:])]


def _growing(default: str | None = None) -> str:
    """Declare a growing attribute. Its declared type is `str`, because a reader of the attribute gets a `str`."""
    return cast("str", _Growing(default))


_NO_SENDERS: frozenset[str | None] = frozenset()


@dataclass
class TextChunk:
    """A text block of the answer. It is open, so that more text can be added, until it is sealed.

    A block can have text of the agent and of its subagents. While it is open and only the agent has written in it,
    `tail.append(piece)` adds text without a copy of the earlier text. Every other block has no attribute `tail`; use
    `append`. Who wrote which text, and who sealed the block, is not part of the wire form.
    """

    type: Literal["text"] = field(default="text", kw_only=True, repr=False)
    text: str = _growing()

    def __post_init__(self) -> None:
        self.tail = _pieces(self, "text")
        self._shares: list[tuple[str | None, list[str]]] | None = None  # by sender; only if a subagent wrote a part
        self._sealed_by: frozenset[str | None] = _NO_SENDERS

    def append(self, piece: str, sender: str | None) -> None:
        """Add text of a sender. `sender` is None for the agent, or the id of the tool call that runs the subagent."""
        if self._shares is None and sender is not None:
            self._shares = [(None, [self.text])] if self.text else []
            del self.tail
        pieces = _pieces(self, "text")
        pieces.append(piece)
        if self._shares is not None:
            if not self._shares or self._shares[-1][0] != sender:
                self._shares.append((sender, []))
            self._shares[-1][1].append(piece)

    def has_text_of(self, sender: str | None) -> bool:
        """True if the sender wrote a part of this block."""
        if self._shares is None:
            return sender is None
        return any(author == sender for author, _pieces in self._shares)

    def replace(self, sender: str | None, text: str) -> None:
        """Replace the text that this sender wrote in the block. The text of other senders stays."""
        if self._shares is None:
            self.text = text
            return
        first = next(index for index, (author, _) in enumerate(self._shares) if author == sender)
        others = [(author, pieces) for author, pieces in self._shares if author != sender]
        self._shares = [*others[:first], *([(sender, [text])] if text else []), *others[first:]]
        self.text = "".join(piece for _, pieces in self._shares for piece in pieces)

    def is_open_to(self, sender: str | None) -> bool:
        """True if new text of the sender continues this block.

        That is so if no sender has sealed the block. If only other senders have sealed it, the block is still open to a
        sender who has already written in it.
        """
        if not self._sealed_by:
            return True
        return sender not in self._sealed_by and self.has_text_of(sender)

    def seal(self, sender: str | None = None) -> None:
        """Seal the block for a sender: later text of this sender opens a new block."""
        self._sealed_by |= {sender}
        if self._shares is None:
            del self.tail


@dataclass
class ThinkingChunk:
    """Reasoning of the model. `metadata` belongs to the provider.

    `metadata` comes with the end of the reasoning, so later reasoning opens a new chunk.
    """

    type: Literal["thinking"] = field(default="thinking", kw_only=True, repr=False)
    text: str = _growing()
    metadata: Any = UNSET

    def grow(self, piece: str) -> None:
        """Append a piece, without a copy of the earlier text."""
        _pieces(self, "text").append(piece)


@dataclass
class ShellOutput:
    """What a tool wrote to standard output and to standard error while it ran."""

    stdout: str = _growing("")
    stderr: str = _growing("")

    def grow(self, stream: Literal["stdout", "stderr"], piece: str) -> None:
        """Append a piece to `stdout` or `stderr`, without a copy of the earlier text."""
        _pieces(self, stream).append(piece)


class ToolCall(msgspec.Struct, rename="camel"):
    """A tool call. `result` and `is_error` are unset until the call ends."""

    id: str
    name: str
    arguments: Any
    result: Any = UNSET
    is_error: bool | UnsetType = UNSET
    shell_output: ShellOutput | UnsetType = UNSET


class ToolBatchChunk(msgspec.Struct, tag_field="type", tag="tool-batch"):
    """Tool calls that follow each other: no text, reasoning or other chunk came between them."""

    calls: list[ToolCall]


class ErrorChunk(msgspec.Struct, tag_field="type", tag="error", rename="camel", omit_defaults=True):
    """An error in a conversation, with the text that people see."""

    message: str
    status_code: int | None = None


SystemKind: TypeAlias = Literal["notice", "model-changed", "config-reload"]


class SystemChunk(msgspec.Struct, tag_field="type", tag="system"):
    """A system message that stays in the conversation."""

    kind: SystemKind
    text: str


Chunk: TypeAlias = TextChunk | ThinkingChunk | ToolBatchChunk | ErrorChunk | SystemChunk


class Message(msgspec.Struct):
    """One entry of a conversation: its role and its chunks, in order."""

    id: str
    role: Literal["user", "assistant", "system"]
    chunks: list[Chunk]


class SystemEvent(msgspec.Struct, frozen=True):
    """An event such as "another model answers now" that can come while no turn runs. It becomes a `SystemChunk`."""

    kind: SystemKind
    text: str
