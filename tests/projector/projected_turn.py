"""One turn of a projector under test, whose operations succeed at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from tailrace.capabilities import Capabilities, EditRules, Unkeyed
from tailrace.events import TextDelta, TurnCancelled, TurnCompleted, TurnFailed
from tailrace.operations import (
    AppendStream,
    CloseStream,
    Delete,
    Delivered,
    Draft,
    Edit,
    OpenStream,
    Operation,
    Post,
    PostMedia,
    Receipt,
    Target,
    Typing,
)
from tailrace.projector import IDLE, Idle, Projector, ProjectorSettings, WaitUntil

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tailrace.events import Event
    from tailrace.operations import Outcome
    from tailrace.projector import NextAction
    from tailrace.projector.message import TurnMessage

PRIVATE = Target(channel="c", chat="1")
PLAIN = Capabilities(idempotency=Unkeyed(), edits=EditRules(every_s=1.0), deletes=True, presentation="live")


Step: TypeAlias = tuple[Any, ...]
"""What happens, and the operations then, each as its kind and text. A text or an event, or a list of them, is fed; a
number is time that passes; a terminal event ends the turn."""


class Turn:
    """One turn. Its clock stands still unless a test moves it; operations succeed at once."""

    def __init__(
        self,
        limits: Capabilities = PLAIN,
        target: Target = PRIVATE,
        *,
        earlier: Iterable[TurnMessage] = (),
        first_id: int = 1,
        **settings: Any,
    ) -> None:
        self.projector = Projector(target, limits, ProjectorSettings(**settings), earlier=earlier)
        self.now = 100.0
        self._next_id = first_id

    def feed(self, *events: Event | str) -> None:
        """Feed events; a text is a delta of the answer."""
        for event in events:
            self.projector.feed(TextDelta(text=event) if isinstance(event, str) else event, self.now)

    def say(self, *events: Event | str) -> list[Operation]:
        """Feed events and return the operations."""
        self.feed(*events)
        return self.ask()

    def after(self, seconds: float) -> list[Operation]:
        """Let time pass and return the operations."""
        self.now += seconds
        return self.ask()

    def end(self, *events: Event | str) -> list[Operation]:
        """Feed the last events and return all operations that are left."""
        operations = self.say(*events)
        self.projector.close(self.now)
        operations += self.ask()
        assert self.projector.is_finished
        assert self.projector.next(self.now + 1e6) is IDLE
        return operations

    def play(self, *steps: Step) -> None:
        """Play the steps and compare the operations after each one."""
        for what, *expected in steps:
            events = what if isinstance(what, list) else [what]
            if isinstance(what, int | float):
                operations = self.after(what)
            elif isinstance(events[-1], TurnCompleted | TurnFailed | TurnCancelled):
                operations = self.end(*events)
            else:
                operations = self.say(*events)
            assert shown(operations) == expected, f"after {what!r}"

    def ask(self) -> list[Operation]:
        """All operations that are due now, without typing."""
        operations: list[Operation] = []
        for _ in range(100):
            action = self.next()
            if isinstance(action, Idle) or (isinstance(action, WaitUntil) and action.at > self.now):
                return operations
            if not isinstance(action, WaitUntil):
                operations.append(action)
                self.answer(action)
        raise AssertionError("it asks for ever")

    def next(self) -> NextAction:
        """The next action that is not typing, without an outcome."""
        while isinstance(action := self.projector.next(self.now), Typing):
            self.answer(action)
        return action

    def answer(self, operation: Operation, outcome: Outcome | None = None) -> None:
        """Give the outcome of an operation, by default that it arrived."""
        if outcome is None:
            outcome = Delivered(Receipt(message_id=self._id_of(operation)))
        self.projector.receipt(operation, outcome, self.now)

    def say_and_answer(self, text: str, kind: type[Operation], outcome: Outcome | None = None) -> None:
        """Feed text; the next operation is of this kind, and gets this outcome."""
        self.feed(text)
        action = self.next()
        assert isinstance(action, kind)
        self.answer(action, outcome)

    def _id_of(self, operation: Operation) -> str:
        if isinstance(operation, Edit | Delete):
            return operation.message_id
        if isinstance(operation, AppendStream | CloseStream):
            return operation.stream_id
        if isinstance(operation, Post | PostMedia | OpenStream):
            self._next_id += 1
            return str(self._next_id - 1)
        return ""


def shown(operations: Iterable[Operation]) -> list[str]:
    """The kinds and texts of operations."""
    return [f"{type(operation).__name__} {text_of(operation)}".rstrip() for operation in operations]


def text_of(operation: Operation) -> str:
    match operation:
        case Post() | Edit() | OpenStream() | CloseStream() | Draft():
            return operation.body.text
        case AppendStream():
            return operation.text
        case PostMedia():
            return operation.caption
        case _:
            return ""
