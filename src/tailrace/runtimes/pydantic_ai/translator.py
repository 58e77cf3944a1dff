"""The events of one run of Pydantic AI (`Agent.run_stream_events`), as plain values, into events of ours.

The first content of a part is in its start. Indexes begin anew with each response, and a response begins with the part
that has none before it. What was said before it and no tool came after was not accepted, by a validator of the agent's
own: the same question is answered again, and the first answer is taken back. `TurnTranslation` owns the turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import msgspec

from tailrace.events import Event, Status, Usage
from tailrace.runtimes.pydantic_ai.shapes import Called, Deferred, Ended, Grown, Part, Result, Started
from tailrace.runtimes.sdk import SdkFailure, as_text, json_or_text, status_text
from tailrace.runtimes.turn_translation import TurnTranslation

if TYPE_CHECKING:
    from collections.abc import Callable

_OF_THE_EVENT = {"__class__", "event_kind", "name", "tool_call_id", "tool_name"}

_Handler: TypeAlias = "Callable[[PydanticAITranslator, Any], list[Event]]"


class PydanticAITranslator:
    """One run: `feed` its events, `raised` if it raises, then `close`."""

    def __init__(self) -> None:
        self._turn = TurnTranslation("pydantic-ai")
        self._ordinal = 0
        self._waiting: list[str] = []

    def feed(self, event: Any) -> list[Event]:
        """One event of the stream."""
        try:
            match event:
                case {"event_kind": str(kind)} | {"__class__": str(kind)} if kind in self._TABLE:
                    shape, tell = self._TABLE[kind]
                    return tell(self, msgspec.convert(event, shape))
                case {"event_kind": str(kind)} if kind in self._SILENT:
                    return []
        except msgspec.ValidationError:
            pass
        return self._turn.unknown_event(event)

    def raised(self, failure: SdkFailure) -> list[Event]:
        """The run has ended with an exception."""
        self._turn.fail(failure.message, code="runtime_raised", status_code=failure.status_code)
        return []

    def close(self, *, cancelled: bool = False) -> list[Event]:
        """The stream is over: the one end of the turn."""
        return self._turn.end(cancelled=cancelled)

    # Responses

    def _started(self, started: Started) -> list[Event]:
        events: list[Event] = []
        if started.previous_part_kind is None:
            events += self._turn.retract_try("the answer was not accepted")
            self._ordinal += 1
        part = started.part
        match part.part_kind, part.content:
            case "text", str(text):
                # A part that is started again replaces what it was.
                events += self._turn.text_snapshot(self._key(started.index), text)
            case "thinking", str(text):
                events += self._turn.reasoning_delta(text)
            case "builtin-tool-call", _:
                events += self._call(part)
            case _:
                pass  # calls of tools are told when they are made; other parts are complete at their end
        return events

    def _grown(self, grown: Grown) -> list[Event]:
        piece = grown.delta.content_delta or ""
        match grown.delta.part_delta_kind:
            case "text":
                return self._turn.text_delta(self._key(grown.index), piece)
            case "thinking":
                return self._turn.reasoning_delta(piece)
            case _:
                return []

    def _ended(self, ended: Ended) -> list[Event]:
        part = ended.part
        match part.part_kind, part.content:
            case "text", str(text):
                return self._turn.block_final(self._key(ended.index), text)
            case "thinking", _:
                return self._turn.reasoning_end(part.signature)
            case "builtin-tool-call", _:
                return self._call(part)
            case "builtin-tool-return", _:
                return self._answer(part)
            case "tool-call" | "compaction", _:
                return []
            case _:
                return self._turn.unknown_event({"part_kind": part.part_kind})

    def _key(self, index: int) -> tuple[int, int]:
        return (self._ordinal, index)

    # Tools

    def _called(self, called: Called) -> list[Event]:
        return self._call(called.part)

    def _answered(self, answered: Called) -> list[Event]:
        return self._answer(answered.part)

    def _call(self, part: Part) -> list[Event]:
        return self._turn.tool_call(part.tool_call_id, part.tool_name, json_or_text(part.args))

    def _answer(self, part: Part) -> list[Event]:
        is_error = part.outcome != "success"
        return self._turn.tool_result(part.tool_call_id, part.content, is_error=is_error, name=part.tool_name)

    def _deferred(self, deferred: Deferred) -> list[Event]:
        self._waiting = [part.tool_name for part in (*deferred.requests.approvals, *deferred.requests.calls)]
        return []

    # The rest

    def _enqueued(self, _: Any) -> list[Event]:
        """Somebody said more while the agent was at work: what follows answers that."""
        self._turn.model_call_completed()
        return []

    def _resolved(self, _: Any) -> list[Event]:
        self._waiting = []
        return []

    def _custom(self, event: dict[str, Any]) -> list[Event]:
        fields = {name: value for name, value in event.items() if name not in _OF_THE_EVENT}
        return [Status(text=status_text(fields) if fields else as_text(event.get("name", "")))]

    def _result(self, result: Result) -> list[Event]:
        events: list[Event] = []
        if result.usage is not None:
            tokens = result.usage
            events.append(Usage(input_tokens=tokens.input_tokens, output_tokens=tokens.output_tokens, scope="turn"))
        if self._waiting:
            words = f"Waiting for approval: {', '.join(self._waiting)}"
            self._turn.complete(text=words, stop_reason="approval")
            return [*events, Status(text=words)]
        self._turn.complete(text=None if result.output is None else as_text(result.output))
        return events

    _TABLE: ClassVar[dict[str, tuple[type, _Handler]]] = {
        "part_start": (Started, _started),
        "part_delta": (Grown, _grown),
        "part_end": (Ended, _ended),
        "function_tool_call": (Called, _called),
        "function_tool_result": (Called, _answered),
        "deferred_tool_requests": (Deferred, _deferred),
        "deferred_tool_results": (dict, _resolved),
        "enqueued_messages": (dict, _enqueued),
        "custom": (dict, _custom),
        "agent_run_result": (Result, _result),
        "AgentRunResultEvent": (Result, _result),
    }
    # The answer in another form (tools that carry the output), and what only concerns the agent's own workings.
    _SILENT: ClassVar[set[str]] = {
        "final_result",
        "output_tool_call",
        "output_tool_result",
        "tool_availability_delta",
        "model_settings_delta",
        "capability",
    }
