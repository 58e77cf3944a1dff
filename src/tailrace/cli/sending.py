"""Opens what a command needs to send: the ledger, a courier and the channels. Closes them in the right order.

Incoming messages are refused, because a command only sends.
"""

from __future__ import annotations

import asyncio
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

    from tailrace.cli.status_line import StatusLine
    from tailrace.deliveries import Delivery, Inbound
    from tailrace.delivery import CourierSettings

_DRAIN_S = 5.0
EXIT_AFTER_S = _DRAIN_S + 3.0
"""The seconds after which a stopped command exits in any case; until then it waits for answers to what it sends."""


class _ClosedInbox:
    """Refuses incoming messages, so that the platform keeps them for the process that answers."""

    async def receive(self, inbound: Inbound) -> NoReturn:
        raise LedgerUnavailable(f"this command only sends; {inbound.event_id} is left for the process that answers")


def load_channel(name: str) -> Channel:
    """Create the channel of that name; it is not started. Raises `UsageError` if there is none, or it cannot send."""
    make = load("channel", name)
    try:
        channel: Any = make()
    except UsageError:
        raise
    except Exception as error:
        raise UsageError(f"the channel {name!r} cannot be created: {type(error).__name__}: {error}") from error
    if not isinstance(channel, Channel):
        raise UsageError(
            f"the channel {name!r} cannot send: it must have all members of `tailrace.ports.Channel` "
            "(name, capabilities, start, stop, post)"
        )
    if channel.name != name:
        raise UsageError(f"the channel {name!r} has the attribute name={channel.name!r}: the two must be equal")
    return channel


async def finish_or_drain(work: asyncio.Task[None], courier: Courier, stop: asyncio.Event, status: StatusLine) -> bool:
    """Wait for the work. If `stop` is set before, drain the courier. Returns whether the work was stopped."""
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({work, stopping}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()
    if work.done():
        return False
    status.write("stopping: an answer to what is being sent may take some seconds")
    await courier.drain(_DRAIN_S)
    return True


class Connections:
    """A courier and the channels that were connected to it."""

    def __init__(self, courier: Courier, channels: AsyncExitStack) -> None:
        self.courier = courier
        self._channels = channels

    async def connect(self, channel: Channel) -> None:
        """Start the channel and connect it to the courier. Raises `ChannelFault` if it cannot be started."""
        try:
            await channel.start(_ClosedInbox())
        except (ChannelFault, UsageError, OSError) as error:
            raise ChannelFault(f"the channel {channel.name!r} cannot be started: {error}") from error
        self._channels.push_async_callback(channel.stop)
        self.courier.connect(channel)


@asynccontextmanager
async def open_courier(
    path: Path, settings: CourierSettings, on_change: Callable[[Delivery], None], *, adopt_restored: bool = False
) -> AsyncIterator[Connections]:
    """Open the ledger and a courier. `on_change` gets each changed delivery. At the end the courier is drained."""
    async with write_ledger(path, adopt_restored=adopt_restored) as ledger, AsyncExitStack() as channels:
        spool = Spool(path.with_name(f"{path.name}.spool"))
        courier = Courier(ObservedLedger(ledger, on_change), settings=settings, spool=spool)
        try:
            yield Connections(courier, channels)
        finally:
            await courier.drain(_DRAIN_S)
