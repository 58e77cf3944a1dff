"""The HTTP server of the simulated Slack: the Web API, the sockets of Socket Mode, uploads and downloads."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from aiohttp import web

from tailrace.testing.faults import LoseAccess, Refuse, ServerError, TooMany
from tailrace.testing.platforms.api_server import (
    ApiAnswer,
    ApiServer,
    MadeCall,
    UnreadableCall,
    read_fields,
    send_answer,
)
from tailrace.testing.platforms.http_faults import is_performed, send_bytes
from tailrace.testing.platforms.slack.calls import TAKES_NO_JSON, perform
from tailrace.testing.platforms.slack.events import EventSender
from tailrace.testing.platforms.slack.rules import SlackRefusal
from tailrace.testing.platforms.slack.scene import Scene

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.testing.faults import Script
    from tailrace.testing.platforms.slack.world import SlackWorld

_LOGIN_PAGE = b"<!DOCTYPE html><title>Sign in | Slack</title>"
_OPEN_CONNECTION = "apps.connections.open"


class WebApi(ApiServer):
    """The Web API and the events of one workspace."""

    def __init__(self, world: SlackWorld, faults: Script, clock: Callable[[], float], *, signing_secret: str) -> None:
        super().__init__(faults, clock)
        self._world = world
        self.events = EventSender(world, faults, clock, signing_secret=signing_secret, notify=self.notify)

    def routes(self) -> list[web.RouteDef]:
        """The HTTP routes that apps use."""
        return [
            web.route("*", "/api/{method}", self._call),
            web.get("/link/", self.events.serve_socket),
            web.post("/upload/v1/{file_id}", self._upload),
            web.get("/files-pri/{file_id}/{rest:.*}", self._download),
        ]

    async def run(self) -> None:
        """Send the events of people to the app, until this is cancelled."""
        await self.events.run()

    async def notify(self) -> None:
        """Wake all code that waits for a change."""
        self.events.wake()
        await super().notify()

    async def _call(self, request: web.Request) -> web.StreamResponse:
        made = MadeCall(request.match_info["method"], self._clock(), chat_fields=("channel", "channel_id"))
        try:
            made.fields, _ = await read_fields(request, 1_000_000)
            if made.method in TAKES_NO_JSON and request.content_type == "application/json":
                made.fields = dict(request.query)
            token = _bearer(request) or str(made.fields.pop("token", ""))
            self._check_token(made.method, token)
        except UnreadableCall as problem:
            rule = "body_too_large" if problem.is_too_large else "invalid_json"
            return await self._finish(request, made, self._refused(SlackRefusal(rule)))
        except SlackRefusal as refusal:
            return await self._finish(request, made, self._refused(refusal))
        base = f"http://{request.host}"
        return await self._answer(request, made, lambda made: self._perform(made, base))

    def _perform(self, made: MadeCall, base: str) -> ApiAnswer:
        now = self._clock()
        try:
            if made.method == _OPEN_CONNECTION:
                self._world.spend(made.method, "", now)
                return self._done(self.events.open_connection(base))
            return self._done(perform(Scene(self._world, base, now), made.method, made.fields))
        except SlackRefusal as refusal:
            return self._refused(refusal)

    def _check_token(self, method: str, token: str) -> None:
        if not token:
            raise SlackRefusal("not_authed")
        if token not in {self._world.token, self._world.app_token}:
            raise SlackRefusal("invalid_auth")
        if not self._world.token_is_valid:
            raise SlackRefusal("token_revoked")
        if (method == _OPEN_CONNECTION) is not (token == self._world.app_token):
            raise SlackRefusal("wrong_token_type")

    def _instead(self, made: MadeCall, answer: ApiAnswer) -> ApiAnswer:
        match fault := made.fault:
            case Refuse():
                return self._failed(200, fault.reason.replace(" ", "_"))
            case LoseAccess():
                return self._refused(SlackRefusal("token_revoked" if fault.everywhere else "not_in_channel"))
            case TooMany():
                given = fault.retry_after
                retry_after = given if given is None or isinstance(given, str) else str(math.ceil(given))
                return self._failed(429, "ratelimited", {} if retry_after is None else {"Retry-After": retry_after})
            case ServerError():
                return self._failed(fault.status, "internal_error")
            case _:
                return answer

    def _done(self, result: dict[str, Any]) -> ApiAnswer:
        scopes = {"X-OAuth-Scopes": ",".join(sorted(self._world.scopes))}
        return ApiAnswer(200, {"ok": True, **result}, headers=scopes)

    def _refused(self, refusal: SlackRefusal) -> ApiAnswer:
        headers = {} if refusal.retry_after is None else {"Retry-After": str(refusal.retry_after)}
        body = {"ok": False, "error": refusal.error, **refusal.more}
        return ApiAnswer(refusal.status, body, refusal.rule, headers)

    def _failed(self, status: int, error: str, headers: dict[str, str] | None = None) -> ApiAnswer:
        return ApiAnswer(status, {"ok": False, "error": error}, headers=headers or {})

    async def _upload(self, request: web.Request) -> web.StreamResponse:
        file = self._world.files.get(request.match_info["file_id"])
        if file is None or file.content is not None:
            raise web.HTTPNotFound
        content = await request.read()
        fault = self._faults.next("upload", "", self._clock())
        if is_performed(fault):
            file.content = content
        return await send_bytes(request, 200, b"OK", {"Content-Type": "text/plain"}, fault)

    async def _download(self, request: web.Request) -> web.StreamResponse:
        file = self._world.files.get(request.match_info["file_id"])
        if file is None or file.content is None:
            return await send_answer(request, ApiAnswer(404, {"ok": False, "error": "file_not_found"}))
        fault = self._faults.next("download", "", self._clock())
        if _bearer(request) != self._world.token or "files:read" not in self._world.scopes:
            # Without a valid token, Slack answers with the page to sign in, and status 200.
            return await send_bytes(request, 200, _LOGIN_PAGE, {"Content-Type": "text/html"}, fault)
        return await send_bytes(request, 200, file.content, {"Content-Type": file.mime_type}, fault)


def _bearer(request: web.Request) -> str:
    kind, _, token = request.headers.get("Authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else ""
