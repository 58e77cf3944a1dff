"""A connected channel as deliveries see it: when it may be called, and what its answers say about calling it again."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from tailrace.capabilities import Keyed
from tailrace.delivery.circuit import Circuit
from tailrace.delivery.decisions import is_plausible, wait_after
from tailrace.delivery.pacing import Pace
from tailrace.operations import Ambiguous, Delivered, NotNow, Outcome, Refused
from tailrace.ports import Channel, Clock, ReadsBack

if TYPE_CHECKING:
    from collections.abc import Callable

_log = logging.getLogger(__name__)


class Outlet:
    """One channel with its pace and its circuit."""

    def __init__(self, channel: Channel, clock: Clock, jitter: Callable[[], float]) -> None:
        self.channel = channel
        self.deadline_s = channel.capabilities.deadline_s
        self.can_ask = isinstance(channel, ReadsBack)
        idempotency = channel.capabilities.idempotency
        self.scope = idempotency.scope if isinstance(idempotency, Keyed) else ""
        self._pace = Pace(channel.capabilities)
        self._circuit = Circuit()
        self._clock = clock
        self._jitter = jitter

    @property
    def is_answering(self) -> bool:
        """Whether the platform answered when it was last called."""
        return self._circuit.is_closed

    def is_free(self, chat: str) -> bool:
        """Whether a call to the chat may go this moment."""
        now = self._clock.monotonic()
        return self._circuit.is_closed and self._pace.due(chat, now) <= now

    def spend(self, chat: str) -> None:
        """A call goes this moment, because the chat is free."""
        now = self._clock.monotonic()
        self._pace.reserve(now)
        self._pace.spend(chat, now)

    def due_in(self, chat: str) -> float:
        """The seconds until the chat is free, as far as its pace goes; nothing is reserved."""
        now = self._clock.monotonic()
        return self._pace.due(chat, now) - now

    async def turn_to_call(self, chat: str) -> None:
        """Wait until the platform is worth calling and the chat's next call is due."""
        probe_s = self.deadline_s + 1
        while (wait := self._circuit.wait(self._clock.monotonic(), probe_s=probe_s)) > 0:  # noqa: ASYNC110 -- time
            # Those who wait for the same moment must not all come at it.
            await asyncio.sleep(wait * (1 + self._jitter() / 10))
        while True:
            now = self._clock.monotonic()
            if (due := self._pace.chat_due(chat, now)) > now:
                await asyncio.sleep(due - now)
                continue
            if (due := self._pace.reserve(now)) > now:
                await asyncio.sleep(due - now)
                now = self._clock.monotonic()
            if not self._pace.is_held(chat, now):
                self._pace.spend(chat, now)
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
                self._pace.pause(until, chat=None if outcome.everywhere else chat, now=now)
