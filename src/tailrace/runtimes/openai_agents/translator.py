"""The events of one run of the OpenAI Agents SDK, as plain values, into events of ours.

The SDK says most things twice: raw, while the model speaks, and as items, once the response is complete. What was heard
raw is not heard again; what had no raw events, as the answer of an error handler, is told by its item.

Ids of items are no keys, because Chat Completions models call every item `__fake_id__`: a block is known by its model
call, its place in the response and its place in the message. `TurnTranslation` owns the turn.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import msgspec

from tailrace.events import Event, Status, Usage
from tailrace.runtimes.openai_agents.shapes import Announced, Answer, Item, Piece, RunItem, Trouble
from tailrace.runtimes.sdk import SdkFailure, as_text
from tailrace.runtimes.turn_translation import TurnTranslation

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# How the SDK names the call that hands over to another agent. A tool of such a name is told when it is called.
_HANDOFF = "transfer_to_"
# What the SDK answers in place of a tool that raised; there is no other sign of it.
_TOOL_RAISED = "An error occurred while running the tool."
_RETRACTING = {"InputGuardrailTripwireTriggered", "OutputGuardrailTripwireTriggered"}
_CODES = {
    "InputGuardrailTripwireTriggered": "guardrail",
    "OutputGuardrailTripwireTriggered": "guardrail",
    "ToolInputGuardrailTripwireTriggered": "guardrail",
    "ToolOutputGuardrailTripwireTriggered": "guardrail",
    "MaxTurnsExceeded": "max_turns",
}


class _Voice:
    """Somebody who speaks, the agent or a subagent: at which model call it is, and what was heard of that one raw."""

    def __init__(self, parent: str | None) -> None:
        self.parent = parent
        self.agent: str | None = None
        self.ordinal = 0
        self.is_answering = False
        self.section: tuple[int, int] | None = None
        self.messages: set[int] = set()
        self.thoughts: set[int] = set()
        self.calls: set[str] = set()

    def begin(self) -> None:
        self.ordinal += 1
        self.is_answering = True
        self.section = None
        self.messages, self.thoughts, self.calls = set(), set(), set()


_Handler: TypeAlias = "Callable[[OpenAIAgentsTranslator, _Voice, Any], list[Event]]"


class OpenAIAgentsTranslator:
    """One run: `feed` its events, then say how it ended (`finished` or `raised`), then `close`."""

    def __init__(self) -> None:
        self._turn = TurnTranslation("openai-agents")
        self._voices: dict[str | None, _Voice] = {}
        self._trouble: Trouble | None = None
        self._denied: set[str] = set()

    def feed(self, event: Any, *, parent: str | None = None) -> list[Event]:
        """One event of the stream; `parent` is the call under which a subagent says it."""
        voice = self._voices.setdefault(parent, _Voice(parent))
        try:
            match event:
                case {"type": "raw_response_event", "data": {"type": str(kind)} as said}:
                    return self._raw(voice, kind, said)
                case {"type": "run_item_stream_event", "name": str(name), "item": item} if name in self._ITEMS:
                    return self._ITEMS[name](self, voice, msgspec.convert(item, RunItem))
                case {"type": "run_item_stream_event", "name": str(name)} if name in self._SILENT_ITEMS:
                    return []
                case {"type": "agent_updated_stream_event", "new_agent": str(agent)}:
                    return self._agent(voice, agent)
        except msgspec.ValidationError:
            pass
        return self._turn.unknown_event(event)

    def deny(self, raw_item: Any) -> None:
        """This call may not be made. The SDK tells the model so, as what the tool gave back."""
        with suppress(msgspec.ValidationError):
            self._denied.add(msgspec.convert(raw_item, Item).call)

    def finished(
        self, *, output: Any, waiting: Sequence[str] = (), tokens: tuple[int, int] | None = None
    ) -> list[Event]:
        """The run has ended by itself: with an output, or because calls wait to be approved.

        Where there is neither, it was cut off, or cancelled by its own code. `tokens` went in and came out.
        """
        events: list[Event] = []
        if tokens is not None:
            events.append(Usage(input_tokens=tokens[0], output_tokens=tokens[1], scope="turn"))
        if waiting:
            words = f"Waiting for approval: {', '.join(waiting)}"
            events.append(Status(text=words))
            self._turn.complete(text=words, stop_reason="approval")
        elif output is not None:
            self._turn.complete(text=as_text(output))
        return events

    def raised(self, failure: SdkFailure) -> list[Event]:
        """The run has ended with an exception; what a guardrail objects to must not stand."""
        trouble = self._trouble or Trouble()
        self._turn.fail(
            trouble.message or trouble.reason or failure.message,
            code=trouble.code or _CODES.get(failure.kind, "runtime_raised"),
            status_code=failure.status_code,
        )
        return self._turn.retract_turn(failure.message) if failure.kind in _RETRACTING else []

    def close(self, *, cancelled: bool = False) -> list[Event]:
        """The stream is over: the one end of the turn."""
        return self._turn.end(cancelled=cancelled)

    # What the model says, while it says it

    def _raw(self, voice: _Voice, kind: str, said: Any) -> list[Event]:
        if kind in self._RAW:
            shape, tell = self._RAW[kind]
            return tell(self, voice, msgspec.convert(said, shape))
        # The provider's finer steps, of which there are ever more; what they lead to is told by the items.
        return [] if kind.startswith("response.") else self._turn.unknown_event(said)

    def _begun(self, voice: _Voice, _: Answer) -> list[Event]:
        is_repeated = voice.is_answering
        voice.begin()
        return self._turn.retract_try("the model was asked again", parent=voice.parent) if is_repeated else []

    def _text(self, voice: _Voice, piece: Piece) -> list[Event]:
        voice.messages.add(piece.output_index)
        key = (voice.parent, voice.ordinal, piece.output_index, piece.content_index)
        return self._turn.text_delta(key, piece.delta, parent=voice.parent)

    def _thought(self, voice: _Voice, piece: Piece) -> list[Event]:
        before, voice.section = voice.section, (piece.output_index, piece.summary_index or piece.content_index)
        goes_on = before is None or before == voice.section or before[0] != piece.output_index
        voice.thoughts.add(piece.output_index)
        return self._turn.reasoning_delta(piece.delta if goes_on else f"\n\n{piece.delta}", parent=voice.parent)

    def _added(self, voice: _Voice, announced: Announced) -> list[Event]:
        item = announced.item
        if not item.is_call or item.tool.startswith(_HANDOFF):
            return []
        voice.calls.add(item.call)
        return self._turn.tool_call(item.call, item.tool, parent=voice.parent)

    def _done(self, voice: _Voice, announced: Announced) -> list[Event]:
        item, place = announced.item, announced.output_index
        if item.type == "message":
            voice.messages.add(place)
            return self._message(voice, item, place)
        if item.type == "reasoning":
            was_heard = place in voice.thoughts
            voice.thoughts.add(place)
            return self._reflection(voice, item, was_heard=was_heard)
        return self._call(voice, item) if item.call in voice.calls else []

    def _answered(self, voice: _Voice, answer: Answer) -> list[Event]:
        voice.is_answering = False
        self._turn.model_call_completed(parent=voice.parent)
        spent = answer.response.usage
        if spent is None:
            return []
        tokens = {"input_tokens": spent.input_tokens, "output_tokens": spent.output_tokens}
        return [Usage(**tokens, scope="request", parent_tool_id=voice.parent)]

    def _broken(self, voice: _Voice, answer: Answer) -> list[Event]:
        """A model call failed. The run raises after that, and says it less clearly."""
        trouble = answer.response.error or answer.response.incomplete_details
        return self._errored(voice, trouble) if trouble is not None else []

    def _errored(self, voice: _Voice, trouble: Trouble) -> list[Event]:
        if voice.parent is None:
            self._trouble = trouble
        return []

    # The same as items, and what is told by items alone

    def _message(self, voice: _Voice, item: Item, place: int) -> list[Event]:
        events: list[Event] = []
        for index, part in enumerate(item.content or ()):
            key = (voice.parent, voice.ordinal, place, index)
            events += self._turn.block_final(key, part.text or part.refusal, parent=voice.parent)
        return events

    def _message_item(self, voice: _Voice, item: RunItem) -> list[Event]:
        if voice.messages:
            voice.messages.pop()
            return []
        voice.ordinal += 1
        return self._message(voice, item.raw_item, 0)

    def _reflection(self, voice: _Voice, item: Item, *, was_heard: bool) -> list[Event]:
        sections = [] if was_heard else item.summary or item.content or []
        return [
            *self._turn.reasoning_delta("\n\n".join(section.text for section in sections), parent=voice.parent),
            *self._turn.reasoning_end(item.encrypted_content, parent=voice.parent),
        ]

    def _reflection_item(self, voice: _Voice, item: RunItem) -> list[Event]:
        if voice.thoughts:
            voice.thoughts.pop()
            return []
        return self._reflection(voice, item.raw_item, was_heard=False)

    def _call(self, voice: _Voice, item: Item) -> list[Event]:
        voice.calls.add(item.call)
        events = self._turn.tool_call(item.call, item.tool, item.parameters, parent=voice.parent)
        if not item.is_hosted:
            return events
        is_error = item.error is not None or item.status == "failed"
        result = item.error if item.error is not None else item.output or ""
        return [*events, *self._turn.tool_result(item.call, result, is_error=is_error, parent=voice.parent)]

    def _call_item(self, voice: _Voice, item: RunItem) -> list[Event]:
        return [] if item.raw_item.call in voice.calls else self._call(voice, item.raw_item)

    def _output_item(self, voice: _Voice, item: RunItem) -> list[Event]:
        call = item.raw_item.call
        has_raised = isinstance(item.output, str) and item.output.startswith(_TOOL_RAISED)
        is_error = has_raised or call in self._denied
        return self._turn.tool_result(call, item.output, is_error=is_error, parent=voice.parent)

    def _handoff_item(self, voice: _Voice, item: RunItem) -> list[Event]:
        """A handoff under a name of its own was taken for a tool until now."""
        call = item.raw_item.call
        if not self._turn.is_open_call(call):
            return []
        return self._turn.tool_result(call, item.raw_item.output, parent=voice.parent)

    def _approval_item(self, voice: _Voice, item: RunItem) -> list[Event]:
        return [Status(text=f"Waiting for approval: {item.raw_item.tool}", parent_tool_id=voice.parent)]

    def _agent(self, voice: _Voice, agent: str) -> list[Event]:
        before, voice.agent = voice.agent, agent
        if before is None or before == agent:
            return []
        return [Status(text=f"Handed over to {agent}", parent_tool_id=voice.parent)]

    _RAW: ClassVar[dict[str, tuple[type, _Handler]]] = {
        "response.created": (Answer, _begun),
        "response.output_text.delta": (Piece, _text),
        "response.refusal.delta": (Piece, _text),
        "response.reasoning_summary_text.delta": (Piece, _thought),
        "response.reasoning_text.delta": (Piece, _thought),
        "response.output_item.added": (Announced, _added),
        "response.output_item.done": (Announced, _done),
        "response.completed": (Answer, _answered),
        "response.failed": (Answer, _broken),
        "response.incomplete": (Answer, _broken),
        "error": (Trouble, _errored),
    }
    _ITEMS: ClassVar[dict[str, _Handler]] = {
        "message_output_created": _message_item,
        "reasoning_item_created": _reflection_item,
        "tool_called": _call_item,
        "tool_output": _output_item,
        "handoff_occured": _handoff_item,  # as the SDK spells it
        "mcp_approval_requested": _approval_item,
    }
    _SILENT_ITEMS: ClassVar[set[str]] = {
        "handoff_requested",
        "mcp_approval_response",
        "mcp_list_tools",
        "tool_search_called",
        "tool_search_output_created",
    }
