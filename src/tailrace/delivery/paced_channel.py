"""A connected channel as deliveries see it: when it may be called, and what its answers say about calling it again.

Who may call next is decided in `pacing` and `circuit`; here is the waiting for it.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from tailrace.capabilities import Keyed
from tailrace.delivery.circuit import Circuit
from tailrace.delivery.decisions import RepeatContext, Step, is_plausible, next_step, wait_after
from tailrace.delivery.rate_limiter import RateLimiter, Ticket, Urgency
from tailrace.operations import Ambiguous, Delivered, NotNow, Outcome, Refused
from tailrace.ports import Channel, Clock, ReadsBack

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.capabilities import Rate
    from tailrace.deliveries import Delivery

_log = logging.getLogger(__name__)

STALE_S = 15.0
"""An intent that took longer than this to record was decided in another world: it is decided again."""


class RateLimitQueue:
    """Who waits for the pace of a channel: a future for each, and one timer for all.

    Whoever cannot `take` a place at once joins, waits until one is `granted`, and leaves in any case. A place is spent
    when it is granted, whether or not a call follows.
    """

    def __init__(self, pace: RateLimiter, clock: Clock) -> None:
        self.pace = pace
        self._clock = clock
        self._futures: dict[Ticket, asyncio.Future[bool]] = {}
        self._due: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    def take(self, chat: str, urgency: Urgency, *, group: bool = False) -> bool:
        """Call at once, if nobody has to wait."""
        return self.pace.take(chat, urgency, self._clock.monotonic(), group=group)

    def join(self, chat: str, urgency: Urgency, *, group: bool = False) -> Ticket:
        """Wait for a place."""
        ticket = self.pace.request(chat, urgency, self._clock.monotonic(), group=group)
        self._futures[ticket] = asyncio.get_running_loop().create_future()
        self._serve()
        return ticket

    async def granted(self, ticket: Ticket) -> bool:
        """Wait until one may call; false where one has left, or been made to, before that."""
        return await self._futures[ticket]

    def leave(self, ticket: Ticket) -> None:
        """Wait no longer. Doing it twice is harmless."""
        self.pace.withdraw(ticket)
        future = self._futures.pop(ticket, None)
        if future is not None and not future.done():
            future.set_result(False)

    def _serve(self) -> None:
        """Let go whoever may, and look again when the next may."""
        now = self._clock.monotonic()
        for ticket in self.pace.grant(now):
            if not (future := self._futures[ticket]).done():
                future.set_result(True)
        if (due := self.pace.due(now)) == self._due:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._due = due
        self._timer = asyncio.get_running_loop().call_later(due - now, self._wake) if due is not None else None

    def _wake(self) -> None:
        self._due = None
        self._serve()


class PacedChannel:
    """One channel with its pace and its circuit; `before` is the outlet it had when it was last connected."""

    def __init__(
        self, channel: Channel, clock: Clock, jitter: Callable[[], float], *, before: PacedChannel | None = None
    ) -> None:
        self.channel = channel
        self.deadline_s = channel.capabilities.deadline_s
        self._clock = clock
        self._jitter = jitter
        idempotency = channel.capabilities.idempotency
        self._reach = RepeatContext(
            can_ask=isinstance(channel, ReadsBack),
            scope=idempotency.scope if isinstance(idempotency, Keyed) else "",
            takes_s=self.deadline_s + STALE_S,
        )
        # A platform counts calls and remembers what it asked for whether or not the connection is a new one.
        is_same = before is not None and _rates(before.channel) == _rates(channel)
        self.queue: RateLimitQueue = (
            before.queue if before is not None and is_same else RateLimitQueue(RateLimiter(channel.capabilities), clock)
        )
        self._pace = self.queue.pace
        self._circuit = Circuit()

    def next_step(self, delivery: Delivery, *, waited: bool = False) -> Step:
        """What to do with an open delivery for this channel at this moment."""
        return next_step(delivery, self._reach, now=self._clock.wall(), waited=waited)

    @property
    def is_answering(self) -> bool:
        """Whether the platform answered when it was last called."""
        return self._circuit.is_closed

    def is_free(self, chat: str, *, group: bool = False) -> bool:
        """Whether a call to the chat may go this moment."""
        return self._circuit.is_closed and self._pace.is_free(chat, self._clock.monotonic(), group=group)

    def spend(self, chat: str, *, group: bool = False) -> None:
        """A call goes this moment, because the chat is free."""
        self._pace.spend(chat, self._clock.monotonic(), group=group)

    def due_in(self, chat: str) -> float:
        """The seconds until the chat is free and the platform worth calling, as it looks now; nothing is reserved."""
        now = self._clock.monotonic()
        return max(self._pace.expected(chat, now) - now, self._circuit.due_in(now))

    async def turn_to_call(self, chat: str, urgency: Urgency = Urgency.FINAL, *, group: bool = False) -> None:
        """Wait until the platform is worth calling and it is the caller's turn to call the chat; the place is spent."""
        probe_s = self.deadline_s + 1
        while (wait := self._circuit.wait(self._clock.monotonic(), probe_s=probe_s)) > 0:  # noqa: ASYNC110 -- time
            # Those who wait for the same moment must not all come at it.
            await asyncio.sleep(wait * (1 + self._jitter() / 10))
        if not self.queue.take(chat, urgency, group=group):
            ticket = self.queue.join(chat, urgency, group=group)
            try:
                await self.queue.granted(ticket)
            finally:
                self.queue.leave(ticket)

    def learn(self, chat: str, outcome: Outcome) -> None:
        """Take in what a call brought."""
        now = self._clock.monotonic()
        match outcome:
            case Delivered() | Refused():
                self._circuit.answered()
            case NotNow(retry_after=None) | Ambiguous():
                self._circuit.failed(now, jitter=self._jitter())
            case NotNow():
                self._circuit.answered()
                if not is_plausible(outcome.retry_after):
                    _log.warning(
                        "%s asked to wait for %s s, which cannot be meant", self.channel.name, outcome.retry_after
                    )
                until = now + wait_after(outcome.retry_after, 1, 0.0)
                self._pace.pause(until, chat=None if outcome.everywhere else chat, now=now)


def _rates(channel: Channel) -> tuple[Rate | None, ...]:
    capabilities = channel.capabilities
    return capabilities.per_chat, capabilities.per_group, capabilities.overall
