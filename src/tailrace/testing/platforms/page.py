"""The page of a simulator: its chats with the look of a chat, to read, write, press and send files in a browser.

The page loads nothing from elsewhere. Its script (`page.html`) asks for the conversation again whenever something has
changed, and sends what people do as JSON. All texts are escaped here, or were escaped by the platform (`html`).
"""

from __future__ import annotations

from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tailrace.testing.platforms.visible import SeenChat, SeenMessage

_TEMPLATE = Path(__file__).with_name("page.html")


def page(title: str, chats: Sequence[SeenChat]) -> str:
    """The whole page, without a conversation: the script gets it."""
    links = "".join(
        f'<a href="#{chat.id}" data-chat="{chat.id}"><b>{escape(chat.title)}</b><small>{escape(chat.type)}</small></a>'
        for chat in chats
    )
    return _TEMPLATE.read_text(encoding="utf-8").replace("{{title}}", escape(title)).replace("{{chats}}", links)


def conversation(chat: SeenChat) -> str:
    """The messages of a chat, what is being written in it, and who can write."""
    shown = [(message.at, _message(chat, message)) for message in chat.messages]
    shown += [
        (notice.at, f'<div class="service">{escape(notice.user)} saw: {escape(notice.text)}</div>')
        for notice in chat.notices
    ]
    parts = [html for _at, html in sorted(shown, key=lambda each: each[0])]
    for draft in chat.drafts:
        stop = f'<button data-stop="{draft.id}">Stop</button>' if draft.can_stop else ""
        text = draft.html or '<i class="thinking">Thinking…</i>'
        topic = f'<div class="topic">{escape(draft.topic)}</div>' if draft.topic else ""
        parts.append(f'<div class="row bot"><div class="bubble draft">{topic}{text}{stop}</div></div>')
    parts += [f'<div class="doing">{escape(action)}…</div>' for action in chat.doing]
    options = "".join(f'<option value="{user}">{escape(name)}</option>' for user, name in chat.members)
    topics = "".join(f'<option value="{topic}">{escape(name)}</option>' for topic, name in chat.topics)
    people = f'<template id="people">{options}</template><template id="topics">{topics}</template>'
    return f"<h1>{escape(chat.title)}</h1>{people}{''.join(parts)}"


def _message(chat: SeenChat, message: SeenMessage) -> str:
    if message.service:
        return f'<div class="service">{escape(message.sender)}: {escape(message.service)}</div>'
    head = f'<div class="sender">{escape(message.sender)}</div>' if chat.type != "private" else ""
    if message.topic:
        head += f'<div class="topic">{escape(message.topic)}</div>'
    if message.reply_to is not None:
        replied = next((other for other in chat.messages if other.id == message.reply_to), None)
        quoted = (replied.text.partition("\n")[0] or replied.file) if replied is not None else "deleted message"
        head += f'<div class="reply">{escape(quoted)}</div>'
    if message.file:
        head += f'<a class="file" href="{escape(message.file_url)}" download>📎 {escape(message.file)}</a>'
    kinds = "bubble deleted" if message.deleted_at is not None else "bubble"
    side = "bot" if message.is_bot else "person"
    return (
        f'<div class="row {side}"><div class="{kinds}" data-message="{message.id}">{head}'
        f'<div class="text">{message.html}</div>{_foot(message)}</div>{_buttons(message)}</div>'
    )


def _foot(message: SeenMessage) -> str:
    reactions = "".join(f'<span class="reaction">{escape(emoji)}</span>' for emoji in message.reactions)
    state = "deleted " if message.deleted_at is not None else ""
    earlier = "".join(
        f"<li><time>{_clock(version.at)}</time><div>{version.html}</div></li>" for version in message.edits
    )
    edits = f"<details><summary>edits: {len(message.edits)}</summary><ol>{earlier}</ol></details>" if earlier else ""
    bell = '<span title="this message notified">🔔</span> ' if message.notified else ""
    return f'{edits}<div class="foot">{reactions}<span>{bell}{state}<time>{_clock(message.at)}</time></span></div>'


def _buttons(message: SeenMessage) -> str:
    rows = (
        "".join(
            f'<button disabled title="{escape(button.url)}">{escape(button.text)} ↗</button>'
            if button.url
            else f'<button data-press="{escape(button.text)}" data-of="{message.id}">{escape(button.text)}</button>'
            for button in row
        )
        for row in message.buttons
    )
    shown = "".join(f'<div class="buttons">{row}</div>' for row in rows)
    return f'<div class="keyboard">{shown}</div>' if shown else ""


def _clock(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%H:%M:%S")
