"""The requests of Telegram to a webhook: each must contain the secret, and is an update."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING

from tailrace.channels.telegram.updates import update_id_of
from tailrace.channels.webhook import RefusedRequest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

_HEADER = "X-Telegram-Bot-Api-Secret-Token"


class WebhookRequests:
    """Checks the requests. `receive` is called with the bytes of each update, and may raise as `Inbox.receive` does."""

    def __init__(self, receive: Callable[[bytes], Awaitable[None]], *, secret: str) -> None:
        self._receive = receive
        self._secret = secret.encode()

    def check_head(self, headers: Mapping[str, str]) -> None:
        """Raise `RefusedRequest` if the secret is missing or wrong."""
        given = headers.get(_HEADER, "").encode("utf-8", "surrogateescape")
        if not hmac.compare_digest(given, self._secret):
            raise RefusedRequest(401)

    async def receive(self, _headers: Mapping[str, str], body: bytes) -> str:
        """Record an update. Raises `RefusedRequest` if it has no id."""
        if update_id_of(body) is None:
            raise RefusedRequest(400)
        await self._receive(body)
        return ""
