"""The rules by which any agent's stream becomes canonical events.

A translator knows the events of one agent and calls the methods here; each returns the canonical events that follow.
The problems that all agents have are handled here once:

- **Streamed text is not repeated.** The final text of a streamed block only closes the block, and corrects it if it
differs. A block that was not streamed is emitted from its final text. - **The translator gives each block a key**: its
model call, its index there and its kind. The id of a provider alone is no key. - **Snapshots become deltas.** A
snapshot that does not continue the text so far replaces that text. - **Text of a failed model call is retracted**
before the next try. Text of a completed model call stays. - **An interrupted block continues after the interruption**;
the text before it stays. - **The key of a tool call is its id**, across model calls and resumed runs. A result may come
before the input is complete, after later text, after the end, and without a start. - **A turn has one end**: a
requested cancellation, else a failure, else what the agent reported. A stream that ends without any of these is a
failure.

Pure: no clock, no I/O. One instance is one turn.
"""

from __future__ import annotations

import json
from collections.abc import Hashable
from typing import Any, TypeAlias

from tailrace.events import (
    BlockFinal,
    Event,
    Notice,
    ReasoningDelta,
    ReasoningEnd,
    TextDelta,
    TextRetracted,
    ToolFinished,
    ToolInput,
    ToolOutput,
    ToolStarted,
    TurnCancelled,
    TurnCompleted,
    TurnFailed,
)
from tailrace.runtimes.provider_errors import provider_error_text

_BlockKey: TypeAlias = Hashable
# The speaker of an event: None for the agent itself, or the id of the call that started the subagent.
_Speaker: TypeAlias = str | None
_SHOWN_CHARACTERS = 500  # the length at which an unknown event is cut
# The fields in which agents write the kind of an event.
_KIND_FIELDS = ("type", "subtype", "method", "event", "event_kind", "part_kind", "name")
_MAX_UNKNOWN_KINDS = 20


class _Segment:
    """The text of a block between two interruptions.

    If its model call is complete, it is permanent: no retry retracts it.
    """

    __slots__ = ("is_permanent", "pieces")

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.is_permanent = False

    @property
    def text(self) -> str:
        return "".join(self.pieces)


class _Block:
    """A block of text. Only its last segment can change, and only while the block is open."""

    __slots__ = ("is_final", "is_open", "segments")

    def __init__(self) -> None:
        self.segments: list[_Segment] = []
        self.is_open = False
        self.is_final = False

    @property
    def last(self) -> _Segment:
        return self.segments[-1]

    @property
    def earlier_text(self) -> str:
        return "".join(segment.text for segment in self.segments[:-1])

    @property
    def text(self) -> str:
        return "".join(segment.text for segment in self.segments)

    def close(self, *, is_final: bool) -> None:
        self.is_open = False
        self.is_final = is_final


