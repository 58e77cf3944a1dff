"""The turn grammar: which event may follow which, and the diagnostic for an event that may not.

    turn       =  turn_started  content*  terminal  late*
    terminal   =  turn_completed | turn_failed | turn_cancelled
    late       =  tool_output | tool_finished
    content    =  every other event, and the late ones too

A runtime may leave out the first and the terminal event: this module adds them. If the stream ends or raises without a
terminal event, it adds `turn_cancelled` if a stop was requested, else `turn_failed`. It adds no `tool_finished`: a
reader that shows tools treats open calls as closed at the terminal event.

An event that is out of order, or is no event at all, is refused. The diagnostic says what to change, the turn becomes
`turn_failed` with the diagnostic's code, the text before the event stays, and the stream is closed. If the event comes
after the terminal event, the turn has already ended: the event is only reported, and the stream is closed.

Text that no encoding accepts is repaired: two halves of a character are joined, other lone surrogates are replaced.

After the terminal event the stream is read until it ends, because a tool may answer late. A consumer that does not need
late answers stops reading at the terminal event, which closes the stream.
"""

from __future__ import annotations

import enum
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from tailrace.errors import ContractViolation, Diagnostic
from tailrace.events import (
    EVENT_CLASSES,
    Event,
    ReasoningDelta,
    TextDelta,
    ToolFinished,
    ToolOutput,
    TurnCancelled,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
    validate_event,
    without_surrogates,
)
from tailrace.surrogates import SurrogateJoiner, has_surrogates, replace_surrogates

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Hashable


class GrammarState(enum.Enum):
    """The states of a turn in the grammar."""

    NOT_STARTED = "not_started"
    RUNNING = "running"
    ENDED = "ended"


class EventKind(enum.Enum):
    """The role of an event in the grammar: it starts the turn, is content, may also come late, or ends the turn."""

    START = "start"
    CONTENT = "content"
    LATE = "late"
    TERMINAL = "terminal"


class Refusal(msgspec.Struct, frozen=True):
    """The reason why an event is refused, with advice for the author of the adapter."""

    code: str
    advice: str


_STARTED_AGAIN = Refusal(
    "turn_already_started",
    "the turn has already started. Send `turn_started` once, before all other events, or not at all.",
)
_AFTER_END = Refusal(
    "after_terminal",
    "the turn has ended. Send the terminal event last; only `tool_output` and `tool_finished` may follow it.",
)
_ENDED_AGAIN = Refusal(
    "second_terminal",
    "the turn has ended. End it with exactly one of `turn_completed`, `turn_failed` and `turn_cancelled`.",
)

# Each row is a state, each column a kind of event. The entry is the next state, or the reason why the event is refused.
# If a turn does not begin with `turn_started`, one is added before its first event.
GRAMMAR: dict[GrammarState, dict[EventKind, GrammarState | Refusal]] = {
    GrammarState.NOT_STARTED: {
        EventKind.START: GrammarState.RUNNING,
        EventKind.CONTENT: GrammarState.RUNNING,
        EventKind.LATE: GrammarState.RUNNING,
        EventKind.TERMINAL: GrammarState.ENDED,
    },
    GrammarState.RUNNING: {
        EventKind.START: _STARTED_AGAIN,
        EventKind.CONTENT: GrammarState.RUNNING,
        EventKind.LATE: GrammarState.RUNNING,
        EventKind.TERMINAL: GrammarState.ENDED,
    },
    GrammarState.ENDED: {
        EventKind.START: _AFTER_END,
        EventKind.CONTENT: _AFTER_END,
        EventKind.LATE: GrammarState.ENDED,
        EventKind.TERMINAL: _ENDED_AGAIN,
    },
}

ADAPTER_FAULTS = frozenset(
    {
        *("malformed_json", "unknown_type", "missing_field", "unknown_field", "wrong_type", "not_json", "not_an_event"),
        *("turn_already_started", "after_terminal", "second_terminal", "raised_late", "missing_terminal"),
    }
)
"""Codes of failures that the author of an adapter must fix. Their messages are not written for users."""

