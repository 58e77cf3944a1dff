"""Receives updates of Telegram, by polling or by a webhook, and gives them to the inbox of the channel.

The connection ends with `stop`, or with an error that waiting does not repair.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from tailrace.channels.http_session import CALL_DEADLINE_S
from tailrace.channels.receiving import Receiver
from tailrace.channels.telegram.checks import WebhookStatus
from tailrace.channels.telegram.client import MethodCall, TelegramClient
from tailrace.channels.telegram.inbound import BotAccount, inbound_of, moved_notice
from tailrace.channels.telegram.polling import SPARE_S, poll
from tailrace.channels.telegram.updates import KINDS, decode_update, update_id_of
from tailrace.channels.telegram.webhook import WebhookRequests
from tailrace.channels.webhook import WebhookServer
from tailrace.errors import ChannelFault
from tailrace.inbound import InboundNotice

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from tailrace.channels.telegram.settings import BotSettings
    from tailrace.inbound import InboundMessage
    from tailrace.ports import Inbox

_log = logging.getLogger(__name__)

_CHECK_WEBHOOK_S = 30.0


class UpdateReceiver(Receiver):
    """Receives the updates of a bot. `moved` maps the ids of groups that became supergroups to their new ids."""

    def __init__(
        self,
        api: TelegramClient,
        settings: BotSettings,
        on_recorded: Callable[[InboundMessage], Coroutine[Any, Any, None]] | None = None,
    ) -> None:
        proof_every_s = (
            _CHECK_WEBHOOK_S + CALL_DEADLINE_S if settings.mode == "webhook" else settings.polling_timeout + SPARE_S
        )
        super().__init__(proof_every_s=proof_every_s, on_recorded=on_recorded)
        self.moved: dict[str, str] = {}
        self._api = api
        self._settings = settings
        self._account = BotAccount(channel="", id="")

    async def start(self, inbox: Inbox, account: BotAccount) -> None:
        """Begin to receive the updates of the bot `account`. `inbox` records them.

        Call this right after Telegram has answered: that answer is the first proof of life.
        """
        self._inbox, self._account = inbox, account
        self._note_life()
        if self._settings.mode == "webhook":
            await self._start_webhook()
        else:
            timeout_s = self._settings.polling_timeout
            polling = poll(self._api, self._receive, timeout_s=timeout_s, on_answer=self._note_life)
            self._in_background(polling, on_error=self._fail)

    def follow(self, chat: str, moved_to: str) -> None:
        """Note that a group became a supergroup, and report the new chat id to the inbox."""
        if self.moved.get(chat) == moved_to:
            return
        self.moved[chat] = moved_to
        _log.warning("the group %s became the supergroup %s", chat, moved_to)
        if self._inbox is not None:
            self._in_background(self._inbox.receive(moved_notice(chat, moved_to, self._account)))

    async def _start_webhook(self) -> None:
        settings = self._settings
        path, secret = urlsplit(settings.public_url).path, settings.webhook_secret
        requests = WebhookRequests(self._receive, secret=secret)
        self._webhook = WebhookServer(requests, path=path, on_failure=self._fail)
        await self._webhook.listen(*settings.listen_address)
        fields = {"url": settings.public_url, "secret_token": secret, "allowed_updates": KINDS}
        await self._api.call(MethodCall("setWebhook", fields), msgspec.Raw)
        self._in_background(self._check_webhook())

    async def _check_webhook(self) -> None:
        """Ask again and again whether Telegram still calls this webhook, because an idle one is never called."""
        while True:
            await asyncio.sleep(_CHECK_WEBHOOK_S)
            try:
                status = await self._api.call(MethodCall("getWebhookInfo", {}), WebhookStatus)
            except ChannelFault as error:
                _log.warning("the webhook could not be checked: %s", error)
                continue
            if status.url == self._settings.public_url:
                self._note_life()
            else:
                _log.error("no messages are received: another program has changed the webhook of this bot")

    async def _receive(self, encoded: bytes | msgspec.Raw) -> None:
        """Give an update to the inbox. A malformed update is logged and skipped."""
        try:
            inbound = inbound_of(decode_update(encoded), self._account)
        except (msgspec.MsgspecError, RecursionError) as error:
            # The error names the place of the mistake and no content.
            _log.warning("the update %s is malformed and skipped: %s", update_id_of(encoded), error)
            return
        if inbound is None:
            return
        if isinstance(inbound, InboundNotice) and inbound.kind == "moved":
            self.moved[inbound.target.chat] = inbound.moved_to
        await self._record(inbound)
