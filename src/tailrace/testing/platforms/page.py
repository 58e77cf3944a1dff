"""The web page of a simulator: in a browser, people can read its chats, write, press buttons and send files.

The page loads nothing from elsewhere. Its script (`page.html`) requests the conversation again whenever something has
changed, and sends what people do as JSON. All texts are escaped here, or were escaped by the platform (`html`).
"""

from __future__ import annotations

from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tailrace.testing.platforms.visible import SeenChat, SeenDraft, SeenMessage, VisibleId

_TEMPLATE = Path(__file__).with_name("page.html")


def page(title: str) -> str:
    """The HTML of the page, without the messages of a chat: its script loads them."""
    return _TEMPLATE.read_text(encoding="utf-8").replace("{{title}}", escape(title))


def conversation(chat: SeenChat, chats: Sequence[tuple[VisibleId, str, str]]) -> str:
    """The HTML of a chat, as the script of the page requests it: its messages and drafts.

    Templates follow, which the script puts elsewhere on the page: the links to all chats, the title, and the choices of
    person, topic and command. `chats` are all chats, each with its id, title and type.
    """
    shown = [(message.at, _message(chat, message)) for message in chat.messages]
    shown += [
        (notice.at, f'<div class="service">{escape(notice.user)} saw: {escape(notice.text)}</div>')
        for notice in chat.notices
    ]
    return _elsewhere(chat, chats) + "".join(
        [*(html for _at, html in sorted(shown, key=lambda each: each[0])), *map(_draft, chat.drafts)]
    )


def _elsewhere(chat: SeenChat, chats: Sequence[tuple[VisibleId, str, str]]) -> str:
    links = (
        f'<a href="#{number}"{" class=chosen" * (number == chat.id)}><b>{escape(title)}</b><small>{kind}</small></a>'
        for number, title, kind in chats
    )
    state = f"<small>{escape(chat.type)}, {len(chat.members)} members</small>"
    if chat.type == "private":
        state = "<small>private</small>"
    if chat.doing:
        state = f'<small class="doing">{escape(", ".join(chat.doing).replace("_", " "))}…</small>'
    parts = {
        "chats": "".join(links),
        "head": f"<h1>{escape(chat.title)}{state}</h1>",
        "user": _options(chat.members),
        "topic": _options([("", "General"), *chat.topics]) if chat.topics else "",
        "menu": _options([("", "/"), *((f"/{name}", f"/{name} {text}") for name, text in chat.commands)])
        if chat.commands
        else "",
    }
    return "".join(f'<template data-for="{part}">{html}</template>' for part, html in parts.items())


def _options(choices: Iterable[tuple[object, str]]) -> str:
    return "".join(f'<option value="{escape(str(value))}">{escape(name)}</option>' for value, name in choices)


def _draft(draft: SeenDraft) -> str:
    stop = f'<button data-stop="{draft.id}">Stop</button>' if draft.can_stop else ""
    text = draft.html or '<i class="thinking">Thinking…</i>'
    topic = f'<div class="topic">{escape(draft.topic)}</div>' if draft.topic else ""
    return f'<div class="row bot"><div class="bubble draft">{topic}{text}{stop}</div></div>'


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
        name, url = escape(message.file), escape(message.file_url)
        shown = f'<img src="{url}" alt="{name}">' if message.is_photo else f"📎 {name}"
        head += f'<a class="file" href="{url}" download>{shown}</a>'
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
    return f'<div class="foot">{reactions}{edits}<span>{bell}{state}<time>{_clock(message.at)}</time></span></div>'


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
    return datetime.fromtimestamp(at, UTC).astimezone().strftime("%H:%M:%S")
