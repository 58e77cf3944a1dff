"""All methods of the Bot API that the simulator knows, by name. Methods that send or edit messages are in `sending`.

`perform` takes the decoded fields of an HTTP request, and returns the result of the method or raises an `ApiRefusal`.
Updates and webhooks are handled by the server, because they wait.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from tailrace.testing.platforms.telegram import requests, sending
from tailrace.testing.platforms.telegram.objects import file_object, user_object
from tailrace.testing.platforms.telegram.requests import InChat
from tailrace.testing.platforms.telegram.rules import ApiRefusal
from tailrace.testing.platforms.telegram.sending import chat_of, thread_of
from tailrace.testing.platforms.telegram.world import ChatAction, TelegramWorld

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tailrace.testing.platforms.api_server import Upload

# Fields that are objects: forms carry them as JSON, and a JSON body may do so too.
_OBJECT_NAMES = (
    "entities caption_entities reply_parameters reply_markup rich_message reaction commands scope allowed_updates"
    " link_preview_options"
)
_OBJECTS = frozenset(_OBJECT_NAMES.split())
_ACTION_NAMES = (
    "typing upload_photo record_video upload_video record_voice upload_voice upload_document choose_sticker"
    " find_location record_video_note upload_video_note"
)
_ACTIONS = frozenset(_ACTION_NAMES.split())
_EMOJI = (
    "❤ 👍 👎 🔥 🥰 👏 😁 🤔 🤯 😱 🤬 😢 🎉 🤩 🤮 💩 🙏 👌 🕊 🤡 🥱 🥴 😍 🐳 ❤‍🔥 🌚 🌭 💯 🤣 ⚡ 🍌 🏆 💔 🤨 😐 🍓 "
    "🍾 💋 🖕 😈 😴 😭 🤓 👻 👨‍💻 👀 🎃 🙈 😇 😨 🤝 ✍ 🤗 🫡 🎅 🎄 ☃ 💅 🤪 🗿 🆒 💘 🙉 🦄 😘 💊 🙊 😎 👾 🤷‍♂ 🤷 🤷‍♀ 😡"
)
_REACTIONS = frozenset(_EMOJI.split())
_COMMAND = re.compile(r"[a-z0-9_]{1,32}")
_MOST_COMMANDS, _LONGEST_DESCRIPTION = 100, 256  # TG-API setMyCommands, BotCommand


class _Nothing(msgspec.Struct, frozen=True):
    pass


class _ChatActionCall(InChat, frozen=True, kw_only=True):
    action: str = ""
    message_thread_id: int | None = None


class _ReactionCall(InChat, frozen=True, kw_only=True):
    message_id: int
    reaction: tuple[dict[str, Any], ...] = ()


class _TopicCall(InChat, frozen=True, kw_only=True):
    name: str


class _FileCall(msgspec.Struct, frozen=True, kw_only=True):
    file_id: str


class _CallbackAnswer(msgspec.Struct, frozen=True, kw_only=True):
    callback_query_id: str
    text: str = ""
    show_alert: bool = False


class _CommandsCall(msgspec.Struct, frozen=True, kw_only=True):
    commands: list[dict[str, str]] = []
    scope: dict[str, Any] = {}
    language_code: str = ""


def _get_me(world: TelegramWorld, _call: _Nothing, _now: float) -> dict[str, Any]:
    reads_all = not world.settings.privacy_mode
    rights = {"can_join_groups": True, "can_read_all_group_messages": reads_all, "supports_inline_queries": False}
    return user_object(world.bot) | rights


def _send_chat_action(world: TelegramWorld, call: _ChatActionCall, now: float) -> bool:
    if call.action not in _ACTIONS:
        raise ApiRefusal("action_unknown")
    chat = chat_of(world, call.chat_id)
    if chat.type == "channel":
        raise ApiRefusal("action_in_channel")
    # The general topic has the id 1 here, although no message can be sent to that id.
    thread = None if call.message_thread_id == 1 and chat.is_forum else thread_of(chat, call.message_thread_id)
    world.spend(chat, now, of="action")
    world.show(chat, ChatAction(call.action, thread, now, now + world.settings.typing_s))
    return True


def _set_message_reaction(world: TelegramWorld, call: _ReactionCall, now: float) -> bool:
    chat = chat_of(world, call.chat_id)
    message = chat.messages.get(call.message_id)
    if message is None or message.deleted_at is not None:
        raise ApiRefusal("react_unknown")
    if len(call.reaction) > 1:
        raise ApiRefusal("reactions_too_many")
    emoji = tuple(str(reaction.get("emoji", "")) for reaction in call.reaction)
    if not set(emoji) <= _REACTIONS:
        raise ApiRefusal("reaction_unknown")
    message.reactions.append((now, world.bot.id, emoji))
    world.version += 1
    return True


def _answer_callback_query(world: TelegramWorld, call: _CallbackAnswer, now: float) -> bool:
    if len(call.text) > world.settings.callback_answer_limit:
        raise ApiRefusal("answer_too_long")
    for chat in world.chats.values():
        query = chat.queries.get(call.callback_query_id)
        if query is not None and query.answer is None and now - query.pressed_at <= world.settings.callback_answer_s:
            query.answer, query.is_alert, query.answered_at = call.text, call.show_alert, now
            world.version += 1
            return True
    raise ApiRefusal("query_unknown")


def _get_file(world: TelegramWorld, call: _FileCall, _now: float) -> dict[str, Any]:
    file = world.files.get(call.file_id)
    if file is None:
        raise ApiRefusal("file_id_unknown")
    if len(file.content) > world.settings.download_bytes:
        raise ApiRefusal("download_too_big")
    return file_object(file) | {"file_path": file.path}


def _set_my_commands(world: TelegramWorld, call: _CommandsCall, _now: float) -> bool:
    for command in call.commands:
        description = command.get("description", "")
        is_named = _COMMAND.fullmatch(command.get("command", "")) is not None
        if not is_named or not 1 <= len(description) <= _LONGEST_DESCRIPTION:
            raise ApiRefusal("commands_wrong")
    if len(call.commands) > _MOST_COMMANDS:
        raise ApiRefusal("commands_wrong")
    world.commands[f"{call.scope.get('type', 'default')} {call.language_code}".strip()] = call.commands
    world.version += 1
    return True


def _create_forum_topic(world: TelegramWorld, call: _TopicCall, now: float) -> dict[str, Any]:
    chat = chat_of(world, call.chat_id)
    if not chat.is_forum:
        raise ApiRefusal("not_a_forum")
    message = world.add_topic(chat, world.bot, call.name, now)
    return {"message_thread_id": message.message_id, **message.service["forum_topic_created"]}


_METHODS: dict[str, tuple[type[msgspec.Struct], Callable[[TelegramWorld, Any, float], Any]]] = {
    "getMe": (_Nothing, _get_me),
    "sendMessage": (requests.SendMessage, sending.send_message),
    "sendPhoto": (requests.SendMedia, sending.send_media),
    "sendDocument": (requests.SendMedia, sending.send_media),
    "sendRichMessage": (requests.SendRichMessage, sending.send_rich_message),
    "sendMessageDraft": (requests.SendMessageDraft, sending.send_message_draft),
    "sendRichMessageDraft": (requests.SendMessageDraft, sending.send_message_draft),
    "editMessageText": (requests.EditMessageText, sending.edit_message_text),
    "editMessageCaption": (requests.EditMessageCaption, sending.edit_message_caption),
    "editMessageReplyMarkup": (requests.EditMessageCaption, sending.edit_message_reply_markup),
    "deleteMessage": (requests.DeleteMessage, sending.delete_message),
    "sendChatAction": (_ChatActionCall, _send_chat_action),
    "setMessageReaction": (_ReactionCall, _set_message_reaction),
    "answerCallbackQuery": (_CallbackAnswer, _answer_callback_query),
    "getFile": (_FileCall, _get_file),
    "setMyCommands": (_CommandsCall, _set_my_commands),
    "createForumTopic": (_TopicCall, _create_forum_topic),
}
_OF_SERVER = ("getUpdates", "setWebhook", "deleteWebhook", "getWebhookInfo")
_BY_LOWER_NAME = {name.lower(): name for name in (*_METHODS, *_OF_SERVER)}


def method_named(name: str) -> str:
    """The name of the method as the Bot API writes it: calls may write it in other letter case."""
    if name.lower() not in _BY_LOWER_NAME:
        raise ApiRefusal("method_unknown")
    return _BY_LOWER_NAME[name.lower()]


def decoded(fields: Mapping[str, Any], kind: type[msgspec.Struct]) -> Any:
    """Convert the fields of a call to the struct `kind` of its method. Unknown fields are ignored."""
    try:
        read = {
            name: msgspec.json.decode(value) if name in _OBJECTS and isinstance(value, str) and value else value
            for name, value in fields.items()
            if value is not None
        }
        return msgspec.convert(read, kind, strict=False)
    except msgspec.MsgspecError as error:  # wrong JSON in a field, or a field of a wrong type
        raise ApiRefusal("field_wrong", detail=str(error)) from error


def perform(
    world: TelegramWorld, method: str, fields: Mapping[str, Any], uploads: Mapping[str, Upload], now: float
) -> Any:
    """Perform a method and return its result. `uploads` are the files of the call, by the names of their fields."""
    kind, handler = _METHODS[method]
    read = dict(fields)
    for name in ("photo", "document"):
        upload = uploads.get(str(read.get(name, name)).removeprefix("attach://"))
        if upload is not None:
            if len(upload.content) > world.settings.upload_bytes:
                raise ApiRefusal("body_too_large")
            read[name] = world.store(upload.name, upload.content, is_photo=name == "photo").file_id
    return handler(world, decoded(read, kind), now)
