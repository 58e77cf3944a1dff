"""What a command needs to send: the ledger in its hands, a courier, and the channels that it is asked for.

Owns how a channel that is named becomes one that can send, and the order in which everything is let go of. It sends
nothing on its own, and takes in nothing that people write.
"""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, NoReturn

from tailrace.cli.ledgers import write_ledger
from tailrace.delivery import Courier, Spool
from tailrace.delivery.observed_ledger import ObservedLedger
from tailrace.errors import ChannelFault, LedgerUnavailable, UsageError
from tailrace.plugins import load
from tailrace.ports import Channel

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from tailrace.deliveries import Delivery, Inbound
    from tailrace.delivery import CourierSettings

DRAIN_S = 5.0
"""How long a command that is asked to stop waits for answers to what it is sending."""
EXIT_AFTER_S = DRAIN_S + 3.0
"""When it ends at any rate."""


class _ClosedInbox:
    """Nobody here answers: the platform keeps what people write for whoever does."""

    async def receive(self, inbound: Inbound) -> NoReturn:
        """Refuse it."""
        raise LedgerUnavailable(f"this command only sends; {inbound.event_id} is left for whoever answers")


def made_channel(name: str) -> Channel:
    """The channel of that name, not started. Raises `UsageError` where there is none that can send."""
    make = load("channel", name)
    try:
        channel: Any = make()
    except UsageError:
        raise
    except Exception as error:
        raise UsageError(f"the channel {name!r} cannot be made: {type(error).__name__}: {error}") from error
    if not isinstance(channel, Channel):
        raise UsageError(
            f"the channel {name!r} cannot be sent to: it has not all that `tailrace.ports.Channel` asks for "
            "(name, capabilities, start, stop, post)"
        )
    if channel.name != name:
        raise UsageError(f"the channel {name!r} calls itself {channel.name!r}: a channel has one name")
    return channel


class Dispatch:
    """A courier at work, and the channels it was given."""

    def __init__(self, courier: Courier, held: AsyncExitStack) -> None:
        self.courier = courier
        self._held = held

    async def connect(self, channel: Channel) -> None:
        """Start the channel and let the courier use it. Raises `ChannelFault` where it cannot be started."""
        try:
            await channel.start(_ClosedInbox())
        except (ChannelFault, UsageError, OSError) as error:
            raise ChannelFault(f"the channel {channel.name!r} cannot be started: {error}") from error
        self._held.push_async_callback(channel.stop)
        self.courier.connect(channel)


@asynccontextmanager
async def dispatch(path: Path, settings: CourierSettings, told: Callable[[Delivery], None]) -> AsyncIterator[Dispatch]:
    """Take the ledger and send with it; `told` hears of every delivery that changes. Leaving drains the courier."""
    async with write_ledger(path) as ledger, AsyncExitStack() as channels:
        spool = Spool(path.with_name(f"{path.name}.spool"))
        courier = Courier(ObservedLedger(ledger, told), settings=settings, spool=spool)
        try:
            yield Dispatch(courier, channels)
        finally:
            await courier.drain(DRAIN_S)
