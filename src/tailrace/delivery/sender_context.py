"""What the senders of one courier share: ledger, clock, connected channels, settings, and work in the background.

The context repeats a call of the ledger while the ledger cannot be written. When a sender is stopped, its last writes
run here in the background, so that a second cancellation cannot interrupt them.
"""

from __future__ import annotations

import asyncio
import logging
import time
from functools import partial
from typing import TYPE_CHECKING, Literal, ParamSpec, TypeVar

import msgspec

from tailrace.deliveries import Policy, Query
from tailrace.delivery.pace import PacedChannel
from tailrace.errors import Fenced, LedgerError, LedgerUnavailable, UsageError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from tailrace.capabilities import Capabilities
    from tailrace.deliveries import Delivery
    from tailrace.delivery.pace import OnCall
    from tailrace.ledger_port import Ledger
    from tailrace.operations import Target
    from tailrace.ports import Channel, Clock

_log = logging.getLogger(__name__)
_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 5.0

P = ParamSpec("P")
Result = TypeVar("Result")


class SystemClock:
    """The clocks of this machine. On Linux `monotonic` counts the time in which the machine sleeps."""

    wall = staticmethod(time.time)
    if hasattr(time, "CLOCK_BOOTTIME"):
        monotonic = staticmethod(partial(time.clock_gettime, time.CLOCK_BOOTTIME))
    else:
        monotonic = staticmethod(time.monotonic)


class CourierSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of new deliveries. A delivery that is already recorded keeps its own policy.

    The fields are those of `tailrace.deliveries.Policy`.
    """

    on_unknown: Literal["hold", "resend"] = "hold"
    on_dead: Literal["skip", "halt"] = "skip"
    max_attempts: int = 20
    max_age_s: float = 86_400.0
    offers_resend: bool = False

    def __post_init__(self) -> None:
        if self.max_attempts < 1:
            raise UsageError(f"max_attempts is {self.max_attempts}; it must be at least 1")
        if not self.max_age_s > 0:
            raise UsageError(f"max_age_s is {self.max_age_s:g}; it must be greater than 0")


class SenderContext:
    """What all senders of a courier share: the ledger, the clock, the channels and the settings.

    `jitter` gives a random number from 0 to 1. `on_change` is called with each delivery after it was recorded, and
    `on_call` after each call to a channel.
    `draining` is true when no sender may start anything new. `fenced` counts the senders that lost their lease.
    """

    def __init__(
        self,
        ledger: Ledger,
        settings: CourierSettings,
        clock: Clock,
        *,
        jitter: Callable[[], float],
        on_change: Callable[[Delivery], None],
    ) -> None:
        self.ledger = ledger
        self.clock = clock
        self.jitter = jitter
        self.on_change = on_change
        self.on_call: OnCall = lambda *_: None
        self.draining = False
        self.fenced = 0
        self.channels: dict[str, PacedChannel] = {}
        self._settings = settings
        self._settings_of: dict[str, CourierSettings] = {}
        self._known: dict[str, PacedChannel] = {}
        self.connections = 0
        self._connected = asyncio.Event()
        self._background: set[asyncio.Task[None]] = set()

    def connect(self, channel: Channel, settings: CourierSettings | None = None) -> None:
        """Allow calls to the channel from now on."""
        before = self._known.get(channel.name)
        paced = PacedChannel(channel, self.clock, self.jitter, before=before, on_call=self.on_call)
        self.channels[channel.name] = self._known[channel.name] = paced
        self._settings_of[channel.name] = settings or self._settings
        self.connections += 1
        self._connected.set()
        self._connected = asyncio.Event()

    def disconnect(self, name: str) -> None:
        """Allow no calls to the channel until it is connected again. Its deliveries wait."""
        self.channels.pop(name, None)

    async def next_connection(self) -> None:
        """Wait until the next time that any channel is connected."""
        await self._connected.wait()

    def capabilities(self, target: Target) -> Capabilities:
        """What the channel can do in this chat. Raises `UsageError` if the channel was never connected."""
        known = self._known.get(target.channel)
        if known is None:
            raise UsageError(f"the channel {target.channel!r} was never connected: start and connect it first")
        return known.capabilities(target)

    def policy(self, target: Target) -> Policy:
        """The policy of a new delivery to this target. Raises `UsageError` if the channel was never connected."""
        idempotency, settings = self.capabilities(target).idempotency, self._settings_of[target.channel]
        return Policy(
            idempotency=idempotency,
            on_unknown=settings.on_unknown,
            on_dead=settings.on_dead,
            max_attempts=settings.max_attempts,
            max_age_s=settings.max_age_s,
            offers_resend=settings.offers_resend,
        )

    async def deliveries_of(self, turn_id: str) -> list[Delivery]:
        """All recorded deliveries of a turn, in their order."""
        known: list[Delivery] = []
        query, after = Query(turn_id=turn_id), None
        while page := await self.ledger.find(query, after=after):
            known += page
            after = page[-1].position
        return sorted(known, key=lambda delivery: delivery.position)

    async def retry_while_unavailable(
        self, call: Callable[P, Awaitable[Result]], *args: P.args, **options: P.kwargs
    ) -> Result:
        """Call a method of the ledger; while the ledger is unavailable, wait and call again. Returns the result."""
        pause = _FIRST_PAUSE_S
        while True:
            try:
                return await call(*args, **options)
            except LedgerUnavailable as error:
                _log.warning("the ledger cannot be written: %s", error)
                await asyncio.sleep(pause * (0.5 + self.jitter() / 2))
                pause = min(_LONGEST_PAUSE_S, 2 * pause)

    def run_in_background(self, work: Coroutine[None, None, None]) -> None:
        """Run work that must be completed even if its caller is cancelled."""
        task = asyncio.create_task(self._logging_errors(work))
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _logging_errors(self, work: Coroutine[None, None, None]) -> None:
        try:
            await work
        except Fenced:
            pass  # the change is recorded already, or another owner has the conversation
        except LedgerError as error:
            _log.warning("an outcome could not be recorded; the next owner finds the delivery open: %s", error)

    async def drain_background(self, timeout_s: float) -> None:
        """Wait for the work in the background. After the timeout cancel it; the next owner then adopts its rows."""
        until = self.clock.monotonic() + timeout_s
        while self._background and (remaining := until - self.clock.monotonic()) > 0:
            await asyncio.wait(self._background, timeout=remaining)
        for task in self._background:
            task.cancel()
