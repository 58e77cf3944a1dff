"""Runs one extension: creates it, initializes it, serves it if it is a channel, and stops it at the end."""

from __future__ import annotations

import asyncio
import logging
import re
from typing import TYPE_CHECKING, Any

from tailrace.errors import ExtensionFault
from tailrace.gateway.extension_call import call_extension, reason_of
from tailrace.gateway.extension_channel import ExtensionChannel
from tailrace.gateway.extension_context import ExtensionContext
from tailrace.gateway.extensions import BrokenExtension
from tailrace.gateway.plan import ChannelPlan
from tailrace.ports import Channel, ChannelProvider, StreamingChannelProvider

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from tailrace.gateway.context import GatewayContext
    from tailrace.gateway.extensions import Extension
    from tailrace.gateway.supervisor import ChannelSupervisor

_INITIALIZE_S = 30.0
_START_S = 30.0
_STOP_S = 5.0
_log = logging.getLogger(__name__)


class ExtensionRunner:
    """The life of one extension. `add_channel` lets the gateway serve it, `write` gets a line for the operator.

    Raises `ExtensionFault` if its object cannot be created. `name` is the one of the object, or else of the manifest.
    """

    def __init__(
        self,
        extension: Extension,
        gateway: GatewayContext,
        *,
        add_channel: Callable[[ChannelPlan], Awaitable[ChannelSupervisor]],
        write: Callable[[str], None],
    ) -> None:
        self._extension = extension
        self._object, self.name = _created(extension)
        self._context = ExtensionContext(extension, gateway, name=self.name)
        self._add_channel = add_channel
        self._write = write
        self._started = asyncio.Event()

    async def run(self) -> None:
        """Run the extension until this is cancelled. An extension that cannot be started does nothing."""
        try:
            await self._call("initialize", self._context, timeout_s=_INITIALIZE_S)
            channel = self._channel()
            if channel is None:
                await self._run_without_channel()
            else:
                await self._serve(channel)
        except ExtensionFault as error:
            self._write(f"{error}; the gateway runs without it")
            self._started.set()
            await asyncio.get_running_loop().create_future()

    async def wait_started(self) -> None:
        """Wait until it is known whether the extension runs."""
        await self._started.wait()

    def _channel(self) -> Channel | None:
        """The extension as a channel; None if it is none."""
        found = self._object
        if isinstance(found, Channel):
            return found
        return ExtensionChannel(found) if isinstance(found, StreamingChannelProvider | ChannelProvider) else None

    async def _serve(self, channel: Channel) -> None:
        extension = self._extension
        supervisor = await self._add_channel(
            ChannelPlan(
                channel=channel,
                settings=extension.settings,
                agent_id=extension.agent_id,
                presentation=extension.presentation,
            )
        )
        self._context.inbox = supervisor.inbox
        self._started.set()
        await supervisor.run()

    async def _run_without_channel(self) -> None:
        try:
            await self._call("start", timeout_s=_START_S)
            self._started.set()
            await asyncio.get_running_loop().create_future()
        finally:
            try:
                await self._call("stop", timeout_s=_STOP_S)
            except ExtensionFault as error:
                _log.warning("%s", error)

    async def _call(self, method: str, *arguments: Any, timeout_s: float) -> None:
        if (found := getattr(self._object, method, None)) is not None:
            await call_extension(self.name, found, *arguments, timeout_s=timeout_s)


def create_runners(
    extensions: Sequence[Extension | BrokenExtension],
    gateway: GatewayContext,
    *,
    add_channel: Callable[[ChannelPlan], Awaitable[ChannelSupervisor]],
    write: Callable[[str], None],
) -> list[ExtensionRunner]:
    """Create the objects of the extensions. Each that cannot be used gets a line for the operator."""
    runners: dict[str, ExtensionRunner] = {}
    for extension in extensions:
        problem = ""
        if isinstance(extension, BrokenExtension):
            problem = f"the extension {extension.name} cannot be loaded: {extension.problem}"
        else:
            try:
                runner = ExtensionRunner(extension, gateway, add_channel=add_channel, write=write)
            except ExtensionFault as error:
                problem = str(error)
            else:
                if runner.name in runners or runner.name in gateway.served:
                    problem = f"the extension {runner.name} has the name of another extension or channel"
                else:
                    runners[runner.name] = runner
        if problem:
            write(f"{problem}; the gateway runs without it")
    return list(runners.values())


def _created(extension: Extension) -> tuple[Any, str]:
    try:
        found = extension.make()
        name = getattr(found, "name", None)
        if not name:
            found.name = name = extension.name
    except BaseException as error:
        raise ExtensionFault(f"the extension {extension.name} cannot be created: {reason_of(error)}") from error
    if not isinstance(name, str) or not re.fullmatch(r"[\w-]+", name):
        raise ExtensionFault(f"the extension {extension.name} has a wrong name: use letters, digits, - and _")
    return found, name
