"""The messages of Claude's models, told as events: text, thoughts and calls.

A message comes twice: piece by piece (`stream_event`), and block by block (`assistant`) where the block is complete.
What came in pieces is only closed by its whole; what did not, as all that a subagent says, is told by it.

**A block whose whole never came is void**: the model's answer broke off in it. Its call was never made, and its text is
taken back as soon as the model says something else; what was said last stays, with the failure under it. The command
then asks again by itself, or lets the model go on behind the blocks that stand; a model that says those again is not
heard twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.events import Event, ReasoningDelta, Usage
from tailrace.runtimes.claude.shapes import AssistantLine, Block, Delta, ModelEvent, StreamLine, shown

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.runtimes.turn_translation import TurnTranslation

_BROKE_OFF = "The model's answer broke off before the call was complete; it was not made."


class _Piecemeal:
    """A block that comes in pieces.

    `echo` is a text that stands already and may only be said again: as long as it is, it is not told.
    """

    __slots__ = ("call", "echo", "echoed", "is_echo", "is_stopped", "is_whole", "key", "kind", "signature")

    def __init__(self, kind: str, key: tuple[int, int], call: str) -> None:
        self.kind = kind
        self.key = key
        self.call = call
        self.signature = ""
        self.is_stopped = self.is_whole = self.is_echo = False
        self.echo: str | None = None
        self.echoed = 0


class _Stream:
    """The message that the agent, or a subagent, is at."""

    __slots__ = ("blocks", "is_complete", "message_id", "number", "opened", "texts")

    def __init__(self, message_id: str, number: int) -> None:
        self.message_id = message_id
        self.number = number
        self.opened = 0
        self.blocks: dict[int, _Piecemeal] = {}
        self.texts: list[str] = []  # of its blocks that are whole
        self.is_complete = False


class Messages:
    """All messages of one turn, the agent's and its subagents'. `wonder` is asked about kinds nobody has heard of."""

    def __init__(self, turn: TurnTranslation, wonder: Callable[[str], list[Event]]) -> None:
        self._turn = turn
        self._wonder = wonder
        self._count = 0
        self._streams: dict[str | None, _Stream] = {}
        self._speaking: _Piecemeal | None = None
        self._void_texts: dict[str | None, list[tuple[int, int]]] = {}  # of whoever began to say them
        self._standing: list[str] = []  # the texts that stand of a message that broke off

    @property
    def is_speaking(self) -> bool:
        """Whether the agent is in the middle of a text."""
        return self._speaking is not None

    def fall_silent(self) -> None:
        """Nothing more comes of what the agent was saying."""
        self._speaking = None

    def go_on(self) -> None:
        """The agent was told something; where its message broke off, to go on with it."""
        stream = self._streams.get(None)
        if stream is not None and not stream.is_complete:
            self._standing = list(stream.texts)

    # In pieces

    def piece(self, line: StreamLine) -> list[Event]:
        """A further piece of a message."""
        event, parent = line.event, line.parent_tool_use_id
        if event.type == "message_start":
            return self._open_message(event.message.id if event.message else "", parent)
        stream = self._streams.get(parent)
        if stream is None or event.type == "ping":
            return []
        block, told = stream.blocks.get(event.index), list[Event]()
        match event:
            case ModelEvent(type="content_block_start", content_block=Block() as begun):
                told = self._open_block(stream, event.index, begun, parent)
            case ModelEvent(type="content_block_delta", delta=Delta() as delta) if block is not None:
                told = self._grow(block, delta, parent)
            case ModelEvent(type="content_block_stop") if block is not None:
                told = self._stop(block, parent)
            case ModelEvent(type="message_delta", delta=Delta() as delta):
                told = self._close_message(stream, event, parent, is_complete=delta.stop_reason is not None)
            case ModelEvent(type="message_stop"):
                told = [] if stream.is_complete else self._void(stream, parent)
            case _:
                told = self._wonder(f"stream_event/{event.type}")
        return told

    def _open_message(self, message_id: str, parent: str | None) -> list[Event]:
        before = self._streams.get(parent)
        self._count += 1
        self._streams[parent] = _Stream(message_id, self._count)
        told = [] if before is None or before.is_complete else self._void(before, parent)
        return [*told, *self._take_back(parent)]

    def _close_message(
        self, stream: _Stream, event: ModelEvent, parent: str | None, *, is_complete: bool
    ) -> list[Event]:
        if is_complete:
            stream.is_complete = True
            if parent is None:
                self._standing.clear()
        spent = event.usage
        if spent is None:
            return []
        tokens = {"input_tokens": spent.taken_in, "output_tokens": spent.output_tokens}
        return [Usage(**tokens, scope="request", parent_tool_id=parent)]

    def _open_block(self, stream: _Stream, index: int, begun: Block, parent: str | None) -> list[Event]:
        # Known by its order, since Qwen Code gives every block the same index.
        block = stream.blocks[index] = _Piecemeal(begun.type, (stream.number, stream.opened), begun.id)
        stream.opened += 1
        told: list[Event] = []
        if begun.type == "text":
            if parent is None:
                self._speaking = block
                block.echo = self._standing.pop(0) if self._standing else None
            told = self._say(block, begun.text, parent)
        elif begun.type == "thinking":
            told = self._turn.reasoning_delta(begun.thinking, parent=parent)
        elif begun.type == "redacted_thinking":
            told = self._redacted(begun, parent)
        elif begun.type.endswith("tool_use"):
            told = self._turn.tool_call(begun.id, begun.name, parent=parent)
        return told

    def _grow(self, block: _Piecemeal, delta: Delta, parent: str | None) -> list[Event]:
        match delta.type:
            case "text_delta":
                return self._say(block, delta.text, parent)
            case "thinking_delta":
                return self._turn.reasoning_delta(delta.thinking, parent=parent)
            case "signature_delta":
                block.signature += delta.signature
                return []
            case "input_json_delta" | "citations_delta":
                return []
            case _:
                return self._wonder(f"stream_event/{delta.type}")

    def _say(self, block: _Piecemeal, piece: str, parent: str | None) -> list[Event]:
        if block.echo is None:
            return self._turn.text_delta(block.key, piece, parent=parent)
        expected = block.echo[block.echoed : block.echoed + len(piece)]
        if piece == expected:
            block.echoed += len(piece)
            return []
        echo, block.echo = block.echo, None
        if piece.startswith(expected) and block.echoed + len(expected) == len(echo):
            block.is_echo = True
            return self._turn.text_delta(block.key, piece[len(expected) :], parent=parent)
        self._standing.clear()
        return self._turn.text_delta(block.key, echo[: block.echoed] + piece, parent=parent)

    def _stop(self, block: _Piecemeal, parent: str | None) -> list[Event]:
        block.is_stopped = True
        if self._speaking is block:
            self._speaking = None
        return self._thought(block.signature, parent) if block.kind == "thinking" else []

    def _void(self, stream: _Stream, parent: str | None) -> list[Event]:
        """The message broke off: what of it is not whole was never said."""
        told: list[Event] = []
        for block in stream.blocks.values():
            if block.is_whole:
                continue
            if block.kind == "text":
                self._void_texts.setdefault(parent, []).append(block.key)
            elif block.kind.endswith("tool_use"):
                told += self._turn.tool_result(block.call, _BROKE_OFF, is_error=True, parent=parent)
            if self._speaking is block:
                self._speaking = None
        stream.blocks.clear()
        return told

    def _take_back(self, parent: str | None) -> list[Event]:
        keys = self._void_texts.pop(parent, [])
        return [event for key in keys for event in self._turn.block_final(key, "", parent=parent)]

    # As wholes

    def whole(self, line: AssistantLine) -> list[Event]:
        """Blocks of a message that are complete."""
        told = self._take_back(line.parent_tool_use_id)
        for block in line.message.blocks:
            piecemeal = self._piecemeal(block, line)
            if piecemeal is not None:
                piecemeal.is_whole = True
            told += self._whole_block(block, piecemeal, line.parent_tool_use_id)
        return told

    def tool_result(self, block: Block, parent: str | None) -> list[Event]:
        """What a tool returned."""
        is_error = block.is_error is True
        return self._turn.tool_result(block.tool_use_id, shown(block.content), is_error=is_error, parent=parent)

    def _piecemeal(self, block: Block, line: AssistantLine) -> _Piecemeal | None:
        """The block as it came in pieces before. Qwen Code gives its whole to a message of another name."""
        stream = self._streams.get(line.parent_tool_use_id)
        if stream is None:
            return None
        for known in stream.blocks.values():
            is_like_it = known.kind == block.type and known.call == block.id and not known.is_whole
            if is_like_it and (known.is_stopped or stream.message_id == line.message.id):
                return known
        return None

    def _whole_block(self, block: Block, piecemeal: _Piecemeal | None, parent: str | None) -> list[Event]:
        told: list[Event] = []
        if block.type == "text":
            told = self._whole_text(block.text, piecemeal, parent)
        elif block.type.endswith("tool_use"):
            told = self._turn.tool_call(block.id, block.name, block.input, parent=parent)
        elif block.type.endswith("tool_result"):
            told = self.tool_result(block, parent)
        elif piecemeal is not None:
            told = []  # a thought is told by its pieces
        elif block.type == "thinking":
            told = self._turn.reasoning_delta(block.thinking, parent=parent)
            told += self._thought(block.signature, parent)
        elif block.type == "redacted_thinking":
            told = self._redacted(block, parent)
        else:
            told = self._wonder(f"assistant/{block.type}")
        return told

    def _whole_text(self, text: str, piecemeal: _Piecemeal | None, parent: str | None) -> list[Event]:
        if piecemeal is None:
            self._count += 1
            key = (self._count, 0)
            echo = self._standing.pop(0) if parent is None and self._standing else None
        else:
            key, echo = piecemeal.key, piecemeal.echo
            self._streams[parent].texts.append(text)
            if self._speaking is piecemeal:
                self._speaking = None
            if echo is None:
                return self._turn.block_final(key, None if piecemeal.is_echo else text, parent=parent)
        if text == echo:
            return []
        return [*self._turn.text_delta(key, text, parent=parent), *self._turn.block_final(key, parent=parent)]

    # Thoughts

    def _thought(self, signature: str, parent: str | None) -> list[Event]:
        return self._turn.reasoning_end({"signature": signature} if signature else None, parent=parent)

    def _redacted(self, block: Block, parent: str | None) -> list[Event]:
        """A thought that only its provider can read: without words, but with a place where it is kept."""
        return [
            *self._turn.reasoning_delta("", parent=parent),
            ReasoningDelta(text="", parent_tool_id=parent),
            *self._turn.reasoning_end({"redacted_thinking": block.data}, parent=parent),
        ]
