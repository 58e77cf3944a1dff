"""A connected channel with its rate limits and its circuit breaker: waits until a call may go, and learns from
outcomes.

`rate_limiter` and `circuit_breaker` decide when; this module does the waiting.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from tailrace.capabilities import Keyed
from tailrace.delivery.circuit_breaker import CircuitBreaker
from tailrace.delivery.rate_limiter import PendingCall, RateLimiter, Urgency
from tailrace.delivery.result import NextStep, RepeatContext, is_plausible, next_step, wait_after
from tailrace.operations import Ambiguous, Delivered, NotNow, Outcome, Refused
from tailrace.ports import Channel, Clock, ReadsBack

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.capabilities import Rate
    from tailrace.deliveries import Delivery

_log = logging.getLogger(__name__)

STALE_S = 15.0
"""If recording the intent took longer than this, decide again before sending."""


class RateLimitQueue:
    """The calls that wait for the rate limits of a channel: a future for each, and one timer for all.

    A call that cannot go at once (`try_call`) is enqueued, waits (`wait`), and is cancelled in any case.
    """

    def __init__(self, limiter: RateLimiter, clock: Clock) -> None:
        self.limiter = limiter
        self._clock = clock
        self._futures: dict[PendingCall, asyncio.Future[bool]] = {}
        self._due: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    def try_call(self, chat: str, urgency: Urgency, *, group: bool = False) -> bool:
        """Count a call and return True if it may go at once."""
        return self.limiter.try_call(chat, urgency, self._clock.monotonic(), group=group)

    def enqueue(self, chat: str, urgency: Urgency, *, group: bool = False) -> PendingCall:
        """Add a call that waits."""
        call = self.limiter.enqueue(chat, urgency, self._clock.monotonic(), group=group)
        self._futures[call] = asyncio.get_running_loop().create_future()
        self._grant_due()
        return call

    async def wait(self, call: PendingCall) -> bool:
        """Wait until the call may go, and count it. Returns False if it was cancelled before."""
        return await self._futures[call]

    def cancel(self, call: PendingCall) -> None:
        """Stop waiting. May be called twice."""
        self.limiter.cancel(call)
        future = self._futures.pop(call, None)
        if future is not None and not future.done():
            future.set_result(False)

    def _grant_due(self) -> None:
        """Grant the calls that may go now, and set the timer for the next."""
        now = self._clock.monotonic()
        for call in self.limiter.grant(now):
            if not (future := self._futures[call]).done():
                future.set_result(True)
        if (due := self.limiter.due(now)) == self._due:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._due = due
        self._timer = asyncio.get_running_loop().call_later(due - now, self._wake) if due is not None else None

    def _wake(self) -> None:
        self._due = None
        self._grant_due()


class PacedChannel:
    """One channel with its rate limits and its circuit breaker. `before` is the same channel at its last connection."""

    def __init__(
        self, channel: Channel, clock: Clock, jitter: Callable[[], float], *, before: PacedChannel | None = None
    ) -> None:
        self.channel = channel
        self.deadline_s = channel.capabilities.deadline_s
        self._clock = clock
        self._jitter = jitter
        idempotency = channel.capabilities.idempotency
        self._repeat_context = RepeatContext(
            can_look_up=isinstance(channel, ReadsBack),
            scope=idempotency.scope if isinstance(idempotency, Keyed) else "",
            longest_send_s=self.deadline_s + STALE_S,
        )
        # The platform counts calls, and remembers its own waits, across our connections.
        is_same = before is not None and _rates(before.channel) == _rates(channel)
        self.queue: RateLimitQueue = (
            before.queue if before is not None and is_same else RateLimitQueue(RateLimiter(channel.capabilities), clock)
        )
        self._limiter = self.queue.limiter
        self._circuit_breaker = CircuitBreaker()

    def next_step(self, delivery: Delivery, *, waited: bool = False) -> NextStep:
        """What to do now with an open delivery for this channel."""
        return next_step(delivery, self._repeat_context, now=self._clock.wall(), waited=waited)

    @property
    def is_answering(self) -> bool:
        """Whether the circuit breaker is closed: the platform answered the latest calls."""
        return self._circuit_breaker.is_closed

    def is_free(self, chat: str, *, group: bool = False) -> bool:
        """Whether a call to the chat may go now."""
        return self._circuit_breaker.is_closed and self._limiter.is_free(chat, self._clock.monotonic(), group=group)

    def count_call(self, chat: str, *, group: bool = False) -> None:
        """Count a call that goes now, because the chat is free."""
        self._limiter.count_call(chat, self._clock.monotonic(), group=group)

    def due_in(self, chat: str) -> float:
        """About how many seconds until the chat may be called. Reserves nothing."""
        now = self._clock.monotonic()
        return max(self._limiter.expected_at(chat, now) - now, self._circuit_breaker.due_in(now))

    async def wait_to_call(self, chat: str, urgency: Urgency = Urgency.FINAL, *, group: bool = False) -> None:
        """Wait until a call to the chat may go, and count it."""
        probe_s, breaker = self.deadline_s + 1, self._circuit_breaker
        while (wait := breaker.wait(self._clock.monotonic(), probe_s=probe_s)) > 0:  # noqa: ASYNC110 -- time
            # The jitter keeps waiting calls from all coming at the same moment.
            await asyncio.sleep(wait * (1 + self._jitter() / 10))
        if not self.queue.try_call(chat, urgency, group=group):
            call = self.queue.enqueue(chat, urgency, group=group)
            try:
                await self.queue.wait(call)
            finally:
                self.queue.cancel(call)

    def learn(self, chat: str, outcome: Outcome) -> None:
        """Adjust the circuit breaker and the rate limits to the outcome of a call."""
        now = self._clock.monotonic()
        match outcome:
            case Delivered() | Refused():
                self._circuit_breaker.record_answer()
            case NotNow(retry_after=None) | Ambiguous():
                self._circuit_breaker.record_failure(now, jitter=self._jitter())
            case NotNow():
                self._circuit_breaker.record_answer()
                if not is_plausible(outcome.retry_after):
                    _log.warning(
                        "%s asked to wait for %s s; this cannot be right and is bounded",
                        self.channel.name,
                        outcome.retry_after,
                    )
                until = now + wait_after(outcome.retry_after, 1, 0.0)
                self._limiter.pause(until, chat=None if outcome.everywhere else chat, now=now)


def _rates(channel: Channel) -> tuple[Rate | None, ...]:
    capabilities = channel.capabilities
    return capabilities.per_chat, capabilities.per_group, capabilities.overall
