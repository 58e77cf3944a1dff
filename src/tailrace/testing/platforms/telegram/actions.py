"""What people can do in the chats, as values. `tailrace.testing.platforms.telegram.people` performs these actions.

An action without a `chat` is done in the first chat of the simulator, and one without a `user` by its first member.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec


class _Action(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="do"):
    chat: int | None = None
    user: int | None = None


class WriteMessage(_Action, frozen=True, tag="write"):
    """A person writes a message."""

    text: str
    thread: int | None = None
    reply_to: int | None = None


class EditMessage(_Action, frozen=True, tag="edit"):
    """A person changes the text of a message that this person has written."""

    message_id: int
    text: str


class SendFile(_Action, frozen=True, tag="send_file"):
    """A person sends a file; with `photo` it is sent as a photo."""

    name: str
    content: bytes
    caption: str = ""
    photo: bool = False
    thread: int | None = None


class PressButton(_Action, frozen=True, tag="press"):
    """A person presses the button with the text `button`.

    `message_id` is the message with the button; by default it is the latest message that has such a button.
    """

    button: str
    message_id: int | None = None


class ShowReactions(_Action, frozen=True, tag="react"):
    """A person reacts to a message with these emoji, which replace the person's earlier ones."""

    message_id: int
    emoji: tuple[str, ...] = ()


class StopDraft(_Action, frozen=True, tag="stop"):
    """A person presses the stop button of a draft; by default of the latest draft that has such a button."""

    draft_id: int | None = None


class JoinChat(_Action, frozen=True, tag="join"):
    """A new person joins the chat."""

    name: str = "New Member"


class LeaveChat(_Action, frozen=True, tag="leave"):
    """A member leaves the chat."""


class ChangeBotStatus(_Action, frozen=True, tag="bot_status"):
    """The bot becomes `member`, `administrator`, `left` or `kicked`. In a private chat, `kicked` means blocked."""

    status: str


class AddTopic(_Action, frozen=True, tag="add_topic"):
    """A person makes a topic in a forum."""

    title: str


class MigrateGroup(_Action, frozen=True, tag="migrate"):
    """A person makes the group a supergroup. That is another chat, with another id."""


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
