"""The stream of one run of a graph, as plain values, into events of ours.

The mode `messages` tells what models and tools say while they say it. `updates` and `values` say it again: a message
that was heard is only corrected by them, and one that was not is told from `values` alone, because in an update nodes
hand on whole histories.

Ids of messages are no keys, because they change within a message: a model call is known by the task it is made in and
by how many were made before. `TurnTranslation` owns the turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import msgspec

from tailrace.events import Event, Status, Usage
from tailrace.runtimes.langgraph.shapes import Answer, Block, Message, ToolCall, tasks_of, unwrapped
from tailrace.runtimes.sdk import SdkFailure, as_text, json_or_text, status_text
from tailrace.runtimes.turn_translation import TurnTranslation

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

_CODES = {"GraphRecursionError": "max_turns"}
_THOUGHTS = {"reasoning", "thinking"}


class _ModelCall:
    """One call of a model: within which tool it was made, and what was heard of it."""

    def __init__(self, ordinal: int, parent: str | None) -> None:
        self.ordinal = ordinal
        self.parent = parent
        self.is_over = False
        self.run: str | None = None
        self.texts: set[Hashable] = set()
        self.tools: dict[Hashable, str] = {}
        self.arguments: dict[Hashable, list[str]] = {}


_Handler: TypeAlias = "Callable[[LangGraphTranslator, Any], list[Event]]"


class LangGraphTranslator:
    """One run: `feed` what it streams, then say how it ended (`finished` or `raised`), then `close`."""

    def __init__(self) -> None:
        self._turn = TurnTranslation("langgraph")
        self._ordinal = 0
        self._newest: dict[str, _ModelCall] = {}  # by the task it is made in
        self._heard: dict[str, _ModelCall | None] = {}  # by message; None for one that no model said in this run
        self._made_for: dict[str, str] = {}  # of a task that runs one tool, the tool's call
        self._has_values = False
        self._waiting: dict[str, str] = {}

    def feed(self, native: Any) -> list[Event]:
        """One thing that the graph streams, in any of its shapes."""
        mode, payload = unwrapped(native)
        if mode in self._SILENT:
            return []
        try:
            return self._TABLE[mode](self, payload) if mode in self._TABLE else self._turn.unknown_event(native)
        except (msgspec.ValidationError, AttributeError, KeyError, TypeError, ValueError):
            return self._turn.unknown_event(native)

    def finished(self) -> list[Event]:
        """The graph has come to its end, or to a point where it waits for somebody."""
        if not self._waiting:
            self._turn.complete()
            return []
        words = f"Waiting for an answer: {', '.join(self._waiting.values())}"
        self._turn.complete(text=words, stop_reason="interrupted")
        return [Status(text=words)]

    def raised(self, failure: SdkFailure) -> list[Event]:
        """The graph has ended with an exception."""
        code = _CODES.get(failure.kind, "runtime_raised")
        self._turn.fail(failure.message, code=code, status_code=failure.status_code)
        return []

    def close(self, *, cancelled: bool = False) -> list[Event]:
        """The stream is over: the one end of the turn."""
        return self._turn.end(cancelled=cancelled)

    # While it is said

    def _messages(self, payload: Any) -> list[Event]:
        said, metadata = payload
        tasks = tasks_of(metadata)
        match said["type"]:
            case "AIMessageChunk":
                return self._chunk(msgspec.convert(said, Message), tasks)
            case "ai":
                return self._whole(msgspec.convert(said, Message), tasks)
            case "tool":
                return self._answer(msgspec.convert(said, Answer), tasks)
            case _:
                return []  # what people say, and what the graph says to its models

    def _chunk(self, message: Message, tasks: list[str]) -> list[Event]:
        events, call = self._turn_to(message, tasks)
        for block in message.blocks:
            events += self._block(call, block)
        for piece in message.tool_call_chunks:
            place = piece.index if piece.index is not None else piece.id or next(reversed(call.tools), None)
            if piece.id:
                call.tools[place] = piece.id
                events += self._turn.tool_call(piece.id, piece.name or "", parent=call.parent)
            call.arguments.setdefault(place, []).append(piece.args or "")
        events += _spent(message, call.parent)
        return [*events, *self._end(call)] if message.chunk_position == "last" else events

    def _turn_to(self, message: Message, tasks: list[str]) -> tuple[list[Event], _ModelCall]:
        """The model call that a chunk belongs to: the one made in that task, unless it is over or was given up."""
        events: list[Event] = []
        call = self._newest.get(tasks[-1] if tasks else "")
        # Within a message the id changes from the provider's to that of the run; from one run to another it does not.
        run = message.id if message.id and "run-" in message.id else None
        if call is None or call.is_over or (run and call.run and run != call.run):
            if call is not None and not call.is_over and message.chunk_position is not msgspec.UNSET:
                events = self._turn.retract_try("the model was asked again", parent=call.parent)
            call = self._open(tasks)
        call.run = run or call.run
        if message.id:
            self._heard[message.id] = call
        return events, call

    def _open(self, tasks: list[str]) -> _ModelCall:
        self._ordinal += 1
        call = self._newest[tasks[-1] if tasks else ""] = _ModelCall(self._ordinal, self._parent(tasks))
        return call

    def _parent(self, tasks: list[str], own: str = "") -> str | None:
        """The call of the tool within which something is said: the innermost one that is not its `own`."""
        calls = (self._made_for.get(task, own) for task in reversed(tasks))
        return next((call for call in calls if call != own), None)

    def _block(self, call: _ModelCall, block: Block) -> list[Event]:
        if block.type == "text" and block.text:
            call.texts.add(block.index)
            return self._turn.text_delta((call.ordinal, block.index), block.text, parent=call.parent)
        if block.type not in _THOUGHTS:
            return []
        events = self._turn.reasoning_delta(block.thought, parent=call.parent) if block.thought else []
        metadata = block.signature or block.encrypted_content
        return [*events, *self._turn.reasoning_end(metadata, parent=call.parent)] if metadata else events

    def _end(self, call: _ModelCall) -> list[Event]:
        """The model has said all there is: the arguments of its calls are complete."""
        call.is_over = True
        self._turn.model_call_completed(parent=call.parent)
        events: list[Event] = []
        for place, tool in call.tools.items():
            if self._turn.is_open_call(tool):
                arguments = json_or_text("".join(call.arguments[place]))
                events += self._turn.tool_call(tool, "", arguments, parent=call.parent)
        return events

    def _answer(self, answer: Answer, tasks: list[str]) -> list[Event]:
        return self._turn.tool_result(
            answer.tool_call_id,
            answer.content,
            is_error=answer.status == "error",
            name=answer.name or "",
            parent=self._parent(tasks, answer.tool_call_id),
        )

    # All at once, or once more

    def _whole(self, message: Message, tasks: list[str]) -> list[Event]:
        """A message that is told at once, or all of one that was heard in chunks."""
        if message.id in self._heard:
            return self._corrected(self._heard[message.id], message)
        call = self._open(tasks)
        call.is_over = True
        self._heard[message.id or f"of {call.ordinal}"] = call
        events: list[Event] = []
        for block in message.blocks:
            events += self._block(call, block)
        for made in message.tool_calls:
            events += self._turn.tool_call(made.call, made.name, made.args, parent=call.parent)
        return [*events, *_spent(message, call.parent)]

    def _corrected(self, call: _ModelCall | None, message: Message) -> list[Event]:
        """A message may be changed after it was heard; which text is meant is clear where there is one."""
        if call is None or len(call.texts) != 1:
            return []
        key = (call.ordinal, next(iter(call.texts)))
        return self._turn.text_snapshot(key, message.text, parent=call.parent)

    def _updates(self, payload: dict[str, Any]) -> list[Event]:
        events: list[Event] = []
        for node, update in payload.items():
            if node == "__interrupt__":
                self._interrupted(update)
                continue
            for said in _messages_in(update):
                if said["type"] == "ai" and said.get("id") in self._heard:
                    events += self._whole(msgspec.convert(said, Message), [])
        return events

    def _values(self, payload: Any) -> list[Event]:
        events: list[Event] = []
        # What a run begins with was said before it.
        is_new, self._has_values = self._has_values, True
        for place, said in enumerate(_messages_in(payload)):
            known = said.get("id") or f"at {place}"
            if known not in self._heard and is_new:
                events += self._messages([said, {}])
            self._heard.setdefault(known, None)
        return events

    # What else there is

    def _tasks(self, payload: Any) -> list[Event]:
        match payload:
            case {"id": str(task), "input": [{"type": "tool_call"} as made]}:
                self._made_for[task] = msgspec.convert(made, ToolCall).call
            case _:
                pass  # a node that is given the state, or the end of a task
        return []

    def _custom(self, payload: Any) -> list[Event]:
        return [Status(text=status_text(payload))]

    def _interrupted(self, interrupts: Any) -> None:
        """The graph waits; each interrupt is told by every graph around it."""
        for place, interrupt in enumerate(interrupts):
            match interrupt:
                case {"value": {"action_requests": [*requests]}}:
                    words = ", ".join(status_text(request.get("name", request)) for request in requests)
                case {"value": value}:
                    words = status_text(value)
                case _:
                    words = status_text(interrupt)
            self._waiting[as_text(interrupt.get("id", place))] = words

    _TABLE: ClassVar[dict[str, _Handler]] = {
        "messages": _messages,
        "updates": _updates,
        "values": _values,
        "tasks": _tasks,
        "custom": _custom,
    }
    _SILENT: ClassVar[set[str]] = {"checkpoints", "debug", "lifecycle", "input.requested"}


def _messages_in(state: Any) -> list[dict[str, Any]]:
    """The messages in a state, or in the update of one, or in several of those."""
    match state:
        case {"messages": [*messages]}:
            return [message for message in messages if isinstance(message, dict) and "type" in message]
        case [*updates]:
            return [message for update in updates for message in _messages_in(update)]
        case _:
            return []


def _spent(message: Message, parent: str | None) -> list[Event]:
    tokens = message.usage_metadata
    if tokens is None:
        return []
    return [
        Usage(
            input_tokens=tokens.input_tokens,
            output_tokens=tokens.output_tokens,
            scope="request",
            parent_tool_id=parent,
        )
    ]
