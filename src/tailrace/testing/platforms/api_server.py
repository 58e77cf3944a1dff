"""The HTTP API of a simulated platform: what all platforms do with a call.

A call is performed, unless a fault prevents that. Then it is recorded and answered, or its caller gets what the fault
leaves of the answer. `ApiServer` does this, and each platform adds its methods and its words.
"""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import msgspec
from aiohttp import web

from tailrace.testing.faults import Fault, Late, Script
from tailrace.testing.platforms.http_faults import is_performed, is_silent, send_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


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


class ApiAnswer(msgspec.Struct, frozen=True):
    """The platform's answer to a call: HTTP status and body. `rule` names the rule by which the call was refused."""

    status: int
    body: dict[str, Any]
    rule: str = ""
    headers: dict[str, str] = {}


NOT_PERFORMED = ApiAnswer(0, {})
"""In place of the answer to a call that was not performed."""


class Upload(msgspec.Struct, frozen=True):
    """A file that was uploaded with a call, and its name."""

    name: str
    content: bytes


class MadeCall:
    """A call that is being answered. `chat_fields` are the fields of calls that may name the chat."""

    def __init__(self, method: str, at: float, *, chat_fields: Sequence[str]) -> None:
        self.method = method
        self.at = at
        self.fields: dict[str, Any] = {}
        self.uploads: dict[str, Upload] = {}
        self.fault: Fault | None = None
        self._chat_fields = chat_fields

    @property
    def chat(self) -> str:
        """The id of the chat that the call concerns; "" if it concerns none."""
        return next((str(self.fields[name]) for name in self._chat_fields if name in self.fields), "")


class ApiServer(ABC):
    """The base of the HTTP APIs. `changed` is notified after each change, for those who wait for one."""

    def __init__(self, faults: Script, clock: Callable[[], float]) -> None:
        self._faults = faults
        self._clock = clock
        self.calls: list[ApiCall] = []
        self.changed = asyncio.Condition()
        self._late: set[asyncio.Task[ApiAnswer]] = set()

    @abstractmethod
    def routes(self) -> list[web.RouteDef]:
        """The HTTP routes that bots use."""

    @abstractmethod
    async def run(self) -> None:
        """Send the events of people to the bot, until this is cancelled."""

    @abstractmethod
    def _instead(self, made: MadeCall, answer: ApiAnswer) -> ApiAnswer:
        """The answer that the fault puts in the place of `answer`; `answer` itself if the fault does not change it."""

    async def notify(self) -> None:
        """Wake all code that waits for a change."""
        async with self.changed:
            self.changed.notify_all()

    async def close(self) -> None:
        """Cancel the calls that wait because a fault delays them."""
        for late in self._late:
            late.cancel()
        await asyncio.gather(*self._late, return_exceptions=True)

    async def _answer(
        self, request: web.Request, made: MadeCall, perform: Callable[[MadeCall], ApiAnswer]
    ) -> web.StreamResponse:
        """Perform a call and answer it, both as its fault says."""
        made.fault = self._faults.next(made.method, made.chat, made.at)
        if isinstance(made.fault, Late):
            # Performed also when the caller has left meanwhile, which ends only this coroutine.
            late = asyncio.create_task(self._answer_late(made, perform, made.fault.after_s))
            self._late.add(late)
            late.add_done_callback(self._late.discard)
            return await send_answer(request, await asyncio.shield(late), made.fault)
        answer = perform(made) if is_performed(made.fault) else NOT_PERFORMED
        return await self._finish(request, made, answer)

    async def _finish(self, request: web.Request, made: MadeCall, answer: ApiAnswer) -> web.StreamResponse:
        """Record a call and send its answer, or what the fault puts in its place."""
        answer = self._instead(made, answer)
        await self._record(made, answer)
        return await send_answer(request, answer, made.fault)

    async def _answer_late(self, made: MadeCall, perform: Callable[[MadeCall], ApiAnswer], after_s: float) -> ApiAnswer:
        await asyncio.sleep(after_s)
        answer = perform(made)
        await self._record(made, answer)
        return answer

    async def _record(self, made: MadeCall, answer: ApiAnswer) -> None:
        status = 0 if is_silent(made.fault) else answer.status
        tag = "" if made.fault is None else str(type(made.fault).__struct_config__.tag)
        self.calls.append(
            ApiCall(method=made.method, chat=made.chat, at=made.at, status=status, rule=answer.rule, fault=tag)
        )
        await self.notify()


class UnreadableCall(Exception):
    """The body of a call cannot be read: it is too large, or neither JSON nor a form."""

    def __init__(self, message: str, *, is_too_large: bool = False) -> None:
        super().__init__(message)
        self.is_too_large = is_too_large


async def read_fields(request: web.Request, upload_limit: int) -> tuple[dict[str, Any], dict[str, Upload]]:
    """The fields and the uploaded files of a call. Fields may come in the URL, as JSON, or as a form."""
    fields: dict[str, Any] = dict(request.query)
    uploads: dict[str, Upload] = {}
    if (request.content_length or 0) > upload_limit + 1_000_000:
        raise UnreadableCall("the request is too large", is_too_large=True)
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
        raise UnreadableCall("the request is too large", is_too_large=True) from error
    except (ValueError, TypeError) as error:
        raise UnreadableCall("can't parse the request as JSON or as a form") from error
    return fields, uploads


async def send_answer(request: web.Request, answer: ApiAnswer, fault: Fault | None = None) -> web.StreamResponse:
    """Send an answer as JSON, or what the fault leaves of it."""
    content = json.dumps(answer.body, ensure_ascii=False).encode("utf-8", "replace")
    headers = {"Content-Type": "application/json", **answer.headers}
    return await send_bytes(request, answer.status or 200, content, headers, fault)
