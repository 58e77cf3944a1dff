"""The HTTP server of a channel, to which its platform sends events.

What is wrong in the head of a request is refused before the body is read. A body is read only up to a limit and for a
limited time, and compressed bodies are refused. An event is answered with 200 after it was recorded; after any other
answer the platform sends it again.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Protocol

from aiohttp import web

from tailrace.errors import LedgerUnavailable, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_log = logging.getLogger(__name__)

MAX_BODY = 1024 * 1024
"""The largest accepted body, in bytes. Real events are far smaller."""
_RETRY_AFTER_S = "1"
_STOP_S = 2.0
_BODY_S = 30.0  # how long a body may take


class RefusedRequest(Exception):
    """A request is not accepted. `status` is the HTTP status of the answer."""

    def __init__(self, status: int) -> None:
        super().__init__(f"status {status}")
        self.status = status


class EventRequests(Protocol):
    """What the server does with the requests of one platform."""

    def check_head(self, headers: Mapping[str, str]) -> None:
        """Raise `RefusedRequest` if the request does not come from the platform, as far as the head shows."""
        ...

    async def receive(self, headers: Mapping[str, str], body: bytes) -> str:
        """Record the event of a request. Returns the text of the answer, "" in most cases.

        Raises `RefusedRequest`, or what `Inbox.receive` raises.
        """
        ...


class WebhookServer:
    """The server. `on_failure` gets an error of the inbox that the channel cannot handle."""

    def __init__(self, requests: EventRequests, *, path: str, on_failure: Callable[[Exception], None]) -> None:
        self._requests = requests
        self._on_failure = on_failure
        app = web.Application()
        app.router.add_post(path or "/", self._handle)
        # Bodies are not decompressed, and what remains of a refused body is not read.
        self._runner = web.AppRunner(
            app, access_log=None, auto_decompress=False, lingering_time=0.0, shutdown_timeout=_STOP_S
        )

    async def listen(self, host: str, port: int) -> None:
        """Begin to listen. Raises `UsageError` if the address cannot be used."""
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, host, port).start()
        except OSError as error:
            await self._runner.cleanup()
            raise UsageError(f"nothing can listen at {host}:{port}: {error.strerror or error}") from error

    @property
    def port(self) -> int:
        """The port on which the server listens."""
        return int(self._runner.addresses[0][1])

    async def close(self) -> None:
        """Stop listening, and wait a moment for events that are being recorded."""
        await self._runner.cleanup()

    async def _handle(self, request: web.Request) -> web.Response:
        try:
            self._requests.check_head(request.headers)
            text = await self._requests.receive(request.headers, await _read(request))
        except RefusedRequest as refused:
            response = web.Response(status=refused.status)
            response.force_close()
            return response
        except LedgerUnavailable as error:
            _log.warning("an event was not recorded, and the platform sends it again: %s", error)
        except Exception as error:  # noqa: BLE001 -- the inbox is the caller's code, and the channel ends with its error
            self._on_failure(error)
        else:
            return web.Response(text=text) if text else web.Response()
        return web.Response(status=503, headers={"Retry-After": _RETRY_AFTER_S})


async def _read(request: web.Request) -> bytes:
    """Read the body of a request. Raises `RefusedRequest`."""
    if request.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise RefusedRequest(415)
    if (request.content_length or 0) > MAX_BODY:
        raise RefusedRequest(413)
    body = bytearray()
    try:
        async with asyncio.timeout(_BODY_S):
            async for chunk in request.content.iter_any():
                body += chunk
                if len(body) > MAX_BODY:
                    raise RefusedRequest(413)
    except TimeoutError:
        raise RefusedRequest(408) from None
    return bytes(body)
