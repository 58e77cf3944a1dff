"""The chats of the simulated Telegram: people, members, topics, messages with all their versions, drafts and files.

The world stores the state. It does not check the calls of the bot: `calls` and `sending` do. `people` performs the
actions of people, and `history` shows what they see. Every change gets the time as an argument, so the world reads no
clock.
"""

from __future__ import annotations

import mimetypes
import random
import re
from typing import Any, Literal, TypeAlias

import msgspec

from tailrace.capabilities import Rate
from tailrace.testing.platforms.pace import CallPace
from tailrace.testing.platforms.telegram.entities import MessageEntity
from tailrace.testing.platforms.telegram.rich import RichContent
from tailrace.testing.platforms.telegram.rules import ApiRefusal, TelegramSettings
from tailrace.testing.platforms.telegram.updates import UpdateQueue

_TOKEN = re.compile(r"[1-9]\d{0,15}:[A-Za-z0-9_-]+")
ChatType: TypeAlias = Literal["private", "group", "supergroup", "channel"]


class TelegramUser(msgspec.Struct, frozen=True, omit_defaults=True):
    """A person or a bot."""

    id: int
    first_name: str
    username: str = ""
    is_bot: bool = False


class StoredFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file on the platform. `width` and `height` are set for a photo."""

    file_id: str
    name: str
    content: bytes
    mime_type: str = "application/octet-stream"
    is_photo: bool = False
    width: int = 0
    height: int = 0
    path: str = ""


class TelegramContent(msgspec.Struct, frozen=True, kw_only=True):
    """What a message shows. If it has a file, the text is the caption. `rich` is the content of a rich message."""

    text: str = ""
    entities: tuple[MessageEntity, ...] = ()
    file: StoredFile | None = None
    rich: RichContent | None = None
    keyboard: dict[str, Any] | None = None


class ContentVersion(msgspec.Struct, frozen=True):
    """The content of a message from the time `at` until its next version."""

    at: float
    content: TelegramContent


class TelegramMessage(msgspec.Struct, kw_only=True):
    """A message. If it reports an event, such as a new member, `service` has the fields that describe the event.

    `reactions` has an entry for each change: its time, the user, and the emoji that the user shows from then on.
    """

    message_id: int
    sender: TelegramUser
    at: float
    thread: int | None = None
    reply_to: int | None = None
    is_silent: bool = False
    versions: list[ContentVersion]
    reactions: list[tuple[float, int, tuple[str, ...]]] = []
    deleted_at: float | None = None
    service: dict[str, Any] = {}

    @property
    def content(self) -> TelegramContent:
        """What the message shows now: its last version."""
        return self.versions[-1].content


class DraftVersion(msgspec.Struct, kw_only=True):
    """A draft as people saw it from the time `at` to the time `until`."""

    draft_id: int
    thread: int | None
    content: TelegramContent
    can_stop: bool = False
    keep_on_stop: bool = False
    at: float
    until: float


class ChatAction(msgspec.Struct):
    """A sign of what the bot does, such as "typing…", which people saw from the time `at` to the time `until`."""

    action: str
    thread: int | None
    at: float
    until: float


class CallbackQuery(msgspec.Struct, kw_only=True):
    """A press of a button. `answer` is None until the bot has answered."""

    query_id: str
    user: TelegramUser
    message_id: int
    pressed_at: float
    answer: str | None = None
    is_alert: bool = False
    answered_at: float = 0.0


class ForumTopic(msgspec.Struct):
    """A topic of a forum."""

    title: str
    is_closed: bool = False


class TelegramChat(msgspec.Struct, kw_only=True):
    """A chat. `bot_status` is the bot's role in it: `member`, `administrator`, `left` or `kicked`.

    In a private chat, `kicked` says that the person has blocked the bot. `live` has the drafts and actions that may be
    shown now; `drafts` and `actions` have all of them, also those of the past.
    """

    id: int
    type: ChatType
    title: str
    username: str = ""
    is_forum: bool = False
    bot_status: str = "member"
    members: dict[int, TelegramUser] = {}
    topics: dict[int, ForumTopic] = {}
    messages: dict[int, TelegramMessage] = {}
    drafts: list[DraftVersion] = []
    actions: list[ChatAction] = []
    live: dict[tuple[object, ...], DraftVersion | ChatAction] = {}
    queries: dict[str, CallbackQuery] = {}
    migrated_to: int | None = None
    next_message_id: int = 1


class TelegramWorld:
    """The state of the simulated platform: all chats of one bot. `version` grows with each change."""

    def __init__(self, *, token: str, settings: TelegramSettings | None = None, seed: int = 0) -> None:
        if not _TOKEN.fullmatch(token):
            raise ValueError("a token is the number of the bot, a colon and a secret, such as 123:abc")
        self.settings = settings or TelegramSettings()
        self.token = token
        self.token_is_valid = True
        self.bot = TelegramUser(int(token.partition(":")[0]), "Tail Bot", "tail_bot", is_bot=True)
        self.chats: dict[int, TelegramChat] = {}
        self.files: dict[str, StoredFile] = {}
        self.commands: dict[str, list[dict[str, Any]]] = {}
        self.random = random.Random(seed)  # noqa: S311  ids and chances that a seed repeats, no secrets
        self.updates = UpdateQueue(self.settings, self.random)
        self.version = 0
        self._pace = CallPace(slack_s=self.settings.chat_slack_s)
        self._next_message_id = 1  # private chats and groups share their ids
        self._next_number = 1

    def add_chat(self, chat_id: int, type: ChatType, title: str, *members: TelegramUser, **more: Any) -> TelegramChat:  # noqa: A002  the platform's word
        """Add a chat with these members. `more` are further fields of `TelegramChat`."""
        more.setdefault("bot_status", "administrator" if type == "channel" else "member")
        chat = TelegramChat(id=chat_id, type=type, title=title, members={user.id: user for user in members}, **more)
        self.chats[chat_id] = chat
        self.version += 1
        return chat

    def new_number(self) -> int:
        """A new number for the id of a file or of a button press."""
        self._next_number += 1
        return self._next_number

    def new_message(
        self, chat: TelegramChat, sender: TelegramUser, content: TelegramContent, now: float, **more: Any
    ) -> TelegramMessage:
        """Add a message to the chat. `more` are further fields of `TelegramMessage`."""
        if chat.type in {"supergroup", "channel"}:
            message_id, chat.next_message_id = chat.next_message_id, chat.next_message_id + 1
        else:
            message_id, self._next_message_id = self._next_message_id, self._next_message_id + 1
        message = TelegramMessage(
            message_id=message_id, sender=sender, at=now, versions=[ContentVersion(now, content)], **more
        )
        chat.messages[message_id] = message
        if sender.id == self.bot.id:
            # A message of the bot ends its draft and its action in that chat and topic (facts 4 and 5).
            for key in [key for key, shown in chat.live.items() if shown.thread == message.thread]:
                shown = chat.live.pop(key)
                shown.until = min(shown.until, now)
        self.version += 1
        return message

    def add_topic(self, chat: TelegramChat, by: TelegramUser, title: str, now: float) -> TelegramMessage:
        """Add a topic, and the message that announces it. The id of the topic is the id of that message."""
        topic = {"name": title, "icon_color": 7322096}
        message = self.new_message(chat, by, TelegramContent(), now, service={"forum_topic_created": topic})
        message.thread = message.message_id
        chat.topics[message.message_id] = ForumTopic(title)
        return message

    def show(self, chat: TelegramChat, shown: DraftVersion | ChatAction) -> None:
        """Show a draft or an action in a chat. It replaces the earlier text of the same draft, or the same action."""
        if isinstance(shown, DraftVersion):
            key: tuple[object, ...] = ("draft", shown.draft_id, shown.thread)
            chat.drafts.append(shown)
        else:
            key = ("action", shown.action, shown.thread)
            chat.actions.append(shown)
        earlier = chat.live.get(key)
        if earlier is not None:
            earlier.until = min(earlier.until, shown.at)
        chat.live[key] = shown
        self.version += 1

    def change(self, message: TelegramMessage, content: TelegramContent, now: float) -> None:
        """Give the message another content."""
        message.versions.append(ContentVersion(now, content))
        self.version += 1

    def store(self, name: str, content: bytes, *, is_photo: bool = False) -> StoredFile:
        """Store a file. Its download path does not contain its name, only the ending of the name."""
        number = self.new_number()
        ending = name.rpartition(".")[2].lower()
        ending = ending if ending.isascii() and ending.isalnum() and ending != name.lower() else "bin"
        width, height = _png_size(content) if is_photo else (0, 0)
        file = StoredFile(
            file_id=f"file-{number}",
            name=name,
            content=content,
            mime_type=mimetypes.guess_type(f"file.{ending}")[0] or "application/octet-stream",
            is_photo=is_photo,
            width=width,
            height=height,
            path=f"{'photos' if is_photo else 'documents'}/file_{number}.{ending}",
        )
        self.files[file.file_id] = file
        return file

    def spend(self, chat: TelegramChat, now: float, *, of: Literal["message", "draft", "action"] = "message") -> None:
        """Count a call against the rates of the platform. Raises `ApiRefusal` if the call comes too early.

        Deletions, reactions and answers to buttons are not counted: no source says whether the platform counts them.
        """
        settings = self.settings
        if not settings.enforces_pace:
            return
        rates: dict[str, Rate] = {"overall": settings.overall}
        if of == "message":
            rates[f"chat {chat.id}"] = settings.per_chat
            if chat.type != "private":
                rates[f"group {chat.id}"] = settings.per_group
        elif of == "draft":
            rates[f"drafts {chat.id}"] = settings.drafts_per_chat
        else:
            rates = {f"actions {chat.id}": settings.actions_per_chat}
        wait = self._pace.wait(rates, now)
        if wait > 0.0:
            retry_after = max(int(-(-wait // 1)), settings.shortest_retry_s)
            self._pace.block(rates, now, for_s=retry_after)
            raise ApiRefusal("too_many_requests", retry_after=retry_after, parameters={"retry_after": retry_after})


def _png_size(content: bytes) -> tuple[int, int]:
    if not content.startswith(b"\x89PNG\r\n\x1a\n"):
        return 0, 0
    return int.from_bytes(content[16:20], "big"), int.from_bytes(content[20:24], "big")
