"""The webhook of the bot: sends the updates to the bot one after the other, each until the bot has accepted it."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import aiohttp
import msgspec

from tailrace.testing.faults import RepeatUpdates
from tailrace.testing.platforms.telegram.rules import ApiRefusal

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.testing.faults import Script
    from tailrace.testing.platforms.telegram.updates import QueuedUpdate
    from tailrace.testing.platforms.telegram.world import TelegramWorld

_SECRET = re.compile(r"[A-Za-z0-9_-]{1,256}")


class WebhookCall(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of `setWebhook`. An empty address removes the webhook."""

    url: str = ""
    secret_token: str = ""
    drop_pending_updates: bool = False
    allowed_updates: list[str] | None = None
    max_connections: int = 40


class Webhook:
    """Sends the updates to the URL of the webhook, while one is set. `run` does this until it is cancelled."""

    def __init__(self, world: TelegramWorld, faults: Script, clock: Callable[[], float]) -> None:
        self._world = world
        self._faults = faults
        self._clock = clock
        self._call = WebhookCall()
        self._changed = asyncio.Event()
        self._problem: dict[str, Any] = {}

    @property
    def is_set(self) -> bool:
        """Whether the bot has a webhook. Then it cannot poll."""
        return bool(self._call.url)

    def set(self, call: WebhookCall) -> None:
        """The method `setWebhook`: send the updates to this URL from now on. An empty URL removes the webhook."""
        if call.url and not (call.url.startswith("https://") or _is_on_this_machine(call.url)):
            raise ApiRefusal("webhook_not_https")
        if call.secret_token and not _SECRET.fullmatch(call.secret_token):
            raise ApiRefusal("secret_wrong")
        if call.drop_pending_updates:
            self._world.updates.clear()
        if call.allowed_updates is not None:
            self._world.updates.allowed = tuple(call.allowed_updates)
        self._call, self._problem = call, {}
        self.wake()

    def info(self) -> dict[str, Any]:
        """A `WebhookInfo` of the Bot API."""
        found: dict[str, Any] = {
            "url": self._call.url,
            "has_custom_certificate": False,
            "pending_update_count": len(self._world.updates),
        }
        if self.is_set:
            found["max_connections"] = self._call.max_connections
        if self._world.updates.allowed:
            found["allowed_updates"] = list(self._world.updates.allowed)
        return found | self._problem

    def wake(self) -> None:
        """Look for updates to send, because something has changed."""
        self._changed.set()

    async def run(self) -> None:
        """Send the updates that wait, in order, until this is cancelled."""
        async with aiohttp.ClientSession() as session:
            while True:
                self._changed.clear()
                batch = self._world.updates.batch(self._clock(), limit=1) if self.is_set else ()
                if not batch:
                    await self._changed.wait()
                elif await self._deliver(session, batch[0]) and not self._is_repeated():
                    self._world.updates.confirm(batch[0].update_id + 1)

    def _is_repeated(self) -> bool:
        """Whether a fault says to send this update again, although the bot has accepted it."""
        return isinstance(self._faults.next("webhook", "", self._clock()), RepeatUpdates)

    async def _deliver(self, session: aiohttp.ClientSession, update: QueuedUpdate) -> bool:
        """Send an update again and again until the bot accepts it, it is too old, or the webhook changes.

        Returns False only if the webhook has changed: the update must then be sent to the new one.
        """
        settings, call, step = self._world.settings, self._call, self._world.settings.webhook_retry_first_s
        while self._call is call:
            wait = await self._post(session, call, update)
            if wait is None or self._clock() - update.at > settings.webhook_gives_up_s:
                return True
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait or step):
                    while self._call is call:  # a new webhook ends the waiting
                        await self._changed.wait()
                        self._changed.clear()
            step = min(2 * step, settings.webhook_retry_longest_s)
        return False

    async def _post(self, session: aiohttp.ClientSession, call: WebhookCall, update: QueuedUpdate) -> float | None:
        """Send an update once. Returns None if the bot has accepted it.

        Otherwise returns the seconds that the bot asks to wait before the next try, or 0 if the bot does not say.
        """
        headers = {"X-Telegram-Bot-Api-Secret-Token": call.secret_token} if call.secret_token else {}
        timeout = aiohttp.ClientTimeout(total=self._world.settings.webhook_timeout_s)
        try:
            async with session.post(call.url, json=update.shown, headers=headers, timeout=timeout) as answer:
                await answer.read()
                if 200 <= answer.status < 300:
                    return None
                problem = f"Wrong response from the webhook: {answer.status} {answer.reason}"
                retry_after = answer.headers.get("Retry-After", "")
        except (aiohttp.ClientError, TimeoutError) as error:
            problem, retry_after = f"Connection failed: {type(error).__name__}", ""
        self._problem = {"last_error_date": int(self._clock()), "last_error_message": problem}
        return min(float(retry_after), self._world.settings.webhook_retry_after_s) if retry_after.isdecimal() else 0.0


def _is_on_this_machine(url: str) -> bool:
    """Whether a URL leads to this machine. The platform demands HTTPS, but here a test may use plain HTTP."""
    host = urlsplit(url).hostname or ""
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"
