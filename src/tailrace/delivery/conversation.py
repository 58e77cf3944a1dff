"""Sends the deliveries of one conversation, strictly in order and one at a time, and interim operations in between.

A sender performs the first open delivery until it is final, then the next: record the intent, call the platform with a
deadline, record the outcome. `decisions` decides what to do, `attempt` performs one attempt. The sender keeps the
deliveries that it was given. When it may not have all of them in order it is stale, and reads them from the ledger. In
any case the ledger refuses a delivery that is out of order.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

from tailrace.deliveries import FINAL, NOTICE_ORDINAL, UNDELIVERED, Delivery, Query, State, moved
from tailrace.delivery.attempt import attempt, look_up, mark_not_sent, record_result
from tailrace.delivery.preview_slot import PreviewSlot, not_shown
from tailrace.delivery.rate_limiter import urgency_of
from tailrace.delivery.result import Finish, LookUp, Send, Wait, remaining_wait
from tailrace.errors import Fenced, LedgerError, LedgerUnavailable
from tailrace.operations import OpenStream, Post, PostMedia

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Sequence

    from tailrace.delivery.pace import PacedChannel
    from tailrace.delivery.preview_slot import Shown
    from tailrace.delivery.sender_context import SenderContext
    from tailrace.operations import Interim

_log = logging.getLogger(__name__)

PAGE = 16
LONG_WAIT_S = 10.0
"""A conversation that would wait longer than this for its channel, with no caller waiting, gives its slot back."""
_SHORT_WAIT_S = 1.0
_POLL_S = 0.25

_Key: TypeAlias = tuple[str, int]


class _NotDueSoon(Exception):
    """The next delivery cannot be sent soon and no caller waits for it: recovery will resume the conversation."""


class ConversationSender:
    """The sender of one conversation. It runs while there is something to do, then calls `on_idle`.

    The result of its task is the number of deliveries that became final.
    """

    def __init__(
        self, conversation: str, context: SenderContext, on_idle: Callable[[ConversationSender], None]
    ) -> None:
        self.conversation = conversation
        self.task: asyncio.Task[int] | None = None
        self._context = context
        self._on_idle = on_idle
        self._is_running = False
        self._is_calling = False
        self._recordings = 0
        self._additions = 0
        self._deliveries: deque[Delivery] = deque()
        self._is_stale = False
        self._intent_recorded: Delivery | None = None
        self._intent_decided_at = 0.0
        self._waiters: dict[_Key, asyncio.Future[Delivery | None]] = {}
        self._previews = PreviewSlot()
        self._limit: int | None = None
        self._finished = 0
        self._cancelled_turns: set[str] = set()
        self._wait: asyncio.Task[None] | None = None

    @property
    def is_idle(self) -> bool:
        """Whether nothing is being sent, waits here, or is being recorded for this conversation."""
        return self.is_free and not self._recordings

    @property
    def is_free(self) -> bool:
        """Whether the next delivery could be sent at once."""
        return self.task is None and not self._deliveries and not self._is_stale

    @contextmanager
    def recording(self) -> Iterator[None]:
        """While deliveries are being recorded: no interim operation is shown from now on."""
        self._previews.clear()
        self._recordings += 1
        try:
            yield
        finally:
            self._recordings -= 1
            if self.is_idle:
                self._on_idle(self)

    def show(self, operation: Interim) -> Shown:
        """Show an interim operation, unless a delivery is due. The future gets its outcome."""
        if self._deliveries or self._is_stale or self._recordings:
            return not_shown()
        shown = self._previews.put(operation)
        self._start()
        return shown

    def add(self, recorded: Sequence[Delivery], *, are_new: bool, intent_decided_at: float | None) -> None:
        """Send deliveries that were recorded just now.

        `intent_decided_at`: the first one is recorded as `sending`, for this sender, as decided at that time.
        """
        self._limit = None
        self._additions += 1
        if intent_decided_at is not None:
            self._intent_recorded, self._intent_decided_at = recorded[0], intent_decided_at
        if not are_new:
            self._reload()
        elif not self._is_stale:
            self._deliveries.extend(recorded)
        self._start()

    def resume(self, limit: int) -> asyncio.Task[int]:
        """Send what is open in the ledger; at most `limit` deliveries while no caller waits."""
        if self.task is None:
            self._limit = limit
        self._reload()
        return self._start()

    def cancel_unsent(self, turn_id: str) -> None:
        """Send no more new messages of that turn. Changes of existing messages are still made."""
        self._cancelled_turns.add(turn_id)
        if self._wait is not None:
            self._wait.cancel()

    def stop(self) -> None:
        """Send nothing more, but finish the call that is under way. The caller has already set `draining`."""
        # A task that has not started yet sees `draining` itself; cancelled before its start, it could not clean up.
        if self._is_running and not self._is_calling and self.task is not None:
            self.task.cancel()

    def final_state(self, delivery: Delivery) -> asyncio.Future[Delivery | None]:
        """A future for the delivery in its final state; None if the sender stops before. Several callers may share
        it."""
        return self._waiters.setdefault(_key(delivery), asyncio.get_running_loop().create_future())

    def _start(self) -> asyncio.Task[int]:
        if self.task is None:
            self.task = asyncio.create_task(self._run(), name=f"sender of {self.conversation}")
        return self.task

    def _reload(self) -> None:
        self._deliveries.clear()
        self._is_stale = True

    async def _run(self) -> int:
        self._is_running = True
        self._finished = 0
        try:
            while not self._context.draining and (self._limit != 0 or self._waiters):
                if (first := await self._first_open()) is not None:
                    await self._perform(first)
                elif self._previews:
                    await self._previews.show(self._context.channels)
                elif self._waiters:
                    await self._poll_for_waiters()
                else:
                    break
        except _NotDueSoon:
            pass
        except LedgerError as error:
            _log.error("%s: sending stops: %s", self.conversation, error)
        except Exception as error:  # noqa: BLE001 -- the outermost loop: our own bug must stop one conversation only
            _log.critical("%s: sending stops until recovery resumes it", self.conversation, exc_info=error)
        finally:
            self.task = None
            self._is_running = False
            self._release()
        return self._finished

    def _release(self) -> None:
        """Drop everything, because the ledger has it. Callers that still wait get None."""
        if self._intent_recorded is not None:
            self._context.run_in_background(mark_not_sent(self._context, self._intent_recorded, in_doubt=False))
            self._intent_recorded = None
        self._previews.clear()
        self._deliveries.clear()
        self._is_stale = False
        for waiter in self._waiters.values():
            if not waiter.done():
                waiter.set_result(None)
        self._waiters.clear()
        self._cancelled_turns.clear()
        if self.is_idle:
            self._on_idle(self)

    async def _first_open(self) -> Delivery | None:
        """The first open delivery, or None."""
        if not self._deliveries and self._is_stale:
            ledger, now, additions = self._context.ledger, self._context.clock.wall(), self._additions
            adopted = await self._context.retry_while_unavailable(
                lambda: ledger.adopt(self.conversation, now=now, limit=PAGE)
            )
            # Deliveries that were added while the ledger was read may be in this page or behind it.
            self._is_stale = len(adopted) == PAGE or self._additions != additions
            self._deliveries.extend(adopted)
        return self._deliveries[0] if self._deliveries else None

    async def _perform(self, first: Delivery) -> None:
        """Work on the first delivery until it is final."""
        waited = False
        try:
            while first.state not in FINAL:
                if self._context.draining and not self._has_intent(first):
                    return
                before = first
                if self._is_cancelled(first):
                    first = await self._cancel(first, "its turn was stopped before it was sent")
                else:
                    first = await self._advance(first, waited=waited)
                waited = first is before
        except Fenced:
            # Another sender changed it, or an earlier delivery is open. A replaced owner is fenced again below.
            self._reload()
            if (found := await self._recorded(first)) is None or found.state not in FINAL:
                return
            first = found
        self._finish(first)

    async def _advance(self, first: Delivery, *, waited: bool) -> Delivery:
        """Take one step with the first delivery. Returns the same object if the step was a wait."""
        if first.state is State.SENDING and not self._has_intent(first):
            return await self._poll_other_sender(first)
        channel = self._context.channels.get(first.channel)
        if channel is None:
            self._stop_unless_awaited()
            channel = await self._context.channel(first.channel)
        if first.state is State.SENDING:
            self._intent_recorded = None
            return await self._attempt(channel, None, first)
        match channel.next_step(first, waited=waited):
            case Wait(seconds=seconds):
                now = self._context.clock.wall()
                # If the wall clock was set back, recovery could not tell when to resume. So the wait happens here.
                if remaining_wait(first, now) > _SHORT_WAIT_S and now >= first.updated_at:
                    self._stop_unless_awaited()
                await self._unless_cancelled(asyncio.sleep(seconds))
                return first
            case Finish(delivery=after):
                return await record_result(self._context, first, after)
            case LookUp():
                return await look_up(self._context, channel, first)
            case Send():
                return await self._send(channel, first)

    async def _send(self, channel: PacedChannel, first: Delivery) -> Delivery:
        if first.policy.on_dead == "halt" and await self._is_halted(first):
            return await self._cancel(first, "an earlier part of its turn could not be delivered")
        target = first.operation.target
        if (due_in := channel.due_in(target.chat)) > LONG_WAIT_S:
            self._stop_unless_awaited()
        wait = channel.wait_to_call(target.chat, urgency_of(first.operation, first.ordinal), group=target.group)
        await (self._unless_cancelled(wait) if due_in > 0 else wait)
        if self._is_cancelled(first):
            return first
        # Decide again: the wait may have been long, and the channel may be disconnected.
        step = channel.next_step(first, waited=True)
        is_connected = self._context.channels.get(first.channel) is channel
        return await self._attempt(channel, first, step.delivery) if isinstance(step, Send) and is_connected else first

    async def _attempt(self, channel: PacedChannel, before: Delivery | None, sending: Delivery) -> Delivery:
        self._is_calling = True
        try:
            decided_at = self._intent_decided_at if before is None else self._context.clock.monotonic()
            return await attempt(self._context, channel, before, sending, decided_at=decided_at)
        except LedgerUnavailable as error:
            # Nothing was sent: without a recorded intent there is no call.
            _log.warning("%s: waiting until the ledger can be written: %s", self.conversation, error)
            await asyncio.sleep(_SHORT_WAIT_S * (0.5 + self._context.jitter()))
            return before or sending
        finally:
            self._is_calling = False

    async def _unless_cancelled(self, wait: Coroutine[None, None, None]) -> None:
        """Wait, but stop waiting when a turn is cancelled."""
        self._wait = asyncio.create_task(wait)
        try:
            await asyncio.wait({self._wait})
        finally:
            self._wait.cancel()
            self._wait = None

    def _is_cancelled(self, first: Delivery) -> bool:
        """Whether it is a new message of a cancelled turn that surely was not sent."""
        if first.turn_id not in self._cancelled_turns or first.state not in (State.PLANNED, State.RETRY):
            return False
        return isinstance(first.operation, Post | PostMedia | OpenStream)

    async def _cancel(self, first: Delivery, reason: str) -> Delivery:
        cancelled = moved(first, State.CANCELLED, now=self._context.clock.wall(), error=reason)
        return await record_result(self._context, first, cancelled)

    def _has_intent(self, first: Delivery) -> bool:
        """Whether it is recorded as `sending` by this sender and not sent yet."""
        intent = self._intent_recorded
        return intent is not None and (first.position, first.attempt) == (intent.position, intent.attempt)

    async def _is_halted(self, first: Delivery) -> bool:
        query = Query(turn_id=first.turn_id, states=UNDELIVERED)
        missing = await self._context.retry_while_unavailable(lambda: self._context.ledger.find(query, limit=PAGE))
        return any(other.ordinal != NOTICE_ORDINAL and other.position < first.position for other in missing)

    async def _poll_other_sender(self, first: Delivery) -> Delivery:
        """Another task of this owner is sending it: read its state from the ledger after a pause."""
        self._stop_unless_awaited()
        await asyncio.sleep(_POLL_S)
        found = await self._recorded(first)
        if found is None:
            raise Fenced(f"{first.id} is gone")
        return found

    async def _poll_for_waiters(self) -> None:
        """Nothing is open here, but callers wait for deliveries that another sender finished or still holds."""
        await asyncio.sleep(_POLL_S)
        for turn_id in dict.fromkeys(turn_id for turn_id, _ordinal in self._waiters):
            position: int | None = None
            while page := await self._deliveries_of(turn_id, position):
                position = page[-1].position
                for delivery in page:
                    if delivery.state in FINAL:
                        self._finish(delivery)
        self._is_stale = True

    async def _recorded(self, first: Delivery) -> Delivery | None:
        """The delivery as the ledger has it now."""
        found = await self._deliveries_of(first.turn_id, first.position + 1, limit=1)
        return found[0] if found and found[0].ordinal == first.ordinal else None

    async def _deliveries_of(self, turn_id: str, after: int | None, limit: int = 100) -> list[Delivery]:
        ledger, query = self._context.ledger, Query(turn_id=turn_id)
        return await self._context.retry_while_unavailable(lambda: ledger.find(query, after=after, limit=limit))

    def _stop_unless_awaited(self) -> None:
        if not self._waiters:
            raise _NotDueSoon

    def _finish(self, delivery: Delivery) -> None:
        """A delivery is final: remove it and wake its callers."""
        if self._deliveries and self._deliveries[0].position == delivery.position:
            self._deliveries.popleft()
        self._finished += 1
        if self._limit:
            self._limit -= 1
        self._context.on_final(delivery)
        waiter = self._waiters.pop(_key(delivery), None)
        if delivery.state is State.SUPERSEDED and waiter is not None:
            self._waiters[delivery.turn_id, -delivery.ordinal] = waiter
        elif waiter is not None and not waiter.done():
            waiter.set_result(delivery)
        if delivery.state in UNDELIVERED or delivery.state is State.SUPERSEDED:
            # Its replacement or its notice is recorded right behind it.
            self._reload()


def _key(delivery: Delivery) -> _Key:
    return delivery.turn_id, delivery.ordinal
