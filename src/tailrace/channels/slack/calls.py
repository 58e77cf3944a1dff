"""Converts operations to calls of the Web API. Pure: values in, values out.

Texts are sent as Markdown (`markdown_text`), and with buttons as blocks. Each message carries the key of its delivery
in its metadata, so that it can be found again.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from tailrace.channels.slack.client import SlackCall
from tailrace.channels.slack.limits import MAX_BUTTON_LABEL, MAX_BUTTON_VALUE, MAX_NOTIFICATION, MAX_TASK_FIELD
from tailrace.errors import SendRefused

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tailrace.operations import Body, Button, Delete, Edit, Post, Target, Task

EVENT_TYPE = "tailrace_delivery"
"""The type of the metadata of our messages."""
_STATUS = "is typing…"
# Slack reads these as mentions of people, groups and channels. Our renderer escapes them; this is for all other texts.
_MENTION = re.compile(r"<(?=[!@#])")
_EMOJI_NAMES = {"👀": "eyes", "👍": "+1", "👎": "-1", "✅": "white_check_mark", "❌": "x", "⏳": "hourglass"}
_NAME = re.compile(r"[a-z0-9_+'-]+")


def post_call(post: Post, key: str) -> SlackCall:
    """The call that sends a message."""
    fields = place(post.target) | content(post.body) | {"metadata": marker(key)}
    return SlackCall("chat.postMessage", fields | {"unfurl_links": False, "unfurl_media": False})


def edit_call(edit: Edit) -> SlackCall:
    """The call that replaces the text and the buttons of a message. Its metadata stays."""
    return SlackCall("chat.update", {"channel": edit.target.chat, "ts": edit.message_id, **content(edit.body)})


def delete_call(delete: Delete) -> SlackCall:
    """The call that deletes a message."""
    return SlackCall("chat.delete", {"channel": delete.target.chat, "ts": delete.message_id})


def status_call(target: Target) -> SlackCall:
    """The call that shows in a thread that the bot is typing."""
    return SlackCall(
        "assistant.threads.setStatus", {"channel_id": target.chat, "thread_ts": target.thread, "status": _STATUS}
    )


def reaction_call(target: Target, message_id: str, emoji: str, *, shows: bool) -> SlackCall:
    """The call that puts a reaction on a message, or removes it."""
    name = _EMOJI_NAMES.get(emoji, emoji.strip(":"))
    if not _NAME.fullmatch(name):
        raise SendRefused("Slack knows this emoji only by its name, such as eyes")
    fields = {"channel": target.chat, "timestamp": message_id, "name": name}
    return SlackCall("reactions.add" if shows else "reactions.remove", fields)


def whisper_call(target: Target, user: str, text: str) -> SlackCall:
    """The call that shows a text to one person only."""
    return SlackCall("chat.postEphemeral", place(target) | {"user": user, "text": inert(text)})


def media_call(target: Target, key: str, *, url: str, caption: str, is_picture: bool) -> SlackCall:
    """The call that sends a picture by its URL, or a link to another file."""
    name = caption or url.rpartition("/")[2] or "file"
    blocks: list[dict[str, Any]] = [_markdown_block(inert(caption))] if caption else []
    if is_picture:
        blocks.append({"type": "image", "image_url": url, "alt_text": name[:MAX_NOTIFICATION]})
    else:
        blocks.append(_markdown_block(f"<{url}>"))
    fields = place(target) | {"text": inert(name)[:MAX_NOTIFICATION], "blocks": blocks, "metadata": marker(key)}
    return SlackCall("chat.postMessage", fields)


def place(target: Target) -> dict[str, Any]:
    """The fields that say where to send."""
    fields: dict[str, Any] = {"channel": target.chat}
    if target.thread is not None:
        fields["thread_ts"] = target.thread
    return fields


def content(body: Body) -> dict[str, Any]:
    """The fields for the text and the buttons of a message."""
    text = markdown_of(body)
    if not body.buttons:
        return {"markdown_text": text}
    return {"text": _notification(body.text), "blocks": [_markdown_block(text), _buttons(body.buttons)]}


def markdown_of(body: Body) -> str:
    """The text of a body as Slack's Markdown, in which nothing is a mention."""
    return inert(body.markdown if body.markdown is not None else body.text)


def inert(text: str) -> str:
    """The text, without mentions."""
    return _MENTION.sub("&lt;", text)


def marker(key: str) -> dict[str, Any]:
    """The metadata of a message with this key."""
    return {"event_type": EVENT_TYPE, "event_payload": {"key": key}}


def chunks_of(text: str, tasks: Sequence[Task]) -> list[dict[str, Any]]:
    """The chunks of a stream for this text and these tasks."""
    chunks: list[dict[str, Any]] = [{"type": "markdown_text", "text": text}] if text else []
    for task in tasks:
        chunk = {"type": "task_update", "id": task.id, "title": task.title[:MAX_TASK_FIELD], "status": task.status}
        if task.details:
            chunk["details"] = task.details[:MAX_TASK_FIELD]
        chunks.append(chunk)
    return chunks


def _markdown_block(text: str) -> dict[str, Any]:
    return {"type": "markdown", "text": text}


def _buttons(buttons: Sequence[Button]) -> dict[str, Any]:
    elements = []
    for number, button in enumerate(buttons):
        if not 1 <= len(button.value) <= MAX_BUTTON_VALUE:
            raise SendRefused(f"the value of a button must have 1 to {MAX_BUTTON_VALUE} characters")
        label = {"type": "plain_text", "text": button.label[:MAX_BUTTON_LABEL]}
        elements.append({"type": "button", "action_id": f"tailrace-{number}", "text": label, "value": button.value})
    return {"type": "actions", "elements": elements}


def _notification(text: str) -> str:
    """The text of the notification about a message with blocks. It does not end within an address."""
    shown = inert(text)
    return shown if len(shown) <= MAX_NOTIFICATION else shown[:MAX_NOTIFICATION].rpartition("<")[0] or "…"
