"""Translates the events of one AG-UI run, as JSON values, into canonical events.

The speaker of an event is the agent or a subagent. A message or tool call belongs to the speaker that started it, so
later events about it need not name the speaker. The events of a subagent are shown under the tool call that started the
subagent. If no tool call did, the subagent itself is shown as a tool call.

A snapshot of the conversation repeats the streamed messages under other ids. The snapshot is read when the run has
ended, to find messages that were not streamed: some agents send their answer only in the snapshot. `TurnTranslation`
contains the rules that all agents share.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import msgspec

from tailrace.events import Error, Event, Status, ToolInput, Usage
from tailrace.runtimes.agui import shapes
from tailrace.runtimes.agui.chunk_expander import ChunkExpander
from tailrace.runtimes.sdk import as_text, json_or_text, status_text
from tailrace.runtimes.turn_translation import TurnTranslation

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_MAX_STATUS = 200
# The custom event with which ag-ui-langgraph reports an interrupt, with an outcome or without one.
_LANGGRAPH_INTERRUPT = "on_interrupt"


class _RecentReasoning:
    """The reasoning of one speaker since that speaker's last complete message or tool call."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._length = 0

    def add(self, piece: str) -> None:
        """Add a piece of reasoning."""
        self._pieces.append(piece)
        self._length += len(piece)

    def equals(self, piece: str) -> bool:
        """Whether this piece repeats all collected reasoning.

        The lengths are compared first, because reasoning is long.
        """
        return 0 < self._length == len(piece) and "".join(self._pieces) == piece


_Handler: TypeAlias = "Callable[[AguiTranslator, Any], list[Event]]"


