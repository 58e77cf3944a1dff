"""The events of one AG-UI run, as plain values, into events of ours.

A message or a call belongs to whoever began it: what continues it need not say so again. Subagents are shown as calls,
under which they speak, unless a call has started them.

A snapshot of the conversation repeats what was streamed, under other ids. It is read when the run is over, for what was
not streamed at all: agents that do not stream say their answer there and nowhere else. What a turn is told by is
`TurnTranslation`'s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import msgspec

from tailrace.events import Error, Event, Status, ToolInput, Usage
from tailrace.runtimes.agui import shapes
from tailrace.runtimes.agui.expansion import Expansion
from tailrace.runtimes.sdk import as_text, json_or_text, status_text
from tailrace.runtimes.turn_translation import TurnTranslation

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_LONGEST_REMARK = 200
# How ag-ui-langgraph says what a graph has stopped to ask, beside an outcome or in place of one.
_LANGGRAPH_ASKS = "on_interrupt"


class _Recent:
    """What somebody thought since something was complete."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._length = 0

    def add(self, piece: str) -> None:
        """More of it."""
        self._pieces.append(piece)
        self._length += len(piece)

    def is_all(self, piece: str) -> bool:
        """Whether this is all of it; compared only where it can be, since thoughts are long and many."""
        return 0 < self._length == len(piece) and "".join(self._pieces) == piece


_Handler: TypeAlias = "Callable[[AguiTranslator, Any], list[Event]]"


