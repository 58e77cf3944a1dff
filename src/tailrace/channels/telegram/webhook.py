"""The webhook: an HTTP server that accepts updates only from Telegram.

Each request must contain the secret, which is compared before the body is read. A body is read only up to a limit, and
compressed bodies are refused. An update is answered with 200 after it was recorded; after any other answer Telegram
sends it again.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
from typing import TYPE_CHECKING

from aiohttp import web

from tailrace.channels.telegram.updates import update_id_of
from tailrace.errors import LedgerUnavailable, UsageError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_log = logging.getLogger(__name__)

MAX_BODY = 1024 * 1024
"""The largest accepted update, in bytes. Real updates are far smaller: a text has at most 4096 characters."""
_HEADER = "X-Telegram-Bot-Api-Secret-Token"
_RETRY_AFTER_S = "1"
_STOP_S = 2.0
_BODY_S = 30.0  # how long a body may take


class WebhookServer:
    """The server of the webhook.

    `receive` is called with the bytes of each update, and may raise what `Inbox.receive` raises.
    """

    def __init__(
        self,
        receive: Callable[[bytes], Awaitable[None]],
        *,
        path: str,
        secret: str,
        on_failure: Callable[[Exception], None],
    ) -> None:
        self._receive = receive
        self._secret = secret.encode()
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
        """Stop listening, and wait a moment for updates that are being recorded."""
        await self._runner.cleanup()

    async def _handle(self, request: web.Request) -> web.Response:
        body = await _read(request) if self._is_from_telegram(request) else 401
        if not isinstance(body, int) and update_id_of(body) is None:
            body = 400
        if isinstance(body, int):
            response = web.Response(status=body)
            response.force_close()
            return response
        try:
            await self._receive(body)
        except LedgerUnavailable as error:
            _log.warning("an update was not recorded, and Telegram sends it again: %s", error)
        except Exception as error:  # noqa: BLE001 -- the inbox is the caller's code, and the channel ends with its error
            self._on_failure(error)
        else:
            return web.Response()
        return web.Response(status=503, headers={"Retry-After": _RETRY_AFTER_S})

    def _is_from_telegram(self, request: web.Request) -> bool:
        given = request.headers.get(_HEADER, "").encode("utf-8", "surrogateescape")
        return hmac.compare_digest(given, self._secret)


async def _read(request: web.Request) -> bytes | int:
    """Read the body of a request. Returns the HTTP status instead if the body is refused."""
    if request.headers.get("Content-Encoding", "identity").lower() != "identity":
        return 415
    if (request.content_length or 0) > MAX_BODY:
        return 413
    body = bytearray()
    try:
        async with asyncio.timeout(_BODY_S):
            async for chunk in request.content.iter_any():
                body += chunk
                if len(body) > MAX_BODY:
                    return 413
    except TimeoutError:
        return 408
    return bytes(body)
