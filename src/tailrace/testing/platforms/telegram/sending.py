"""The methods that send, edit and delete messages and show drafts: what each checks, and what it changes.

A method first checks what it can check without the chat, then the chat, and then counts the call against the rates of
the platform. So a call that is refused for its text is not counted, and a call that reaches the chat is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from tailrace.testing.platforms.telegram.entities import FormattedText, MessageEntity, checked, finished
from tailrace.testing.platforms.telegram.markup import parsed
from tailrace.testing.platforms.telegram.objects import message_object
from tailrace.testing.platforms.telegram.requests import (
    DeleteMessage,
    Editing,
    EditMessageCaption,
    EditMessageText,
    Sending,
    SendMedia,
    SendMessage,
    SendMessageDraft,
    SendRichMessage,
)
from tailrace.testing.platforms.telegram.rich import read_rich
from tailrace.testing.platforms.telegram.rules import ApiRefusal
from tailrace.testing.platforms.telegram.world import (
    DraftVersion,
    TelegramChat,
    TelegramContent,
    TelegramMessage,
    TelegramWorld,
)

if TYPE_CHECKING:
    from tailrace.testing.platforms.telegram.rules import TelegramSettings


def send_message(world: TelegramWorld, call: SendMessage, now: float) -> dict[str, Any]:
    """The method `sendMessage`: send a text."""
    text = _read(call.text, call.parse_mode, call.entities, world.settings, is_caption=False)
    content = TelegramContent(text=text.text, entities=text.entities, keyboard=_keyboard(call.reply_markup, world))
    return _send(world, call, content, now)


def send_media(world: TelegramWorld, call: SendMedia, now: float) -> dict[str, Any]:
    """The methods `sendPhoto` and `sendDocument`. The file was stored before, or is uploaded with this call."""
    given = call.photo or call.document
    if not given:
        raise ApiRefusal("file_missing", kind="file")
    file = world.files.get(given)
    if file is None:
        raise ApiRefusal("file_id_unknown")
    if file.is_photo and len(file.content) > world.settings.photo_bytes:
        raise ApiRefusal("photo_too_big")
    if file.is_photo and not file.content.startswith((b"\x89PNG\r\n", b"\xff\xd8\xff", b"RIFF", b"GIF8")):
        raise ApiRefusal("photo_invalid")
    text = _read(call.caption, call.parse_mode, call.caption_entities, world.settings, is_caption=True)
    keyboard = _keyboard(call.reply_markup, world)
    content = TelegramContent(text=text.text, entities=text.entities, file=file, keyboard=keyboard)
    return _send(world, call, content, now)


def send_rich_message(world: TelegramWorld, call: SendRichMessage, now: float) -> dict[str, Any]:
    """The method `sendRichMessage`: send a text with headings, lists and tables."""
    rich = read_rich(call.rich_message, world.settings)
    return _send(world, call, TelegramContent(rich=rich, keyboard=_keyboard(call.reply_markup, world)), now)


def edit_message_text(world: TelegramWorld, call: EditMessageText, now: float) -> dict[str, Any]:
    """The method `editMessageText`: replace the text or the rich content of a message of the bot."""
    keyboard = _keyboard(call.reply_markup, world)
    if call.rich_message is not None:
        content = TelegramContent(rich=read_rich(call.rich_message, world.settings), keyboard=keyboard)
    else:
        text = _read(call.text, call.parse_mode, call.entities, world.settings, is_caption=False)
        content = TelegramContent(text=text.text, entities=text.entities, keyboard=keyboard)
    chat, message = _own_message(world, call)
    if message.content.file is not None:
        raise ApiRefusal("no_text_to_edit")
    return _edit(world, chat, message, content, now)


def edit_message_caption(world: TelegramWorld, call: EditMessageCaption, now: float) -> dict[str, Any]:
    """The method `editMessageCaption`: replace the caption of a file that the bot has sent."""
    text = _read(call.caption, call.parse_mode, call.caption_entities, world.settings, is_caption=True)
    chat, message = _own_message(world, call)
    if message.content.file is None:
        raise ApiRefusal("no_caption_to_edit")
    keyboard = _keyboard(call.reply_markup, world)
    content = replace(message.content, text=text.text, entities=text.entities, keyboard=keyboard)
    return _edit(world, chat, message, content, now)


def edit_message_reply_markup(world: TelegramWorld, call: EditMessageCaption, now: float) -> dict[str, Any]:
    """The method `editMessageReplyMarkup`: replace the buttons of a message of the bot."""
    keyboard = _keyboard(call.reply_markup, world)
    chat, message = _own_message(world, call)
    return _edit(world, chat, message, replace(message.content, keyboard=keyboard), now)


def delete_message(world: TelegramWorld, call: DeleteMessage, now: float) -> bool:
    """The method `deleteMessage`. A bot may delete its own messages, and others where it has the right to."""
    chat = chat_of(world, call.chat_id)
    message = chat.messages.get(call.message_id)
    if message is None or message.deleted_at is not None:
        raise ApiRefusal("delete_unknown")
    is_allowed = message.sender == world.bot or chat.type == "private" or chat.bot_status == "administrator"
    if not is_allowed or now - message.at > world.settings.deletable_s:
        raise ApiRefusal("delete_forbidden")
    message.deleted_at = now
    world.version += 1
    return True


def send_message_draft(world: TelegramWorld, call: SendMessageDraft, now: float) -> bool:
    """The methods `sendMessageDraft` and `sendRichMessageDraft`: show a draft, or replace one with the same id."""
    if call.rich_message is not None:
        content = TelegramContent(rich=read_rich(call.rich_message, world.settings, in_draft=True))
    elif call.text.strip():
        text = _read(call.text, call.parse_mode, call.entities, world.settings, is_caption=False)
        content = TelegramContent(text=text.text, entities=text.entities)
    else:
        content = TelegramContent()
    if call.draft_id == 0:
        raise ApiRefusal("draft_id_zero")
    chat = chat_of(world, call.chat_id)
    if chat.type != "private":
        raise ApiRefusal("draft_not_private")
    thread = thread_of(chat, call.message_thread_id)
    world.spend(chat, now, of="draft")
    world.show(
        chat,
        DraftVersion(
            draft_id=call.draft_id,
            thread=thread,
            content=content,
            can_stop=call.can_stop,
            keep_on_stop=call.keep_on_stop,
            at=now,
            until=now + world.settings.draft_lifetime_s,
        ),
    )
    return True


def chat_of(world: TelegramWorld, chat_id: int | str) -> TelegramChat:
    """Find a chat by its id or @username. Raises `ApiRefusal` if there is none, or if the bot may not write there."""
    wanted = str(chat_id)
    chat = world.chats.get(int(wanted)) if wanted.removeprefix("-").isdecimal() else None
    if wanted.startswith("@"):
        chat = next((named for named in world.chats.values() if named.username == wanted[1:]), None)
    if chat is None:
        raise ApiRefusal("chat_unknown")
    if chat.migrated_to is not None:
        raise ApiRefusal("chat_migrated", parameters={"migrate_to_chat_id": chat.migrated_to})
    if chat.bot_status == "kicked":
        raise ApiRefusal("bot_blocked" if chat.type == "private" else "bot_kicked", kind=chat.type)
    if chat.bot_status == "left":
        raise ApiRefusal("bot_not_member", kind=chat.type)
    return chat


def thread_of(chat: TelegramChat, thread: int | None) -> int | None:
    """Check the id of a topic. Raises `ApiRefusal` if there is no such topic, or if it is closed for the bot."""
    if thread is None:
        return None
    topic = chat.topics.get(thread)
    if topic is None:
        raise ApiRefusal("thread_unknown")
    if topic.is_closed and chat.bot_status != "administrator":
        raise ApiRefusal("topic_closed")
    return thread


def _send(world: TelegramWorld, call: Sending, content: TelegramContent, now: float) -> dict[str, Any]:
    chat = chat_of(world, call.chat_id)
    if chat.type == "channel" and chat.bot_status != "administrator":
        raise ApiRefusal("no_rights_in_channel")
    thread = thread_of(chat, call.message_thread_id)
    reply_to, reply = None, call.reply_parameters
    if reply is not None:
        known = chat.messages.get(reply.message_id or 0)
        if known is not None and known.deleted_at is None:
            reply_to = known.message_id
        elif not reply.allow_sending_without_reply:
            raise ApiRefusal("reply_unknown")
    world.spend(chat, now)
    message = world.new_message(
        chat, world.bot, content, now, thread=thread, reply_to=reply_to, is_silent=call.disable_notification
    )
    return message_object(chat, message)


def _own_message(world: TelegramWorld, call: Editing) -> tuple[TelegramChat, TelegramMessage]:
    chat = chat_of(world, call.chat_id)
    message = chat.messages.get(call.message_id)
    if message is None or message.deleted_at is not None:
        raise ApiRefusal("edit_unknown")
    if message.sender != world.bot or message.service:
        raise ApiRefusal("edit_not_own")
    return chat, message


def _edit(
    world: TelegramWorld, chat: TelegramChat, message: TelegramMessage, content: TelegramContent, now: float
) -> dict[str, Any]:
    world.spend(chat, now)  # edits count as messages (facts 3)
    if content == message.content:
        raise ApiRefusal("not_modified")
    world.change(message, content, now)
    return message_object(chat, message)


def _read(
    source: str, parse_mode: str, entities: list[MessageEntity], settings: TelegramSettings, *, is_caption: bool
) -> FormattedText:
    if not source and not is_caption:
        raise ApiRefusal("text_empty")
    try:
        size = len(source.encode())
    except UnicodeEncodeError as error:  # half of a character, which JSON can carry
        raise ApiRefusal("text_not_utf8") from error
    if size > settings.raw_text_limit:
        raise ApiRefusal("raw_text_too_long")
    # Entities are only used without a parse mode (TG-API sendMessage.entities).
    read = parsed(source, parse_mode) if parse_mode or not entities else checked(source, entities)
    text = finished(read, entity_limit=settings.entity_limit)
    if not text.text and not is_caption:
        raise ApiRefusal("text_blank")
    if is_caption and len(text.text) > settings.caption_limit:
        raise ApiRefusal("caption_too_long")
    if not is_caption and len(text.text) > settings.text_limit:
        raise ApiRefusal("text_too_long")
    return text


def _keyboard(markup: dict[str, Any] | None, world: TelegramWorld) -> dict[str, Any] | None:
    """The buttons under a message. None for the other kinds of keyboards, which are not part of a message."""
    rows = (markup or {}).get("inline_keyboard")
    if not rows:
        return None
    for button in (button for row in rows for button in row):
        data = button.get("callback_data")
        if data is not None and not 1 <= len(str(data).encode()) <= world.settings.callback_bytes:
            raise ApiRefusal("callback_bytes")
    return {"inline_keyboard": rows}
