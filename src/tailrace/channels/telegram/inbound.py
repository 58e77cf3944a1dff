"""Converts updates of Telegram to inbound values: who wrote what, in which chat, and whether it is meant for the bot.

Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import msgspec

from tailrace.inbound import Attachment, ButtonPress, Inbound, InboundMessage, InboundNotice, Sender
from tailrace.operations import Target

if TYPE_CHECKING:
    from tailrace.channels.telegram.updates import (
        BotUpdate,
        ButtonQuery,
        MembershipChange,
        StoppedDraft,
        UpdateChat,
        UpdateEntity,
        UpdateMessage,
    )


class BotAccount(msgspec.Struct, frozen=True, kw_only=True):
    """The bot that receives the updates. `channel` is the name of its channel, `username` has no @."""

    channel: str
    id: str
    username: str = ""


def inbound_of(update: BotUpdate, bot: BotAccount) -> Inbound | None:
    """Convert an update.

    Returns None for an update to ignore, such as a message of the bot itself or a service message.
    """
    if update.callback_query is not None:
        return _press(update.callback_query, update.update_id, bot)
    if update.my_chat_member is not None:
        return _membership(update.my_chat_member, update.update_id, bot)
    if update.stopped_message_generation is not None:
        return _stop(update.stopped_message_generation, update.update_id, bot)
    message, is_edited = update.message or update.edited_message, update.message is None
    if message is None:
        return None
    if message.migrate_to_chat_id is not None:
        return moved_notice(message.chat.id, message.migrate_to_chat_id, bot, at=message.date)
    return _message(message, update.update_id, bot, is_edited=is_edited)


def moved_notice(chat: int | str, moved_to: int | str, bot: BotAccount, *, at: float = 0.0) -> InboundNotice:
    """The notice that a group became a supergroup.

    Telegram reports this twice: in an update, and as the refusal of a call. Both make the same event id, so that the
    second report is recognised as known.
    """
    return InboundNotice(
        channel=bot.channel,
        account=bot.id,
        event_id=f"moved {chat}",
        target=Target(channel=bot.channel, chat=str(chat), group=True),
        at=at,
        kind="moved",
        moved_to=str(moved_to),
    )


def _message(message: UpdateMessage, update_id: int, bot: BotAccount, *, is_edited: bool) -> InboundMessage | None:
    text, entities = (message.text, message.entities) if message.text else (message.caption, message.caption_entities)
    if not text and message.sticker is not None:
        text = message.sticker.emoji
    attachments = _attachments(message)
    sender = _sender(message)
    if sender is None or sender.id == bot.id or message.is_automatic_forward or not (text or attachments):
        return None
    command, is_for_bot = _command(text, entities, bot)
    is_private = message.chat.type == "private"
    reply_to = _reply(message)
    return InboundMessage(
        **_origin(bot, message.chat, message.topic, update_id),
        at=message.edit_date if is_edited else message.date,
        text=text[_length(entities) :].lstrip() if command else text,
        command=command,
        sender=sender,
        attachments=attachments,
        message_id=str(message.message_id),
        edited=is_edited,
        reply_to=None if reply_to is None else str(reply_to.message_id),
        is_addressed=is_private or is_for_bot or _is_of(reply_to, bot) or _mentions(text, entities, bot),
    )


def _press(query: ButtonQuery, update_id: int, bot: BotAccount) -> ButtonPress | None:
    """Convert a press of a button. Returns None for a button that this channel has not made.

    The event id is the id of the query, because the answer to the press must contain that id.
    """
    if query.message is None or query.data is None:
        return None
    return ButtonPress(
        **_origin(bot, query.message.chat, query.message.topic, update_id) | {"event_id": query.id},
        value=query.data,
        sender=Sender(id=str(query.sender.id), name=query.sender.name, is_bot=query.sender.is_bot),
        message_id=str(query.message.message_id),
    )


def _membership(change: MembershipChange, update_id: int, bot: BotAccount) -> InboundNotice | None:
    could, can = change.old_chat_member.may_write, change.new_chat_member.may_write
    if could == can:
        return None
    kind: Literal["restored", "removed"] = "restored" if can else "removed"
    return InboundNotice(**_origin(bot, change.chat, None, update_id), at=change.date, kind=kind)


def _stop(stopped: StoppedDraft, update_id: int, bot: BotAccount) -> InboundMessage:
    """Convert a press of the stop button of a draft to the command `stop`.

    The update does not name the person. But drafts exist only in private chats, and there the chat id is the person's
    id.
    """
    topic = None if stopped.message_thread_id is None else str(stopped.message_thread_id)
    sender = Sender(id=str(stopped.chat.id))
    return InboundMessage(**_origin(bot, stopped.chat, topic, update_id), text="", command="stop", sender=sender)


def _origin(bot: BotAccount, chat: UpdateChat, topic: str | None, update_id: int) -> dict[str, Any]:
    """The fields that all inbound values have: channel, account, event id, order and target."""
    target = Target(channel=bot.channel, chat=str(chat.id), thread=topic, group=chat.type != "private")
    return {"channel": bot.channel, "account": bot.id, "event_id": str(update_id), "order": update_id, "target": target}


def _sender(message: UpdateMessage) -> Sender | None:
    """The sender of a message. For an anonymous administrator it is the group, for a post of a channel the channel."""
    if message.sender_chat is not None:
        return Sender(id=str(message.sender_chat.id), name=message.sender_chat.title)
    if message.sender is None:
        return None
    return Sender(id=str(message.sender.id), name=message.sender.name, is_bot=message.sender.is_bot)


def _reply(message: UpdateMessage) -> UpdateMessage | None:
    """The message that a message replies to; None if it is no reply.

    In a topic, Telegram marks every message as a reply to the message that opened the topic. Such a reply counts as
    none.
    """
    reply = message.reply_to_message
    if reply is None or (message.is_topic_message and reply.message_id == message.message_thread_id):
        return None
    return reply


def _is_of(reply: UpdateMessage | None, bot: BotAccount) -> bool:
    return reply is not None and reply.sender is not None and str(reply.sender.id) == bot.id


def _command(text: str, entities: tuple[UpdateEntity, ...], bot: BotAccount) -> tuple[str, bool]:
    """The command at the beginning of the text, and whether it names this bot, as in `/stop@my_bot`.

    Returns an empty command if there is none, or if it names another bot.
    """
    if not entities or entities[0].type != "bot_command" or entities[0].offset != 0:
        return "", False
    name, _, of = text[1 : entities[0].length].partition("@")
    if of and of.lower() != bot.username.lower():
        return "", False
    return name, bool(of)


def _length(entities: tuple[UpdateEntity, ...]) -> int:
    return entities[0].length if entities else 0


def _mentions(text: str, entities: tuple[UpdateEntity, ...], bot: BotAccount) -> bool:
    """Whether the text mentions the bot. The offsets of entities count UTF-16 units."""
    encoded = text.encode("utf-16-le", "surrogatepass")
    for entity in entities:
        if entity.type == "text_mention" and entity.user is not None and str(entity.user.id) == bot.id:
            return True
        if entity.type == "mention":
            begin, end = 2 * entity.offset, 2 * (entity.offset + entity.length)
            if encoded[begin:end].decode("utf-16-le", "replace").lower() == f"@{bot.username.lower()}":
                return True
    return False


def _attachments(message: UpdateMessage) -> tuple[Attachment, ...]:
    """The files of a message. Of a photo, only the largest size.

    Telegram also lists an animation as a document, so the document is then left out.
    """
    files = [(message.document, "")] if message.animation is None else [(message.animation, "video/mp4")]
    files += [(message.audio, "audio/mpeg"), (message.video, "video/mp4"), (message.video_note, "video/mp4")]
    files += [(message.voice, "audio/ogg")]
    if message.photo:
        files.append((max(message.photo, key=lambda size: size.file_size or 0), "image/jpeg"))
    return tuple(
        Attachment(id=file.file_id, name=file.file_name, mime=file.mime_type or mime, size=file.file_size)
        for file, mime in files
        if file is not None
    )