EVENT_KINDS: dict[type, EventKind] = dict.fromkeys(EVENT_CLASSES, EventKind.CONTENT) | {
    TurnStarted: EventKind.START,
    ToolOutput: EventKind.LATE,
    ToolFinished: EventKind.LATE,
    TurnCompleted: EventKind.TERMINAL,
    TurnFailed: EventKind.TERMINAL,
    TurnCancelled: EventKind.TERMINAL,
}


async def checked(
    events: AsyncIterable[Event],
    *,
    turn_id: str,
    cancelled: Callable[[], bool] = lambda: False,
    on_diagnostic: Callable[[Diagnostic], None] | None = None,
) -> AsyncGenerator[Event, None]:
    """Apply the grammar to a stream: the result has `turn_started` first and exactly one terminal event.

    `cancelled` says whether a stop was requested. If the stream raises an exception, the result ends with
    `turn_failed`; nothing is raised, unless the consumer itself closes the result or is cancelled. The stream is always
    closed at the end.
    """
    turn = _Turn(turn_id, cancelled, on_diagnostic)
    source: AsyncIterator[Event] | None = None
    index = 0
    running = False
    try:
        try:
            source = aiter(events)
            async for event in source:
                # Nearly every event is a piece of the answer: it takes this fast path. All others are checked in full.
                if (
                    running
                    and type(event) is TextDelta
                    and type(event.text) is str
                    and event.parent_tool_id is None
                    and (event.text.isascii() or not has_surrogates(event.text))
                    and not turn.repair.is_waiting
                ):
                    yield event
                else:
                    for accepted in turn.accept(event, index):
                        yield accepted
                    if turn.refused:
                        break
                    running = turn.state is GrammarState.RUNNING
                index += 1
        except Exception as error:  # noqa: BLE001  # the code of the runtime failed, so the turn fails
            turn.fail(error, index)
        for missing in turn.end():
            yield missing
    finally:
        await turn.close(source, index)


class _Turn:
    """Checks the events of one turn against the grammar, and adds the events that the runtime left out."""

    def __init__(
        self,
        turn_id: str,
        cancelled: Callable[[], bool],
        on_diagnostic: Callable[[Diagnostic], None] | None,
    ) -> None:
        self.state = GrammarState.NOT_STARTED
        self.refused = False
        self.repair = _TextRepair()
        self._turn_id = turn_id
        self._cancelled = cancelled
        self._on_diagnostic = on_diagnostic
        self._failure = TurnFailed(
            code="missing_terminal",
            message="the agent stopped before its turn was complete: its stream ended without `turn_completed`.",
        )

    def accept(self, event: Event, index: int) -> list[Event]:
        """Take one event and return the events to yield. If the grammar refuses it, set `refused` and return []."""
        try:
            after = _state_after(self.state, event)
        except ContractViolation as violation:
            self._refuse(msgspec.structs.replace(violation.diagnostic, index=index))
            return []
        before, self.state = self.state, after
        if isinstance(event, TurnStarted) and not event.turn_id:
            event = msgspec.structs.replace(event, turn_id=self._turn_id)
        events = self.repair.feed(event)
        if before is GrammarState.NOT_STARTED and not isinstance(event, TurnStarted):
            return [TurnStarted(turn_id=self._turn_id), *events]
        return events

    def fail(self, error: Exception, index: int) -> None:
        """Handle an exception of the stream: the turn fails. If the turn has ended, the exception is only reported."""
        reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        if self.state is GrammarState.ENDED:
            self._report(
                Diagnostic(
                    code="raised_late",
                    index=index,
                    message=f"the stream raised after its terminal event: {reason}. "
                    "Users do not see this. Finish the work, or catch the error, before the terminal event.",
                )
            )
        else:
            self._failure = TurnFailed(code="runtime_raised", message=replace_surrogates(reason))

    def end(self) -> list[Event]:
        """The events to yield after the last one of the stream, so that the turn is complete."""
        missing: list[Event] = []
        if self.state is GrammarState.NOT_STARTED:
            missing.append(TurnStarted(turn_id=self._turn_id))
        missing += self.repair.end()
        if self.state is not GrammarState.ENDED:
            missing.append(TurnCancelled() if self._cancelled() and not self.refused else self._failure)
            self.state = GrammarState.ENDED
        return missing

    async def close(self, source: AsyncIterator[Event] | None, index: int) -> None:
        """Close the stream of the runtime, if it has a method `aclose`."""
        aclose = getattr(source, "aclose", None)
        if aclose is None:
            return
        try:
            await aclose()
        except Exception as error:  # noqa: BLE001  # code of the runtime; the turn has ended, so it is only reported
            self.state = GrammarState.ENDED
            self.fail(error, index)

    def _refuse(self, diagnostic: Diagnostic) -> None:
        self.refused = True
        self._failure = TurnFailed(code=diagnostic.code, message=replace_surrogates(diagnostic.message))
        self._report(diagnostic)

    def _report(self, diagnostic: Diagnostic) -> None:
        if self._on_diagnostic is not None:
            # An error in the callback must not end the turn.
            with suppress(Exception):
                self._on_diagnostic(diagnostic)


