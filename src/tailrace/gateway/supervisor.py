"""Keeps one channel running: starts it, connects it to the courier, and starts it again after it has failed."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from tailrace.errors import AccessLost, ChannelFault, TailraceError, UsageError
from tailrace.gateway.words import WORDS
from tailrace.ports import MenuCommand, ShowsCommands
from tailrace.redaction import redact

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.delivery import Courier
    from tailrace.gateway.context import ServedChannel
    from tailrace.ports import Inbox

_log = logging.getLogger(__name__)

_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 60.0
_STEADY_S = 60.0
_START_S = 60.0
_STOP_S = 5.0


class ChannelSupervisor:
    """The life of one channel. `on_ready` is called at each connection; `refused` is set if the first start fails
    for a reason that only a person can repair. `failures` counts the ends of a connection and the starts that failed;
    `problem` is the reason of the last one.
    """

    def __init__(
        self, served: ServedChannel, inbox: Inbox, courier: Courier, on_ready: Callable[[ServedChannel], None]
    ) -> None:
        self.served = served
        self.refused: Exception | None = None
        self.is_connected = False
        self.failures = 0
        self.problem = ""
        self.inbox = inbox
        self._courier = courier
        self._on_ready = on_ready
        self._started = asyncio.Event()

    async def run(self) -> None:
        """Keep the channel connected until this is cancelled."""
        channel, pause_s = self.served.channel, _FIRST_PAUSE_S
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            try:
                await self._serve()
                reason = "the connection was closed"
            except (AccessLost, UsageError) as error:
                reason, pause_s = _reason(error), _LONGEST_PAUSE_S
                if not self.served.was_connected.is_set():
                    self.refused = error
            except asyncio.CancelledError:
                if (task := asyncio.current_task()) is None or task.cancelling():
                    raise
                reason = "something it waited for was cancelled"
            except Exception as error:  # noqa: BLE001 -- a plugin's code
                reason = _reason(error)
            finally:
                self._started.set()
                self.is_connected = False
                self._courier.disconnect(channel.name)
                await self._stop()
            self.failures += 1
            self.problem = reason
            if loop.time() - began > _STEADY_S:
                pause_s = _FIRST_PAUSE_S
            _log.warning("the channel %s is down and starts again in %g s: %s", channel.name, pause_s, reason)
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    async def wait_started(self) -> None:
        """Wait until the first start has worked or failed."""
        await self._started.wait()

    async def _serve(self) -> None:
        channel = self.served.channel
        async with asyncio.timeout(_START_S):
            await channel.start(self.inbox)
        self._courier.connect(channel, self.served.courier_settings)
        self.is_connected = True
        self.served.was_connected.set()
        self._on_ready(self.served)
        self._started.set()
        if isinstance(channel, ShowsCommands):
            await self._show_commands(channel)
        await channel.wait_closed()

    async def _show_commands(self, channel: ShowsCommands) -> None:
        """Show our words in the menu of the platform. Without the menu everything else works."""
        try:
            async with asyncio.timeout(_START_S):
                await channel.show_commands([MenuCommand(name=name, description=text) for name, text in WORDS.items()])
        except Exception as error:  # noqa: BLE001 -- a plugin's code
            _log.warning("the channel %s could not show its menu of commands: %s", self.served.name, _reason(error))

    async def _stop(self) -> None:
        try:
            async with asyncio.timeout(_STOP_S):
                await self.served.channel.stop()
        except Exception as error:  # noqa: BLE001 -- a plugin's code; the channel is not used any more
            _log.warning("the channel %s could not be stopped: %s", self.served.name, _reason(error))


def _reason(error: Exception) -> str:
    """The text of an error on one line, without secrets."""
    text = " ".join(redact(str(error)).split())
    is_clear = isinstance(error, ChannelFault | TailraceError | OSError) and text
    return text if is_clear else f"{type(error).__name__}: {text}".removesuffix(": ")
