"""The chats of the simulated Slack: people, members, messages with all their versions, streams, files and statuses.

The world stores the state. It does not check the calls of the bot: `calls`, `posting` and `streams` do. `people`
performs the actions of people, and `history` shows what they see. Every change gets the time as an argument, so the
world reads no clock.
"""

from __future__ import annotations

import mimetypes
import random
from collections import deque
from typing import Any, Literal, TypeAlias

import msgspec

from tailrace.capabilities import Rate
from tailrace.testing.platforms.pace import CallPace
from tailrace.testing.platforms.slack.rules import SlackRefusal, SlackSettings

ChatType: TypeAlias = Literal["im", "channel", "group"]
SCOPES = (
    "app_mentions:read channels:history channels:read chat:write commands files:read files:write groups:history"
    " groups:read im:history im:read reactions:write users:read"
)
_TIERS = {
    "tier_1": "apps.connections.open",
    "tier_2": "chat.startStream chat.stopStream reactions.remove",
    "tier_3": (
        "bots.info chat.delete chat.update conversations.history conversations.info conversations.replies reactions.add"
    ),
    "tier_4": (
        "chat.appendStream chat.postEphemeral files.completeUploadExternal files.getUploadURLExternal files.info"
        " users.info"
    ),
}
_TIER_OF = {method: tier for tier, methods in _TIERS.items() for method in methods.split()}


class SlackUser(msgspec.Struct, frozen=True):
    """A person or a bot."""

    id: str
    name: str
    is_bot: bool = False


class SlackFile(msgspec.Struct, kw_only=True):
    """A file on the platform. `content` is None until the bot has uploaded it."""

    file_id: str
    name: str
    title: str = ""
    content: bytes | None = None
    mime_type: str = "application/octet-stream"


class SlackTask(msgspec.Struct, kw_only=True):
    """A step of the work that a stream shows."""

    title: str = ""
    status: str = "pending"
    details: str = ""


class SlackContent(msgspec.Struct, frozen=True, kw_only=True):
    """What a message shows: `text` in the format mrkdwn, or `markdown`, or `blocks`; and files and tasks."""

    text: str = ""
    markdown: str | None = None
    blocks: tuple[dict[str, Any], ...] = ()
    files: tuple[SlackFile, ...] = ()
    tasks: tuple[tuple[str, str], ...] = ()


class SlackVersion(msgspec.Struct, frozen=True):
    """The content of a message from the time `at` until its next version."""

    at: float
    content: SlackContent


class SlackMessage(msgspec.Struct, kw_only=True):
    """A message. `thread` is the `ts` of the message that began its thread; for that message itself it is None.

    `streams_until` is the time when its stream ends by itself; None for a message that is no stream.
    """

    ts: str
    sender: SlackUser
    at: float
    thread: str | None = None
    versions: list[SlackVersion]
    metadata: dict[str, Any] | None = None
    reactions: list[tuple[float, str, str, bool]] = []
    deleted_at: float | None = None
    streams_until: float | None = None
    is_stopped: bool = False
    tasks: dict[str, SlackTask] = {}

    @property
    def content(self) -> SlackContent:
        """What the message shows now: its last version."""
        return self.versions[-1].content

    def is_streaming(self, now: float) -> bool:
        """Whether text can be appended to the message."""
        return self.streams_until is not None and not self.is_stopped and now < self.streams_until


class ShownStatus(msgspec.Struct):
    """A status of the bot in a thread, such as "is thinking…", which people saw from the time `at` to `until`."""

    text: str
    thread: str
    at: float
    until: float


class Whisper(msgspec.Struct, frozen=True):
    """A message that only one person saw."""

    at: float
    user: SlackUser
    text: str


class SlackChat(msgspec.Struct, kw_only=True):
    """A chat. `im` is a direct message with the bot, `group` a private channel."""

    id: str
    type: ChatType
    name: str
    members: dict[str, SlackUser]
    is_bot_member: bool = True
    is_archived: bool = False
    messages: dict[str, SlackMessage] = {}
    statuses: list[ShownStatus] = []
    whispers: list[Whisper] = []


