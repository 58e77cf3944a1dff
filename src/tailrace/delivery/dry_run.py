"""Performs a turn without a platform and without waiting: shows which calls a channel gets, and what users see.

Events with their times go through a projector and the rate limits to a simulated chat that accepts everything. This
helps to choose settings, to compare turns, and in tests. Nothing here can send a message.
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
    """Makes the projector of one turn."""

_ANSWER_S = 0.1
"""How long the platform takes to answer a call."""


class VisibleMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message as users see it after a call."""

    message_id: str
    body: Body
    media: str = ""
    is_processing: bool = False
    is_stream: bool = False
    edits: int = 0
    tasks: tuple[Task, ...] = ()


class PerformedCall(msgspec.Struct, frozen=True, kw_only=True):
    """One call at the time `at`, and the chat after it. `is_durable`: the ledger would record the operation.

    `message_id` is the message that the call created or changed, or "".
    """

    at: float
    operation: Operation
    is_durable: bool
    message_id: str
    chat: tuple[VisibleMessage, ...]
    draft: Body | None = None
    is_typing: bool = False


class ProjectorLike(Protocol):
    """The methods that `dry_run` needs of a projector. Any object that has them can take the place of `Projector`."""

    def feed(self, event: Event, now: float) -> None:
        """Take an event of the turn, which came at the time `now`."""
        ...

    def close(self, now: float) -> None:
        """Note that the events have ended."""
        ...

    def receipt(self, operation: Operation, outcome: Outcome, now: float) -> None:
        """Take the outcome of an operation that `next` has returned."""
        ...

    def next(self, now: float) -> NextAction:
        """The operation to perform now, the time until which to wait, or `Idle`."""
        ...

    def is_durable(self, operation: Operation) -> bool:
        """Whether the operation must be recorded in the ledger."""
        ...


def dry_run(
    events: Iterable[tuple[float, Event]],
    target: Target,
    capabilities: Capabilities,
    settings: ProjectorSettings | None = None,
    *,
    make_projector: MakeProjector = Projector,
) -> Iterator[PerformedCall]:
    """Perform a turn from its events, each with its time, in order. Yields each call with the chat after it."""
    projector = make_projector(target, capabilities, settings or ProjectorSettings())
    return _DryRun(events, target, capabilities, projector).calls()


class _DryRun:
    """The simulated time, the projector, and the calls that were not answered yet."""

    def __init__(
        self,
        events: Iterable[tuple[float, Event]],
        target: Target,
        capabilities: Capabilities,
        projector: ProjectorLike,
    ) -> None:
        self._events = deque(events)
        self._projector = projector
        self._limiter = RateLimiter(capabilities)
        self._target = target
        self._chat = _Chat()
        self._answers: deque[tuple[float, Operation, Receipt]] = deque()
        self._now = 0.0
        self._is_closed = False

    def calls(self) -> Iterator[PerformedCall]:
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
            self._process_due()

    def _process_due(self) -> None:
        """Process the answers and events up to the current time."""
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
            at = max(at, self._limiter.expected_at(self._target.chat, self._now))
            self._limiter.count_call(self._target.chat, at, group=self._target.group)
        receipt = self._chat.perform(operation)
        self._answers.append((at + _ANSWER_S, operation, receipt))
        return PerformedCall(
            at=at,
            operation=operation,
            is_durable=self._projector.is_durable(operation),
            message_id=receipt.message_id,
            chat=self._chat.messages,
            draft=self._chat.draft,
            is_typing=isinstance(operation, Typing),
        )


class _Chat:
    """A chat that accepts everything."""

    def __init__(self) -> None:
        self._messages: dict[str, VisibleMessage] = {}
        self._count = 0
        self.draft: Body | None = None

    @property
    def messages(self) -> tuple[VisibleMessage, ...]:
        """The messages in order."""
        return tuple(self._messages.values())

    def perform(self, operation: Operation) -> Receipt:
        """Perform an operation."""
        match operation:
            case Post() | PostMedia() | OpenStream():
                return self._create(operation)
            case Edit():
                message_id = operation.message_id
                self._change(message_id, body=operation.body, edits=self._messages[message_id].edits + 1)
            case AppendStream():
                message_id = operation.stream_id
                self._append(operation)
            case CloseStream():
                message_id = operation.stream_id
                tasks = _updated_tasks(self._messages[message_id].tasks, operation.tasks)
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

    def _create(self, operation: Post | PostMedia | OpenStream) -> Receipt:
        self._count += 1
        message_id = str(self._count)
        self.draft = None
        if isinstance(operation, PostMedia):
            media = operation.url or operation.path or ""
            body = Body(text=operation.caption, entities=operation.entities)
            message = VisibleMessage(message_id=message_id, body=body, media=media)
        else:
            is_processing = isinstance(operation, Post) and operation.is_processing
            is_stream = isinstance(operation, OpenStream)
            message = VisibleMessage(
                message_id=message_id, body=operation.body, is_processing=is_processing, is_stream=is_stream
            )
        self._messages[message_id] = message
        return Receipt(message_id=message_id)

    def _append(self, operation: AppendStream) -> None:
        before = self._messages[operation.stream_id]
        markdown = None if before.body.markdown is None else before.body.markdown + operation.text
        body = Body(text=before.body.text + operation.text, markdown=markdown)
        self._change(operation.stream_id, body=body, tasks=_updated_tasks(before.tasks, operation.tasks))

    def _change(self, message_id: str, **changes: object) -> None:
        self._messages[message_id] = msgspec.structs.replace(self._messages[message_id], **changes)


def _updated_tasks(before: tuple[Task, ...], changed: tuple[Task, ...]) -> tuple[Task, ...]:
    known = {task.id: task for task in before} | {task.id: task for task in changed}
    return tuple(known.values())
