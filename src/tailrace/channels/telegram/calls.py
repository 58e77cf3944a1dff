"""Converts operations to calls of the Bot API. Pure: values in, values out.

Styles are sent as entities (ranges of the text), never with `parse_mode`, so Telegram has no markup to reject. Link
previews are off, because they would change again and again while an answer grows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from tailrace.channels.telegram.client import MethodCall
from tailrace.channels.telegram.limits import MAX_ANSWER, MAX_CALLBACK
from tailrace.errors import SendRefused

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tailrace.operations import Body, Button, Draft, Edit, Entity, Post, PostMedia
    from tailrace.ports import MenuCommand

_ROW_LENGTH = 36  # characters of the labels that fit into one row on a phone


def post_call(post: Post, chat: str, *, rich: bool) -> MethodCall:
    """The call that sends a message.

    If it replies to a message that does not exist any more, it is sent without that reply.
    """
    fields = chat_fields(chat, post.target.thread) | _content(post.body, rich=rich)
    if post.reply_to is not None:
        replied = number(post.reply_to, "reply_to")
        fields["reply_parameters"] = {"message_id": replied, "allow_sending_without_reply": True}
    return MethodCall("sendRichMessage" if "rich_message" in fields else "sendMessage", fields)


def edit_call(edit: Edit, chat: str, *, rich: bool) -> MethodCall:
    """The call that replaces the text and the buttons of a message."""
    fields = chat_fields(chat) | {"message_id": number(edit.message_id, "message_id")}
    return MethodCall("editMessageText", fields | _content(edit.body, rich=rich))


def draft_call(draft: Draft, chat: str, *, rich: bool) -> MethodCall:
    """The call that shows a draft with a stop button. After a press, the draft stays until the final message comes."""
    fields = chat_fields(chat, draft.target.thread) | _text(draft.body, rich=rich)
    fields |= {"draft_id": draft.draft_id, "can_stop": True, "keep_on_stop": True}
    return MethodCall("sendRichMessageDraft" if "rich_message" in fields else "sendMessageDraft", fields)


def media_call(media: PostMedia, chat: str, *, as_photo: bool) -> MethodCall:
    """The call that sends a photo or a file by its URL. For an upload, `TelegramClient.call` gets the file itself."""
    fields = chat_fields(chat, media.target.thread)
    if media.caption:
        fields["caption"] = media.caption
    if media.entities:
        fields["caption_entities"] = _entities(media.entities)
    if media.url is not None:
        fields["photo" if as_photo else "document"] = media.url
    return MethodCall("sendPhoto" if as_photo else "sendDocument", fields)


def reaction_call(chat: str, message_id: str, emoji: str) -> MethodCall:
    """The call that puts a reaction on a message; the emoji "" removes it."""
    reaction = [{"type": "emoji", "emoji": emoji}] if emoji else []
    fields = chat_fields(chat) | {"message_id": number(message_id, "message_id"), "reaction": reaction}
    return MethodCall("setMessageReaction", fields)


def answer_call(query_id: str, text: str) -> MethodCall:
    """The call that shows a short text to the person who pressed a button."""
    return MethodCall("answerCallbackQuery", {"callback_query_id": query_id, "text": text[:MAX_ANSWER]})


def commands_call(commands: Sequence[MenuCommand]) -> MethodCall:
    """Show these commands in the menu of every chat; none removes the menu."""
    shown = [{"command": command.name, "description": command.description} for command in commands]
    return MethodCall("setMyCommands", {"commands": shown})


def chat_fields(chat: str, thread: str | None = None) -> dict[str, Any]:
    """The fields that say where to send. A chat is a number or @name, a topic (`thread`) is a number."""
    fields: dict[str, Any] = {"chat_id": int(chat) if _is_number(chat) else chat}
    if thread is not None:
        fields["message_thread_id"] = number(thread, "the topic")
    return fields


def number(text: str, what: str) -> int:
    """Convert an id to a number. Raises `SendRefused` if it is not a number; `what` names the id in the error."""
    if not _is_number(text):
        raise SendRefused(f"{what} is not a number, but all ids of Telegram are")
    return int(text)


def _is_number(text: str) -> bool:
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdigit() and len(digits) < 20


def _content(body: Body, *, rich: bool) -> dict[str, Any]:
    """The fields for the text and the buttons of a message. With `rich`, the text is HTML if the body has HTML."""
    fields = _text(body, rich=rich)
    if "rich_message" not in fields:
        fields["link_preview_options"] = {"is_disabled": True}
    if body.buttons:
        fields["reply_markup"] = {"inline_keyboard": _keyboard(body.buttons)}
    return fields


def _text(body: Body, *, rich: bool) -> dict[str, Any]:
    if rich and body.html is not None:
        return {"rich_message": {"html": body.html}}
    fields: dict[str, Any] = {"text": body.text}
    if body.entities:
        fields["entities"] = _entities(body.entities)
    return fields


def _entities(entities: Sequence[Entity]) -> list[dict[str, Any]]:
    return [
        {name: value for name, value in msgspec.structs.asdict(entity).items() if value is not None}
        for entity in entities
    ]


def _keyboard(buttons: Sequence[Button]) -> list[list[dict[str, str]]]:
    """The buttons for `inline_keyboard`: in one row if their labels fit, otherwise one below the other."""
    shown = []
    for button in buttons:
        if not 1 <= len(button.value.encode()) <= MAX_CALLBACK:
            raise SendRefused(f"the value of a button must have 1 to {MAX_CALLBACK} bytes")
        shown.append({"text": button.label, "callback_data": button.value})
    if sum(len(button.label) + 4 for button in buttons) <= _ROW_LENGTH:
        return [shown]
    return [[button] for button in shown]
