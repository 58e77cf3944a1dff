"""The HTTP server of the simulated Telegram: the Bot API and the download of files.

It reads a call, performs it, and writes the answer, or what a fault leaves of the answer. It is built on aiohttp, which
the SDKs of Telegram, Discord and Slack install too: to test a bot, no web framework must be installed.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec
from aiohttp import web

from tailrace.testing.faults import (
    Fault,
    Late,
    LoseAccess,
    Refuse,
    ReorderUpdates,
    RepeatUpdates,
    Script,
    ServerError,
    TooMany,
)
from tailrace.testing.platforms.http_faults import is_performed, is_silent, send_bytes
from tailrace.testing.platforms.telegram.calls import Upload, decoded, method_named, perform
from tailrace.testing.platforms.telegram.rules import ApiRefusal
from tailrace.testing.platforms.telegram.webhooks import Webhook, WebhookCall

if TYPE_CHECKING:
    from tailrace.testing.platforms.telegram.world import TelegramWorld

_PREFIXES = {400: "Bad Request", 401: "Unauthorized", 403: "Forbidden", 404: "Not Found"}
_SERVER_ERRORS = {500: "Internal Server Error", 502: "Bad Gateway", 503: "Service Unavailable", 504: "Gateway Timeout"}


class ApiCall(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A call of the bot, with its outcome. `status` is the HTTP status, or 0 if the bot got no answer.

    `rule` names the rule by which the call was refused, `fault` the fault that applied; both may be empty.
    """

    method: str
    chat: str
    at: float
    status: int
    rule: str = ""
    fault: str = ""


class _Answer(msgspec.Struct, frozen=True):
    """The platform's answer to a call: HTTP status and body. `rule` names the rule by which the call was refused."""

    status: int
    body: dict[str, Any]
    rule: str = ""

    @property
    def headers(self) -> dict[str, str]:
        retry_after = self.body.get("parameters", {}).get("retry_after")
        return {} if retry_after is None else {"Retry-After": str(retry_after)}


class _Made:
    """A call that is being answered."""

    def __init__(self, method: str, at: float) -> None:
        self.method = method
        self.at = at
        self.fields: dict[str, Any] = {}
        self.uploads: dict[str, Upload] = {}
        self.fault: Fault | None = None

    @property
    def chat(self) -> str:
        return str(self.fields.get("chat_id", ""))


class _PollCall(msgspec.Struct, frozen=True, kw_only=True):
    offset: int = 0
    limit: int = 100
    timeout: int = 0
    allowed_updates: list[str] | None = None


