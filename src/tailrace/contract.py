"""The turn grammar: which event may follow which, and what an adapter's author is told when one may not.

A turn is a sentence of events:

    turn       =  turn_started  said*  terminal  late*
    terminal   =  turn_completed | turn_failed | turn_cancelled
    late       =  tool_output | tool_finished
    said       =  every other event, and the late ones too

A runtime need not write all of it. `turn_started` is supplied where it is left out. A stream that ends or
raises without a terminal gets one: `turn_cancelled` if somebody asked the turn to stop, else `turn_failed`.
No other event is made up: whoever shows tools takes the open ones as closed at the terminal.

What may not stand where it stands, or is no event at all, is refused: the diagnostic says what to mend, the
turn becomes `turn_failed` with the diagnostic's code, what was said before stands, and the stream is closed.
Once the turn is over there is nothing left to fail; the event is reported, and the stream is closed.

Past the terminal the stream is read on, because a tool may answer late, until it ends or says what it may
not. A consumer to whom late answers mean nothing leaves at the terminal; leaving closes the stream.
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
    TextDelta,
    ToolFinished,
    ToolOutput,
    TurnCancelled,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
    validate_event,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable


class State(enum.Enum):
    """Where a turn is."""

    UNBEGUN = "unbegun"
    RUNNING = "running"
    OVER = "over"


class Kind(enum.Enum):
    """What an event is to the grammar."""

    START = "start"
    SAID = "said"
    LATE = "late"
    TERMINAL = "terminal"


class Refusal(msgspec.Struct, frozen=True):
    """Why an event may not stand where it stands, and what its author can do about it."""

    code: str
    advice: str


_STARTED_AGAIN = Refusal(
    "turn_already_started",
    "the turn has begun. Send `turn_started` once, before everything else, or leave it out.",
)
_AFTER_END = Refusal(
    "after_terminal",
    "the turn is over. Send the terminal event last; only `tool_output` and `tool_finished` may follow it.",
)
_ENDED_AGAIN = Refusal(
    "second_terminal",
    "the turn is over. End it with exactly one of `turn_completed`, `turn_failed` and `turn_cancelled`.",
)

# A row per state, a column per kind of event: the state after it, or why it is refused. A turn that has not
# begun and gets anything but its start is begun first, by a `turn_started` of ours.
GRAMMAR: dict[State, dict[Kind, State | Refusal]] = {
    State.UNBEGUN: {
        Kind.START: State.RUNNING,
        Kind.SAID: State.RUNNING,
        Kind.LATE: State.RUNNING,
        Kind.TERMINAL: State.OVER,
    },
    State.RUNNING: {
        Kind.START: _STARTED_AGAIN,
        Kind.SAID: State.RUNNING,
        Kind.LATE: State.RUNNING,
        Kind.TERMINAL: State.OVER,
    },
    State.OVER: {
        Kind.START: _AFTER_END,
        Kind.SAID: _AFTER_END,
        Kind.LATE: State.OVER,
        Kind.TERMINAL: _ENDED_AGAIN,
    },
}

KINDS: dict[type, Kind] = dict.fromkeys(EVENT_CLASSES, Kind.SAID) | {
    TurnStarted: Kind.START,
    ToolOutput: Kind.LATE,
    ToolFinished: Kind.LATE,
    TurnCompleted: Kind.TERMINAL,
    TurnFailed: Kind.TERMINAL,
    TurnCancelled: Kind.TERMINAL,
}


async def checked(
    events: AsyncIterable[Event],
    *,
    turn_id: str,
    cancelled: Callable[[], bool] = lambda: False,
    on_diagnostic: Callable[[Diagnostic], None] | None = None,
) -> AsyncGenerator[Event, None]:
    """The stream as the grammar has it: `turn_started` first and exactly one terminal, whatever it does.

    `cancelled` tells whether somebody asked the turn to stop. What the stream raises becomes the turn's
    failure; only the consumer's own leaving or cancellation passes through. The stream is closed at the end.
    """
    turn = _Turn(turn_id, cancelled, on_diagnostic)
    source: AsyncIterator[Event] | None = None
    index = 0
    running = False
    try:
        try:
            source = aiter(events)
            async for event in source:
                # Nearly every event is a piece of the answer; all others are looked at in full.
                if running and type(event) is TextDelta and type(event.text) is str and event.parent_tool_id is None:
                    yield event
                else:
                    for said in turn.judge(event, index):
                        yield said
                    if turn.refused:
                        break
                    running = turn.state is State.RUNNING
                index += 1
        except Exception as error:  # noqa: BLE001  # the runtime's own code, whose failure is the turn's
            turn.fail(error, index)
        for said in turn.end():
            yield said
    finally:
        await turn.close(source, index)


class _Turn:
    """Where one turn is in the grammar, and what it still owes its consumer."""

    def __init__(
        self,
        turn_id: str,
        cancelled: Callable[[], bool],
        on_diagnostic: Callable[[Diagnostic], None] | None,
    ) -> None:
        self.state = State.UNBEGUN
        self.refused = False
        self._turn_id = turn_id
        self._cancelled = cancelled
        self._on_diagnostic = on_diagnostic
        self._failure = TurnFailed(
            code="missing_terminal",
            message="the agent stopped before its turn was over: its stream ended without `turn_completed`.",
        )

    def judge(self, event: Event, index: int) -> list[Event]:
        """Move on by one event; returns what to yield for it, and sets `refused` if that is nothing."""
        try:
            after = _state_after(self.state, event)
        except ContractViolation as violation:
            self._refuse(msgspec.structs.replace(violation.diagnostic, index=index))
            return []
        begun, self.state = self.state, after
        if begun is not State.UNBEGUN:
            return [event]
        if not isinstance(event, TurnStarted):
            return [TurnStarted(turn_id=self._turn_id), event]
        return [event if event.turn_id else msgspec.structs.replace(event, turn_id=self._turn_id)]

    def fail(self, error: Exception, index: int) -> None:
        """The stream raised: the turn fails for it, or it is too late for that and only reported."""
        said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        if self.state is State.OVER:
            self._report(
                Diagnostic(
                    code="raised_late",
                    index=index,
                    message=f"the stream raised after its turn was over: {said}. "
                    "Nobody is told but you: finish the work, or catch this, before the terminal event.",
                )
            )
        else:
            self._failure = TurnFailed(code="runtime_raised", message=said)

    def end(self) -> list[Event]:
        """What the consumer has not been given when the stream is through."""
        owed: list[Event] = []
        if self.state is State.UNBEGUN:
            owed.append(TurnStarted(turn_id=self._turn_id))
        if self.state is not State.OVER:
            owed.append(TurnCancelled() if self._cancelled() and not self.refused else self._failure)
            self.state = State.OVER
        return owed

    async def close(self, source: AsyncIterator[Event] | None, index: int) -> None:
        """Close the stream if it can be closed."""
        aclose = getattr(source, "aclose", None)
        if aclose is None:
            return
        try:
            await aclose()
        except Exception as error:  # noqa: BLE001  # the runtime's own code; the turn is over, so it is reported
            self.state = State.OVER
            self.fail(error, index)

    def _refuse(self, diagnostic: Diagnostic) -> None:
        self.refused = True
        self._failure = TurnFailed(code=diagnostic.code, message=diagnostic.message)
        self._report(diagnostic)

    def _report(self, diagnostic: Diagnostic) -> None:
        if self._on_diagnostic is not None:
            # Whoever listens may fail on their own account; the turn is not theirs to end.
            with suppress(Exception):
                self._on_diagnostic(diagnostic)


def _state_after(state: State, event: Event) -> State:
    """Where the turn is after the event; raises `ContractViolation` if it is malformed or out of place."""
    kind = KINDS.get(type(event))
    if kind is None:
        raise ContractViolation(_not_an_event(event))
    validate_event(event)
    after = GRAMMAR[state][kind]
    if isinstance(after, Refusal):
        tag = str(type(event).__struct_config__.tag)
        message = f"`{tag}` is out of place: {after.advice}"
        raise ContractViolation(Diagnostic(code=after.code, event_type=tag, message=message))
    return after


def _not_an_event(thing: object) -> Diagnostic:
    advice = "Wrap text in `TextDelta(text=...)`." if isinstance(thing, str) else "Decode JSON with `decode_event`."
    return Diagnostic(
        code="not_an_event",
        message=f"a {type(thing).__name__} is no event. Yield the classes of `tailrace.events`. {advice}",
    )
