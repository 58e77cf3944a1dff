"""A connected channel with its rate limits and its circuit breaker: waits until a call is allowed.

`rate_limiter` and `circuit_breaker` decide when that is; they use the outcomes of earlier calls. This module waits.
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
from tailrace.ports import Channel, Clock, DiffersByChat, ReadsBack

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from tailrace.capabilities import Capabilities, Rate
    from tailrace.deliveries import Delivery
    from tailrace.operations import Operation, Target

    OnCall: TypeAlias = Callable[[str, Operation, Outcome], None]
    """Gets the name of the channel, the operation, and the outcome of each call."""

_log = logging.getLogger(__name__)

START_WITHIN_S = 5.0
"""A call begins at most this long after the decision to send was made. If it is later, the sender decides again.

The clock counts the time in which the machine sleeps. A process that was paused in between may have lost its lease.
"""


class RateLimitQueue:
    """The calls that wait for the rate limits of a channel: a future for each, and one timer for all.

    If `try_call` does not allow a call at once, use `enqueue` and `wait`, and in the end always `cancel`.
    """

    def __init__(self, limiter: RateLimiter, clock: Clock) -> None:
        self.limiter = limiter
        self._clock = clock
        self._futures: dict[PendingCall, asyncio.Future[bool]] = {}
        self._due: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    def try_call(self, chat: str, urgency: Urgency, *, group: bool = False) -> bool:
        """Count a call and return True, if the rate limits allow it now. Otherwise return False."""
        return self.limiter.try_call(chat, urgency, self._clock.monotonic(), group=group)

    def enqueue(self, chat: str, urgency: Urgency, *, group: bool = False) -> PendingCall:
        """Queue a call that the rate limits do not allow yet. `wait` waits for it."""
        call = self.limiter.enqueue(chat, urgency, self._clock.monotonic(), group=group)
        self._futures[call] = asyncio.get_running_loop().create_future()
        self._grant_due()
        return call

    async def wait(self, call: PendingCall) -> bool:
        """Wait until the call is allowed, and count it. Returns False if it was cancelled while it waited."""
        return await self._futures[call]

    def cancel(self, call: PendingCall) -> None:
        """Remove a call from the queue, because it is not needed any more. May be called twice."""
        self.limiter.cancel(call)
        future = self._futures.pop(call, None)
        if future is not None and not future.done():
            future.set_result(False)

    def _grant_due(self) -> None:
        """Wake the calls that are allowed now, and set the timer for the next one."""
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
    """One channel with its rate limits and its circuit breaker.

    If the channel was connected before, `before` is its earlier `PacedChannel`: the calls counted there still count.
    `on_call` is called after each call to the channel.
    """

    def __init__(
        self,
        channel: Channel,
        clock: Clock,
        jitter: Callable[[], float],
        *,
        before: PacedChannel | None = None,
        on_call: OnCall = lambda *_: None,
    ) -> None:
        self.channel = channel
        self.deadline_s = channel.capabilities.deadline_s
        self._by_chat = channel if isinstance(channel, DiffersByChat) else None
        self._clock = clock
        self._jitter = jitter
        self._on_call = on_call
        idempotency = channel.capabilities.idempotency
        self._repeat_context = RepeatContext(
            can_look_up=isinstance(channel, ReadsBack),
            scope=idempotency.scope if isinstance(idempotency, Keyed) else "",
            longest_send_s=self.deadline_s + START_WITHIN_S,
        )
        # The platform does not forget earlier calls and waits when we connect again, so we keep them too.
        is_same = before is not None and _rates(before.channel) == _rates(channel)
        self.queue: RateLimitQueue = (
            before.queue if before is not None and is_same else RateLimitQueue(RateLimiter(channel.capabilities), clock)
        )
        self._limiter = self.queue.limiter
        self._circuit_breaker = CircuitBreaker()

    def capabilities(self, target: Target) -> Capabilities:
        """What the channel can do in this chat."""
        return self.channel.capabilities if self._by_chat is None else self._by_chat.capabilities_of(target)

    def is_group(self, target: Target) -> bool:
        """Whether the rate of groups applies to this chat."""
        return target.group or (self._by_chat is not None and self.capabilities(target).per_group is not None)

    def next_step(self, delivery: Delivery, *, waited: bool = False) -> NextStep:
        """What to do now with an open delivery for this channel, see `result.next_step`."""
        return next_step(delivery, self._repeat_context, now=self._clock.wall(), waited=waited)

    @property
    def is_answering(self) -> bool:
        """Whether the circuit breaker is closed: the platform answered the latest calls."""
        return self._circuit_breaker.is_closed

    def is_free(self, chat: str, *, group: bool = False) -> bool:
        """Whether a call to the chat is allowed now."""
        return self._circuit_breaker.is_closed and self._limiter.is_free(chat, self._clock.monotonic(), group=group)

    def count_call(self, chat: str, *, group: bool = False) -> None:
        """Count a call that is made now, because the chat is free."""
        self._limiter.count_call(chat, self._clock.monotonic(), group=group)

    def due_in(self, chat: str) -> float:
        """An estimate of the seconds until the chat may be called. Reserves nothing."""
        now = self._clock.monotonic()
        return max(self._limiter.expected_at(chat, now) - now, self._circuit_breaker.due_in(now))

    async def wait_to_call(self, chat: str, urgency: Urgency = Urgency.FINAL, *, group: bool = False) -> None:
        """Wait until a call to the chat is allowed, and count it."""
        probe_s, breaker = self.deadline_s + 1, self._circuit_breaker
        while (wait := breaker.wait(self._clock.monotonic(), probe_s=probe_s)) > 0:  # noqa: ASYNC110 -- time
            # With the jitter, the calls that wait do not all come at the same moment.
            await asyncio.sleep(wait * (1 + self._jitter() / 10))
        if not self.queue.try_call(chat, urgency, group=group):
            call = self.queue.enqueue(chat, urgency, group=group)
            try:
                await self.queue.wait(call)
            finally:
                self.queue.cancel(call)

    def now(self) -> float:
        """The time by the clock of the rate limits."""
        return self._clock.monotonic()

    def end_call(self, chat: str, began: float) -> None:
        """Note the end of a call to the chat that began at `began`. The rate limits count a slow call from its end."""
        self._limiter.end_call(chat, began, self._clock.monotonic())

    def report(self, operation: Operation, outcome: Outcome) -> None:
        """Pass the outcome of a call to the function that the program around the courier gave for metrics."""
        self._on_call(self.channel.name, operation, outcome)

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