class BotApi:
    """The Bot API for the chats of one world. `changed` is notified after each change, for those who wait for one."""

    def __init__(self, world: TelegramWorld, faults: Script, clock: Callable[[], float]) -> None:
        self._world = world
        self._faults = faults
        self._clock = clock
        self.calls: list[ApiCall] = []
        self.changed = asyncio.Condition()
        self.webhook = Webhook(world, faults, clock)
        self._poll: asyncio.Future[ApiRefusal] | None = None
        self._late: set[asyncio.Task[_Answer]] = set()

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

    async def notify(self) -> None:
        """Wake all code that waits for a change."""
        self.webhook.wake()
        async with self.changed:
            self.changed.notify_all()

    async def _call(self, request: web.Request) -> web.StreamResponse:
        made = _Made(request.match_info["method"], self._clock())
        try:
            self._check_token(request)
            made.method = method_named(made.method)
            made.fields, made.uploads = await _read(request, self._world.settings.upload_bytes)
            made.fault = self._faults.next(made.method, made.chat, made.at)
            if made.method == "getUpdates":
                answer = await self._get_updates(made.fields, made.fault)
            elif isinstance(made.fault, Late):
                # Performed also when the caller has left meanwhile, which ends only this coroutine.
                late = asyncio.create_task(self._answer_late(made, made.fault.after_s))
                self._late.add(late)
                late.add_done_callback(self._late.discard)
                return await _send(request, await asyncio.shield(late), made.fault)
            else:
                answer = self._answer(made) if is_performed(made.fault) else _Answer(0, {})
        except ApiRefusal as refusal:
            answer = _refused(refusal)
        answer = self._instead(made.fault, answer, made.chat)
        await self._record(made, answer)
        return await _send(request, answer, made.fault)

    async def _answer_late(self, made: _Made, after_s: float) -> _Answer:
        await asyncio.sleep(after_s)
        answer = self._answer(made)
        await self._record(made, answer)
        return answer

    async def _record(self, made: _Made, answer: _Answer) -> None:
        status = 0 if is_silent(made.fault) else answer.status
        tag = "" if made.fault is None else str(type(made.fault).__struct_config__.tag)
        self.calls.append(
            ApiCall(method=made.method, chat=made.chat, at=made.at, status=status, rule=answer.rule, fault=tag)
        )
        await self.notify()

    async def close(self) -> None:
        """Cancel the calls that wait because a fault delays them."""
        for late in self._late:
            late.cancel()
        await asyncio.gather(*self._late, return_exceptions=True)

    def _check_token(self, request: web.Request) -> None:
        if request.match_info["token"] != self._world.token or not self._world.token_is_valid:
            raise ApiRefusal("token_unknown")

    def _answer(self, made: _Made) -> _Answer:
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

    async def _get_updates(self, fields: dict[str, Any], fault: Fault | None) -> _Answer:
        """The method `getUpdates`: wait until there are updates, and return them.

        A newer call of this method ends the wait.
        """
        call: _PollCall = decoded(fields, _PollCall)
        if self.webhook.is_set:
            raise ApiRefusal("webhook_is_set")
        if self._poll is not None and not self._poll.done():
            self._poll.set_result(ApiRefusal("other_poller"))
        if not is_performed(fault):
            return _Answer(0, {})
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

    def _instead(self, fault: Fault | None, answer: _Answer, chat: str) -> _Answer:
        """The answer that the fault puts in the place of `answer`; `answer` itself if the fault does not change it."""
        body: dict[str, Any] = {}
        match fault:
            case Refuse():
                status, words = fault.status, f"{_PREFIXES.get(fault.status, 'Bad Request')}: {fault.reason}"
            case LoseAccess(everywhere=True):
                return _refused(ApiRefusal("token_unknown"))
            case LoseAccess():
                found = next((each for each in self._world.chats.values() if str(each.id) == chat), None)
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
        return _Answer(status, {"ok": False, "error_code": status, "description": words, **body})

    async def _download(self, request: web.Request) -> web.StreamResponse:
        try:
            self._check_token(request)
        except ApiRefusal as refusal:
            return await _send(request, _refused(refusal), None)
        for file in self._world.files.values():
            if file.path == request.match_info["path"]:
                fault = self._faults.next("download", "", self._clock())
                return await send_bytes(request, 200, file.content, {"Content-Type": file.mime_type}, fault)
        return await _send(request, _refused(ApiRefusal("file_path_unknown")), None)


async def _read(request: web.Request, limit: int) -> tuple[dict[str, Any], dict[str, Upload]]:
    """The fields and the uploaded files of a call. Fields may come in the URL, as JSON, or as a form."""
    fields: dict[str, Any] = dict(request.query)
    uploads: dict[str, Upload] = {}
    if (request.content_length or 0) > limit + 1_000_000:
        raise ApiRefusal("body_too_large")
    try:
        if request.content_type == "application/json":
            fields |= await request.json() if request.can_read_body else {}
        elif request.can_read_body:
            for name, value in (await request.post()).items():
                if isinstance(value, web.FileField):
                    uploads[name] = Upload(value.filename, value.file.read())
                else:
                    fields[name] = value
    except web.HTTPRequestEntityTooLarge as error:
        raise ApiRefusal("body_too_large") from error
    except (ValueError, TypeError) as error:
        raise ApiRefusal("field_wrong", detail="can't parse the request as JSON or as a form") from error
    return fields, uploads


def _done(result: object) -> _Answer:
    return _Answer(200, {"ok": True, "result": result})


def _refused(refusal: ApiRefusal) -> _Answer:
    body: dict[str, Any] = {"ok": False, "error_code": refusal.status, "description": refusal.description}
    if refusal.parameters:
        body["parameters"] = refusal.parameters
    return _Answer(refusal.status, body, refusal.rule)


async def _send(request: web.Request, answer: _Answer, fault: Fault | None) -> web.StreamResponse:
    content = json.dumps(answer.body, ensure_ascii=False).encode("utf-8", "replace")
    headers = {"Content-Type": "application/json", **answer.headers}
    return await send_bytes(request, answer.status or 200, content, headers, fault)
