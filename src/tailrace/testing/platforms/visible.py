"""What people see in a chat at some time: values that the simulator of any platform can fill, and their form as text.

A simulator shows these values as JSON; a field without a value is left out. `tailrace.testing.platforms.page` shows
them in a browser.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TypeAlias

import msgspec

VisibleId: TypeAlias = int | str
"""The id of a chat, a person, a topic or a message: a number or a text, as the platform has it."""


class SeenVersion(msgspec.Struct, frozen=True, omit_defaults=True):
    """A text that a message showed from the time `at` on. `html` is the formatted text, safe inside a page."""

    at: float
    text: str
    html: str = ""


class SeenButton(msgspec.Struct, frozen=True, omit_defaults=True):
    """A button under a message. A `url` opens a page; any other button can be pressed."""

    text: str
    url: str = ""


class SeenMessage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message as people see it. `edits` are its earlier versions.

    `notified` has the first lines of the notifications about it. `tasks` are the steps of the work that it shows, each
    with its status.
    """

    id: VisibleId
    sender: str
    at: float
    text: str
    html: str = ""
    is_bot: bool = False
    service: str = ""
    topic: str = ""
    reply_to: VisibleId | None = None
    file: str = ""
    file_url: str = ""
    is_photo: bool = False
    buttons: tuple[tuple[SeenButton, ...], ...] = ()
    reactions: tuple[str, ...] = ()
    edits: tuple[SeenVersion, ...] = ()
    deleted_at: float | None = None
    notified: tuple[str, ...] = ()
    tasks: tuple[tuple[str, str], ...] = ()


class SeenDraft(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A draft: a text that is not sent yet. For an empty text, people see a placeholder."""

    id: int
    text: str
    html: str = ""
    topic: str = ""
    can_stop: bool = False


class SeenNotice(msgspec.Struct, frozen=True, omit_defaults=True):
    """A short text that only one person saw, such as the answer to a press of a button."""

    at: float
    user: str
    text: str
    is_alert: bool = False


class SeenChat(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A chat as its members see it.

    `doing` are the signs of what the bot does, such as "typing". `commands` are the commands in the menu of the bot,
    each with its description.
    """

    id: VisibleId
    type: str
    title: str
    members: tuple[tuple[VisibleId, str], ...] = ()
    topics: tuple[tuple[VisibleId, str], ...] = ()
    commands: tuple[tuple[str, str], ...] = ()
    messages: tuple[SeenMessage, ...] = ()
    drafts: tuple[SeenDraft, ...] = ()
    doing: tuple[str, ...] = ()
    notices: tuple[SeenNotice, ...] = ()

    @property
    def texts_of_bot(self) -> list[str]:
        """The texts of the bot that are not deleted."""
        return [message.text for message in self.messages if message.is_bot and message.deleted_at is None]


def as_text(chat: SeenChat) -> str:
    """The chat as plain text: the lines that people see, and remarks about each message in brackets below it."""
    lines = [f"== {chat.title} ({chat.type}, {chat.id})"]
    for message in chat.messages:
        begin = f"{_clock(message.at)} {message.id:>4} "
        shown = message.service or message.text or message.file
        if message.deleted_at is not None:
            shown = f"deleted at {_clock(message.deleted_at)}: {shown}"
        lines.append(f"{begin}{message.sender}: {_indented(shown, len(begin))}")
        lines += [f"{' ' * len(begin)}[{status}] {title}" for title, status in message.tasks]
        lines += [" " * len(begin) + "  ".join(f"[{button.text}]" for button in row) for row in message.buttons]
        if remarks := _remarks(message):
            lines.append(" " * len(begin) + f"({', '.join(remarks)})")
    for draft in chat.drafts:
        stop = ", can be stopped" if draft.can_stop else ""
        lines.append(f"draft {draft.id}{stop}: {_indented(draft.text or 'Thinking…', 4)}")
    lines += [f"the bot is {action}" for action in chat.doing]
    lines += [f"{_clock(notice.at)} {notice.user} saw a notice: {notice.text}" for notice in chat.notices]
    return "\n".join(lines)


def _remarks(message: SeenMessage) -> list[str]:
    remarks = [f"in {message.topic}"] * bool(message.topic)
    if message.reply_to is not None:
        remarks.append(f"reply to {message.reply_to}")
    if message.file and message.text:
        remarks.append(f"file {message.file}")
    if message.edits:
        remarks.append(f"edits: {len(message.edits)}")
    if message.reactions:
        remarks.append(f"reactions {' '.join(message.reactions)}")
    return remarks + [f"notified: {line}" for line in message.notified]


def _clock(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%H:%M:%S")


def _indented(text: str, width: int) -> str:
    return text.replace("\n", "\n" + " " * width)
