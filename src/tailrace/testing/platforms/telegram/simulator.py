"""A simulated Telegram: its first chats, and what tests do with it. The Bot API is in `telegram.server`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import msgspec

from tailrace.testing.faults import Script
from tailrace.testing.platforms.simulator import PlatformSimulator, ShownFile
from tailrace.testing.platforms.telegram.actions import Action
from tailrace.testing.platforms.telegram.history import seen_chat
from tailrace.testing.platforms.telegram.people import act
from tailrace.testing.platforms.telegram.server import BotApi
from tailrace.testing.platforms.telegram.world import ForumTopic, TelegramUser, TelegramWorld

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tailrace.testing.platforms.telegram.rules import TelegramSettings
    from tailrace.testing.platforms.visible import SeenChat, VisibleId

DEFAULT_TOKEN = "700000001:simulated-token-of-no-real-bot"  # noqa: S105  it opens nothing
PRIVATE, GROUP, FORUM, CHANNEL = 1001, -2002, -1_000_000_003_003, -1_000_000_004_004
_ACTIONS: msgspec.json.Decoder[Action] = msgspec.json.Decoder(Action)


class TelegramSimulator(PlatformSimulator):
    """A simulated Telegram. It runs inside the `async with` block.

    It starts with a private chat (`PRIVATE`), a group, a forum and a channel; `world.add_chat` adds others. `url` is
    the address for SDKs, and in a browser it shows the page. `faults` are the rules by which calls fail: the kind of a
    rule is the name of a method, such as `sendMessage`, or `webhook` or `download`.
    """

    title = "Telegram, simulated"

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
        super().__init__(Script(self.world.random), port=port, clock=clock)
        _add_first_chats(self.world)
        self.token = token

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables with which a bot calls this simulator instead of Telegram."""
        return {"TELEGRAM_API_BASE": self.url, "TELEGRAM_BOT_TOKEN": self.token}

    @property
    def is_polled(self) -> bool:
        """Whether the bot waits for updates now."""
        return self._bot_api.is_polled

    async def revoke_token(self, *, valid: bool = False) -> None:
        """Make the token of the bot invalid, so that every call is refused. `valid=True` makes it valid again."""
        self.world.token_is_valid = valid
        await self._api.notify()

    def seen(self, chat: int = PRIVATE, *, at: float | None = None) -> SeenChat:
        """What people see in the chat now, or saw at the time `at`."""
        return seen_chat(self.world, self.world.chats[chat], self.clock() if at is None else at)

    def texts(self, chat: int = PRIVATE) -> list[str]:
        """The texts of the bot that people see in the chat now."""
        return self.seen(chat).texts_of_bot

    def _make_api(self) -> BotApi:
        self._bot_api = BotApi(self.world, self.faults, self.clock)
        return self._bot_api

    @property
    def _body_limit(self) -> int:
        return self.world.settings.upload_bytes + 1_000_000

    def _perform(self, action: Action) -> int:
        return act(self.world, action, self.clock())

    def _decode(self, action: bytes) -> Action:
        return _ACTIONS.decode(action)

    def _chats(self) -> Iterable[tuple[VisibleId, str, str]]:
        return [(chat.id, chat.title, chat.type) for chat in self.world.chats.values()]

    def _seen(self, chat: VisibleId, at: float) -> SeenChat:
        return seen_chat(self.world, self.world.chats[int(chat)], at)

    def _version(self) -> int:
        return self.world.version

    def _file(self, file_id: str) -> ShownFile | None:
        file = self.world.files.get(file_id)
        return None if file is None else ShownFile(file.content, file.mime_type, file.is_photo)


def _add_first_chats(world: TelegramWorld) -> None:
    ada, ben = TelegramUser(PRIVATE, "Ada", "ada"), TelegramUser(1002, "Ben", "ben")
    world.add_chat(PRIVATE, "private", "Ada", ada)
    world.add_chat(GROUP, "group", "Team", ada, ben)
    topics = {4: ForumTopic("Releases"), 7: ForumTopic("Questions")}
    world.add_chat(FORUM, "supergroup", "Project", ada, ben, is_forum=True, topics=topics, next_message_id=10)
    world.add_chat(CHANNEL, "channel", "News", ada)
