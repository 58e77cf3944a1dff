"""Translates the events of one run of Pydantic AI (`Agent.run_stream_events`), as JSON values, into canonical events.

The event that starts a part also has its first content. The parts of each response are numbered from the beginning. A
new response is recognised by a part that says that no part comes before it. If no tool was called since the last
response, a validator of the agent has refused that response: the model answers the same question again, and the refused
answer is retracted. `TurnTranslation` contains the rules that all agents share.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import msgspec

from tailrace.events import Event, Status, Usage
from tailrace.runtimes.pydantic_ai import shapes
from tailrace.runtimes.sdk import SdkFailure, as_text, json_or_text, status_text
from tailrace.runtimes.turn_translation import TurnTranslation

if TYPE_CHECKING:
    from collections.abc import Callable

_FIXED_FIELDS = {"__class__", "event_kind", "name", "tool_call_id", "tool_name"}  # of a custom event

_Handler: TypeAlias = "Callable[[PydanticAITranslator, Any], list[Event]]"


class PydanticAITranslator:
    """Translates one run: `feed` its events, call `raised` if the run raises, then `close`."""

    def __init__(self) -> None:
        self._turn = TurnTranslation("pydantic-ai")
        self._response = 0
        self._waiting_tools: list[str] = []

    def feed(self, event: Any) -> list[Event]:
        """Translate one event of the stream."""
        try:
            match event:
                case {"event_kind": str(kind)} | {"__class__": str(kind)} if kind in self._HANDLERS:
                    shape, handler = self._HANDLERS[kind]
                    return handler(self, msgspec.convert(event, shape))
                case {"event_kind": str(kind)} if kind in self._IGNORED:
                    return []
        except msgspec.ValidationError:
            pass
        return self._turn.unknown_event(event)

    def raised(self, failure: SdkFailure) -> list[Event]:
        """Handle an exception of the run: it becomes the failure of the turn."""
        self._turn.fail(failure.message, code="runtime_raised", status_code=failure.status_code)
        return []

    def close(self, *, cancelled: bool = False) -> list[Event]:
        """End the turn. Returns the events that are still missing, with the terminal event last."""
        return self._turn.end(cancelled=cancelled)

    # Responses

    def _part_start(self, start: shapes.PartStartEvent) -> list[Event]:
        events: list[Event] = []
        if start.previous_part_kind is None:
            events += self._turn.retract_try("the answer was not accepted")
            self._response += 1
        part = start.part
        match part.part_kind, part.content:
            case "text", str(text):
                # A part that starts again replaces the text that it had.
                events += self._turn.text_snapshot(self._key(start.index), text)
            case "thinking", str(text):
                events += self._turn.reasoning_delta(text)
            case "builtin-tool-call", _:
                events += self._call(part)
            case _:
                pass  # calls are reported by events of their own; all other parts are read at their end
        return events

    def _part_delta(self, event: shapes.PartDeltaEvent) -> list[Event]:
        piece = event.delta.content_delta or ""
        match event.delta.part_delta_kind:
            case "text":
                return self._turn.text_delta(self._key(event.index), piece)
            case "thinking":
                return self._turn.reasoning_delta(piece)
            case _:
                return []

    def _part_end(self, end: shapes.PartEndEvent) -> list[Event]:
        part = end.part
        match part.part_kind, part.content:
            case "text", str(text):
                return self._turn.block_final(self._key(end.index), text)
            case "thinking", _:
                return self._turn.reasoning_end(part.signature)
            case "builtin-tool-call", _:
                return self._call(part)
            case "builtin-tool-return", _:
                return self._result(part)
            case "tool-call" | "compaction", _:
                return []
            case _:
                return self._turn.unknown_event({"part_kind": part.part_kind})

    def _key(self, index: int) -> tuple[int, int]:
        return (self._response, index)

    # Tools

    def _tool_call(self, event: shapes.ToolEvent) -> list[Event]:
        return self._call(event.part)

    def _tool_result(self, event: shapes.ToolEvent) -> list[Event]:
        return self._result(event.part)

    def _call(self, part: shapes.ResponsePart) -> list[Event]:
        return self._turn.tool_call(part.tool_call_id, part.tool_name, json_or_text(part.args))

    def _result(self, part: shapes.ResponsePart) -> list[Event]:
        is_error = part.outcome != "success"
        return self._turn.tool_result(part.tool_call_id, part.content, is_error=is_error, name=part.tool_name)

    def _deferred_requests(self, event: shapes.DeferredRequestsEvent) -> list[Event]:
        self._waiting_tools = [part.tool_name for part in (*event.requests.approvals, *event.requests.calls)]
        return []

    def _deferred_results(self, _: Any) -> list[Event]:
        self._waiting_tools = []
        return []

    # Further messages of the person, events that the agent's author defines, and the end

    def _enqueued_messages(self, _: Any) -> list[Event]:
        """Keep the text so far as final: the person has sent another message, and the later text answers that one."""
        self._turn.model_call_completed()
        return []

    def _custom(self, event: dict[str, Any]) -> list[Event]:
        fields = {name: value for name, value in event.items() if name not in _FIXED_FIELDS}
        return [Status(text=status_text(fields) if fields else as_text(event.get("name", "")))]

    def _run_result(self, result: shapes.RunResultEvent) -> list[Event]:
        events: list[Event] = []
        if result.usage is not None:
            usage = result.usage
            events.append(Usage(input_tokens=usage.input_tokens, output_tokens=usage.output_tokens, scope="turn"))
        if self._waiting_tools:
            text = f"Waiting for approval: {', '.join(self._waiting_tools)}"
            self._turn.complete(text=text, stop_reason="approval")
            return [*events, Status(text=text)]
        self._turn.complete(text=None if result.output is None else as_text(result.output))
        return events

    _HANDLERS: ClassVar[dict[str, tuple[type, _Handler]]] = {
        "part_start": (shapes.PartStartEvent, _part_start),
        "part_delta": (shapes.PartDeltaEvent, _part_delta),
        "part_end": (shapes.PartEndEvent, _part_end),
        "function_tool_call": (shapes.ToolEvent, _tool_call),
        "function_tool_result": (shapes.ToolEvent, _tool_result),
        "deferred_tool_requests": (shapes.DeferredRequestsEvent, _deferred_requests),
        "deferred_tool_results": (dict, _deferred_results),
        "enqueued_messages": (dict, _enqueued_messages),
        "custom": (dict, _custom),
        "agent_run_result": (shapes.RunResultEvent, _run_result),
        "AgentRunResultEvent": (shapes.RunResultEvent, _run_result),
    }
    # Calls of the tools that return the output (its text comes with the result), and internal events of the agent.
    _IGNORED: ClassVar[set[str]] = {
        "final_result",
        "output_tool_call",
        "output_tool_result",
        "tool_availability_delta",
        "model_settings_delta",
        "capability",
    }
