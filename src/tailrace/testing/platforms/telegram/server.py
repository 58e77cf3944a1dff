"""The HTTP server of the simulated Telegram: the Bot API and the download of files.

It reads a call, performs it, and writes the answer, or what a fault leaves of the answer. It is built on aiohttp, which
the SDKs of Telegram, Discord and Slack install too: to test a bot, no web framework must be installed.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec
from aiohttp import web

from tailrace.testing.faults import (
    Fault,
    LoseAccess,
    Refuse,
    ReorderUpdates,
    RepeatUpdates,
    Script,
    ServerError,
    TooMany,
)
from tailrace.testing.platforms.api_server import (
    NOT_PERFORMED,
    ApiAnswer,
    ApiServer,
    MadeCall,
    UnreadableCall,
    read_fields,
    send_answer,
)
from tailrace.testing.platforms.http_faults import is_performed, send_bytes
from tailrace.testing.platforms.telegram.calls import decoded, method_named, perform
from tailrace.testing.platforms.telegram.rules import ApiRefusal
from tailrace.testing.platforms.telegram.webhooks import Webhook, WebhookCall

if TYPE_CHECKING:
    from tailrace.testing.platforms.telegram.world import TelegramWorld

_PREFIXES = {400: "Bad Request", 401: "Unauthorized", 403: "Forbidden", 404: "Not Found"}
_SERVER_ERRORS = {500: "Internal Server Error", 502: "Bad Gateway", 503: "Service Unavailable", 504: "Gateway Timeout"}


class _PollCall(msgspec.Struct, frozen=True, kw_only=True):
    offset: int = 0
    limit: int = 100
    timeout: int = 0
    allowed_updates: list[str] | None = None


class BotApi(ApiServer):
    """The Bot API for the chats of one world."""

    def __init__(self, world: TelegramWorld, faults: Script, clock: Callable[[], float]) -> None:
        super().__init__(faults, clock)
        self._world = world
        self.webhook = Webhook(world, faults, clock)
        self._poll: asyncio.Future[ApiRefusal] | None = None

    def routes(self) -> list[web.RouteDef]:
        """The HTTP routes that bots use: the calls of methods, and the download of files."""
        return [
            web.route("*", "/bot{token}/{method}", self._call),
            web.get("/file/bot{token}/{path:.*}", self._download),
        ]

    @property
    def is_polled(self) -> bool:
        """Whether a call of the bot waits for updates now."""
        return self._poll is not None

    async def run(self) -> None:
        """Send the updates to the webhook while one is set."""
        await self.webhook.run()

    async def notify(self) -> None:
        """Wake all code that waits for a change."""
        self.webhook.wake()
        await super().notify()

    async def _call(self, request: web.Request) -> web.StreamResponse:
        made = MadeCall(request.match_info["method"], self._clock(), chat_fields=("chat_id",))
        try:
            self._check_token(request)
            made.method = method_named(made.method)
            made.fields, made.uploads = await read_fields(request, self._world.settings.upload_bytes)
            if made.method == "getUpdates":
                made.fault = self._faults.next(made.method, made.chat, made.at)
                return await self._finish(request, made, await self._get_updates(made.fields, made.fault))
        except UnreadableCall as problem:
            rule = "body_too_large" if problem.is_too_large else "field_wrong"
            return await self._finish(request, made, _refused(ApiRefusal(rule, detail=str(problem))))
        except ApiRefusal as refusal:
            return await self._finish(request, made, _refused(refusal))
        return await self._answer(request, made, self._perform)

    def _check_token(self, request: web.Request) -> None:
        if request.match_info["token"] != self._world.token or not self._world.token_is_valid:
            raise ApiRefusal("token_unknown")

    def _perform(self, made: MadeCall) -> ApiAnswer:
        fields = made.fields
        try:
            match made.method:
                case "setWebhook":
                    return _done(self._set_webhook(decoded(fields, WebhookCall)))
                case "deleteWebhook":
                    dropped = decoded(fields, WebhookCall).drop_pending_updates
                    return _done(self._set_webhook(WebhookCall(drop_pending_updates=dropped)))
                case "getWebhookInfo":
                    return _done(self.webhook.info())
                case _:
                    return _done(perform(self._world, made.method, fields, made.uploads, self._clock()))
        except ApiRefusal as refusal:
            return _refused(refusal)

    def _set_webhook(self, call: WebhookCall) -> bool:
        self.webhook.set(call)
        if call.url and self._poll is not None and not self._poll.done():
            self._poll.set_result(ApiRefusal("webhook_replaced_poll"))
        return True

    async def _get_updates(self, fields: dict[str, Any], fault: Fault | None) -> ApiAnswer:
        """The method `getUpdates`: wait until there are updates, and return them.

        A newer call of this method ends the wait.
        """
        call: _PollCall = decoded(fields, _PollCall)
        if self.webhook.is_set:
            raise ApiRefusal("webhook_is_set")
        if self._poll is not None and not self._poll.done():
            self._poll.set_result(ApiRefusal("other_poller"))
        if not is_performed(fault):
            return NOT_PERFORMED
        updates = self._world.updates
        if call.allowed_updates is not None:
            updates.allowed = tuple(call.allowed_updates)
        updates.confirm(call.offset)
        ended = self._poll = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(call.timeout), self.changed:
                self.changed.notify_all()
                await self.changed.wait_for(
                    lambda: (
                        ended.done()
                        or len(updates)
                        or isinstance(fault, RepeatUpdates)
                        or not self._world.token_is_valid
                    )
                )
        except TimeoutError:
            pass
        finally:
            if self._poll is ended:
                self._poll = None
        if ended.done():
            raise ended.result()
        if not self._world.token_is_valid:
            raise ApiRefusal("token_unknown")
        batch = updates.batch(
            self._clock(),
            limit=call.limit,
            repeats=isinstance(fault, RepeatUpdates),
            reverses=isinstance(fault, ReorderUpdates),
        )
        return _done([update.shown for update in batch])

    def _instead(self, made: MadeCall, answer: ApiAnswer) -> ApiAnswer:
        body: dict[str, Any] = {}
        match fault := made.fault:
            case Refuse():
                status, words = fault.status, f"{_PREFIXES.get(fault.status, 'Bad Request')}: {fault.reason}"
            case LoseAccess(everywhere=True):
                return _refused(ApiRefusal("token_unknown"))
            case LoseAccess():
                found = next((each for each in self._world.chats.values() if str(each.id) == made.chat), None)
                if found is None or found.type == "private":
                    return _refused(ApiRefusal("bot_blocked"))
                return _refused(ApiRefusal("bot_kicked", kind=found.type))
            case TooMany():
                status, words = 429, "Too Many Requests"
                if fault.retry_after is not None:
                    whole = math.ceil(fault.retry_after) if isinstance(fault.retry_after, float) else fault.retry_after
                    words = f"Too Many Requests: retry after {whole}"
                    body = {"parameters": {"retry_after": whole}}
            case ServerError():
                status, words = fault.status, _SERVER_ERRORS.get(fault.status, "Internal Server Error")
            case _:
                return answer
        return _failed(status, words, body)

    async def _download(self, request: web.Request) -> web.StreamResponse:
        try:
            self._check_token(request)
        except ApiRefusal as refusal:
            return await send_answer(request, _refused(refusal))
        for file in self._world.files.values():
            if file.path == request.match_info["path"]:
                fault = self._faults.next("download", "", self._clock())
                return await send_bytes(request, 200, file.content, {"Content-Type": file.mime_type}, fault)
        return await send_answer(request, _refused(ApiRefusal("file_path_unknown")))


def _done(result: object) -> ApiAnswer:
    return ApiAnswer(200, {"ok": True, "result": result})


def _refused(refusal: ApiRefusal) -> ApiAnswer:
    more = {"parameters": refusal.parameters} if refusal.parameters else {}
    return _failed(refusal.status, refusal.description, more, refusal.rule)


def _failed(status: int, words: str, more: dict[str, Any], rule: str = "") -> ApiAnswer:
    retry_after = more.get("parameters", {}).get("retry_after")
    headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
    return ApiAnswer(status, {"ok": False, "error_code": status, "description": words, **more}, rule, headers)
