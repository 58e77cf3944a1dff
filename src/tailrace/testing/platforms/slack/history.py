"""What people see in the chats of the simulated Slack, at any time."""

from __future__ import annotations

import re
from html import escape, unescape
from typing import TYPE_CHECKING, Any

from tailrace.markdown import render
from tailrace.testing.platforms.visible import SeenButton, SeenChat, SeenMessage, SeenNotice, SeenVersion

if TYPE_CHECKING:
    from tailrace.testing.platforms.slack.world import SlackChat, SlackContent, SlackMessage, SlackWorld

_BRACKETED = re.compile(r"<(@|https?:)([^<>|]+)(?:\|([^<>]*))?>")
_TITLE = 40
_EMOJI = {"eyes": "👀", "+1": "👍", "thumbsup": "👍", "white_check_mark": "✅"}


def seen_chat(world: SlackWorld, chat: SlackChat, at: float) -> SeenChat:
    """The chat as its members saw it at that time: all messages in their order, also those in threads."""
    visible = [message for message in chat.messages.values() if message.at <= at]
    roots = [message for message in visible if message.thread is None and message.sender != world.bot]
    return SeenChat(
        id=chat.id,
        type="private" if chat.type == "im" else chat.type,
        title=chat.name,
        members=tuple((user.id, user.name) for user in chat.members.values()),
        topics=tuple(
            (root.ts, f"🧵 {text_of(world, root.content)[:_TITLE]}") for root in roots if root.sender != world.bot
        ),
        messages=tuple(_seen(world, message, at) for message in visible),
        doing=tuple(sorted({status.text for status in chat.statuses if status.at <= at < status.until})),
        notices=tuple(SeenNotice(each.at, each.user.name, each.text) for each in chat.whispers if each.at <= at),
    )


def text_of(world: SlackWorld, content: SlackContent) -> str:
    """The text that people read, with the marks of Markdown. Entities are decoded, and mentions show names."""

    def shown(bracketed: re.Match[str]) -> str:
        user = world.users.get(bracketed[2])
        return bracketed[3] or f"{bracketed[1]}{bracketed[2] if user is None else user.name}"

    return unescape(_BRACKETED.sub(shown, raw_text(content)))


def raw_text(content: SlackContent) -> str:
    """The text in which Slack looks for mentions, as the bot has sent it."""
    if content.markdown is not None:
        return content.markdown
    return "\n".join(text for block in content.blocks if (text := _block_text(block))) or content.text


def _block_text(block: dict[str, Any]) -> str:
    text = block.get("text")
    return str(text.get("text", "")) if isinstance(text, dict) else str(text or "")


def _html(world: SlackWorld, content: SlackContent) -> str:
    markdown = content.markdown
    if markdown is None and any(block.get("type") == "markdown" for block in content.blocks):
        markdown = "\n\n".join(_block_text(block) for block in content.blocks)
    if markdown is None:
        shown = escape(text_of(world, content))
    else:
        shown = f'<div class="rich">{render(markdown, "html").html or ""}</div>'
    tasks = "".join(f"<li>{_mark(status)} {escape(title)}</li>" for title, status in content.tasks)
    return (f'<ul class="tasks">{tasks}</ul>' if tasks else "") + shown


def _mark(status: str) -> str:
    return {"complete": "✅", "error": "❌", "in_progress": "⏳"}.get(status, "•")


def _seen(world: SlackWorld, message: SlackMessage, at: float) -> SeenMessage:
    versions = [version for version in message.versions if version.at <= at]
    content = versions[-1].content
    file = content.files[0] if content.files else None
    shown = {(user, name): is_shown for changed_at, user, name, is_shown in message.reactions if changed_at <= at}
    is_bot = message.sender == world.bot
    first_line = (text_of(world, versions[0].content).partition("\n")[0] or (file.name if file else ""))[:120]
    return SeenMessage(
        id=message.ts,
        sender=message.sender.name,
        is_bot=is_bot,
        at=message.at,
        text=text_of(world, content),
        html=_html(world, content),
        reply_to=message.thread,
        file=file.name if file else "",
        file_url=f"/simulator/files/{file.file_id}" if file else "",
        is_photo=file is not None and file.mime_type.startswith("image/"),
        buttons=_buttons(content),
        reactions=tuple(_EMOJI.get(name, f":{name}:") for (_user, name), is_shown in shown.items() if is_shown),
        edits=tuple(SeenVersion(v.at, text_of(world, v.content), _html(world, v.content)) for v in versions[:-1]),
        deleted_at=message.deleted_at if message.deleted_at is not None and message.deleted_at <= at else None,
        notified=(first_line,) if is_bot else (),
        tasks=content.tasks,
    )


def _buttons(content: SlackContent) -> tuple[tuple[SeenButton, ...], ...]:
    rows = [block.get("elements", []) for block in content.blocks if block.get("type") == "actions"]
    return tuple(tuple(SeenButton(e["text"]["text"], str(e.get("url", ""))) for e in row) for row in rows)
