"""Receives updates of Telegram, by polling or by a webhook, and gives them to the inbox of the channel.

The connection ends with `stop`, or with an error that waiting does not repair.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from tailrace.channels.telegram.checks import WebhookStatus
from tailrace.channels.telegram.client import DEADLINE_S, MethodCall, TelegramClient
from tailrace.channels.telegram.inbound import BotAccount, inbound_of, moved_notice
from tailrace.channels.telegram.polling import SPARE_S, poll
from tailrace.channels.telegram.updates import KINDS, decode_update, update_id_of
from tailrace.channels.telegram.webhook import WebhookServer
from tailrace.errors import ChannelFault, LedgerUnavailable, TailraceError
from tailrace.inbound import InboundMessage, InboundNotice

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from tailrace.channels.telegram.settings import BotSettings
    from tailrace.ports import Inbox

_log = logging.getLogger(__name__)

_CHECK_WEBHOOK_S = 30.0


class UpdateReceiver:
    """Receives the updates of a bot. `moved` maps the ids of groups that became supergroups to their new ids.

    `alive_at` and `proof_every_s` are those of `tailrace.ports.ProvesLife`.

    After the inbox has recorded a message that is meant for the bot, `on_recorded` is called with it in the background.
    """

    def __init__(
        self,
        api: TelegramClient,
        settings: BotSettings,
        on_recorded: Callable[[InboundMessage], Coroutine[Any, Any, None]] | None = None,
    ) -> None:
        self.moved: dict[str, str] = {}
        self.alive_at = float("-inf")
        self.proof_every_s = (
            _CHECK_WEBHOOK_S + DEADLINE_S if settings.mode == "webhook" else settings.polling_timeout + SPARE_S
        )
        self._api = api
        self._settings = settings
        self._on_recorded = on_recorded
        self._account = BotAccount(channel="", id="")
        self._inbox: Inbox | None = None
        self._webhook: WebhookServer | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = asyncio.Event()
        self._failure: Exception | None = None

    def reopen(self) -> None:
        """Prepare for another `start`: `wait_closed` forgets the end and the error of the earlier connection."""
        self._closed.clear()
        self._failure = None

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

    async def stop(self) -> None:
        """Stop at once. Telegram sends the updates that were not recorded again after the next start."""
        tasks = set(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        if self._webhook is not None:
            await self._webhook.close()
        self._webhook = self._inbox = None
        self._closed.set()

    async def wait_closed(self) -> None:
        """Wait for `stop`. If an error ended the connection before, raise that error."""
        await self._closed.wait()
        if self._failure is not None:
            raise self._failure

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
        self._webhook = WebhookServer(self._receive, path=path, secret=secret, on_failure=self._fail)
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

    def _note_life(self) -> None:
        self.alive_at = asyncio.get_running_loop().time()

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
        if self._inbox is None:
            raise LedgerUnavailable("the channel is stopped")
        if isinstance(inbound, InboundNotice) and inbound.kind == "moved":
            self.moved[inbound.target.chat] = inbound.moved_to
        await self._inbox.receive(inbound)
        if self._on_recorded is not None and isinstance(inbound, InboundMessage) and inbound.is_addressed:
            self._in_background(self._on_recorded(inbound))

    def _in_background(
        self, work: Coroutine[Any, Any, None], *, on_error: Callable[[Exception], None] | None = None
    ) -> None:
        """Run `work` in a task that `stop` cancels.

        An error of it goes to `on_error`; without `on_error`, it is only logged.
        """

        def end(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            error = None if task.cancelled() else task.exception()
            if isinstance(error, Exception):
                (on_error or _log_error)(error)

        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(end)

    def _fail(self, error: Exception) -> None:
        """End the connection with an error, so that `wait_closed` raises it."""
        self._failure = self._failure or error
        self._closed.set()


def _log_error(error: Exception) -> None:
    _log.warning("%s", error if isinstance(error, TailraceError) else type(error).__name__)
