"""Interim operations of one conversation: edits of a live message, drafts, text for open streams, typing.

An interim operation may be dropped, because the next delivery contains all its text. So all pending ones are dropped as
soon as a delivery is due: an interim operation must never overtake a delivery or delay it. The caller gets a future
with the outcome, never with an exception, and need not wait for it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeAlias

from tailrace.delivery.call import perform
from tailrace.delivery.rate_limiter import urgency_of
from tailrace.operations import Ambiguous, AppendStream, Draft, Edit, Interim, NotNow, Outcome, Typing

if TYPE_CHECKING:
    from tailrace.delivery.pace import PacedChannel
    from tailrace.delivery.rate_limiter import PendingCall

_DEADLINE_S = 5.0
_NOT_SHOWN = NotNow("a durable operation came first", retry_after=0.0)

Shown: TypeAlias = "asyncio.Future[Outcome]"
_Subject: TypeAlias = tuple[type, str]


def not_shown() -> Shown:
    """A future that already has its outcome: the operation is not shown (`NotNow`)."""
    shown: Shown = asyncio.get_running_loop().create_future()
    shown.set_result(_NOT_SHOWN)
    return shown


class PreviewSlot:
    """The pending interim operations of one conversation. The most urgent is shown first; among equals, the oldest.

    A newer edit, draft or typing replaces a pending one of the same message. A text for a stream is dropped while the
    one before is pending. The projector never sends such a text, because it waits for each outcome.
    """

    def __init__(self) -> None:
        self._pending: dict[_Subject, tuple[Interim, Shown]] = {}
        self._waiting: tuple[PacedChannel, PendingCall] | None = None

    def __bool__(self) -> bool:
        return bool(self._pending)

    def put(self, operation: Interim) -> Shown:
        """Show the operation as soon as the rate limit allows it. The future gets its outcome."""
        subject = _subject(operation)
        if (before := self._pending.get(subject)) is not None:
            if isinstance(operation, AppendStream):
                return not_shown()
            _resolve(before[1], _NOT_SHOWN)
        shown: Shown = asyncio.get_running_loop().create_future()
        self._pending[subject] = operation, shown
        if self._waiting is not None and urgency_of(operation) < self._waiting[1].urgency:
            self._stop_waiting()
        return shown

    def clear(self) -> None:
        """Drop all operations, because a delivery is due."""
        for _operation, shown in self._pending.values():
            _resolve(shown, _NOT_SHOWN)
        self._pending.clear()
        self._stop_waiting()

    async def show(self, channels: dict[str, PacedChannel]) -> None:
        """Wait for the rate limit, then show the most urgent operation.

        Does nothing if that was dropped during the wait.
        """
        subject, (operation, _shown) = min(self._pending.items(), key=lambda item: urgency_of(item[1][0]))
        channel = channels.get(operation.target.channel)
        if channel is None or not channel.is_answering:
            self.clear()
            return
        if not await self._wait_to_call(channel, operation) or subject not in self._pending:
            return
        # The operation is taken after the wait, so that the latest one is shown.
        operation, shown = self._pending.pop(subject)
        outcome: Outcome = Ambiguous("the call was cancelled")
        try:
            outcome = await _perform(channel, operation)
        finally:
            _resolve(shown, outcome)

    async def _wait_to_call(self, channel: PacedChannel, operation: Interim) -> bool:
        target, urgency = operation.target, urgency_of(operation)
        if channel.queue.try_call(target.chat, urgency, group=channel.is_group(target)):
            return True
        call = channel.queue.enqueue(target.chat, urgency, group=channel.is_group(target))
        self._waiting = channel, call
        try:
            return await channel.queue.wait(call)
        finally:
            self._stop_waiting()

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            channel, call = self._waiting
            self._waiting = None
            channel.queue.cancel(call)


def _subject(operation: Interim) -> _Subject:
    """The message, draft or chat that the operation changes. A later operation on it replaces an earlier one."""
    match operation:
        case Edit():
            return Edit, operation.message_id
        case AppendStream():
            return AppendStream, operation.stream_id
        case Draft():
            return Draft, str(operation.draft_id)
        case _:
            return type(operation), ""


async def _perform(channel: PacedChannel, operation: Interim) -> Outcome:
    # An edit without an answer may still be performed, and must not come after the final text. So it has more time.
    deadline_s = channel.deadline_s if isinstance(operation, Edit) else min(channel.deadline_s, _DEADLINE_S)
    began = channel.now()
    try:
        async with asyncio.timeout(deadline_s):
            outcome = await perform(channel.channel, operation)
    except TimeoutError:
        outcome = Ambiguous(f"no answer within {deadline_s:g} s")
    finally:
        if not isinstance(operation, Typing):  # typing does not count for the rate limit
            channel.end_call(operation.target.chat, began)
    if isinstance(outcome, NotNow):
        channel.learn(operation.target.chat, outcome)
    channel.report(operation, outcome)
    return outcome


def _resolve(shown: Shown, outcome: Outcome) -> None:
    if not shown.done():
        shown.set_result(outcome)
