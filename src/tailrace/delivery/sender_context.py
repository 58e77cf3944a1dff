"""What the senders of one courier share: ledger, clock, connected channels, background tasks.

It owns waiting for a ledger that cannot be written, and the work that remains when a sender is cancelled: that runs as
a background task, so that a second cancellation cannot interrupt it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar

from tailrace.deliveries import FINAL
from tailrace.delivery.pace import PacedChannel
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
        """Seconds since some moment. Never goes back."""
        return time.monotonic()


class SenderContext:
    """The ledger, the clock and the channels.

    `jitter` gives a random number from 0 to 1. `on_final` is called with each delivery that became final. `draining` is
    true when no sender may start anything new.
    """

    def __init__(
        self, ledger: Ledger, clock: Clock, jitter: Callable[[], float], on_final: Callable[[Delivery], None]
    ) -> None:
        self.ledger = ledger
        self.clock = clock
        self.jitter = jitter
        self.on_final = on_final
        self.draining = False
        self.channels: dict[str, PacedChannel] = {}
        self._known: dict[str, PacedChannel] = {}
        self._connected = asyncio.Event()
        self._background: set[asyncio.Task[None]] = set()

    def connect(self, channel: Channel) -> None:
        """The channel may be called from now on."""
        paced = PacedChannel(channel, self.clock, self.jitter, before=self._known.get(channel.name))
        self.channels[channel.name] = self._known[channel.name] = paced
        self._connected.set()
        self._connected = asyncio.Event()

    def disconnect(self, name: str) -> None:
        """The channel may not be called until it is connected again; its deliveries wait."""
        self.channels.pop(name, None)

    def capabilities(self, name: str) -> Capabilities | None:
        """The capabilities of a channel that was connected at some time."""
        known = self._known.get(name)
        return known.channel.capabilities if known is not None else None

    async def channel(self, name: str) -> PacedChannel:
        """The channel, as soon as it is connected."""
        while (channel := self.channels.get(name)) is None:
            await self.next_connection()
        return channel

    async def next_connection(self) -> None:
        """Wait until another channel is connected."""
        await self._connected.wait()

    async def retry_while_unavailable(self, call: Callable[[], Awaitable[Result]]) -> Result:
        """The result of a ledger call, repeated while the ledger is unavailable."""
        pause = _FIRST_PAUSE_S
        while True:
            try:
                return await call()
            except LedgerUnavailable as error:
                _log.warning("the ledger cannot be written: %s", error)
                await asyncio.sleep(pause * (0.5 + self.jitter() / 2))
                pause = min(_LONGEST_PAUSE_S, 2 * pause)

    async def record(self, *states: Delivery, plan: Sequence[Delivery] = ()) -> None:
        """Record the next states of a delivery; the first of `states` is the one last seen.

        They are recorded even if the caller is cancelled meanwhile.
        """
        try:
            await self.record_until_done(*states, plan=plan)
        except asyncio.CancelledError:
            self.run_in_background(self.record_until_done(*states, plan=plan))
            raise

    async def record_until_done(self, *states: Delivery, plan: Sequence[Delivery] = ()) -> None:
        """Record the next states of a delivery, as soon as the ledger can be written."""
        await self.retry_while_unavailable(lambda: self.ledger.move(*pairwise(states), plan=plan))
        if states[-1].state in FINAL:
            self.on_final(states[-1])

    def run_in_background(self, work: Coroutine[None, None, None]) -> None:
        """Run work that must be done even if its caller is cancelled."""
        task = asyncio.create_task(self._logging_errors(work))
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _logging_errors(self, work: Coroutine[None, None, None]) -> None:
        try:
            await work
        except Fenced:
            pass  # it is recorded already, or another owner has the row
        except LedgerLost:
            pass  # the ledger itself has reported it; the next process adopts the row
        except LedgerError as error:
            _log.warning("an outcome could not be recorded: %s", error)

    async def drain_background(self, timeout_s: float) -> None:
        """Wait for the background tasks; after the timeout cancel them, and the next owner adopts their rows."""
        until = self.clock.monotonic() + timeout_s
        while self._background and (remaining := until - self.clock.monotonic()) > 0:
            await asyncio.wait(self._background, timeout=remaining)
        for task in self._background:
            task.cancel()
