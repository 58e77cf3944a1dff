"""What every command that sends needs: the ledger, a courier (the part of tailrace that sends) and the channels.

This module opens them and closes them in the right order. Incoming messages are refused, because such a command only
sends.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, NoReturn

from tailrace.cli.delivery_format import one_line
from tailrace.cli.ledgers import write_ledger
from tailrace.cli.settings import configured_channel, create_channel, open_settings
from tailrace.delivery import Courier, Spool
from tailrace.errors import ChannelFault, LedgerUnavailable, UsageError
from tailrace.ports import StartsToSend
from tailrace.redaction import redact

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from tailrace.cli.status_line import StatusLine
    from tailrace.config import Settings
    from tailrace.deliveries import Delivery
    from tailrace.delivery import CourierSettings
    from tailrace.inbound import Inbound
    from tailrace.ports import Channel

_DRAIN_S = 5.0
_STOP_S = 2.0
EXIT_AFTER_S = _DRAIN_S + 3.0
"""The seconds after which a stopped command exits in any case; until then it waits for answers to what it sends."""
_log = logging.getLogger(__name__)


class _ClosedInbox:
    """Refuses incoming messages, so that the platform keeps them for the process that answers them."""

    async def receive(self, inbound: Inbound) -> NoReturn:
        raise LedgerUnavailable(f"this command only sends; {inbound.event_id} is left for the process that answers")


def load_channel(name: str, settings: Settings | None = None) -> Channel:
    """Create the channel with this name; it is not started. `settings` are read from the working directory if None.

    Raises `UsageError` if there is no such channel, or it cannot send.
    """
    return create_channel(configured_channel(settings or open_settings(), name))


class Connections:
    """A courier, which sends the deliveries, and the channels that were connected to it."""

    def __init__(self, courier: Courier, channels: AsyncExitStack) -> None:
        self.courier = courier
        self._channels = channels
        self._is_lost = asyncio.Event()
        self._lost = ""

    async def connect(self, channel: Channel) -> None:
        """Start a channel and give it to the courier. Raises `ChannelFault` if the channel cannot be started."""
        try:
            if isinstance(channel, StartsToSend):
                await channel.start_to_send()
            else:
                await channel.start(_ClosedInbox())
        except Exception as error:
            raise ChannelFault(f"the channel {channel.name!r} cannot be started: {_reason(error)}") from error
        watching = asyncio.create_task(self._watch(channel))
        self._channels.push_async_callback(self._disconnect, channel, watching)
        self.courier.connect(channel)

    async def finish_or_drain(
        self,
        work: asyncio.Task[Any],
        stop: asyncio.Event,
        status: StatusLine,
        on_stop: Callable[[], None] = lambda: None,
    ) -> bool:
        """Wait until `work` is done. If `stop` is set first, wait only for the calls that are being made.

        Returns whether `stop` ended the work. Raises `ChannelFault` if a channel loses its connection for good
        meanwhile.
        """
        stopping, losing = asyncio.create_task(stop.wait()), asyncio.create_task(self._is_lost.wait())
        try:
            await asyncio.wait({work, stopping, losing}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            losing.cancel()
        if work.done():
            return False
        if not self._lost:
            status.write("stopping: an answer to what is being sent may take some seconds")
        on_stop()
        await self.courier.drain(_DRAIN_S)
        if self._lost:
            raise ChannelFault(self._lost)
        return True

    async def _watch(self, channel: Channel) -> None:
        try:
            await channel.wait_closed()
        except Exception as error:  # noqa: BLE001 -- the channel's own code
            self._lost = f"the channel {channel.name!r} has lost its connection: {_reason(error)}"
            self._is_lost.set()

    async def _disconnect(self, channel: Channel, watching: asyncio.Task[None]) -> None:
        watching.cancel()
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(_STOP_S):
                    await channel.stop()
        except Exception as error:  # noqa: BLE001 -- the channel's own code; all is sent already
            _log.warning("the channel %r could not be stopped: %s", channel.name, _reason(error))


def _reason(error: Exception) -> str:
    """The text of an exception that a plugin raised, on one line and without secrets."""
    text = one_line(redact(str(error)))
    is_clear = isinstance(error, ChannelFault | UsageError | OSError) and text
    return text if is_clear else f"{type(error).__name__}: {text}" if text else type(error).__name__


@asynccontextmanager
async def open_courier(
    path: Path, settings: CourierSettings, on_change: Callable[[Delivery], None], *, adopt_restored: bool = False
) -> AsyncIterator[Connections]:
    """Open the ledger, and a courier that sends. `on_change` is called with each delivery that changes.

    At the end of the block, the calls that are being made are finished, then all is closed.
    """
    async with write_ledger(path, adopt_restored=adopt_restored) as ledger, AsyncExitStack() as channels:
        spool = Spool(path.with_name(f"{path.name}.spool"))
        courier = Courier(ledger, settings=settings, spool=spool, on_change=on_change)
        try:
            yield Connections(courier, channels)
        finally:
            await courier.drain(_DRAIN_S)
