"""Translates the events of one run of the OpenAI Agents SDK, as JSON values, into canonical events.

The SDK reports most things twice: as raw events while the model streams, and as items when the response is complete. An
item is ignored if its raw events were read. It is translated if there were none, as for the answer of an error handler.

The id of an item does not identify it, because Chat Completions models call every item `__fake_id__`. A block is
identified by its model call, its index in the response and its index in the message. `TurnTranslation` contains the
rules that all agents share.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import msgspec

from tailrace.events import Event, Status, Usage
from tailrace.runtimes.openai_agents import shapes
from tailrace.runtimes.sdk import SdkFailure, as_text
from tailrace.runtimes.turn_translation import TurnTranslation

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# The prefix of calls that hand over to another agent. A tool with such a name is shown when it is called.
_HANDOFF = "transfer_to_"
# The SDK sends this text as the output of a tool that raised. Nothing else shows that the tool failed.
_TOOL_RAISED = "An error occurred while running the tool."
_RETRACTING = {"InputGuardrailTripwireTriggered", "OutputGuardrailTripwireTriggered"}
_CODES = {
    "InputGuardrailTripwireTriggered": "guardrail",
    "OutputGuardrailTripwireTriggered": "guardrail",
    "ToolInputGuardrailTripwireTriggered": "guardrail",
    "ToolOutputGuardrailTripwireTriggered": "guardrail",
    "MaxTurnsExceeded": "max_turns",
}


class _Speaker:
    """The agent or a subagent: its current model call, and which content of that call came as raw events."""

    def __init__(self, parent: str | None) -> None:
        self.parent = parent
        self.agent: str | None = None
        self.model_call = 0
        self.is_responding = False
        self.section: tuple[int, int] | None = None
        self.messages: set[int] = set()
        self.reasoning: set[int] = set()
        self.calls: set[str] = set()

    def start_model_call(self) -> None:
        self.model_call += 1
        self.is_responding = True
        self.section = None
        self.messages, self.reasoning, self.calls = set(), set(), set()


_Handler: TypeAlias = "Callable[[OpenAIAgentsTranslator, _Speaker, Any], list[Event]]"


class OpenAIAgentsTranslator:
    """Translates one run: `feed` its events, then call `finished` or `raised`, then `close`."""

    def __init__(self) -> None:
        self._turn = TurnTranslation("openai-agents")
        self._speakers: dict[str | None, _Speaker] = {}
        self._provider_error: shapes.ProviderError | None = None
        self._denied_calls: set[str] = set()

    def feed(self, event: Any, *, parent: str | None = None) -> list[Event]:
        """Translate one event of the stream.

        `parent` is the id of the tool call that runs the subagent, if it is a subagent's.
        """
        speaker = self._speakers.setdefault(parent, _Speaker(parent))
        try:
            match event:
                case {"type": "raw_response_event", "data": {"type": str(kind)} as data}:
                    return self._raw_event(speaker, kind, data)
                case {"type": "run_item_stream_event", "name": str(name), "item": item} if name in self._ITEM_HANDLERS:
                    return self._ITEM_HANDLERS[name](self, speaker, msgspec.convert(item, shapes.RunItem))
                case {"type": "run_item_stream_event", "name": str(name)} if name in self._IGNORED_ITEMS:
                    return []
                case {"type": "agent_updated_stream_event", "new_agent": str(agent)}:
                    return self._agent_updated(speaker, agent)
        except msgspec.ValidationError:
            pass
        return self._turn.unknown_event(event)

    def deny(self, raw_item: Any) -> None:
        """Note that a tool call was denied. The SDK then reports the denial as if it were the output of the call."""
        with suppress(msgspec.ValidationError):
            self._denied_calls.add(msgspec.convert(raw_item, shapes.ResponseItem).call_key)

    def finished(
        self, *, output: Any, waiting: Sequence[str] = (), tokens: tuple[int, int] | None = None
    ) -> list[Event]:
        """Handle the end of a run without an exception: it has an output, or tool calls are `waiting` for approval.

        Without both, the run was cut off or cancelled by its own code. `tokens` are input and output tokens.
        """
        events: list[Event] = []
        if tokens is not None:
            events.append(Usage(input_tokens=tokens[0], output_tokens=tokens[1], scope="turn"))
        if waiting:
            text = f"Waiting for approval: {', '.join(waiting)}"
            events.append(Status(text=text))
            self._turn.complete(text=text, stop_reason="approval")
        elif output is not None:
            self._turn.complete(text=as_text(output))
        return events

    def raised(self, failure: SdkFailure) -> list[Event]:
        """Handle an exception of the run: it becomes the failure of the turn.

        Text that a guardrail refused is retracted.
        """
        error = self._provider_error or shapes.ProviderError()
        self._turn.fail(
            error.message or error.reason or failure.message,
            code=error.code or _CODES.get(failure.kind, "runtime_raised"),
            status_code=failure.status_code,
        )
        return self._turn.retract_turn(failure.message) if failure.kind in _RETRACTING else []

    def close(self, *, cancelled: bool = False) -> list[Event]:
        """End the turn. Returns the events that are still missing, with the terminal event last."""
        return self._turn.end(cancelled=cancelled)

    # Raw events, while the model streams

    def _raw_event(self, speaker: _Speaker, kind: str, data: Any) -> list[Event]:
        if kind in self._RAW_HANDLERS:
            shape, handler = self._RAW_HANDLERS[kind]
            return handler(self, speaker, msgspec.convert(data, shape))
        # Providers add ever more detailed events. Their results come with the items.
        return [] if kind.startswith("response.") else self._turn.unknown_event(data)

    def _response_created(self, speaker: _Speaker, _: shapes.ResponseEvent) -> list[Event]:
        is_retry = speaker.is_responding
        speaker.start_model_call()
        return self._turn.retract_try("the model was asked again", parent=speaker.parent) if is_retry else []

    def _text_delta(self, speaker: _Speaker, piece: shapes.DeltaEvent) -> list[Event]:
        speaker.messages.add(piece.output_index)
        key = (speaker.parent, speaker.model_call, piece.output_index, piece.content_index)
        return self._turn.text_delta(key, piece.delta, parent=speaker.parent)

    def _reasoning_delta(self, speaker: _Speaker, piece: shapes.DeltaEvent) -> list[Event]:
        before, speaker.section = speaker.section, (piece.output_index, piece.summary_index or piece.content_index)
        continues = before is None or before == speaker.section or before[0] != piece.output_index
        speaker.reasoning.add(piece.output_index)
        delta = piece.delta if continues else f"\n\n{piece.delta}"
        return self._turn.reasoning_delta(delta, parent=speaker.parent)

    def _item_added(self, speaker: _Speaker, event: shapes.ItemEvent) -> list[Event]:
        item = event.item
        if not item.is_call or item.tool.startswith(_HANDOFF):
            return []
        speaker.calls.add(item.call_key)
        return self._turn.tool_call(item.call_key, item.tool, parent=speaker.parent)

    def _item_done(self, speaker: _Speaker, event: shapes.ItemEvent) -> list[Event]:
        item, index = event.item, event.output_index
        if item.type == "message":
            speaker.messages.add(index)
            return self._message(speaker, item, index)
        if item.type == "reasoning":
            was_streamed = index in speaker.reasoning
            speaker.reasoning.add(index)
            return self._whole_reasoning(speaker, item, was_streamed=was_streamed)
        return self._call(speaker, item) if item.call_key in speaker.calls else []

    def _response_completed(self, speaker: _Speaker, event: shapes.ResponseEvent) -> list[Event]:
        speaker.is_responding = False
        self._turn.model_call_completed(parent=speaker.parent)
        usage = event.response.usage
        if usage is None:
            return []
        tokens = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
        return [Usage(**tokens, scope="request", parent_tool_id=speaker.parent)]

    def _response_failed(self, speaker: _Speaker, event: shapes.ResponseEvent) -> list[Event]:
        """Record the error of a model call. The exception that the run raises after that has a less clear text."""
        error = event.response.error or event.response.incomplete_details
        return self._error(speaker, error) if error is not None else []

    def _error(self, speaker: _Speaker, error: shapes.ProviderError) -> list[Event]:
        if speaker.parent is None:
            self._provider_error = error
        return []

    # Items: what raw events have already reported, and what only items report

    def _message(self, speaker: _Speaker, item: shapes.ResponseItem, index: int) -> list[Event]:
        events: list[Event] = []
        for part_index, part in enumerate(item.content or ()):
            key = (speaker.parent, speaker.model_call, index, part_index)
            events += self._turn.block_final(key, part.text or part.refusal, parent=speaker.parent)
        return events

    def _message_item(self, speaker: _Speaker, item: shapes.RunItem) -> list[Event]:
        if speaker.messages:
            speaker.messages.pop()
            return []
        speaker.model_call += 1
        return self._message(speaker, item.raw_item, 0)

    def _whole_reasoning(self, speaker: _Speaker, item: shapes.ResponseItem, *, was_streamed: bool) -> list[Event]:
        sections = [] if was_streamed else item.summary or item.content or []
        text = "\n\n".join(section.text for section in sections)
        return [
            *self._turn.reasoning_delta(text, parent=speaker.parent),
            *self._turn.reasoning_end(item.encrypted_content, parent=speaker.parent),
        ]

    def _reasoning_item(self, speaker: _Speaker, item: shapes.RunItem) -> list[Event]:
        if speaker.reasoning:
            speaker.reasoning.pop()
            return []
        return self._whole_reasoning(speaker, item.raw_item, was_streamed=False)

    def _call(self, speaker: _Speaker, item: shapes.ResponseItem) -> list[Event]:
        speaker.calls.add(item.call_key)
        events = self._turn.tool_call(item.call_key, item.tool, item.parameters, parent=speaker.parent)
        if not item.is_hosted:
            return events
        is_error = item.error is not None or item.status == "failed"
        result = item.error if item.error is not None else item.output or ""
        return [*events, *self._turn.tool_result(item.call_key, result, is_error=is_error, parent=speaker.parent)]

    def _call_item(self, speaker: _Speaker, item: shapes.RunItem) -> list[Event]:
        return [] if item.raw_item.call_key in speaker.calls else self._call(speaker, item.raw_item)

    def _output_item(self, speaker: _Speaker, item: shapes.RunItem) -> list[Event]:
        call = item.raw_item.call_key
        has_raised = isinstance(item.output, str) and item.output.startswith(_TOOL_RAISED)
        is_error = has_raised or call in self._denied_calls
        return self._turn.tool_result(call, item.output, is_error=is_error, parent=speaker.parent)

    def _handoff_item(self, speaker: _Speaker, item: shapes.RunItem) -> list[Event]:
        """End the tool call by which one agent hands over to another.

        If the name of that tool begins with `transfer_to_`, as usual, the call was never shown, and nothing happens.
        """
        call = item.raw_item.call_key
        if not self._turn.is_open_call(call):
            return []
        return self._turn.tool_result(call, item.raw_item.output, parent=speaker.parent)

    def _approval_item(self, speaker: _Speaker, item: shapes.RunItem) -> list[Event]:
        return [Status(text=f"Waiting for approval: {item.raw_item.tool}", parent_tool_id=speaker.parent)]

    def _agent_updated(self, speaker: _Speaker, agent: str) -> list[Event]:
        before, speaker.agent = speaker.agent, agent
        if before is None or before == agent:
            return []
        return [Status(text=f"Handed over to {agent}", parent_tool_id=speaker.parent)]

    _RAW_HANDLERS: ClassVar[dict[str, tuple[type, _Handler]]] = {
        "response.created": (shapes.ResponseEvent, _response_created),
        "response.output_text.delta": (shapes.DeltaEvent, _text_delta),
        "response.refusal.delta": (shapes.DeltaEvent, _text_delta),
        "response.reasoning_summary_text.delta": (shapes.DeltaEvent, _reasoning_delta),
        "response.reasoning_text.delta": (shapes.DeltaEvent, _reasoning_delta),
        "response.output_item.added": (shapes.ItemEvent, _item_added),
        "response.output_item.done": (shapes.ItemEvent, _item_done),
        "response.completed": (shapes.ResponseEvent, _response_completed),
        "response.failed": (shapes.ResponseEvent, _response_failed),
        "response.incomplete": (shapes.ResponseEvent, _response_failed),
        "error": (shapes.ProviderError, _error),
    }
    _ITEM_HANDLERS: ClassVar[dict[str, _Handler]] = {
        "message_output_created": _message_item,
        "reasoning_item_created": _reasoning_item,
        "tool_called": _call_item,
        "tool_output": _output_item,
        "handoff_occured": _handoff_item,  # the SDK's spelling
        "mcp_approval_requested": _approval_item,
    }
    _IGNORED_ITEMS: ClassVar[set[str]] = {
        "handoff_requested",
        "mcp_approval_response",
        "mcp_list_tools",
        "tool_search_called",
        "tool_search_output_created",
    }