class _TextRepair:
    """Joins characters that a runtime cut in half between two events; replaces all other lone surrogates by U+FFFD.

    No encoding accepts a lone surrogate, so an answer with one could not be recorded or sent.
    """

    def __init__(self) -> None:
        self._joiner = SurrogateJoiner()
        self._last: dict[Hashable, TextDelta | ReasoningDelta | ToolOutput] = {}

    @property
    def is_waiting(self) -> bool:
        return self._joiner.is_waiting

    def feed(self, event: Event) -> list[Event]:
        """The event with valid text. Half a character at its end waits for the next event of the same text."""
        match event:
            case TextDelta(text=piece) | ReasoningDelta(text=piece):
                key: Hashable = (type(event), event.parent_tool_id)
            case ToolOutput(data=piece):
                key = (ToolOutput, event.parent_tool_id, event.id, event.stream)
            case _:
                return [*self.end(), without_surrogates(event)]
        if not self.is_waiting and not has_surrogates(piece):
            return [event]
        joined = self._joiner.join(key, piece)
        self._last[key] = event
        if joined == piece:
            return [event]
        return [_with_text(event, joined)] if joined else []

    def end(self) -> list[Event]:
        """Emit a replacement for each half character that still waits for its other half."""
        return [_with_text(self._last[key], "\ufffd") for key in self._joiner.end()]


def _with_text(event: TextDelta | ReasoningDelta | ToolOutput, text: str) -> Event:
    if isinstance(event, ToolOutput):
        return msgspec.structs.replace(event, data=text)
    return msgspec.structs.replace(event, text=text)


def _state_after(state: GrammarState, event: Event) -> GrammarState:
    """The state after the event. Raises `ContractViolation` if the event is malformed or out of order."""
    kind = EVENT_KINDS.get(type(event))
    if kind is None:
        raise ContractViolation(_not_an_event(event))
    validate_event(event)
    after = GRAMMAR[state][kind]
    if isinstance(after, Refusal):
        tag = str(type(event).__struct_config__.tag)
        message = f"`{tag}` is out of order: {after.advice}"
        raise ContractViolation(Diagnostic(code=after.code, event_type=tag, message=message))
    return after


def _not_an_event(thing: object) -> Diagnostic:
    advice = "Wrap text in `TextDelta(text=...)`." if isinstance(thing, str) else "Decode JSON with `decode_event`."
    return Diagnostic(
        code="not_an_event",
        message=f"a {type(thing).__name__} is no event. Yield the classes of `tailrace.events`. {advice}",
    )