class TurnTranslation:
    """One turn of one agent. A translator calls a method for each thing that the agent reports.

    The method returns the canonical events to emit. `parent` is the id of the tool call that runs the subagent; None
    for the agent itself.
    """

    def __init__(self, runtime: str) -> None:
        self.runtime = runtime
        self._blocks: dict[_BlockKey, _Block] = {}
        self._open_blocks: dict[_Speaker, _BlockKey] = {}
        self._recent_segments: dict[
            _Speaker, list[_Segment]
        ] = {}  # the segments since the last event that was not text
        self._reasoning_ended: dict[_Speaker, bool] = {}  # for each speaker whose last event was reasoning
        self._call_finished: dict[str, bool] = {}
        self._call_parents: dict[str, _Speaker] = {}
        self._printed: dict[str, str] = {}
        self._reported_kinds: set[Hashable] = set()  # the kinds of unknown events that were reported
        self._failure: TurnFailed | None = None
        self._completion: TurnCompleted | None = None
        self.is_finished = False

    # Text

    def text_delta(self, key: _BlockKey, piece: str, *, parent: str | None = None) -> list[Event]:
        """Append text to a block."""
        if not piece:
            return []
        events, block = self._open_block(key, parent)
        block.last.pieces.append(piece)
        return [*events, TextDelta(text=piece, parent_tool_id=parent)]

    def text_snapshot(self, key: _BlockKey, whole: str, *, parent: str | None = None) -> list[Event]:
        """Take the whole text of a block so far, and emit what is new.

        If the text does not continue the earlier text, it replaces the text since the last interruption.
        """
        known = self._blocks.get(key)
        text = known.text if known is not None else ""
        if whole.startswith(text):
            return self.text_delta(key, whole[len(text) :], parent=parent)
        assert known is not None, "every text starts with an empty one"
        earlier = known.earlier_text
        if not known.is_open or not whole.startswith(earlier):
            return []  # text before an interruption cannot be changed
        known.last.pieces = []
        return [
            *self._retract(parent, "the agent changed its text"),
            *self.text_delta(key, whole.removeprefix(earlier), parent=parent),
        ]

    def block_final(self, key: _BlockKey, whole: str | None = None, *, parent: str | None = None) -> list[Event]:
        """Close a block. `whole` is its final text, if the agent reports one."""
        known = self._blocks.get(key)
        if known is None:
            if not whole:
                return []
            events, block = self._open_block(key, parent)
            block.last.pieces.append(whole)
            self._close(key, parent)
            return [*events, BlockFinal(text=whole, parent_tool_id=parent)]
        if not known.is_open:
            known.is_final = True
            return []
        earlier = known.earlier_text
        rest = whole.removeprefix(earlier) if whole is not None and whole.startswith(earlier) else None
        differs = rest is not None and rest != known.last.text
        if rest is not None:
            known.last.pieces = [rest]
        self._close(key, parent)
        return [BlockFinal(text=rest if differs else None, parent_tool_id=parent)]

    def retract_try(self, reason: str, *, parent: str | None = None) -> list[Event]:
        """Retract the text since the last interruption, because the model call failed and is retried."""
        key = self._open_blocks.pop(parent, None)
        if key is not None:
            self._blocks[key].close(is_final=True)
        recent = self._recent_segments.get(parent, [])
        has_text = False
        while recent and not recent[-1].is_permanent:
            failed = recent.pop()
            has_text = has_text or bool(failed.pieces)
            failed.pieces = []
        return self._retract(parent, reason) if has_text else []

    def model_call_completed(self, *, parent: str | None = None) -> None:
        """Note that a model call is complete: no later retry can retract its text."""
        for segment in reversed(self._recent_segments.get(parent, [])):
            if segment.is_permanent:
                break  # all segments before a permanent one are permanent too
            segment.is_permanent = True

    def _retract(self, parent: str | None, reason: str) -> list[Event]:
        """Retract all text since the last interruption, then emit again the segments that are still valid."""
        return [
            TextRetracted(reason=reason, parent_tool_id=parent),
            *(
                BlockFinal(text=segment.text, parent_tool_id=parent)
                for segment in self._recent_segments.get(parent, [])
                if segment.pieces
            ),
        ]

    def retract_turn(self, reason: str) -> list[Event]:
        """Retract all text of the turn."""
        for block in self._blocks.values():
            block.close(is_final=True)
        self._open_blocks.clear()
        self._recent_segments.clear()
        return [TextRetracted(reason=reason, scope="turn")]

    def _open_block(self, key: _BlockKey, parent: str | None) -> tuple[list[Event], _Block]:
        """Make this the open block of the agent or subagent, and close the block that was open before."""
        before = self._open_blocks.get(parent)
        self._reasoning_ended.pop(parent, None)
        block = self._blocks.get(key)
        if block is None or block.is_final:
            block = self._blocks[key] = _Block()
        if not block.is_open:
            block.is_open = True
            block.segments.append(_Segment())
            self._recent_segments.setdefault(parent, []).append(block.last)
        events = self._close_subagent_blocks(parent)
        self._open_blocks[parent] = key
        if before is None or before == key or not self._blocks[before].is_open:
            return events, block
        self._blocks[before].close(is_final=False)
        return [*events, BlockFinal(parent_tool_id=parent)], block

    def _close_subagent_blocks(self, parent: str | None) -> list[Event]:
        """Close the open blocks of all other subagents. Otherwise the next speaker's text would continue their text.

        The agent's own block stays open while a subagent speaks.
        """
        interrupted = [speaker for speaker in self._open_blocks if speaker is not None and speaker != parent]
        for speaker in interrupted:
            self._blocks[self._open_blocks.pop(speaker)].close(is_final=False)
        return [BlockFinal(parent_tool_id=speaker) for speaker in interrupted]

    def _close(self, key: _BlockKey, parent: str | None) -> None:
        self._blocks[key].close(is_final=True)
        if self._open_blocks.get(parent) == key:
            del self._open_blocks[parent]

    # Reasoning

    def reasoning_delta(self, piece: str, *, parent: str | None = None) -> list[Event]:
        """Append reasoning. The first piece after a block that has ended starts a new paragraph."""
        is_next_block = self._reasoning_ended.get(parent, False)
        self._interrupt_text(parent)
        if not piece:
            return []
        self._reasoning_ended[parent] = False
        return [ReasoningDelta(text=f"\n\n{piece}" if is_next_block else piece, parent_tool_id=parent)]

    def reasoning_end(self, metadata: Any = None, *, parent: str | None = None) -> list[Event]:
        """End a block of reasoning. `metadata` belongs to the provider and is passed on unchanged."""
        if metadata is not None:
            self._reasoning_ended.pop(parent, None)  # metadata seals the chunk, so no paragraph break is needed
        elif parent in self._reasoning_ended:
            self._reasoning_ended[parent] = True
        return [ReasoningEnd(metadata=metadata, parent_tool_id=parent)]

    def _interrupt_text(self, parent: str | None) -> None:
        """Close the open block, because an event that is not text comes.

        The message built from the events does the same.
        """
        self._reasoning_ended.pop(parent, None)
        self._recent_segments.pop(parent, None)
        key = self._open_blocks.pop(parent, None)
        if key is not None:
            self._blocks[key].close(is_final=False)

    # Tools

    def tool_call(self, call: str, name: str, arguments: Any = None, *, parent: str | None = None) -> list[Event]:
        """Start a tool call. If it has already started, replace its arguments."""
        if self.is_open_call(call):
            caller = self._call_parents[call]
            return [] if arguments is None else [ToolInput(id=call, arguments=arguments, parent_tool_id=caller)]
        self._interrupt_text(parent)
        self._call_finished[call] = False
        self._call_parents[call] = parent
        self._printed.pop(call, None)
        return [ToolStarted(id=call, name=name or "tool", arguments=arguments, parent_tool_id=parent)]

    def has_open_calls(self) -> bool:
        """Whether a tool call has no result yet."""
        return not all(self._call_finished.values())

    def is_open_call(self, call: str) -> bool:
        """Whether a tool call with this id has started and has no result yet."""
        return self._call_finished.get(call) is False

    def tool_output(self, call: str, data: str) -> list[Event]:
        """Append to the output of a tool call."""
        if not data or call not in self._call_finished:
            return []
        return [ToolOutput(id=call, data=data, parent_tool_id=self._call_parents.get(call))]

    def tool_output_snapshot(self, call: str, whole: str) -> list[Event]:
        """Take the whole output of a tool call so far, and emit what is new."""
        printed = self._printed.get(call, "")
        if not whole.startswith(printed):
            return []  # emitted output cannot be changed, but the result will be right
        self._printed[call] = whole
        return self.tool_output(call, whole[len(printed) :])

    def tool_result(
        self, call: str, result: Any, *, is_error: bool = False, name: str = "", parent: str | None = None
    ) -> list[Event]:
        """Finish a tool call. A call that was never started is started first."""
        if self._call_finished.get(call):
            return []
        started = [] if call in self._call_finished or self.is_finished else self.tool_call(call, name, parent=parent)
        self._call_finished[call] = True
        caller = self._call_parents.get(call, parent)
        return [*started, ToolFinished(id=call, result=result, is_error=is_error, parent_tool_id=caller)]

    # Notices

    def notice(self, text: str, *, parent: str | None = None) -> list[Event]:
        """Emit a notice. It interrupts the open block: later text of the block is a new segment."""
        self._interrupt_text(parent)
        return [Notice(text=text, parent_tool_id=parent)]

    def unknown_event(self, event: Any, *, kind: Hashable = None) -> list[Event]:
        """Report an event that the translator does not know.

        Each kind is reported once, and only a few kinds, because an agent may print its log among its events.
        """
        kind = _kind_of(event) if kind is None else kind
        if self.is_finished or kind in self._reported_kinds or len(self._reported_kinds) == _MAX_UNKNOWN_KINDS:
            return []
        self._reported_kinds.add(kind)
        try:
            raw = json.dumps(event, ensure_ascii=False, default=repr)
        except (TypeError, ValueError):
            raw = repr(event)
        except RecursionError:
            raw = "nested too deeply to be shown"
        return self.notice(f"{self.runtime} sent an unknown event: {raw[:_SHOWN_CHARACTERS]}")

    # The end

    def fail(self, message: str, *, code: str | None = None, status_code: int | None = None) -> None:
        """Record that the turn has failed. Only the first failure counts, and `complete` does not change it."""
        if self._failure is None:
            reason, status = provider_error_text(message or "no reason was given")
            self._failure = TurnFailed(message=reason, code=code, status_code=status_code or status)

    def complete(self, *, text: str | None = None, stop_reason: str = "") -> None:
        """Record that the agent reports a complete turn. `end` decides how the turn ends."""
        self._completion = TurnCompleted(text=text or None, stop_reason=stop_reason)

    def end(self, *, cancelled: bool = False, exit_error: str = "") -> list[Event]:
        """Return the one terminal event of the turn. A further call returns no event.

        `exit_error` says how the agent's process or connection failed; "" if it did not.
        """
        if exit_error:
            self.fail(exit_error, code="cut_off")
        if self.is_finished:
            return []
        self.is_finished = True
        if cancelled:
            return [TurnCancelled()]
        if self._failure is not None:
            return [self._failure]
        if self._completion is not None:
            return [self._completion]
        return [TurnFailed(message=f"{self.runtime} stopped before the turn was complete", code="cut_off")]


def _kind_of(event: Any) -> Hashable:
    """The texts in an unknown event that name its kind; if it has none, the names of its fields and its Python type."""
    names: list[str] = []
    match event:
        case dict():
            names = [event[name] for name in _KIND_FIELDS if isinstance(event.get(name), str)]
            names = names or sorted(map(str, event))
        case list() | tuple():
            names = [part for part in event if isinstance(part, str)]
    return type(event), *names
