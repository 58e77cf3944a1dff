"""A connected channel as deliveries see it: when it may be called, and what its answers say about calling it again."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from tailrace.capabilities import Keyed
from tailrace.delivery.circuit import Circuit
from tailrace.delivery.decisions import Reach, Step, is_plausible, next_step, wait_after
from tailrace.delivery.pacing import Pace
from tailrace.operations import Ambiguous, Delivered, NotNow, Outcome, Refused
from tailrace.ports import Channel, Clock, ReadsBack

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.capabilities import Rate
    from tailrace.deliveries import Delivery

_log = logging.getLogger(__name__)

STALE_S = 15.0
"""An intent that took longer than this to record was decided in another world: it is decided again."""


class Outlet:
    """One channel with its pace and its circuit; `before` is the outlet it had when it was last connected."""

    def __init__(
        self, channel: Channel, clock: Clock, jitter: Callable[[], float], *, before: Outlet | None = None
    ) -> None:
        self.channel = channel
        self.deadline_s = channel.capabilities.deadline_s
        self._clock = clock
        self._jitter = jitter
        idempotency = channel.capabilities.idempotency
        self._reach = Reach(
            can_ask=isinstance(channel, ReadsBack),
            scope=idempotency.scope if isinstance(idempotency, Keyed) else "",
            takes_s=self.deadline_s + STALE_S,
        )
        # A platform counts calls and remembers what it asked for whether or not the connection is a new one.
        is_same = before is not None and _rates(before.channel) == _rates(channel)
        self.pace: Pace = before.pace if before is not None and is_same else Pace(channel.capabilities)
        self._circuit = Circuit()

    def next_step(self, delivery: Delivery, *, waited: bool = False) -> Step:
        """What to do with an open delivery for this channel at this moment."""
        return next_step(delivery, self._reach, now=self._clock.wall(), waited=waited)

    @property
    def is_answering(self) -> bool:
        """Whether the platform answered when it was last called."""
        return self._circuit.is_closed

    def is_free(self, chat: str) -> bool:
        """Whether a call to the chat may go this moment."""
        now = self._clock.monotonic()
        return self._circuit.is_closed and self.pace.due(chat, now) <= now

    def spend(self, chat: str) -> None:
        """A call goes this moment, because the chat is free."""
        now = self._clock.monotonic()
        self.pace.reserve(now)
        self.pace.spend(chat, now)

    def due_in(self, chat: str) -> float:
        """The seconds until the chat is free and the platform worth calling, as it looks now; nothing is reserved."""
        now = self._clock.monotonic()
        return max(self.pace.due(chat, now) - now, self._circuit.due_in(now))

    async def turn_to_call(self, chat: str) -> None:
        """Wait until the platform is worth calling and the chat's next call is due."""
        probe_s = self.deadline_s + 1
        while (wait := self._circuit.wait(self._clock.monotonic(), probe_s=probe_s)) > 0:  # noqa: ASYNC110 -- time
            # Those who wait for the same moment must not all come at it.
            await asyncio.sleep(wait * (1 + self._jitter() / 10))
        while True:
            now = self._clock.monotonic()
            if (due := self.pace.chat_due(chat, now)) > now:
                await asyncio.sleep(due - now)
                continue
            if (due := self.pace.reserve(now)) > now:
                await asyncio.sleep(due - now)
                now = self._clock.monotonic()
            if not self.pace.is_held(chat, now):
                self.pace.spend(chat, now)
                return

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
                self.pace.pause(until, chat=None if outcome.everywhere else chat, now=now)


def _rates(channel: Channel) -> tuple[Rate | None, Rate | None]:
    return channel.capabilities.per_chat, channel.capabilities.overall