class SlackWorld:
    """One workspace with one app. `new_events` are the events that were not yet sent to the app."""

    def __init__(self, *, token: str, app_token: str, settings: SlackSettings | None, seed: int) -> None:
        self.settings = settings or SlackSettings()
        self.random = random.Random(seed)  # noqa: S311  the seed repeats the run
        self.token = token
        self.app_token = app_token
        self.token_is_valid = True
        self.socket_mode = True
        self.scopes = set(SCOPES.split())
        self.team_id = "T0SIMULATED"
        self.enterprise_id: str | None = None
        self.app_id, self.bot_id = "A0SIMULATED", "B0SIMULATED"
        self.bot = SlackUser("U0SIMBOT", "ferry_bot", is_bot=True)
        self.users: dict[str, SlackUser] = {self.bot.id: self.bot}
        self.chats: dict[str, SlackChat] = {}
        self.files: dict[str, SlackFile] = {}
        self.new_events: deque[tuple[str, dict[str, Any]]] = deque()
        self.version = 0
        self._pace = CallPace(slack_s=self.settings.chat_slack_s)
        self._latest = 0
        self._next_number = 0

    def add_chat(self, chat_id: str, kind: ChatType, name: str, *members: SlackUser, **more: Any) -> SlackChat:
        """Add a chat with these members."""
        self.users |= {user.id: user for user in members}
        chat = SlackChat(id=chat_id, type=kind, name=name, members={user.id: user for user in members}, **more)
        self.chats[chat_id] = chat
        self.version += 1
        return chat

    def new_number(self) -> int:
        """A new number for the id of an event, a file or a connection."""
        self._next_number += 1
        return self._next_number

    def new_message(
        self, chat: SlackChat, sender: SlackUser, content: SlackContent, now: float, **more: Any
    ) -> SlackMessage:
        """Add a message to the chat. `more` are further fields of `SlackMessage`. Its `ts` is unique."""
        self._latest = max(self._latest + 1, round(now * 1_000_000))
        ts = f"{self._latest // 1_000_000}.{self._latest % 1_000_000:06d}"
        message = SlackMessage(ts=ts, sender=sender, at=now, versions=[SlackVersion(now, content)], **more)
        chat.messages[ts] = message
        if sender is self.bot:
            for status in chat.statuses:  # a message of the bot ends its status (section 4)
                if status.thread == message.thread:
                    status.until = min(status.until, now)
        self.version += 1
        return message

    def change(self, message: SlackMessage, content: SlackContent, now: float) -> None:
        """Give the message another content."""
        message.versions.append(SlackVersion(now, content))
        self.version += 1

    def store(self, name: str, content: bytes | None) -> SlackFile:
        """Store a file, or the name of a file that is uploaded later."""
        mime_type = mimetypes.guess_type(name)[0] or "application/octet-stream"
        file = SlackFile(file_id=f"F{self.new_number():08d}", name=name, content=content, mime_type=mime_type)
        self.files[file.file_id] = file
        return file

    def spend(self, method: str, chat: str, now: float) -> None:
        """Count a call against the rates of the platform. Raises `SlackRefusal` if the call comes too early."""
        if not self.settings.enforces_pace:
            return
        rates: dict[str, Rate] = {}
        if method == "chat.postMessage":
            rates = {f"post {chat}": self.settings.posts_per_chat, "posts": self.settings.posts_per_workspace}
        elif method == "assistant.threads.setStatus":
            rates = {method: self.settings.statuses}
        elif method in _TIER_OF:
            rates = {method: getattr(self.settings, _TIER_OF[method])}
        if not rates:
            return
        wait = self._pace.wait(rates, now)
        if wait > 0.0:
            retry_after = max(int(-(-wait // 1)), self.settings.shortest_retry_s)
            self._pace.block(rates, now, for_s=retry_after)
            raise SlackRefusal("ratelimited", retry_after=retry_after)