class AguiTranslator:
    """Translates one run: `feed` its events until it `is_done`, call `fail` if the stream broke, then `close`.

    `run_id` is the requested run. Older runs may come before it in the stream; their ends do not end the turn.
    `tool_names` has the names of the tools of earlier calls by call id, because this run may send the results of these
    calls.
    """

    def __init__(self, run_id: str = "", tool_names: Mapping[str, str] | None = None) -> None:
        self._turn = TurnTranslation("the AG-UI agent")
        self._expander = ChunkExpander()
        self._wanted_run = self._current_run = run_id
        self._run_end: shapes.RunFinished | shapes.RunError | None = None
        self._owners: dict[str, str | None] = {}  # the subagent that started each message and call
        self._parents: dict[str, str] = {}  # the call under which each subagent speaks
        self._hidden: set[str] = set()  # messages that are not the agent's
        self._reasoning: set[str] = set()  # messages of reasoning
        self._unread_reasoning: set[str] = set()  # messages of reasoning that have no content yet
        self._open_reasoning: dict[str | None, str] = {}  # the open reasoning message under each parent call
        self._recent_reasoning: dict[str | None, _RecentReasoning] = {}  # of each speaker
        self._open_message: dict[str | None, str] = {}  # the open text message of each speaker
        self._tool_names = dict(tool_names or {})
        self._arguments: dict[str, list[str]] = {}
        self._streamed: list[str] = []
        self._snapshot: list[shapes.SnapshotMessage] = []
        self.interrupts: list[shapes.Interrupt] = []  # the questions that have stopped the run

    @property
    def is_done(self) -> bool:
        """True if the requested run has ended."""
        return self._run_end is not None and self._current_run == self._wanted_run

    @property
    def is_complete(self) -> bool:
        """True if the run has ended and has neither failed nor been cancelled."""
        return isinstance(self._run_end, shapes.RunFinished) and not self._run_end.is_cancelled

    def feed(self, native: Any) -> list[Event]:
        """Translate one event of the stream."""
        events: list[Event] = []
        for expanded in self._expander.feed(native):
            events += self._translate(expanded)
        return events

    def fail(self, message: str, *, code: str, status_code: int | None = None) -> None:
        """Record that the stream has failed. After the end of the run this does nothing."""
        if self._run_end is None:
            self._turn.fail(message, code=code, status_code=status_code)

    def close(self, *, cancelled: bool = False) -> list[Event]:
        """End the turn. Returns the events that are still missing, with the terminal event last."""
        match self._run_end:
            case shapes.RunError(message=message, code=code):
                self._turn.fail(as_text(message), code=None if code is None else as_text(code))
            case shapes.RunFinished(result=result):
                cancelled = cancelled or self._run_end.is_cancelled
                text = None if result is None else as_text(result)
                self._turn.complete(text=text, stop_reason="interrupt" if self.interrupts else "")
        return self._turn.end(cancelled=cancelled)

    def _translate(self, event: Any) -> list[Event]:
        kind = event.get("type") if isinstance(event, dict) else None
        if isinstance(kind, str) and kind in self._HANDLERS:
            shape, handler = self._HANDLERS[kind]
            try:
                return handler(self, msgspec.convert(event, shape))
            except msgspec.ValidationError:
                pass
        elif isinstance(kind, str) and kind in self._IGNORED:
            return []
        return self._turn.unknown_event(event)

    # Speakers

    def _parent(self, speaker: str | None) -> tuple[list[Event], str | None]:
        """The id of the tool call under which a subagent is shown, and the events that start this call if needed."""
        if speaker is None:
            return [], None
        if speaker in self._parents:
            return [], self._parents[speaker]
        self._parents[speaker] = speaker
        return self._turn.tool_call(speaker, "subagent"), speaker

    def _parent_of(self, item: str, speaker: str | None) -> tuple[list[Event], str | None]:
        """Like `_parent`, for an event about a message or tool call: its speaker is the one that started it."""
        return self._parent(self._owners.setdefault(item, speaker))

    # Messages

    def _message_start(self, message: shapes.MessageStart) -> list[Event]:
        self._owners[message.message_id] = message.subagent_run_id
        self._open_message[message.subagent_run_id] = message.message_id
        if message.role != "assistant":
            self._hidden.add(message.message_id)
        return []

    def _message_content(self, content: shapes.MessageContent) -> list[Event]:
        if content.message_id in self._hidden:
            return []
        started, parent = self._parent_of(content.message_id, content.subagent_run_id)
        if parent is None:
            self._streamed.append(content.delta)
        self._open_reasoning.pop(parent, None)
        return [*started, *self._turn.text_delta(content.message_id, content.delta, parent=parent)]

    def _message_end(self, message: shapes.MessageEnd) -> list[Event]:
        started, parent = self._parent_of(message.message_id, message.subagent_run_id)
        self._forget_reasoning(self._owners[message.message_id])
        return [*started, *self._turn.block_final(message.message_id, parent=parent)]

    # Reasoning

    def _reasoning_start(self, message: shapes.MessageStart) -> list[Event]:
        self._owners[message.message_id] = message.subagent_run_id
        self._reasoning.add(message.message_id)
        self._unread_reasoning.add(message.message_id)
        return []

    def _reasoning_content(self, content: shapes.MessageContent) -> list[Event]:
        started, parent = self._parent_of(content.message_id, content.subagent_run_id)
        if self._is_repeated(content):
            return started
        events: list[Event] = []
        if self._open_reasoning.get(parent, content.message_id) != content.message_id:
            events += self._turn.reasoning_end(parent=parent)
        self._open_reasoning[parent] = content.message_id
        return [*started, *events, *self._turn.reasoning_delta(content.delta, parent=parent)]

    def _is_repeated(self, content: shapes.MessageContent) -> bool:
        """Whether reasoning comes inside an open text message and repeats all reasoning before that message.

        ADK repeats its reasoning in this way when the model is done. Other agents end a message before they send
        reasoning, so their reasoning is shown even if it is the same as before.
        """
        speaker = self._owners[content.message_id]
        recent = self._recent_reasoning.setdefault(speaker, _RecentReasoning())
        is_first = content.message_id in self._unread_reasoning
        self._unread_reasoning.discard(content.message_id)
        if is_first and speaker in self._open_message and recent.equals(content.delta):
            return True
        recent.add(content.delta)
        return False

    def _forget_reasoning(self, speaker: str | None) -> None:
        """Forget the speaker's reasoning, because a message or tool call is complete: it is not repeated later."""
        self._recent_reasoning.pop(speaker, None)
        self._open_message.pop(speaker, None)

    def _reasoning_end(self, message: shapes.MessageEnd) -> list[Event]:
        started, parent = self._parent_of(message.message_id, message.subagent_run_id)
        # An encrypted value has already ended the reasoning.
        was_open = self._open_reasoning.pop(parent, None) is not None
        return [*started, *(self._turn.reasoning_end(parent=parent) if was_open else [])]

    def _encrypted_value(self, value: shapes.EncryptedValue) -> list[Event]:
        if value.entity_id not in self._reasoning:
            return []  # the encrypted value of a call or a text message is not shown
        started, parent = self._parent_of(value.entity_id, value.subagent_run_id)
        self._open_reasoning.pop(parent, None)
        return [*started, *self._turn.reasoning_end(value.encrypted_value, parent=parent)]

    # Tools

    def _call_start(self, call: shapes.ToolCallStart) -> list[Event]:
        call_id = call.tool_call_id
        self._owners[call_id] = call.subagent_run_id
        self._tool_names[call_id] = call.tool_call_name
        if not self._turn.is_open_call(call_id):
            self._arguments[call_id] = []
        started, parent = self._parent(call.subagent_run_id)
        self._open_reasoning.pop(parent, None)
        self._forget_reasoning(call.subagent_run_id)
        return [*started, *self._turn.tool_call(call_id, call.tool_call_name, parent=parent)]

    def _call_arguments(self, piece: shapes.ToolCallArguments) -> list[Event]:
        if piece.tool_call_id in self._arguments:
            self._arguments[piece.tool_call_id].append(piece.delta)
        return []

    def _call_end(self, end: shapes.ToolCallArguments) -> list[Event]:
        """Handle the end of the arguments of a tool call. The result of the call may have come before."""
        text = "".join(self._arguments.get(end.tool_call_id, ()))
        started, parent = self._parent_of(end.tool_call_id, end.subagent_run_id)
        if not text:
            return started
        return [*started, ToolInput(id=end.tool_call_id, arguments=json_or_text(text), parent_tool_id=parent)]

    def _call_result(self, result: shapes.ToolCallResult) -> list[Event]:
        call_id = result.tool_call_id
        started, parent = self._parent_of(call_id, result.subagent_run_id)
        text = shapes.text_of(result.content)
        value = result.content if text is None else _unwrap_text(text)
        name = self._tool_names.get(call_id, "")
        return [*started, *self._turn.tool_result(call_id, value, name=name, parent=parent)]

    # Subagents

    def _subagent_started(self, subagent: shapes.SubagentStarted) -> list[Event]:
        if subagent.parent_tool_call_id is not None:
            self._parents[subagent.subagent_run_id] = subagent.parent_tool_call_id
            return []
        started, parent = self._parent(subagent.parent_subagent_run_id)
        call_id = self._parents[subagent.subagent_run_id] = subagent.subagent_run_id
        return [*started, *self._turn.tool_call(call_id, subagent.name or "subagent", parent=parent)]

    def _subagent_finished(self, subagent: shapes.SubagentEnded) -> list[Event]:
        if not self._turn.is_open_call(subagent.subagent_run_id):
            return []  # the call that started it has a result of its own
        return self._turn.tool_result(subagent.subagent_run_id, subagent.result)

    def _subagent_failed(self, subagent: shapes.SubagentEnded) -> list[Event]:
        message = subagent.message or "the subagent has failed"
        if self._turn.is_open_call(subagent.subagent_run_id):
            return self._turn.tool_result(subagent.subagent_run_id, message, is_error=True)
        return [Error(message=message, parent_tool_id=self._parents.get(subagent.subagent_run_id))]

    # Status

    def _step(self, step: shapes.StepStarted) -> list[Event]:
        return self._status(step.subagent_run_id, step.step_name)

    def _activity(self, activity: shapes.ActivitySnapshot) -> list[Event]:
        return self._status(activity.subagent_run_id, activity.activity_type)

    def _custom(self, custom: shapes.CustomEvent) -> list[Event]:
        if custom.name == _LANGGRAPH_INTERRUPT:
            metadata = {"langgraph": {"raw": json_or_text(custom.value)}}
            self.interrupts = [shapes.Interrupt(id="", message=as_text(custom.value), metadata=metadata)]
            return []
        text = custom.name if custom.value is None else f"{custom.name}: {status_text(custom.value)}"
        return self._status(custom.subagent_run_id, text)

    def _status(self, speaker: str | None, text: str) -> list[Event]:
        started, parent = self._parent(speaker)
        return [*started, Status(text=text[:_MAX_STATUS], parent_tool_id=parent)]

    # The run

    def _run_started(self, run: shapes.RunStarted) -> list[Event]:
        """Note which run the next events belong to. Only the end of the requested run ends the turn."""
        self._current_run = run.run_id
        self._run_end = None
        self.interrupts = []
        return []

    def _messages_snapshot(self, snapshot: shapes.MessagesSnapshot) -> list[Event]:
        self._snapshot = [message for message in snapshot.messages if message.subagent_run_id is None]
        return []

    def _not_streamed(self) -> list[Event]:
        """The messages after the last user message that are in the snapshot but were not streamed.

        Empty if the snapshot does not begin with the streamed text in the same order.
        """
        questions = [index for index, message in enumerate(self._snapshot) if message.role == "user"]
        since = self._snapshot[questions[-1] + 1 :] if questions else []
        streamed = "".join(self._streamed)
        position = 0
        events: list[Event] = []
        for index, message in enumerate(message for message in since if message.role == "assistant"):
            if streamed.startswith(message.text, position):
                position += len(message.text)
            elif position == len(streamed):
                events += self._turn.block_final(("snapshot", index), message.text)
            else:
                break
        return events

    def _run_finished(self, run: shapes.RunFinished) -> list[Event]:
        self._run_end = run
        self.interrupts = run.interrupts or self.interrupts
        events = self._not_streamed()
        for index, interrupt in enumerate(self.interrupts):
            events += self._turn.block_final(("question", index), self._question_text(interrupt))
        return [*events, *_usage(run.model_usage)]

    def _question_text(self, interrupt: shapes.Interrupt) -> str:
        """The question of an interrupted run, as text for people."""
        tool = self._tool_names.get(interrupt.tool_call_id or "")
        if interrupt.tools or (tool and not interrupt.text):
            return f"Waiting for approval: {', '.join(interrupt.tools or [tool or ''])}"
        return interrupt.text or f"Waiting for {interrupt.reason or 'an answer'}"

    def _run_failed(self, run: shapes.RunError) -> list[Event]:
        self._run_end = run
        return _usage(run.model_usage)

    _HANDLERS: ClassVar[dict[str, tuple[type, _Handler]]] = {
        "RUN_STARTED": (shapes.RunStarted, _run_started),
        "RUN_FINISHED": (shapes.RunFinished, _run_finished),
        "RUN_ERROR": (shapes.RunError, _run_failed),
        "MESSAGES_SNAPSHOT": (shapes.MessagesSnapshot, _messages_snapshot),
        "TEXT_MESSAGE_START": (shapes.MessageStart, _message_start),
        "TEXT_MESSAGE_CONTENT": (shapes.MessageContent, _message_content),
        "TEXT_MESSAGE_END": (shapes.MessageEnd, _message_end),
        "REASONING_START": (shapes.MessageStart, _reasoning_start),
        "REASONING_MESSAGE_START": (shapes.MessageStart, _reasoning_start),
        "REASONING_MESSAGE_CONTENT": (shapes.MessageContent, _reasoning_content),
        "REASONING_END": (shapes.MessageEnd, _reasoning_end),
        "REASONING_ENCRYPTED_VALUE": (shapes.EncryptedValue, _encrypted_value),
        "THINKING_TEXT_MESSAGE_CONTENT": (shapes.MessageContent, _reasoning_content),  # the name before version 1
        "THINKING_END": (shapes.MessageEnd, _reasoning_end),
        "TOOL_CALL_START": (shapes.ToolCallStart, _call_start),
        "TOOL_CALL_ARGS": (shapes.ToolCallArguments, _call_arguments),
        "TOOL_CALL_END": (shapes.ToolCallArguments, _call_end),
        "TOOL_CALL_RESULT": (shapes.ToolCallResult, _call_result),
        "SUBAGENT_STARTED": (shapes.SubagentStarted, _subagent_started),
        "SUBAGENT_FINISHED": (shapes.SubagentEnded, _subagent_finished),
        "SUBAGENT_ERROR": (shapes.SubagentEnded, _subagent_failed),
        "STEP_STARTED": (shapes.StepStarted, _step),
        "ACTIVITY_SNAPSHOT": (shapes.ActivitySnapshot, _activity),
        "CUSTOM": (shapes.CustomEvent, _custom),
    }
    # Raw events of the framework, events about the state of an application, and starts and ends without content.
    _IGNORED: ClassVar[set[str]] = {
        *("RAW", "STATE_SNAPSHOT", "STATE_DELTA", "ACTIVITY_DELTA", "STEP_FINISHED", "REASONING_MESSAGE_END"),
        *("THINKING_START", "THINKING_TEXT_MESSAGE_START", "THINKING_TEXT_MESSAGE_END"),
    }


def _usage(models: list[shapes.ModelUsage]) -> list[Event]:
    """The `usage` event with the tokens of all models of the run; empty if they were not counted."""
    if not models:
        return []
    asked, answered = sum(model.input_tokens for model in models), sum(model.output_tokens for model in models)
    return [Usage(input_tokens=asked, output_tokens=answered, scope="turn")]


def _unwrap_text(text: str) -> Any:
    """Remove the JSON in which some frameworks wrap a text result: quotes, or ADK's `{"result": …}`."""
    match json_or_text(text) if text.startswith(('"', "{")) else None:
        case str(value):
            return value
        case {"result": str(value), **rest} if not rest:
            return value
        case _:
            return text
