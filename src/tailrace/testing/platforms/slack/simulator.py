"""A simulated Slack: its first chats, and what tests do with it. The Web API is in `slack.server`."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

import msgspec

from tailrace.testing.faults import Script
from tailrace.testing.platforms.simulator import PlatformSimulator, ShownFile
from tailrace.testing.platforms.slack.actions import Action
from tailrace.testing.platforms.slack.history import raw_text, seen_chat
from tailrace.testing.platforms.slack.people import act
from tailrace.testing.platforms.slack.server import WebApi
from tailrace.testing.platforms.slack.world import SlackUser, SlackWorld

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tailrace.testing.platforms.slack.rules import SlackSettings
    from tailrace.testing.platforms.visible import SeenChat, VisibleId

DEFAULT_TOKEN = "xoxb-simulated-token-of-no-real-bot"  # noqa: S105  it opens nothing
DEFAULT_APP_TOKEN = "xapp-simulated-token-of-no-real-app"  # noqa: S105  it opens nothing
DEFAULT_SIGNING_SECRET = "simulated-signing-secret"  # noqa: S105  it signs nothing
DIRECT, CHANNEL, PRIVATE_CHANNEL = "D0ADA", "C0TEAM", "G0PLANS"
_ACTIONS: msgspec.json.Decoder[Action] = msgspec.json.Decoder(Action)
_MENTION = re.compile(r"<([!@#][^>]*)>")


class SlackSimulator(PlatformSimulator):
    """A simulated Slack. It runs inside the `async with` block.

    It starts with a direct message (`DIRECT`), a channel and a private channel; `world.add_chat` adds others.
    `api_base` is the address for SDKs, and `url` shows the page in a browser. `faults` are the rules by which calls
    fail: the kind of a rule is the name of a method, such as `chat.postMessage`, or `socket`, `webhook`, `upload` or
    `download`. Events by HTTP are signed with `DEFAULT_SIGNING_SECRET`.
    """

    title = "Slack, simulated"

    def __init__(
        self,
        *,
        port: int = 0,
        token: str = DEFAULT_TOKEN,
        app_token: str = DEFAULT_APP_TOKEN,
        settings: SlackSettings | None = None,
        seed: int = 0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.world = SlackWorld(token=token, app_token=app_token, settings=settings, seed=seed)
        super().__init__(Script(self.world.random), port=port, clock=clock)
        _add_first_chats(self.world)
        self.token = token
        self.app_token = app_token

    @property
    def api_base(self) -> str:
        """The address of the Web API, for `base_url` of the SDK."""
        return f"{self.url}/api/"

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables with which a bot calls this simulator instead of Slack."""
        return {"SLACK_API_BASE": self.api_base, "SLACK_BOT_TOKEN": self.token, "SLACK_APP_TOKEN": self.app_token}

    @property
    def connections(self) -> int:
        """How many sockets of Socket Mode are open."""
        return len(self._web_api.events.sockets)

    async def revoke_token(self, *, valid: bool = False) -> None:
        """Make the tokens of the app invalid, so that every call is refused. `valid=True` makes them valid again."""
        self.world.token_is_valid = valid
        await self._api.notify()

    async def disconnect(self, reason: str = "refresh_requested") -> None:
        """Ask for a new connection on every socket, and close it a moment later."""
        await self._web_api.events.disconnect(reason)

    async def send_frame(self, text: str) -> None:
        """Send a text to every socket as it is, such as one that no Slack would send."""
        for socket in list(self._web_api.events.sockets):
            await socket.send_str(text)

    async def set_request_url(self, url: str) -> None:
        """Switch Socket Mode off and send events to this URL. Raises `ValueError` if it does not prove itself."""
        await self._web_api.events.verify_url(url)

    def signed(self, body: bytes) -> dict[str, str]:
        """The headers with which Slack would sign this body now."""
        return self._web_api.events.signature(body)

    def seen(self, chat: str = DIRECT, *, at: float | None = None) -> SeenChat:
        """What people see in the chat now, or saw at the time `at`."""
        return seen_chat(self.world, self.world.chats[chat], self.clock() if at is None else at)

    def texts(self, chat: str = DIRECT) -> list[str]:
        """The texts of the bot that people see in the chat now."""
        return self.seen(chat).texts_of_bot

    def mentions(self, chat: str = DIRECT) -> list[str]:
        """The people, groups and channels that any version of a message of the bot has mentioned."""
        own = [message for message in self.world.chats[chat].messages.values() if message.sender == self.world.bot]
        shown = [version.content for message in own for version in message.versions]
        return [name for content in shown for name in _MENTION.findall(raw_text(content))]

    def _make_api(self) -> WebApi:
        self._web_api = WebApi(self.world, self.faults, self.clock, signing_secret=DEFAULT_SIGNING_SECRET)
        return self._web_api

    @property
    def _body_limit(self) -> int:
        return self.world.settings.upload_bytes

    def _perform(self, action: Action) -> str:
        return act(self.world, action, self.url, self.clock())

    def _decode(self, action: bytes) -> Action:
        return _ACTIONS.decode(action)

    def _chats(self) -> Iterable[tuple[VisibleId, str, str]]:
        return [(chat.id, chat.name, chat.type) for chat in self.world.chats.values()]

    def _seen(self, chat: VisibleId, at: float) -> SeenChat:
        return seen_chat(self.world, self.world.chats[str(chat)], at)

    def _version(self) -> int:
        return self.world.version

    def _file(self, file_id: str) -> ShownFile | None:
        file = self.world.files.get(file_id)
        if file is None or file.content is None:
            return None
        return ShownFile(file.content, file.mime_type, file.mime_type.startswith("image/"))


def _add_first_chats(world: SlackWorld) -> None:
    ada, ben = SlackUser("U0ADA", "Ada"), SlackUser("U0BEN", "Ben")
    world.add_chat(DIRECT, "im", "Ada", ada)
    world.add_chat(CHANNEL, "channel", "team", ada, ben)
    world.add_chat(PRIVATE_CHANNEL, "group", "plans", ada, ben)
