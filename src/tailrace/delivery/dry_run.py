"""A turn performed in no time, for nobody: what a channel would be asked for, and what people would see, when.

Events with their times go through a projector and its pace to a platform that takes everything. It is how settings are
chosen, how turns are compared, and how we look at our own work; nothing here can reach anybody.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Protocol, assert_never

import msgspec

from tailrace.delivery.rate_limiter import RateLimiter
from tailrace.operations import (
    AppendStream,
    Body,
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
    Task,
    Typing,
)
from tailrace.projector import Idle, Projector, ProjectorSettings, WaitUntil

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import TypeAlias

    from tailrace.capabilities import Capabilities
    from tailrace.events import Event
    from tailrace.operations import Outcome, Target
    from tailrace.projector import NextAction

    MakeProjector: TypeAlias = Callable[[Target, Capabilities, ProjectorSettings], "ProjectorLike"]
    """What makes the projector of one turn in one place."""

_ANSWER_S = 0.1
"""How long a platform takes to answer, where nothing else is said."""


class VisibleMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message as people see it at a moment."""

    message_id: str
    body: Body
    media: str = ""
    is_processing: bool = False
    is_stream: bool = False
    edits: int = 0
    tasks: tuple[Task, ...] = ()


class PerformedCall(msgspec.Struct, frozen=True, kw_only=True):
    """One call, and what the chat shows after it. `is_durable`: whether the call is written down before and after.

    `message_id` names the message that it began or changed, and is empty where it was about none.
    """

    at: float
    operation: Operation
    is_durable: bool
    message_id: str
    chat: tuple[VisibleMessage, ...]
    draft: Body | None = None
    is_typing: bool = False


class ProjectorLike(Protocol):
    """What a rehearsal asks of a projector: ours, an older or a newer one, or another altogether."""

    def feed(self, event: Event, now: float) -> None:
        """Take in what the agent said or did."""
        ...

    def close(self, now: float) -> None:
        """No more events come."""
        ...

    def receipt(self, operation: Operation, outcome: Outcome, now: float) -> None:
        """Take in what came of an operation that was asked for."""
        ...

    def next(self, now: float) -> NextAction:
        """What the channel shall be asked for now; or that there is nothing, or nothing before a certain time."""
        ...

    def is_durable(self, operation: Operation) -> bool:
        """Whether what was asked for is to stay."""
        ...


def dry_run(
    events: Iterable[tuple[float, Event]],
    target: Target,
    capabilities: Capabilities,
    settings: ProjectorSettings | None = None,
    *,
    make_projector: MakeProjector = Projector,
) -> Iterator[PerformedCall]:
    """Perform a turn whose events come at these times, in order; gives each call with what is seen after it."""
    projector = make_projector(target, capabilities, settings or ProjectorSettings())
    return _Rehearsal(events, target, capabilities, projector).moments()


class _Rehearsal:
    """The clock, the projector, and the calls that are not yet answered."""

    def __init__(
        self,
        events: Iterable[tuple[float, Event]],
        target: Target,
        capabilities: Capabilities,
        projector: ProjectorLike,
    ) -> None:
        self._events = deque(events)
        self._projector = projector
        self._pace = RateLimiter(capabilities)
        self._place, self._is_group = target.chat, target.group
        self._chat = _Chat()
        self._answers: deque[tuple[float, Operation, Receipt]] = deque()
        self._now = 0.0
        self._is_closed = False

    def moments(self) -> Iterator[PerformedCall]:
        while True:
            step = self._projector.next(self._now)
            if not isinstance(step, WaitUntil | Idle):
                yield self._perform(step)
                continue
            due = [step.at] if isinstance(step, WaitUntil) else []
            if self._events:
                due.append(self._events[0][0])
            if self._answers:
                due.append(self._answers[0][0])
            if not due and self._is_closed:
                return
            self._now = max(self._now, min(due, default=self._now))
            self._let_happen()

    def _let_happen(self) -> None:
        """Everything that is due by now."""
        while self._answers and self._answers[0][0] <= self._now:
            _, operation, receipt = self._answers.popleft()
            self._projector.receipt(operation, Delivered(receipt), self._now)
        while self._events and self._events[0][0] <= self._now:
            _, event = self._events.popleft()
            self._projector.feed(event, self._now)
        if not self._events and not self._is_closed:
            self._projector.close(self._now)
            self._is_closed = True

    def _perform(self, operation: Operation) -> PerformedCall:
        at = self._answers[-1][0] if self._answers else self._now
        if not isinstance(operation, Typing):
            at = max(at, self._pace.expected(self._place, self._now))
            self._pace.spend(self._place, at, group=self._is_group)
        receipt = self._chat.take(operation)
        self._answers.append((at + _ANSWER_S, operation, receipt))
        return PerformedCall(
            at=at,
            operation=operation,
            is_durable=self._projector.is_durable(operation),
            message_id=receipt.message_id,
            chat=self._chat.seen,
            draft=self._chat.draft,
            is_typing=isinstance(operation, Typing),
        )


class _Chat:
    """What stands in a chat whose platform takes everything."""

    def __init__(self) -> None:
        self._messages: dict[str, VisibleMessage] = {}
        self._count = 0
        self.draft: Body | None = None

    @property
    def seen(self) -> tuple[VisibleMessage, ...]:
        """The messages that are there, in order."""
        return tuple(self._messages.values())

    def take(self, operation: Operation) -> Receipt:
        """Do what is asked."""
        match operation:
            case Post() | PostMedia() | OpenStream():
                return self._begin(operation)
            case Edit():
                message_id = operation.message_id
                self._change(message_id, body=operation.body, edits=self._messages[message_id].edits + 1)
            case AppendStream():
                message_id = operation.stream_id
                self._append(operation)
            case CloseStream():
                message_id = operation.stream_id
                tasks = _renewed(self._messages[message_id].tasks, operation.tasks)
                self._change(message_id, body=operation.body, is_stream=False, tasks=tasks)
            case Delete():
                message_id = operation.message_id
                del self._messages[message_id]
            case Draft():
                message_id = ""
                self.draft = operation.body
            case Typing():
                message_id = ""
            case _:
                assert_never(operation)
        return Receipt(message_id=message_id)

    def _begin(self, operation: Post | PostMedia | OpenStream) -> Receipt:
        self._count += 1
        message_id = str(self._count)
        self.draft = None
        if isinstance(operation, PostMedia):
            media = operation.url or operation.path or ""
            seen = VisibleMessage(message_id=message_id, body=Body(text=operation.caption), media=media)
        else:
            is_processing = isinstance(operation, Post) and operation.is_processing
            is_stream = isinstance(operation, OpenStream)
            seen = VisibleMessage(
                message_id=message_id, body=operation.body, is_processing=is_processing, is_stream=is_stream
            )
        self._messages[message_id] = seen
        return Receipt(message_id=message_id)

    def _append(self, operation: AppendStream) -> None:
        before = self._messages[operation.stream_id]
        markdown = None if before.body.markdown is None else before.body.markdown + operation.text
        body = Body(text=before.body.text + operation.text, markdown=markdown)
        self._change(operation.stream_id, body=body, tasks=_renewed(before.tasks, operation.tasks))

    def _change(self, message_id: str, **changes: object) -> None:
        self._messages[message_id] = msgspec.structs.replace(self._messages[message_id], **changes)


def _renewed(before: tuple[Task, ...], news: tuple[Task, ...]) -> tuple[Task, ...]:
    known = {task.id: task for task in before} | {task.id: task for task in news}
    return tuple(known.values())
