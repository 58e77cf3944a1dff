"""Socket Mode: opens a socket, receives what people do, and acknowledges what was recorded.

Slack sends an event again, also to another process, if it was not acknowledged. It asks for a new socket now and then;
the old one is read until Slack closes it. This module does not use the client of slack-sdk, because that has its own
endless loop for lost connections, and it hides the answers to pings, which prove that the connection works.
"""

from __future__ import annotations

import asyncio
import logging
import random
from typing import TYPE_CHECKING

import aiohttp
import msgspec

from tailrace.channels.http_session import HTTP_ERRORS
from tailrace.channels.reconnecting import reconnect_wait_s
from tailrace.channels.slack.client import SlackCall
from tailrace.channels.slack.events import Envelope
from tailrace.errors import ChannelFault, LedgerUnavailable, MaybeSent, NotSent

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tailrace.channels.slack.client import SlackClient

_log = logging.getLogger(__name__)

PING_S = 10.0
"""How often a ping is sent. Its answer proves that the connection works."""
DEAD_S = 30.0
"""A socket that is silent for this time is replaced."""
_MAX_FRAME = 1024 * 1024
_STABLE_S = 10.0  # a socket that is lost earlier counts as a failure


class OpenedConnection(msgspec.Struct, frozen=True):
    """The answer of `apps.connections.open`. The address works once."""

    url: str


class SocketReader:
    """Reads sockets.

    `receive` gets the kind and the JSON of each envelope; `on_life` is called at each sign of life.
    """

    def __init__(
        self,
        api: SlackClient,
        receive: Callable[[str, bytes], Awaitable[None]],
        *,
        on_life: Callable[[], None],
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._api = api
        self._receive = receive
        self._on_life = on_life
        self._jitter = jitter

    async def run(self, socket: aiohttp.ClientWebSocketResponse | None) -> None:
        """Receive until an error of `receive`, first over this socket if there is one.

        A socket that is lost is replaced, after a growing pause if that fails.
        """
        try:
            async with asyncio.TaskGroup() as readers:
                if socket is not None:
                    await self._read_until_replaced(readers, socket)
                await self._keep_connected(readers)
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None

    async def _keep_connected(self, readers: asyncio.TaskGroup) -> None:
        failures = 0
        while True:
            try:
                socket = await self.connect()
                began = asyncio.get_running_loop().time()
                is_asked = await self._read_until_replaced(readers, socket)
                if not is_asked and asyncio.get_running_loop().time() - began < _STABLE_S:
                    raise MaybeSent("the socket was closed soon after it was opened")
                failures = 0
            except ChannelFault as error:
                failures += 1
                wait_s = reconnect_wait_s(error, failures, self._jitter())
                _log.warning("no messages are received, and tried again in %.1f s: %s", wait_s, error)
                await asyncio.sleep(wait_s)

    async def _read_until_replaced(self, readers: asyncio.TaskGroup, socket: aiohttp.ClientWebSocketResponse) -> bool:
        """Read until another socket must be opened. Returns whether Slack has asked for it."""
        replaced: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        readers.create_task(self._read(socket, replaced))
        return await replaced

    async def connect(self) -> aiohttp.ClientWebSocketResponse:
        """Open a socket. Raises `ChannelFault`."""
        opened = await self._api.call(SlackCall("apps.connections.open", {}), OpenedConnection)
        try:
            socket = await self._api.http.session.ws_connect(
                opened.url, autoping=False, max_msg_size=_MAX_FRAME, compress=0
            )
        except HTTP_ERRORS as error:
            raise NotSent(f"the socket could not be opened: {self._api.http.fault(error)}") from None
        self._on_life()
        return socket

    async def _read(self, socket: aiohttp.ClientWebSocketResponse, replaced: asyncio.Future[bool]) -> None:
        """Read a socket until it is closed. `replaced` is set when another one must be opened."""
        pings = asyncio.create_task(_ping(socket))
        try:
            while True:
                async with asyncio.timeout(DEAD_S):
                    frame = await socket.receive()
                if frame.type in (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED, aiohttp.WSMsgType.CLOSING):
                    return
                if frame.type is aiohttp.WSMsgType.ERROR:
                    _log.warning("the socket is closed: %s", type(frame.data).__name__)
                    return
                self._on_life()
                if frame.type is aiohttp.WSMsgType.PING:
                    await socket.pong(frame.data)
                elif frame.type is aiohttp.WSMsgType.TEXT and await self._take(socket, frame.data):
                    _set(replaced, is_asked=True)
        except (*HTTP_ERRORS, RuntimeError) as error:  # a RuntimeError: the socket is closing
            _log.warning("the socket is lost: %s", type(error).__name__)
        finally:
            _set(replaced, is_asked=False)
            pings.cancel()
            await socket.close()

    async def _take(self, socket: aiohttp.ClientWebSocketResponse, frame: str) -> bool:
        """Handle a frame. Returns True if Slack asks for another socket."""
        try:
            envelope = msgspec.json.decode(frame, type=Envelope)
        except (msgspec.MsgspecError, RecursionError, UnicodeError):
            _log.warning("a frame of the socket is malformed and skipped")
            return False
        if envelope.type == "disconnect":
            _log.info("Slack asks for another socket: %s", envelope.reason[:40])
            return True
        if envelope.envelope_id:
            try:
                await self._receive(envelope.type, bytes(envelope.payload))
            except LedgerUnavailable as error:
                _log.warning("an event was not recorded, and Slack sends it again: %s", error)
                return False
            await socket.send_str(msgspec.json.encode({"envelope_id": envelope.envelope_id}).decode())
        return False


def _set(replaced: asyncio.Future[bool], *, is_asked: bool) -> None:
    if not replaced.done():
        replaced.set_result(is_asked)


async def _ping(socket: aiohttp.ClientWebSocketResponse) -> None:
    while not socket.closed:
        await asyncio.sleep(PING_S)
        await socket.ping()
