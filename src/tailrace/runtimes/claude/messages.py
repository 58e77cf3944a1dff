"""Translates the messages of Claude's models: text, reasoning and tool calls.

A message comes twice: piece by piece (`stream_event`), and block by block (`assistant`) when a block is complete. The
complete block only closes the streamed one. A block that was not streamed, such as every block of a subagent, is
emitted from its complete form.

**A streamed block without its complete form does not count**: the model's answer broke off in it. If the block is a
tool call, the call was never made. If it is text, the text is retracted when the model continues; if the model does not
continue, the text stays, and the failure follows. The command retries by itself, or lets the model continue after the
complete blocks. If the model repeats these blocks, the repetition is not emitted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.events import Event, ReasoningDelta, Usage
from tailrace.runtimes.claude.shapes import AssistantLine, BlockDelta, ContentBlock, ModelEvent, StreamLine, result_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.runtimes.turn_translation import TurnTranslation

_BROKE_OFF = "The model's answer broke off before the call was complete; it was not made."


class _StreamedBlock:
    """A block that comes in pieces.

    `expected_repeat` is the text of an earlier block that the model may write again. While the new pieces only repeat
    it, nothing is emitted.
    """

    __slots__ = (
        "call",
        "expected_repeat",
        "is_complete",
        "is_repeat",
        "is_stopped",
        "key",
        "kind",
        "repeated",
        "signature",
    )

    def __init__(self, kind: str, key: tuple[int, int], call: str) -> None:
        self.kind = kind
        self.key = key
        self.call = call
        self.signature = ""
        self.is_stopped = self.is_complete = self.is_repeat = False
        self.expected_repeat: str | None = None
        self.repeated = 0


class _StreamedMessage:
    """The message that the agent, or a subagent, is writing now."""

    __slots__ = ("block_count", "blocks", "final_texts", "is_complete", "message_id", "number")

    def __init__(self, message_id: str, number: int) -> None:
        self.message_id = message_id
        self.number = number
        self.block_count = 0
        self.blocks: dict[int, _StreamedBlock] = {}
        self.final_texts: list[str] = []  # the texts of its complete blocks
        self.is_complete = False


class ClaudeMessages:
    """The messages of one turn, those of the agent and those of its subagents.

    `report_unknown` is called with each block or event of an unknown kind.
    """

    def __init__(self, turn: TurnTranslation, report_unknown: Callable[[str], list[Event]]) -> None:
        self._turn = turn
        self._unknown = report_unknown
        self._count = 0
        self._messages: dict[str | None, _StreamedMessage] = {}
        self._open_text: _StreamedBlock | None = None
        # The blocks of each speaker that are retracted when the speaker continues.
        self._broken_texts: dict[str | None, list[tuple[int, int]]] = {}
        self._kept_texts: list[str] = []  # final texts of a message that broke off

    @property
    def is_in_text(self) -> bool:
        """Whether the agent is in the middle of a text."""
        return self._open_text is not None

    def close_text(self) -> None:
        """Close the agent's open text, because no more of it comes."""
        self._open_text = None

    def model_continues(self) -> None:
        """Note that the model gets another request. If its last message broke off, the model may repeat this message.

        The repetition is not emitted again.
        """
        message = self._messages.get(None)
        if message is not None and not message.is_complete:
            self._kept_texts = list(message.final_texts)

    # Streamed

    def stream_event(self, line: StreamLine) -> list[Event]:
        """Translate a piece of a message."""
        event, parent = line.event, line.parent_tool_use_id
        if event.type == "message_start":
            return self._open_message(event.message.id if event.message else "", parent)
        message = self._messages.get(parent)
        if message is None or event.type == "ping":
            return []
        block, events = message.blocks.get(event.index), list[Event]()
        match event:
            case ModelEvent(type="content_block_start", content_block=ContentBlock() as started):
                events = self._open_block(message, event.index, started, parent)
            case ModelEvent(type="content_block_delta", delta=BlockDelta() as delta) if block is not None:
                events = self._block_delta(block, delta, parent)
            case ModelEvent(type="content_block_stop") if block is not None:
                events = self._block_stopped(block, parent)
            case ModelEvent(type="message_delta", delta=BlockDelta() as delta):
                events = self._close_message(message, event, parent, is_complete=delta.stop_reason is not None)
            case ModelEvent(type="message_stop"):
                events = [] if message.is_complete else self._break_off(message, parent)
            case _:
                events = self._unknown(f"stream_event/{event.type}")
        return events

    def _open_message(self, message_id: str, parent: str | None) -> list[Event]:
        before = self._messages.get(parent)
        self._count += 1
        self._messages[parent] = _StreamedMessage(message_id, self._count)
        events = [] if before is None or before.is_complete else self._break_off(before, parent)
        return [*events, *self._retract_broken(parent)]

    def _close_message(
        self, message: _StreamedMessage, event: ModelEvent, parent: str | None, *, is_complete: bool
    ) -> list[Event]:
        if is_complete:
            message.is_complete = True
            if parent is None:
                self._kept_texts.clear()
        usage = event.usage
        if usage is None:
            return []
        tokens = {"input_tokens": usage.all_input_tokens, "output_tokens": usage.output_tokens}
        return [Usage(**tokens, scope="request", parent_tool_id=parent)]

    def _open_block(
        self, message: _StreamedMessage, index: int, started: ContentBlock, parent: str | None
    ) -> list[Event]:
        # The key is the order of the blocks, because Qwen Code gives every block the same index.
        block = message.blocks[index] = _StreamedBlock(started.type, (message.number, message.block_count), started.id)
        message.block_count += 1
        events: list[Event] = []
        if started.type == "text":
            if parent is None:
                self._open_text = block
                block.expected_repeat = self._kept_texts.pop(0) if self._kept_texts else None
            events = self._text(block, started.text, parent)
        elif started.type == "thinking":
            events = self._turn.reasoning_delta(started.thinking, parent=parent)
        elif started.type == "redacted_thinking":
            events = self._redacted_reasoning(started, parent)
        elif started.type.endswith("tool_use"):
            events = self._turn.tool_call(started.id, started.name, parent=parent)
        return events

    def _block_delta(self, block: _StreamedBlock, delta: BlockDelta, parent: str | None) -> list[Event]:
        match delta.type:
            case "text_delta":
                return self._text(block, delta.text, parent)
            case "thinking_delta":
                return self._turn.reasoning_delta(delta.thinking, parent=parent)
            case "signature_delta":
                block.signature += delta.signature
                return []
            case "input_json_delta" | "citations_delta":
                return []
            case _:
                return self._unknown(f"stream_event/{delta.type}")

    def _text(self, block: _StreamedBlock, piece: str, parent: str | None) -> list[Event]:
        if block.expected_repeat is None:
            return self._turn.text_delta(block.key, piece, parent=parent)
        expected = block.expected_repeat[block.repeated : block.repeated + len(piece)]
        if piece == expected:
            block.repeated += len(piece)
            return []
        expected_repeat, block.expected_repeat = block.expected_repeat, None
        if piece.startswith(expected) and block.repeated + len(expected) == len(expected_repeat):
            block.is_repeat = True
            return self._turn.text_delta(block.key, piece[len(expected) :], parent=parent)
        self._kept_texts.clear()
        return self._turn.text_delta(block.key, expected_repeat[: block.repeated] + piece, parent=parent)

    def _block_stopped(self, block: _StreamedBlock, parent: str | None) -> list[Event]:
        block.is_stopped = True
        if self._open_text is block:
            self._open_text = None
        return self._reasoning_end(block.signature, parent) if block.kind == "thinking" else []

    def _break_off(self, message: _StreamedMessage, parent: str | None) -> list[Event]:
        """Handle a message that broke off: its incomplete blocks do not count."""
        events: list[Event] = []
        for block in message.blocks.values():
            if block.is_complete:
                continue
            if block.kind == "text":
                self._broken_texts.setdefault(parent, []).append(block.key)
            elif block.kind.endswith("tool_use"):
                events += self._turn.tool_result(block.call, _BROKE_OFF, is_error=True, parent=parent)
            if self._open_text is block:
                self._open_text = None
        message.blocks.clear()
        return events

    def _retract_broken(self, parent: str | None) -> list[Event]:
        keys = self._broken_texts.pop(parent, [])
        return [event for key in keys for event in self._turn.block_final(key, "", parent=parent)]

    # Complete blocks

    def assistant_line(self, line: AssistantLine) -> list[Event]:
        """Translate complete blocks of a message."""
        events = self._retract_broken(line.parent_tool_use_id)
        for block in line.message.blocks:
            streamed = self._streamed_block(block, line)
            if streamed is not None:
                streamed.is_complete = True
            events += self._whole_block(block, streamed, line.parent_tool_use_id)
        return events

    def tool_result(self, block: ContentBlock, parent: str | None) -> list[Event]:
        """Translate the result of a tool call."""
        is_error = block.is_error is True
        return self._turn.tool_result(block.tool_use_id, result_text(block.content), is_error=is_error, parent=parent)

    def _streamed_block(self, block: ContentBlock, line: AssistantLine) -> _StreamedBlock | None:
        """Find the streamed block that this complete block repeats. None if the block was not streamed.

        In Qwen Code, the streamed message and the complete message have different ids.
        """
        message = self._messages.get(line.parent_tool_use_id)
        if message is None:
            return None
        for known in message.blocks.values():
            is_like_it = known.kind == block.type and known.call == block.id and not known.is_complete
            if is_like_it and (known.is_stopped or message.message_id == line.message.id):
                return known
        return None

    def _whole_block(self, block: ContentBlock, streamed: _StreamedBlock | None, parent: str | None) -> list[Event]:
        events: list[Event] = []
        if block.type == "text":
            events = self._whole_text(block.text, streamed, parent)
        elif block.type.endswith("tool_use"):
            events = self._turn.tool_call(block.id, block.name, block.input, parent=parent)
        elif block.type.endswith("tool_result"):
            events = self.tool_result(block, parent)
        elif streamed is not None:
            events = []  # the pieces of this reasoning were emitted
        elif block.type == "thinking":
            events = self._turn.reasoning_delta(block.thinking, parent=parent)
            events += self._reasoning_end(block.signature, parent)
        elif block.type == "redacted_thinking":
            events = self._redacted_reasoning(block, parent)
        else:
            events = self._unknown(f"assistant/{block.type}")
        return events

    def _whole_text(self, text: str, streamed: _StreamedBlock | None, parent: str | None) -> list[Event]:
        if streamed is None:
            self._count += 1
            key = (self._count, 0)
            expected_repeat = self._kept_texts.pop(0) if parent is None and self._kept_texts else None
        else:
            key, expected_repeat = streamed.key, streamed.expected_repeat
            self._messages[parent].final_texts.append(text)
            if self._open_text is streamed:
                self._open_text = None
            if expected_repeat is None:
                return self._turn.block_final(key, None if streamed.is_repeat else text, parent=parent)
        if text == expected_repeat:
            return []
        return [*self._turn.text_delta(key, text, parent=parent), *self._turn.block_final(key, parent=parent)]

    # Reasoning

    def _reasoning_end(self, signature: str, parent: str | None) -> list[Event]:
        return self._turn.reasoning_end({"signature": signature} if signature else None, parent=parent)

    def _redacted_reasoning(self, block: ContentBlock, parent: str | None) -> list[Event]:
        """Emit reasoning that only its provider can read. It has no text, but metadata that must be kept."""
        return [
            *self._turn.reasoning_delta("", parent=parent),
            ReasoningDelta(text="", parent_tool_id=parent),
            *self._turn.reasoning_end({"redacted_thinking": block.data}, parent=parent),
        ]
