"""What people can do in the chats, as values. `tailrace.testing.platforms.slack.people` performs these actions.

An action without a `chat` is done in the first chat of the simulator, and one without a `user` by its first member.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec


class _Action(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="do"):
    chat: str | None = None
    user: str | None = None


class WriteInSlack(_Action, frozen=True, tag="write"):
    """A person writes a message; with `thread` it is a reply in the thread of that message.

    `@bot` in the text mentions the bot. A text that begins with `/` is a slash command, as in the apps of Slack, except
    in a thread, where it is a message.
    """

    text: str
    thread: str | None = None


class EditInSlack(_Action, frozen=True, tag="edit"):
    """A person changes the text of a message that this person has written."""

    message_id: str
    text: str


class SendFileInSlack(_Action, frozen=True, tag="send_file"):
    """A person sends a file with a text."""

    name: str
    content: bytes
    text: str = ""
    photo: bool = False
    thread: str | None = None


class PressInSlack(_Action, frozen=True, tag="press"):
    """A person presses the button with the text `button`.

    `message_id` is the message with the button; by default it is the latest message that has such a button.
    """

    button: str
    message_id: str | None = None


class RunSlashCommand(_Action, frozen=True, tag="command"):
    """A person runs a slash command, such as `/stop`, with the text that follows it."""

    command: str
    text: str = ""


class ChangeBotMembership(_Action, frozen=True, tag="bot_member"):
    """A person adds the bot to the channel, or removes it."""

    is_member: bool


Action: TypeAlias = WriteInSlack | EditInSlack | SendFileInSlack | PressInSlack | RunSlashCommand | ChangeBotMembership
