"""What people can do in the chats, as values. `tailrace.testing.platforms.telegram.people` does it.

An action without a `chat` is done in the first chat of the world, and one without a `user` by its first member.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec


class _Action(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="do"):
    chat: int | None = None
    user: int | None = None


class WriteMessage(_Action, frozen=True, tag="write"):
    """Write a message."""

    text: str
    thread: int | None = None
    reply_to: int | None = None


class EditMessage(_Action, frozen=True, tag="edit"):
    """Edit an own message."""

    message_id: int
    text: str


class SendFile(_Action, frozen=True, tag="send_file"):
    """Send a file, or a photo."""

    name: str
    content: bytes
    caption: str = ""
    photo: bool = False
    thread: int | None = None


class PressButton(_Action, frozen=True, tag="press"):
    """Press the button with this text under the message, or under the latest message that has it."""

    button: str
    message_id: int | None = None


class ShowReactions(_Action, frozen=True, tag="react"):
    """React to a message with these emoji, instead of the earlier ones."""

    message_id: int
    emoji: tuple[str, ...] = ()


class StopDraft(_Action, frozen=True, tag="stop"):
    """Press the stop button of a draft, or of the latest one that has it."""

    draft_id: int | None = None


class JoinChat(_Action, frozen=True, tag="join"):
    """A new person joins the chat."""

    name: str = "New Member"


class LeaveChat(_Action, frozen=True, tag="leave"):
    """A member leaves the chat."""


class ChangeBotStatus(_Action, frozen=True, tag="bot_status"):
    """Let the bot be `member`, `administrator`, `left` or `kicked`. In a private chat, `kicked` blocks it."""

    status: str


class AddTopic(_Action, frozen=True, tag="add_topic"):
    """Make a topic in a forum."""

    title: str


class MigrateGroup(_Action, frozen=True, tag="migrate"):
    """Make the group a supergroup, which is another chat."""


Action: TypeAlias = (
    WriteMessage
    | EditMessage
    | SendFile
    | PressButton
    | ShowReactions
    | StopDraft
    | JoinChat
    | LeaveChat
    | ChangeBotStatus
    | AddTopic
    | MigrateGroup
)
