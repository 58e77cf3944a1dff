"""The objects of the Bot API, as the platform sends them: users, chats, messages, files.

Field names are those of the Bot API 10.3. Fields without a value are left out, as the platform does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from tailrace.testing.platforms.telegram.world import (
        StoredFile,
        TelegramChat,
        TelegramMessage,
        TelegramUser,
    )


def user_object(user: TelegramUser) -> dict[str, Any]:
    """A `User` of the Bot API."""
    return {"is_bot": False, **msgspec.to_builtins(user)}


def chat_object(chat: TelegramChat) -> dict[str, Any]:
    """A `Chat` of the Bot API."""
    name = "first_name" if chat.type == "private" else "title"
    found: dict[str, Any] = {"id": chat.id, "type": chat.type, name: chat.title}
    if chat.username:
        found["username"] = chat.username
    if chat.is_forum:
        found["is_forum"] = True
    return found


def file_object(file: StoredFile) -> dict[str, Any]:
    """The fields that `File`, `Document` and `PhotoSize` of the Bot API have in common."""
    return {"file_id": file.file_id, "file_unique_id": f"unique-{file.file_id}", "file_size": len(file.content)}


def member_object(user: TelegramUser, status: str) -> dict[str, Any]:
    """A `ChatMember` of the Bot API."""
    found: dict[str, Any] = {"status": status, "user": user_object(user)}
    if status == "kicked":
        found["until_date"] = 0
    if status == "administrator":
        found |= dict.fromkeys(_ADMIN_RIGHTS, False) | {"can_delete_messages": True, "can_post_messages": True}
    return found


_RIGHT_NAMES = (
    "can_be_edited is_anonymous can_manage_chat can_delete_messages can_manage_video_chats can_restrict_members"
    " can_promote_members can_change_info can_invite_users can_post_stories can_edit_stories can_delete_stories"
)
_ADMIN_RIGHTS = _RIGHT_NAMES.split()


def message_object(chat: TelegramChat, message: TelegramMessage) -> dict[str, Any]:
    """A `Message` of the Bot API. If it replies to another message, it contains that message."""
    found = _message_object(chat, message)
    reply = chat.messages.get(message.reply_to or 0)
    if reply is not None and reply.deleted_at is None:
        found["reply_to_message"] = _message_object(chat, reply)
    return found


def _message_object(chat: TelegramChat, message: TelegramMessage) -> dict[str, Any]:
    content = message.content
    found: dict[str, Any] = {"message_id": message.message_id, "chat": chat_object(chat), "date": int(message.at)}
    if chat.type == "channel":
        found["sender_chat"] = chat_object(chat)
    else:
        found["from"] = user_object(message.sender)
    if len(message.versions) > 1:
        found["edit_date"] = int(message.versions[-1].at)
    if message.thread is not None:
        found |= {"message_thread_id": message.thread, "is_topic_message": True}
    if content.file is not None:
        found |= _media(content.file)
    if content.rich is not None:
        found["rich_message"] = {"blocks": [{"type": "paragraph", "text": content.rich.text}]}
    elif content.text:
        text, entities = ("text", "entities") if content.file is None else ("caption", "caption_entities")
        found[text] = content.text
        if content.entities:
            found[entities] = msgspec.to_builtins(content.entities)
    if content.keyboard is not None:
        found["reply_markup"] = content.keyboard
    return found | message.service


def _media(file: StoredFile) -> dict[str, Any]:
    if file.is_photo:
        return {"photo": [file_object(file) | {"width": file.width, "height": file.height}]}
    return {"document": file_object(file) | {"file_name": file.name, "mime_type": file.mime_type}}