class AguiTranslator:
    """One run: `feed` its events until it `is_done`, say if the stream `broke`, then `close`.

    `run_id` is the run that was asked for; others in the stream are of the past. `names` are those of tools that were
    called before, by call: this run may have their results.
    """

    def __init__(self, run_id: str = "", names: Mapping[str, str] | None = None) -> None:
        self._turn = TurnTranslation("the AG-UI agent")
        self._expansion = Expansion()
        self._asked_for = self._run = run_id
        self._ending: shapes.Finished | shapes.Failed | None = None
        self._owners: dict[str, str | None] = {}  # which subagent began each message and each call
        self._parents: dict[str, str] = {}  # the call under which each subagent speaks
        self._silenced: set[str] = set()  # messages that are not the agent's
        self._thoughts: set[str] = set()
        self._thinking: dict[str | None, str] = {}  # the thought that is heard, until something else is
        self._unheard: set[str] = set()  # thoughts that have begun, and no more
        self._unended: dict[str | None, str] = {}  # the message that each of them is in the middle of
        self._recent: dict[str | None, _Recent] = {}
        self._names = dict(names or {})  # of tools, by call
        self._arguments: dict[str, list[str]] = {}
        self._said: list[str] = []
        self._snapshot: list[shapes.Remembered] = []
        self.questions: list[shapes.Interrupt] = []  # what the run has stopped to ask

    @property
    def is_done(self) -> bool:
        """Whether the run that was asked for is over."""
        return self._ending is not None and self._run == self._asked_for

    @property
    def is_complete(self) -> bool:
        """Whether the run has come to its own end, and not to a failure or a cancellation."""
        return isinstance(self._ending, shapes.Finished) and not self._ending.is_cancelled

    def feed(self, native: Any) -> list[Event]:
        """One event of the stream."""
        events: list[Event] = []
        for said in self._expansion.feed(native):
            events += self._tell(said)
        return events

    def broke(self, message: str, *, code: str, status_code: int | None = None) -> None:
        """The stream has ended with a failure of its own; once the run is over that means nothing."""
        if self._ending is None:
            self._turn.fail(message, code=code, status_code=status_code)

    def close(self, *, cancelled: bool = False) -> list[Event]:
        """The stream is over: the one end of the turn."""
        match self._ending:
            case shapes.Failed(message=message, code=code):
                self._turn.fail(as_text(message), code=None if code is None else as_text(code))
            case shapes.Finished(result=result):
                cancelled = cancelled or self._ending.is_cancelled
                words = None if result is None else as_text(result)
                self._turn.complete(text=words, stop_reason="interrupt" if self.questions else "")
        return self._turn.end(cancelled=cancelled)

    def _tell(self, event: Any) -> list[Event]:
        kind = event.get("type") if isinstance(event, dict) else None
        if isinstance(kind, str) and kind in self._TABLE:
            shape, tell = self._TABLE[kind]
            try:
                return tell(self, msgspec.convert(event, shape))
            except msgspec.ValidationError:
                pass
        elif isinstance(kind, str) and kind in self._SILENT:
            return []
        return self._turn.unknown_event(event)

    # Who speaks

    def _parent(self, lane: str | None) -> tuple[list[Event], str | None]:
        """The call under which a subagent speaks; one that was not announced becomes a call of its own."""
        if lane is None:
            return [], None
        if lane in self._parents:
            return [], self._parents[lane]
        self._parents[lane] = lane
        return self._turn.tool_call(lane, "subagent"), lane

    def _parent_of(self, entity: str, lane: str | None) -> tuple[list[Event], str | None]:
        """The same of whoever began this message or call; if nobody did, it is whoever speaks of it first."""
        return self._parent(self._owners.setdefault(entity, lane))

    # Messages

    def _opened(self, message: shapes.Opened) -> list[Event]:
        self._owners[message.message_id] = message.subagent_run_id
        self._unended[message.subagent_run_id] = message.message_id
        if message.role != "assistant":
            self._silenced.add(message.message_id)
        return []

    def _piece(self, piece: shapes.Piece) -> list[Event]:
        if piece.message_id in self._silenced:
            return []
        begun, parent = self._parent_of(piece.message_id, piece.subagent_run_id)
        if parent is None:
            self._said.append(piece.delta)
        self._thinking.pop(parent, None)
        return [*begun, *self._turn.text_delta(piece.message_id, piece.delta, parent=parent)]

    def _ended(self, message: shapes.Ended) -> list[Event]:
        begun, parent = self._parent_of(message.message_id, message.subagent_run_id)
        self._forget(self._owners[message.message_id])
        return [*begun, *self._turn.block_final(message.message_id, parent=parent)]

    # Thoughts

    def _thought_opened(self, thought: shapes.Opened) -> list[Event]:
        self._owners[thought.message_id] = thought.subagent_run_id
        self._thoughts.add(thought.message_id)
        self._unheard.add(thought.message_id)
        return []

    def _thought(self, piece: shapes.Piece) -> list[Event]:
        begun, parent = self._parent_of(piece.message_id, piece.subagent_run_id)
        if self._is_repeated(piece):
            return begun
        events: list[Event] = []
        if self._thinking.get(parent, piece.message_id) != piece.message_id:
            events += self._turn.reasoning_end(parent=parent)
        self._thinking[parent] = piece.message_id
        return [*begun, *events, *self._turn.reasoning_delta(piece.delta, parent=parent)]

    def _is_repeated(self, piece: shapes.Piece) -> bool:
        """Whether a thought begins, in the middle of a message, with all that was thought before it.

        So ADK tells again what it has told, when its model is done. A thought that comes twice is told twice by others:
        they end a message before they tell a thought.
        """
        lane = self._owners[piece.message_id]
        recent = self._recent.setdefault(lane, _Recent())
        begins = piece.message_id in self._unheard
        self._unheard.discard(piece.message_id)
        if begins and lane in self._unended and recent.is_all(piece.delta):
            return True
        recent.add(piece.delta)
        return False

    def _forget(self, lane: str | None) -> None:
        """Something is complete: what was thought before it is not told again."""
        self._recent.pop(lane, None)
        self._unended.pop(lane, None)

    def _thought_ended(self, thought: shapes.Ended) -> list[Event]:
        begun, parent = self._parent_of(thought.message_id, thought.subagent_run_id)
        # One that was sealed has ended with that.
        was_open = self._thinking.pop(parent, None) is not None
        return [*begun, *(self._turn.reasoning_end(parent=parent) if was_open else [])]

    def _sealed(self, sealed: shapes.Sealed) -> list[Event]:
        if sealed.entity_id not in self._thoughts:
            return []  # the seal of a call or of a message is nothing that is shown
        begun, parent = self._parent_of(sealed.entity_id, sealed.subagent_run_id)
        self._thinking.pop(parent, None)
        return [*begun, *self._turn.reasoning_end(sealed.encrypted_value, parent=parent)]

    # Tools

    def _called(self, called: shapes.Called) -> list[Event]:
        call = called.tool_call_id
        self._owners[call] = called.subagent_run_id
        self._names[call] = called.tool_call_name
        if not self._turn.is_open_call(call):
            self._arguments[call] = []
        begun, parent = self._parent(called.subagent_run_id)
        self._thinking.pop(parent, None)
        self._forget(called.subagent_run_id)
        return [*begun, *self._turn.tool_call(call, called.tool_call_name, parent=parent)]

    def _argument(self, piece: shapes.Arguments) -> list[Event]:
        if piece.tool_call_id in self._arguments:
            self._arguments[piece.tool_call_id].append(piece.delta)
        return []

    def _called_with(self, end: shapes.Arguments) -> list[Event]:
        """The arguments are complete; the result may be there already."""
        text = "".join(self._arguments.get(end.tool_call_id, ()))
        begun, parent = self._parent_of(end.tool_call_id, end.subagent_run_id)
        if not text:
            return begun
        return [*begun, ToolInput(id=end.tool_call_id, arguments=json_or_text(text), parent_tool_id=parent)]

    def _result(self, result: shapes.Result) -> list[Event]:
        call = result.tool_call_id
        begun, parent = self._parent_of(call, result.subagent_run_id)
        text = shapes.text_of(result.content)
        given = result.content if text is None else _unquoted(text)
        return [*begun, *self._turn.tool_result(call, given, name=self._names.get(call, ""), parent=parent)]

    # Subagents

    def _invoked(self, invoked: shapes.Invoked) -> list[Event]:
        if invoked.parent_tool_call_id is not None:
            self._parents[invoked.subagent_run_id] = invoked.parent_tool_call_id
            return []
        begun, above = self._parent(invoked.parent_subagent_run_id)
        self._parents[invoked.subagent_run_id] = invoked.subagent_run_id
        return [*begun, *self._turn.tool_call(invoked.subagent_run_id, invoked.name or "subagent", parent=above)]

    def _returned(self, returned: shapes.Returned) -> list[Event]:
        if not self._turn.is_open_call(returned.subagent_run_id):
            return []  # the call that started it has a result of its own
        return self._turn.tool_result(returned.subagent_run_id, returned.result)

    def _gave_up(self, returned: shapes.Returned) -> list[Event]:
        message = returned.message or "the subagent has failed"
        if self._turn.is_open_call(returned.subagent_run_id):
            return self._turn.tool_result(returned.subagent_run_id, message, is_error=True)
        return [Error(message=message, parent_tool_id=self._parents.get(returned.subagent_run_id))]

    # What it is at

    def _step(self, step: shapes.Step) -> list[Event]:
        return self._remark(step.subagent_run_id, step.step_name)

    def _activity(self, activity: shapes.Activity) -> list[Event]:
        return self._remark(activity.subagent_run_id, activity.activity_type)

    def _custom(self, custom: shapes.Custom) -> list[Event]:
        if custom.name == _LANGGRAPH_ASKS:
            asked = {"langgraph": {"raw": json_or_text(custom.value)}}
            self.questions = [shapes.Interrupt(id="", message=as_text(custom.value), metadata=asked)]
            return []
        words = custom.name if custom.value is None else f"{custom.name}: {status_text(custom.value)}"
        return self._remark(custom.subagent_run_id, words)

    def _remark(self, lane: str | None, words: str) -> list[Event]:
        begun, parent = self._parent(lane)
        return [*begun, Status(text=words[:_LONGEST_REMARK], parent_tool_id=parent)]

    # The run

    def _begun(self, run: shapes.Begun) -> list[Event]:
        """A run begins. One before it in the same stream is of the past, and so is how that ended."""
        self._run = run.run_id
        self._ending = None
        self.questions = []
        return []

    def _remembered(self, messages: shapes.Messages) -> list[Event]:
        self._snapshot = [message for message in messages.messages if message.subagent_run_id is None]
        return []

    def _unsaid(self) -> list[Event]:
        """What the conversation holds since the person spoke that was not streamed.

        What was streamed comes first, in the same order. Where it does not, it was heard otherwise, and that stands.
        """
        spoken = [index for index, message in enumerate(self._snapshot) if message.role == "user"]
        since = self._snapshot[spoken[-1] + 1 :] if spoken else []
        heard = "".join(self._said)
        place = 0
        events: list[Event] = []
        for index, message in enumerate(message for message in since if message.role == "assistant"):
            if heard.startswith(message.text, place):
                place += len(message.text)
            elif place == len(heard):
                events += self._turn.block_final(("snapshot", index), message.text)
            else:
                break
        return events

    def _finished(self, run: shapes.Finished) -> list[Event]:
        self._ending = run
        self.questions = run.interrupts or self.questions
        events = self._unsaid()
        for index, question in enumerate(self.questions):
            events += self._turn.block_final(("question", index), self._asked(question))
        return [*events, *_spent(run.tokens)]

    def _asked(self, question: shapes.Interrupt) -> str:
        """The question as people read it."""
        known = self._names.get(question.tool_call_id or "")
        if question.tools or (known and not question.words):
            return f"Waiting for approval: {', '.join(question.tools or [known or ''])}"
        return question.words or f"Waiting for {question.reason or 'an answer'}"

    def _failed(self, run: shapes.Failed) -> list[Event]:
        self._ending = run
        return _spent(run.tokens)

    _TABLE: ClassVar[dict[str, tuple[type, _Handler]]] = {
        "RUN_STARTED": (shapes.Begun, _begun),
        "RUN_FINISHED": (shapes.Finished, _finished),
        "RUN_ERROR": (shapes.Failed, _failed),
        "MESSAGES_SNAPSHOT": (shapes.Messages, _remembered),
        "TEXT_MESSAGE_START": (shapes.Opened, _opened),
        "TEXT_MESSAGE_CONTENT": (shapes.Piece, _piece),
        "TEXT_MESSAGE_END": (shapes.Ended, _ended),
        "REASONING_START": (shapes.Opened, _thought_opened),
        "REASONING_MESSAGE_START": (shapes.Opened, _thought_opened),
        "REASONING_MESSAGE_CONTENT": (shapes.Piece, _thought),
        "REASONING_END": (shapes.Ended, _thought_ended),
        "REASONING_ENCRYPTED_VALUE": (shapes.Sealed, _sealed),
        "THINKING_TEXT_MESSAGE_CONTENT": (shapes.Piece, _thought),  # as versions before 1 call it
        "THINKING_END": (shapes.Ended, _thought_ended),
        "TOOL_CALL_START": (shapes.Called, _called),
        "TOOL_CALL_ARGS": (shapes.Arguments, _argument),
        "TOOL_CALL_END": (shapes.Arguments, _called_with),
        "TOOL_CALL_RESULT": (shapes.Result, _result),
        "SUBAGENT_STARTED": (shapes.Invoked, _invoked),
        "SUBAGENT_FINISHED": (shapes.Returned, _returned),
        "SUBAGENT_ERROR": (shapes.Returned, _gave_up),
        "STEP_STARTED": (shapes.Step, _step),
        "ACTIVITY_SNAPSHOT": (shapes.Activity, _activity),
        "CUSTOM": (shapes.Custom, _custom),
    }
    # What the framework says beside the agent, what needs an application with a state of its own, and ends and
    # beginnings that say nothing.
    _SILENT: ClassVar[set[str]] = {
        *("RAW", "STATE_SNAPSHOT", "STATE_DELTA", "ACTIVITY_DELTA", "STEP_FINISHED", "REASONING_MESSAGE_END"),
        *("THINKING_START", "THINKING_TEXT_MESSAGE_START", "THINKING_TEXT_MESSAGE_END"),
    }


def _spent(models: list[shapes.Tokens]) -> list[Event]:
    """What the run has cost, all its models together; nothing where nobody counted."""
    if not models:
        return []
    asked, answered = sum(model.input_tokens for model in models), sum(model.output_tokens for model in models)
    return [Usage(input_tokens=asked, output_tokens=answered, scope="turn")]


def _unquoted(text: str) -> Any:
    """A result that is text, where a framework writes it as JSON: in quotes, or as ADK does, `{"result": …}`."""
    match json_or_text(text) if text.startswith(('"', "{")) else None:
        case str(value):
            return value
        case {"result": str(value), **rest} if not rest:
            return value
        case _:
            return text
