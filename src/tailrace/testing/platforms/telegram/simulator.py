"""A simulated Telegram on a port of this machine, inside the process of a test or of `tailrace simulate`.

`TelegramSimulator` starts the server. A test lets people act, and looks at what they see. The Bot API is in
`tailrace.testing.platforms.telegram.server`. This file adds the web page, and the URLs by which the page and other
processes do the same.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING, Any, Self

import msgspec
from aiohttp import web
from msgspec.structs import replace

from tailrace.testing.faults import Fault, Rule, Script
from tailrace.testing.platforms.page import conversation, page
from tailrace.testing.platforms.telegram.actions import Action
from tailrace.testing.platforms.telegram.history import seen_chat
from tailrace.testing.platforms.telegram.people import ActionProblem, act
from tailrace.testing.platforms.telegram.server import ApiCall, BotApi
from tailrace.testing.platforms.telegram.world import ForumTopic, TelegramUser, TelegramWorld
from tailrace.testing.platforms.visible import SeenChat, as_text

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import TracebackType

    from tailrace.testing.platforms.telegram.rules import TelegramSettings

HOST = "127.0.0.1"
DEFAULT_TOKEN = "700000001:simulated-token-of-no-real-bot"  # noqa: S105  it opens nothing
PRIVATE, GROUP, FORUM, CHANNEL = 1001, -2002, -1_000_000_003_003, -1_000_000_004_004
_PHOTO_TYPES = frozenset({"image/gif", "image/jpeg", "image/png", "image/webp"})
_PAGE_WAIT_S = 1.0  # drafts and typing vanish without a change, so the page asks again
_ACTIONS: msgspec.json.Decoder[Action] = msgspec.json.Decoder(Action)
_RULES = msgspec.json.Decoder(list[Rule])


class TelegramSimulator:
    """A simulated Telegram. It runs inside the `async with` block.

    It starts with a private chat (`PRIVATE`), a group, a forum and a channel; `world.add_chat` adds others. `url` is
    the address for SDKs, and in a browser it shows the page. `faults` are the rules by which calls fail: the kind of a
    rule is the name of a method, such as `sendMessage`, or `webhook` or `download`.
    """

    def __init__(
        self,
        *,
        port: int = 0,
        token: str = DEFAULT_TOKEN,
        settings: TelegramSettings | None = None,
        seed: int = 0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.world = TelegramWorld(token=token, settings=settings, seed=seed)
        _add_first_chats(self.world)
        self.token = token
        self.faults = Script(self.world.random)
        self.port = port
        self.clock = clock

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables with which a bot calls this simulator instead of Telegram."""
        return {"TELEGRAM_API_BASE": self.url, "TELEGRAM_BOT_TOKEN": self.token}

    async def __aenter__(self) -> Self:
        self._api = BotApi(self.world, self.faults, self.clock)
        upload_limit = self.world.settings.upload_bytes + 1_000_000
        application = web.Application(client_max_size=upload_limit, middlewares=[_only_this_machine])
        application.add_routes([*self._api.routes(), *self._people_routes()])
        self._runner = web.AppRunner(application, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, HOST, self.port)
        await site.start()
        self.port = self._runner.addresses[0][1]
        self.url = f"http://{HOST}:{self.port}"
        self._webhook = asyncio.create_task(self._api.webhook.run())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._webhook.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._webhook
        await self._api.close()
        await self._runner.cleanup()

    @property
    def calls(self) -> list[ApiCall]:
        """The calls of the bot, in order. A call that waits for updates is added when it is answered."""
        return self._api.calls

    @property
    def is_polled(self) -> bool:
        """Whether the bot waits for updates now."""
        return self._api.is_polled

    def add_faults(self, *rules: Rule | Fault) -> None:
        """Add rules after the existing ones.

        A fault without a rule applies to the next call that does not ask for updates.
        """
        self.faults.add(*rules)

    async def act(self, action: Action) -> int:
        """Perform an action of a person.

        Returns the id of the message, topic, draft, person or chat that was made or changed.
        """
        result = act(self.world, action, self.clock())
        await self._api.notify()
        return result

    async def revoke_token(self, *, valid: bool = False) -> None:
        """Make the token of the bot invalid, so that every call is refused. `valid=True` makes it valid again."""
        self.world.token_is_valid = valid
        await self._api.notify()

    def seen(self, chat: int = PRIVATE, *, at: float | None = None) -> SeenChat:
        """What people see in the chat now, or saw at the time `at`."""
        return seen_chat(self.world, self.world.chats[chat], self.clock() if at is None else at)

    def texts(self, chat: int = PRIVATE) -> list[str]:
        """The texts of the bot that people see in the chat now."""
        seen = self.seen(chat).messages
        return [message.text for message in seen if message.is_bot and message.deleted_at is None]

    async def wait_until(self, is_reached: Callable[[], bool], *, timeout_s: float = 30.0) -> None:
        """Wait until `is_reached` returns True. It is called after each call of the bot and each action of a person."""
        async with asyncio.timeout(timeout_s), self._api.changed:
            await self._api.changed.wait_for(is_reached)

    def _people_routes(self) -> list[web.RouteDef]:
        return [
            web.get("/", self._page),
            web.get("/simulator/conversation", self._conversation),
            web.get("/simulator/history", self._history),
            web.get("/simulator/history.txt", self._history_text),
            web.get("/simulator/calls", self._calls),
            web.get("/simulator/files/{file_id}", self._file),
            web.post("/simulator/act", self._act),
            web.post("/simulator/faults", self._add_faults),
            web.delete("/simulator/faults", self._clear_faults),
            web.post("/simulator/token", self._set_token),
        ]

    def _seen_by(self, request: web.Request) -> list[SeenChat]:
        """The chats that a request names, at the time that it names, with the messages after the one that it names."""
        at = float(request.query["at"]) if "at" in request.query else None
        wanted = [int(request.query["chat"])] if "chat" in request.query else list(self.world.chats)
        seen = [self.seen(chat, at=at) for chat in wanted if chat in self.world.chats]
        after = int(request.query.get("after", 0))
        return [replace(chat, messages=tuple(each for each in chat.messages if each.id > after)) for chat in seen]

    async def _page(self, _request: web.Request) -> web.Response:
        return web.Response(text=page("Telegram, simulated"), content_type="text/html")

    async def _conversation(self, request: web.Request) -> web.Response:
        known = request.query.get("version", "")
        with contextlib.suppress(TimeoutError):
            await self.wait_until(lambda: str(self.world.version) != known, timeout_s=_PAGE_WAIT_S)
        wanted, chats = request.query.get("chat", ""), self.world.chats
        chat = next((chat for chat in chats if str(chat) == wanted), next(iter(chats)))
        html = conversation(self.seen(chat), [(each.id, each.title, each.type) for each in chats.values()])
        headers = {"X-Version": str(self.world.version), "X-Chat": str(chat)}
        return web.Response(text=html, content_type="text/html", headers=headers)

    async def _history(self, request: web.Request) -> web.Response:
        return _json(self._seen_by(request))

    async def _history_text(self, request: web.Request) -> web.Response:
        return web.Response(text="\n\n".join(as_text(chat) for chat in self._seen_by(request)) + "\n")

    async def _calls(self, request: web.Request) -> web.Response:
        return _json(self.calls[int(request.query.get("after", 0)) :])

    async def _file(self, request: web.Request) -> web.Response:
        file = self.world.files.get(request.match_info["file_id"])
        if file is None:
            raise web.HTTPNotFound
        # Only photos are shown, and all else is downloaded: a file of a bot may be a page with a script.
        kind = file.mime_type if file.is_photo and file.mime_type in _PHOTO_TYPES else "application/octet-stream"
        headers = {"Content-Disposition": "attachment", "X-Content-Type-Options": "nosniff"}
        return web.Response(body=file.content, content_type=kind, headers=headers)

    async def _act(self, request: web.Request) -> web.Response:
        try:
            return _json({"result": await self.act(_ACTIONS.decode(await request.read()))})
        except (ActionProblem, msgspec.DecodeError) as error:
            return _json({"problem": str(error)}, status=400)

    async def _add_faults(self, request: web.Request) -> web.Response:
        try:
            self.add_faults(*_RULES.decode(await request.read()))
        except msgspec.DecodeError as error:
            return _json({"problem": str(error)}, status=400)
        return _json({"result": len(self.faults.unspent)})

    async def _clear_faults(self, _request: web.Request) -> web.Response:
        self.faults.clear()
        return _json({"result": 0})

    async def _set_token(self, request: web.Request) -> web.Response:
        await self.revoke_token(valid=bool((await request.json()).get("valid")))
        return _json({"result": self.world.token_is_valid})


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


def _add_first_chats(world: TelegramWorld) -> None:
    ada, ben = TelegramUser(PRIVATE, "Ada", "ada"), TelegramUser(1002, "Ben", "ben")
    world.add_chat(PRIVATE, "private", "Ada", ada)
    world.add_chat(GROUP, "group", "Team", ada, ben)
    topics = {4: ForumTopic("Releases"), 7: ForumTopic("Questions")}
    world.add_chat(FORUM, "supergroup", "Project", ada, ben, is_forum=True, topics=topics, next_message_id=10)
    world.add_chat(CHANNEL, "channel", "News", ada)
