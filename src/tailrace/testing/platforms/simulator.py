"""A simulated platform on a port of this machine, inside the process of a test or of `tailrace simulate`.

`PlatformSimulator` starts the server, shows the page, and has the URLs by which the page and other processes act, look
and add faults. What only one platform has is in its own package.
"""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Self

import msgspec
from aiohttp import web
from msgspec.structs import replace

from tailrace.testing.faults import Fault, Rule, Script
from tailrace.testing.platforms.page import conversation, page
from tailrace.testing.platforms.visible import SeenChat, VisibleId, as_text

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable
    from types import TracebackType

    from tailrace.testing.platforms.api_server import ApiCall, ApiServer

HOST = "127.0.0.1"
_SHOWN_TYPES = frozenset({"image/gif", "image/jpeg", "image/png", "image/webp"})
_PAGE_WAIT_S = 1.0  # drafts and typing vanish without a change, so the page asks again
_RULES = msgspec.json.Decoder(list[Rule])


class ActionProblem(ValueError):
    """An action that this person cannot do. The message says why."""


class ShownFile(msgspec.Struct, frozen=True):
    """A file as the page loads it. `is_photo`: the page shows it as a picture."""

    content: bytes
    mime_type: str
    is_photo: bool = False


class PlatformSimulator(ABC):
    """A simulated platform. It runs inside the `async with` block.

    `url` is the address of the page. `faults` are the rules by which calls fail: the kind of a rule is the name of a
    method.
    """

    title: ClassVar[str]
    faults: Script

    def __init__(self, faults: Script, *, port: int, clock: Callable[[], float]) -> None:
        self.faults = faults
        self.port = port
        self.clock = clock

    @property
    @abstractmethod
    def environment(self) -> dict[str, str]:
        """The environment variables with which a bot calls this simulator instead of the platform."""

    @abstractmethod
    def _make_api(self) -> ApiServer:
        """The HTTP API of the platform."""

    @abstractmethod
    def _perform(self, action: Any) -> Any:
        """Perform an action of a person. Raises `ActionProblem` if this person cannot do it."""

    @abstractmethod
    def _decode(self, action: bytes) -> Any:
        """An action, from JSON."""

    @abstractmethod
    def _chats(self) -> Iterable[tuple[VisibleId, str, str]]:
        """All chats, each with its id, title and type."""

    @abstractmethod
    def _seen(self, chat: VisibleId, at: float) -> SeenChat:
        """What people saw in the chat at that time."""

    @abstractmethod
    def _version(self) -> int:
        """A number that grows with each change that people can see."""

    @abstractmethod
    def _file(self, file_id: str) -> ShownFile | None:
        """The file with this id, for the page."""

    @abstractmethod
    async def revoke_token(self, *, valid: bool = False) -> None:
        """Make the token of the bot invalid, so that every call is refused. `valid=True` makes it valid again."""

    @property
    def _body_limit(self) -> int:
        return 1_000_000

    async def __aenter__(self) -> Self:
        self._api = self._make_api()
        application = web.Application(client_max_size=self._body_limit, middlewares=[_only_this_machine])
        application.add_routes([*self._api.routes(), *self._people_routes()])
        self._runner = web.AppRunner(application, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, HOST, self.port)
        await site.start()
        self.port = self._runner.addresses[0][1]
        self.url = f"http://{HOST}:{self.port}"
        self._events = asyncio.create_task(self._api.run())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._events.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._events
        await self._api.close()
        await self._runner.cleanup()

    @property
    def calls(self) -> list[ApiCall]:
        """The calls of the bot, in order. A call that waits for updates is added when it is answered."""
        return self._api.calls

    def add_faults(self, *rules: Rule | Fault) -> None:
        """Add rules after the existing ones.

        A fault without a rule applies to the next call that does not wait for events.
        """
        self.faults.add(*rules)

    async def act(self, action: Any) -> Any:
        """Perform an action of a person. Returns the id of what was made or changed, such as a message."""
        result = self._perform(action)
        await self._api.notify()
        return result

    async def wait_until(self, is_reached: Callable[[], bool], *, timeout_s: float = 30.0) -> None:
        """Wait until `is_reached` returns True. It is called after each call of the bot and each action of a person."""
        async with asyncio.timeout(timeout_s), self._api.changed:
            await self._api.changed.wait_for(is_reached)

    def _people_routes(self) -> list[web.RouteDef]:
        return [
            web.get("/", self._show_page),
            web.get("/simulator/conversation", self._show_conversation),
            web.get("/simulator/history", self._show_history),
            web.get("/simulator/history.txt", self._show_history_text),
            web.get("/simulator/calls", self._show_calls),
            web.get("/simulator/files/{file_id}", self._show_file),
            web.post("/simulator/act", self._take_action),
            web.post("/simulator/faults", self._take_faults),
            web.delete("/simulator/faults", self._clear_faults),
            web.post("/simulator/token", self._set_token),
        ]

    def _seen_by(self, request: web.Request) -> list[SeenChat]:
        """The chats that a request names, at the time that it names, with the messages after the one that it names."""
        at = float(request.query["at"]) if "at" in request.query else self.clock()
        wanted = request.query.get("chat")
        seen = [self._seen(chat, at) for chat, _, _ in self._chats() if wanted in {None, str(chat)}]
        after = float(request.query.get("after", 0))
        return [
            replace(chat, messages=tuple(each for each in chat.messages if float(each.id) > after)) for chat in seen
        ]

    async def _show_page(self, _request: web.Request) -> web.Response:
        return web.Response(text=page(self.title), content_type="text/html")

    async def _show_conversation(self, request: web.Request) -> web.Response:
        known = request.query.get("version", "")
        with contextlib.suppress(TimeoutError):
            await self.wait_until(lambda: str(self._version()) != known, timeout_s=_PAGE_WAIT_S)
        wanted, chats = request.query.get("chat", ""), list(self._chats())
        chat = next((chat for chat, _, _ in chats if str(chat) == wanted), chats[0][0])
        html = conversation(self._seen(chat, self.clock()), chats)
        headers = {"X-Version": str(self._version()), "X-Chat": str(chat)}
        return web.Response(text=html, content_type="text/html", headers=headers)

    async def _show_history(self, request: web.Request) -> web.Response:
        return _json(self._seen_by(request))

    async def _show_history_text(self, request: web.Request) -> web.Response:
        return web.Response(text="\n\n".join(as_text(chat) for chat in self._seen_by(request)) + "\n")

    async def _show_calls(self, request: web.Request) -> web.Response:
        return _json(self.calls[int(request.query.get("after", 0)) :])

    async def _show_file(self, request: web.Request) -> web.Response:
        file = self._file(request.match_info["file_id"])
        if file is None:
            raise web.HTTPNotFound
        # Only photos are shown, and all else is downloaded: a file of a bot may be a page with a script.
        kind = file.mime_type if file.is_photo and file.mime_type in _SHOWN_TYPES else "application/octet-stream"
        headers = {"Content-Disposition": "attachment", "X-Content-Type-Options": "nosniff"}
        return web.Response(body=file.content, content_type=kind, headers=headers)

    async def _take_action(self, request: web.Request) -> web.Response:
        try:
            return _json({"result": await self.act(self._decode(await request.read()))})
        except (ActionProblem, msgspec.DecodeError) as error:
            return _json({"problem": str(error)}, status=400)

    async def _take_faults(self, request: web.Request) -> web.Response:
        try:
            self.add_faults(*_RULES.decode(await request.read()))
        except msgspec.DecodeError as error:
            return _json({"problem": str(error)}, status=400)
        return _json({"result": len(self.faults.unspent)})

    async def _clear_faults(self, _request: web.Request) -> web.Response:
        self.faults.clear()
        return _json({"result": 0})

    async def _set_token(self, request: web.Request) -> web.Response:
        valid = bool((await request.json()).get("valid"))
        await self.revoke_token(valid=valid)
        return _json({"result": valid})


@web.middleware
async def _only_this_machine(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Refuse actions that are not sent as JSON.

    Otherwise any web page that is open in a browser on this machine could send actions by a form.
    """
    is_form = request.method == "POST" and request.content_type != "application/json"
    if request.path.startswith("/simulator/") and is_form:
        raise web.HTTPUnsupportedMediaType(text="send JSON, with the header Content-Type: application/json\n")
    return await handler(request)


def _json(value: Any, *, status: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), content_type="application/json", status=status)
