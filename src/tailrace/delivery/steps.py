"""The steps of a send, for the first open row of a conversation: decide, wait, record the intent, call, record again.

The intent is the state `sending`: it is recorded before the call, so that a crash during the call is noticed. `result`
decides, `pace` says when the call is allowed, and `call` makes it. This module connects them: it owns the order of the
steps, and what is recorded if a step is interrupted.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import msgspec

from tailrace.deliveries import NOTICE_ORDINAL, UNDELIVERED, Delivery, Query, State, moved
from tailrace.delivery.call import PlatformCall, look_up, outcome_of
from tailrace.delivery.pace import START_WITHIN_S
from tailrace.delivery.queue import PAGE, key_of
from tailrace.delivery.rate_limiter import urgency_of
from tailrace.delivery.result import (
    Finish,
    LookUp,
    Send,
    Wait,
    after_failed_lookup,
    after_lookup,
    concluded,
    conclusion,
    remaining_wait,
)
from tailrace.errors import CancelledTurn, Fenced, LedgerUnavailable
from tailrace.operations import Delivered, NotNow, OpenStream, Outcome, Post, PostMedia
from tailrace.ports import ReadsBack

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from tailrace.delivery.pace import PacedChannel
    from tailrace.delivery.queue import ConversationQueue, Key
    from tailrace.delivery.sender_context import SenderContext
    from tailrace.operations import Receipt

_log = logging.getLogger(__name__)

LONG_WAIT_S = 10.0
"""If a channel allows no call for longer than this, and no caller waits, the sender stops. Recovery resumes later."""
SHORT_WAIT_S = 1.0
_NOT_STARTED = NotNow("the call was not started", retry_after=0.0)
_STOPPED = "its turn was stopped before it was sent"


class NotDueSoon(Exception):
    """The next delivery must wait for long, and no caller waits for it. Recovery resumes the conversation later."""


class Intent(msgspec.Struct, frozen=True):
    """A delivery that is recorded as `sending` before its call is made, and the time of the decision to send."""

    delivery: Delivery
    decided_at: float


class SendSteps:
    """Sends the first row of a queue, step by step. If a step is cancelled, `in_background` runs its last writes.

    `intent` is a row that was recorded as `sending` from the start, because it could be sent at once. New messages of
    the `cancelled_turns` are not sent. `is_calling` is true while a call is under way.
    """

    def __init__(
        self,
        queue: ConversationQueue,
        context: SenderContext,
        in_background: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self.intent: Intent | None = None
        self.cancelled_turns: set[str] = set()
        self.is_calling = False
        self._queue = queue
        self._context = context
        self._in_background = in_background
        self._late: tuple[Key, asyncio.Task[Outcome]] | None = None
        self._wait: asyncio.Task[None] | None = None
        self._waited_for: Delivery | None = None

    def decide_at_once(self, new: Delivery) -> Intent | None:
        """Set a new delivery to `sending` before it is recorded, if it can be sent at once.

        That saves a write to the ledger.
        """
        target, context = new.operation.target, self._context
        channel = context.channels.get(target.channel)
        if channel is None or context.draining or new.turn_id in self.cancelled_turns or self.intent is not None:
            return None
        if new.policy.on_dead == "halt" and new.ordinal != 1:
            return None
        if not channel.is_free(target.chat, group=channel.is_group(target)):
            return None
        step = channel.next_step(new)
        if not isinstance(step, Send):
            return None
        channel.count_call(target.chat, group=channel.is_group(target))
        return Intent(step.delivery, context.clock.monotonic())

    async def advance(self, first: Delivery) -> None:
        """Do what the first open row needs next: wait, send, look up or finish.

        Raises `NotDueSoon` if the row must wait long and no caller waits for it.
        """
        if first.state is State.SENDING:
            await self._continue_sending(first)
        elif (late := self._late_receipt(first)) is not None:
            now = self._context.clock.wall()
            await self._move(first, moved(first, State.DELIVERED, now=now, receipt=late, error=""))
        elif self._is_withdrawn(first):
            await self._cancel(first, _STOPPED)
        elif (channel := self._context.channels.get(first.channel)) is None:
            self._stop_unless_awaited()
            await self.unless_woken(self._context.next_connection())
        else:
            await self._decide(channel, first)

    def end(self) -> None:
        """End the steps. If there is an intent, record that its call was not made."""
        if self.intent is not None:
            self._in_background(self._conclude(self.intent.delivery, _NOT_STARTED))
        self.intent = self._late = self._waited_for = None

    def wake(self) -> None:
        """End the current wait, because something has changed. `advance` then decides again what to do."""
        if self._wait is not None:
            self._wait.cancel()

    async def unless_woken(self, wait: Coroutine[Any, Any, None]) -> bool:
        """Wait, unless `wake` is called before. Returns whether the wait was completed."""
        self._wait = asyncio.create_task(wait)
        try:
            await asyncio.wait({self._wait})
            return not self._wait.cancelled()
        finally:
            self._wait.cancel()
            self._wait = None

    async def _decide(self, channel: PacedChannel, first: Delivery) -> None:
        match channel.next_step(first, waited=self._waited_for is first):
            case Wait(seconds=seconds):
                now = self._context.clock.wall()
                # If the wall clock was set back, recovery cannot know when to resume, so this task waits itself.
                if remaining_wait(first, now) > SHORT_WAIT_S and now >= first.updated_at:
                    self._stop_unless_awaited()
                if await self.unless_woken(asyncio.sleep(seconds)):
                    self._waited_for = first
            case Finish(delivery=after):
                done = concluded(after)
                await self._move(first, *done.states, plan=done.plan)
            case LookUp():
                await self._look_up(channel, first)
            case Send():
                await self._send(channel, first)

    async def _continue_sending(self, first: Delivery) -> None:
        """For a row that is already `sending`: make the call now, or record that its outcome is not known."""
        intent, self.intent = self.intent, None
        channel = self._context.channels.get(first.channel)
        if intent is None or (key_of(intent.delivery), intent.delivery.attempt) != (key_of(first), first.attempt):
            # An earlier call of this sender has ended, but its outcome could not be recorded.
            now = self._context.clock.wall()
            await self._move(first, moved(first, State.AMBIGUOUS, now=now, error="the outcome of the call was lost"))
        elif channel is None:
            await self._conclude(first, _NOT_STARTED)
        else:
            await self._call(channel, first, intent.decided_at, in_doubt=False)

    async def _send(self, channel: PacedChannel, first: Delivery) -> None:
        """Wait until the call is allowed, record that the delivery is being sent, and call the platform."""
        context, target = self._context, first.operation.target
        if first.policy.on_dead == "halt" and await self._is_halted(first):
            await self._cancel(first, "an earlier part of its turn could not be delivered")
            return
        if (due_in := channel.due_in(target.chat)) > LONG_WAIT_S:
            self._stop_unless_awaited()
        wait = channel.wait_to_call(
            target.chat, urgency_of(first.operation, first.ordinal), group=channel.is_group(target)
        )
        if due_in <= 0:
            await wait
        elif not await self.unless_woken(wait):
            return
        # Decide again: the wait may have been long, and the channel may have been disconnected.
        step = channel.next_step(first, waited=True)
        is_connected = context.channels.get(first.channel) is channel
        if not isinstance(step, Send) or not is_connected or self._is_withdrawn(first):
            return
        decided_at, in_doubt = context.clock.monotonic(), first.state is State.AMBIGUOUS
        if await self._record_intent(channel, first, step.delivery):
            await self._call(channel, step.delivery, decided_at, in_doubt=in_doubt)

    async def _record_intent(self, channel: PacedChannel, first: Delivery, sending: Delivery) -> bool:
        """Record that the delivery is being sent. Returns False if that failed; then there must be no call."""
        try:
            await self._queue.move_to_sending(first, sending, hold_s=channel.deadline_s + START_WITHIN_S)
        except asyncio.CancelledError:
            # The ledger still makes the change to `sending`, and makes this later change after it.
            self._in_background(self._conclude(sending, _NOT_STARTED, in_doubt=first.state is State.AMBIGUOUS))
            raise
        except CancelledTurn:
            await self._cancel(first, _STOPPED)
        except Fenced:
            # Perhaps an earlier row is open that is not in memory yet. If it is the lease that has ended instead, the
            # next adoption of rows raises `Fenced` too.
            self._queue.reload()
        except LedgerUnavailable as error:
            _log.warning("%s: waiting until the ledger can be written: %s", self._queue.conversation, error)
            await asyncio.sleep(SHORT_WAIT_S * (0.5 + self._context.jitter()))
        else:
            return True
        return False

    async def _call(self, channel: PacedChannel, sending: Delivery, decided_at: float, *, in_doubt: bool) -> None:
        """Call the platform, and record the outcome."""
        context = self._context
        chat, began = sending.operation.target.chat, context.clock.monotonic()
        if began - decided_at > START_WITHIN_S:
            await self._conclude(sending, _NOT_STARTED, in_doubt=in_doubt)
            return
        call = PlatformCall(channel.channel, sending, channel.deadline_s, context.clock)
        self.is_calling = True
        try:
            outcome = await call.wait()
        except asyncio.CancelledError:
            self._in_background(self._conclude_stopped(call, sending, in_doubt=in_doubt))
            raise
        finally:
            self.is_calling = False
            channel.end_call(chat, began)
        channel.learn(chat, outcome)
        channel.report(sending.operation, outcome)
        if (late := call.late_answer) is not None:
            self._late = key_of(sending), late
            late.add_done_callback(lambda _: self.wake())
        await self._conclude(sending, outcome, in_doubt=in_doubt)

    async def _conclude_stopped(self, call: PlatformCall, sending: Delivery, *, in_doubt: bool) -> None:
        """Stop a platform call, because the task that waited for it was cancelled. Record the outcome of the call."""
        await self._conclude(sending, await call.stop(), in_doubt=in_doubt)

    async def _conclude(self, sending: Delivery, outcome: Outcome, *, in_doubt: bool = False) -> None:
        """Record the outcome of the call of a delivery."""
        now, jitter = self._context.clock.wall(), self._context.jitter()
        done = conclusion(sending, outcome, now=now, jitter=jitter, in_doubt=in_doubt)
        await self._move(sending, *done.states, plan=done.plan)

    async def _move(self, *states: Delivery, plan: Sequence[Delivery] = ()) -> None:
        """Record the next states of a row (`ConversationQueue.move`), even if this task is cancelled meanwhile."""
        try:
            await self._queue.move(*states, plan=plan)
        except asyncio.CancelledError:
            self._in_background(self._queue.move(*states, plan=plan))
            raise

    async def _cancel(self, first: Delivery, reason: str) -> None:
        await self._move(first, moved(first, State.CANCELLED, now=self._context.clock.wall(), error=reason))

    async def _look_up(self, channel: PacedChannel, first: Delivery) -> None:
        """Ask the platform whether an ambiguous delivery arrived."""
        context, readable = self._context, channel.channel
        assert isinstance(readable, ReadsBack), "only for channels that can look up messages"
        try:
            async with asyncio.timeout(channel.deadline_s):
                found = await look_up(readable, first)
        except Exception as error:  # noqa: BLE001 -- the channel's own code: whatever it raises, nothing was found out
            outcome = outcome_of(error)
            channel.learn(first.operation.target.chat, outcome)
            after = after_failed_lookup(first, outcome, now=context.clock.wall(), jitter=context.jitter())
        else:
            after = after_lookup(first, found, now=context.clock.wall())
        await self._move(first, after)

    async def _is_halted(self, first: Delivery) -> bool:
        query, context = Query(turn_id=first.turn_id, states=UNDELIVERED), self._context
        missing = await context.retry_while_unavailable(context.ledger.find, query, limit=PAGE)
        return any(other.ordinal != NOTICE_ORDINAL and other.position < first.position for other in missing)

    def _is_withdrawn(self, first: Delivery) -> bool:
        """Whether the row is a new message of a cancelled turn that was certainly not sent."""
        if first.turn_id not in self.cancelled_turns or first.state not in (State.PLANNED, State.RETRY):
            return False
        return isinstance(first.operation, Post | PostMedia | OpenStream)

    def _late_receipt(self, first: Delivery) -> Receipt | None:
        """The answer to the latest attempt, if it came after the deadline."""
        if self._late is None or self._late[0] != key_of(first) or not self._late[1].done():
            return None
        outcome, self._late = self._late[1].result(), None
        return outcome.receipt if isinstance(outcome, Delivered) else None

    def _stop_unless_awaited(self) -> None:
        if not self._queue.is_awaited:
            raise NotDueSoon
