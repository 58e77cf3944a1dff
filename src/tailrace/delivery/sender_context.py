"""What the conversations of one courier share: ledger, clock, connected channels, background work.

It owns waiting for a ledger that cannot be written just now, and the work that is left when a lane is cancelled
in the middle of something: that work runs on its own, so that no second cancellation can tear it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar

from tailrace.deliveries import FINAL
from tailrace.delivery.paced_channel import PacedChannel
from tailrace.errors import Fenced, LedgerError, LedgerLost, LedgerUnavailable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Sequence

    from tailrace.capabilities import Capabilities
    from tailrace.deliveries import Delivery
    from tailrace.ports import Channel, Clock, Ledger

_log = logging.getLogger(__name__)
_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 5.0

Result = TypeVar("Result")


class SystemClock:
    """The clocks of this machine."""

    def wall(self) -> float:
        """Seconds since 1970."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds since some moment; never goes back."""
        return time.monotonic()


class SenderContext:
    """The ledger, the clock and the outlets.

    `jitter` draws a number from 0 to 1; `settled` is told of each delivery that became final; `draining` is true
    once nothing new is to be begun.
    """

    def __init__(
        self, ledger: Ledger, clock: Clock, jitter: Callable[[], float], settled: Callable[[Delivery], None]
    ) -> None:
        self.ledger = ledger
        self.clock = clock
        self.jitter = jitter
        self.settled = settled
        self.draining = False
        self.outlets: dict[str, PacedChannel] = {}
        self._known: dict[str, PacedChannel] = {}
        self._connected = asyncio.Event()
        self._tidying: set[asyncio.Task[None]] = set()

    def connect(self, channel: Channel) -> None:
        """The channel can be called from now on."""
        outlet = PacedChannel(channel, self.clock, self.jitter, before=self._known.get(channel.name))
        self.outlets[channel.name] = self._known[channel.name] = outlet
        self._connected.set()
        self._connected = asyncio.Event()

    def disconnect(self, name: str) -> None:
        """The channel cannot be called until it is connected again; what is for it waits."""
        self.outlets.pop(name, None)

    def capabilities(self, name: str) -> Capabilities | None:
        """What the channel can do, where it was ever connected."""
        known = self._known.get(name)
        return known.channel.capabilities if known is not None else None

    async def outlet(self, name: str) -> PacedChannel:
        """The channel's outlet, once it is connected."""
        while (outlet := self.outlets.get(name)) is None:
            await self.next_connection()
        return outlet

    async def next_connection(self) -> None:
        """Wait until a channel is connected that was not."""
        await self._connected.wait()

    async def retry_while_unavailable(self, call: Callable[[], Awaitable[Result]]) -> Result:
        """What the ledger answers, asked again for as long as it cannot be written."""
        pause = _FIRST_PAUSE_S
        while True:
            try:
                return await call()
            except LedgerUnavailable as error:
                _log.warning("the ledger cannot be written: %s", error)
                await asyncio.sleep(pause * (0.5 + self.jitter() / 2))
                pause = min(_LONGEST_PAUSE_S, 2 * pause)

    async def record(self, *states: Delivery, plan: Sequence[Delivery] = ()) -> None:
        """Record what became of a delivery, from the state it was last seen in through those that follow.

        It is recorded also if whoever waits here is cancelled meanwhile.
        """
        try:
            await self.record_until_done(*states, plan=plan)
        except asyncio.CancelledError:
            self.run_in_background(self.record_until_done(*states, plan=plan))
            raise

    async def record_until_done(self, *states: Delivery, plan: Sequence[Delivery] = ()) -> None:
        """Record what became of a delivery, as soon as the ledger can be written."""
        await self.retry_while_unavailable(lambda: self.ledger.move(*pairwise(states), plan=plan))
        if states[-1].state in FINAL:
            self.settled(states[-1])

    def run_in_background(self, work: Coroutine[None, None, None]) -> None:
        """Let work go on that must be done whatever happens to whoever asks for it."""
        task = asyncio.create_task(self._tidy(work))
        self._tidying.add(task)
        task.add_done_callback(self._tidying.discard)

    async def _tidy(self, work: Coroutine[None, None, None]) -> None:
        try:
            await work
        except Fenced:
            pass  # it was done already, or somebody else has the row now
        except LedgerLost:
            pass  # said by the ledger itself; the next process finds the row as it is
        except LedgerError as error:
            _log.warning("what was left to be recorded could not be: %s", error)

    async def drain_background(self, timeout_s: float) -> None:
        """Wait until nothing is left in the background; what cannot be in that time is left to whoever comes next."""
        until = self.clock.monotonic() + timeout_s
        while self._tidying and (remaining := until - self.clock.monotonic()) > 0:
            await asyncio.wait(self._tidying, timeout=remaining)
        for task in self._tidying:
            task.cancel()
