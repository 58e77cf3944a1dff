"""Translates the stream of one run of a graph, as JSON values, into canonical events.

The stream mode `messages` sends the text of models and tools while they write it. The modes `updates` and `values` send
the same text again: they correct a message that was streamed. A message that was not streamed is read only from
`values`, because in an update a node may pass on a whole history.

The id of a message may change within the message, so it does not identify the message. A model call is identified by
its task and by a number that counts the calls. `TurnTranslation` contains the rules that all agents share.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import msgspec

from tailrace.events import Event, Status, Usage
from tailrace.runtimes.langgraph import shapes
from tailrace.runtimes.sdk import SdkFailure, as_text, json_or_text, status_text
from tailrace.runtimes.turn_translation import TurnTranslation

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

_CODES = {"GraphRecursionError": "max_turns"}
_REASONING = {"reasoning", "thinking"}


class _ModelCall:
    """One call of a model: its number, the tool call in which it was made (`parent`), and the content so far."""

    def __init__(self, number: int, parent: str | None) -> None:
        self.number = number
        self.parent = parent
        self.is_finished = False
        self.run: str | None = None
        self.texts: set[Hashable] = set()
        self.tools: dict[Hashable, str] = {}
        self.arguments: dict[Hashable, list[str]] = {}


_Handler: TypeAlias = "Callable[[LangGraphTranslator, Any], list[Event]]"


class LangGraphTranslator:
    """Translates one run: `feed` each item of its stream, then call `finished` or `raised`, then `close`."""

    def __init__(self) -> None:
        self._turn = TurnTranslation("langgraph")
        self._model_calls = 0
        self._newest: dict[str, _ModelCall] = {}  # the newest model call of each task
        # By message id. None for a message that no model of this run has written.
        self._messages: dict[str, _ModelCall | None] = {}
        self._task_calls: dict[str, str] = {}  # the tool call that a task runs
        self._has_values = False
        self._interrupts: dict[str, str] = {}  # the questions, by the interrupt's id

    def feed(self, native: Any) -> list[Event]:
        """Translate one item of the stream, in any of its forms."""
        mode, payload = shapes.unwrap(native)
        if mode in self._IGNORED:
            return []
        try:
            return self._HANDLERS[mode](self, payload) if mode in self._HANDLERS else self._turn.unknown_event(native)
        except (msgspec.ValidationError, AttributeError, KeyError, TypeError, ValueError):
            return self._turn.unknown_event(native)

    def finished(self) -> list[Event]:
        """Handle the normal end of the stream: the graph has ended, or it waits for an answer."""
        if not self._interrupts:
            self._turn.complete()
            return []
        text = f"Waiting for an answer: {', '.join(self._interrupts.values())}"
        self._turn.complete(text=text, stop_reason="interrupted")
        return [Status(text=text)]

    def raised(self, failure: SdkFailure) -> list[Event]:
        """Handle an exception that the graph raised: it becomes the failure of the turn."""
        code = _CODES.get(failure.kind, "runtime_raised")
        self._turn.fail(failure.message, code=code, status_code=failure.status_code)
        return []

    def close(self, *, cancelled: bool = False) -> list[Event]:
        """End the turn. Returns the events that are still missing, with the terminal event last."""
        return self._turn.end(cancelled=cancelled)

    # While models and tools write

    def _message(self, payload: Any) -> list[Event]:
        message, metadata = payload
        tasks = shapes.tasks_of(metadata)
        match message["type"]:
            case "AIMessageChunk":
                return self._chunk(msgspec.convert(message, shapes.ModelMessage), tasks)
            case "ai":
                return self._whole_message(msgspec.convert(message, shapes.ModelMessage), tasks)
            case "tool":
                return self._tool_result(msgspec.convert(message, shapes.ToolMessage), tasks)
            case _:
                return []  # a message of a person, or of the graph to its models

    def _chunk(self, message: shapes.ModelMessage, tasks: list[str]) -> list[Event]:
        events, call = self._turn_to(message, tasks)
        for block in message.blocks:
            events += self._block(call, block)
        for piece in message.tool_call_chunks:
            index = piece.index if piece.index is not None else piece.id or next(reversed(call.tools), None)
            if piece.id:
                call.tools[index] = piece.id
                events += self._turn.tool_call(piece.id, piece.name or "", parent=call.parent)
            call.arguments.setdefault(index, []).append(piece.args or "")
        events += _usage(message, call.parent)
        return [*events, *self._finish(call)] if message.chunk_position == "last" else events

    def _turn_to(self, message: shapes.ModelMessage, tasks: list[str]) -> tuple[list[Event], _ModelCall]:
        """The model call that a chunk belongs to: the newest of its task, unless that has finished or was tried again.

        In these cases a new model call begins. The returned events retract the text of a call that is tried again.
        """
        events: list[Event] = []
        call = self._newest.get(tasks[-1] if tasks else "")
        # Within a message the id may change from the provider's id to the id of the run. A run keeps its id.
        run = message.id if message.id and "run-" in message.id else None
        if call is None or call.is_finished or (run and call.run and run != call.run):
            if call is not None and not call.is_finished and message.chunk_position is not msgspec.UNSET:
                events = self._turn.retract_try("the model was asked again", parent=call.parent)
            call = self._start(tasks)
        call.run = run or call.run
        if message.id:
            self._messages[message.id] = call
        return events, call

    def _start(self, tasks: list[str]) -> _ModelCall:
        self._model_calls += 1
        call = self._newest[tasks[-1] if tasks else ""] = _ModelCall(self._model_calls, self._parent(tasks))
        return call

    def _parent(self, tasks: list[str], own: str = "") -> str | None:
        """The id of the innermost tool call that runs one of these tasks; the tool call `own` does not count."""
        calls = (self._task_calls.get(task, own) for task in reversed(tasks))
        return next((call for call in calls if call != own), None)

    def _block(self, call: _ModelCall, block: shapes.MessageBlock) -> list[Event]:
        if block.type == "text" and block.text:
            call.texts.add(block.index)
            return self._turn.text_delta((call.number, block.index), block.text, parent=call.parent)
        if block.type not in _REASONING:
            return []
        text = block.reasoning_text
        events = self._turn.reasoning_delta(text, parent=call.parent) if text else []
        metadata = block.signature or block.encrypted_content
        return [*events, *self._turn.reasoning_end(metadata, parent=call.parent)] if metadata else events

    def _finish(self, call: _ModelCall) -> list[Event]:
        """End a model call. Emits the tool calls that it asks for, because their arguments are complete now."""
        call.is_finished = True
        self._turn.model_call_completed(parent=call.parent)
        events: list[Event] = []
        for index, tool in call.tools.items():
            if self._turn.is_open_call(tool):
                arguments = json_or_text("".join(call.arguments[index]))
                events += self._turn.tool_call(tool, "", arguments, parent=call.parent)
        return events

    def _tool_result(self, message: shapes.ToolMessage, tasks: list[str]) -> list[Event]:
        return self._turn.tool_result(
            message.tool_call_id,
            message.content,
            is_error=message.status == "error",
            name=message.name or "",
            parent=self._parent(tasks, message.tool_call_id),
        )

    # Whole messages

    def _whole_message(self, message: shapes.ModelMessage, tasks: list[str]) -> list[Event]:
        """Translate a whole message: one that was not streamed, or the final form of a streamed one."""
        if message.id in self._messages:
            return self._correction(self._messages[message.id], message)
        call = self._start(tasks)
        call.is_finished = True
        self._messages[message.id or f"of {call.number}"] = call
        events: list[Event] = []
        for block in message.blocks:
            events += self._block(call, block)
        for tool_call in message.tool_calls:
            events += self._turn.tool_call(tool_call.key, tool_call.name, tool_call.args, parent=call.parent)
        return [*events, *_usage(message, call.parent)]

    def _correction(self, call: _ModelCall | None, message: shapes.ModelMessage) -> list[Event]:
        """Correct the text of a streamed message whose final form differs.

        Does nothing if the message has several texts, because it is unclear which of them has changed.
        """
        if call is None or len(call.texts) != 1:
            return []
        key = (call.number, next(iter(call.texts)))
        return self._turn.text_snapshot(key, message.text, parent=call.parent)

    def _updates(self, payload: dict[str, Any]) -> list[Event]:
        events: list[Event] = []
        for node, update in payload.items():
            if node == "__interrupt__":
                self._interrupted(update)
                continue
            for message in _messages_in(update):
                if message["type"] == "ai" and message.get("id") in self._messages:
                    events += self._whole_message(msgspec.convert(message, shapes.ModelMessage), [])
        return events

    def _values(self, payload: Any) -> list[Event]:
        events: list[Event] = []
        # The messages of the first state are older than the run.
        is_new, self._has_values = self._has_values, True
        for position, message in enumerate(_messages_in(payload)):
            message_id = message.get("id") or f"at {position}"
            if message_id not in self._messages and is_new:
                events += self._message([message, {}])
            self._messages.setdefault(message_id, None)
        return events

    # Tasks, status, interrupts

    def _tasks(self, payload: Any) -> list[Event]:
        match payload:
            case {"id": str(task), "input": [{"type": "tool_call"} as tool_call]}:
                self._task_calls[task] = msgspec.convert(tool_call, shapes.ModelToolCall).key
            case _:
                pass  # a node that gets the state, or a task that ends: neither is shown
        return []

    def _custom(self, payload: Any) -> list[Event]:
        return [Status(text=status_text(payload))]

    def _interrupted(self, interrupts: Any) -> None:
        """Note the questions for which the graph waits. Outer graphs repeat an interrupt, so it is noted by its id."""
        for position, interrupt in enumerate(interrupts):
            match interrupt:
                case {"value": {"action_requests": [*requests]}}:
                    text = ", ".join(status_text(request.get("name", request)) for request in requests)
                case {"value": value}:
                    text = status_text(value)
                case _:
                    text = status_text(interrupt)
            self._interrupts[as_text(interrupt.get("id", position))] = text

    _HANDLERS: ClassVar[dict[str, _Handler]] = {
        "messages": _message,
        "updates": _updates,
        "values": _values,
        "tasks": _tasks,
        "custom": _custom,
    }
    _IGNORED: ClassVar[set[str]] = {"checkpoints", "debug", "lifecycle", "input.requested"}


def _messages_in(state: Any) -> list[dict[str, Any]]:
    """The messages in a state of the graph, in an update of the state, or in a list of updates."""
    match state:
        case {"messages": [*messages]}:
            return [message for message in messages if isinstance(message, dict) and "type" in message]
        case [*updates]:
            return [message for update in updates for message in _messages_in(update)]
        case _:
            return []


def _usage(message: shapes.ModelMessage, parent: str | None) -> list[Event]:
    usage = message.usage_metadata
    if usage is None:
        return []
    return [
        Usage(
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            scope="request",
            parent_tool_id=parent,
        )
    ]
