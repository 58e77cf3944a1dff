"""The fields of the methods that send and edit messages. Fields that the simulator does not know are ignored."""

from __future__ import annotations

from typing import Any

import msgspec

from tailrace.testing.platforms.telegram.entities import MessageEntity
from tailrace.testing.platforms.telegram.rich import InputRichMessage


class ReplyParameters(msgspec.Struct, frozen=True):
    """The message to which a new message replies."""

    message_id: int | None = None
    allow_sending_without_reply: bool = False


class InChat(msgspec.Struct, frozen=True, kw_only=True):
    """The base of calls that concern a chat. `chat_id` is its id or its @username."""

    chat_id: int | str


class Sending(InChat, frozen=True, kw_only=True):
    """The fields that all methods have that send a message."""

    message_thread_id: int | None = None
    disable_notification: bool = False
    reply_parameters: ReplyParameters | None = None
    reply_markup: dict[str, Any] | None = None
    parse_mode: str = ""


class SendMessage(Sending, frozen=True, kw_only=True):
    """The fields of `sendMessage` that the simulator knows; others are ignored."""

    text: str = ""
    entities: list[MessageEntity] = []


class SendMedia(Sending, frozen=True, kw_only=True):
    """The fields of `sendPhoto` and `sendDocument`."""

    photo: str = ""
    document: str = ""
    caption: str = ""
    caption_entities: list[MessageEntity] = []


class SendRichMessage(Sending, frozen=True, kw_only=True):
    """The fields of `sendRichMessage`."""

    rich_message: InputRichMessage


class Editing(InChat, frozen=True, kw_only=True):
    """The fields that all methods have that edit a message."""

    message_id: int
    reply_markup: dict[str, Any] | None = None
    parse_mode: str = ""


class EditMessageText(Editing, frozen=True, kw_only=True):
    """The fields of `editMessageText`."""

    text: str = ""
    entities: list[MessageEntity] = []
    rich_message: InputRichMessage | None = None


class EditMessageCaption(Editing, frozen=True, kw_only=True):
    """The fields of `editMessageCaption`. Without `caption` they are those of `editMessageReplyMarkup`."""

    caption: str = ""
    caption_entities: list[MessageEntity] = []


class SendMessageDraft(InChat, frozen=True, kw_only=True):
    """The fields of `sendMessageDraft`. With `rich_message` they are those of `sendRichMessageDraft`."""

    draft_id: int
    message_thread_id: int | None = None
    text: str = ""
    parse_mode: str = ""
    entities: list[MessageEntity] = []
    rich_message: InputRichMessage | None = None
    can_stop: bool = False
    keep_on_stop: bool = False


class DeleteMessage(InChat, frozen=True, kw_only=True):
    """The fields of `deleteMessage`."""

    message_id: int
