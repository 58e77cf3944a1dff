"""Performs the actions of people: changes the chats, and adds the updates that the bot gets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec.structs import replace

from tailrace.testing.platforms.simulator import ActionProblem
from tailrace.testing.platforms.telegram.actions import (
    Action,
    AddTopic,
    ChangeBotStatus,
    EditMessage,
    JoinChat,
    LeaveChat,
    MigrateGroup,
    PressButton,
    SendFile,
    ShowReactions,
    StopDraft,
    WriteMessage,
)
from tailrace.testing.platforms.telegram.entities import FormattedText, finished
from tailrace.testing.platforms.telegram.objects import chat_object, member_object, message_object, user_object
from tailrace.testing.platforms.telegram.world import (
    CallbackQuery,
    TelegramChat,
    TelegramContent,
    TelegramMessage,
    TelegramUser,
    TelegramWorld,
)


def act(world: TelegramWorld, action: Action, now: float) -> int:
    """Perform an action of a person.

    Returns the id of the message, topic, draft, person or chat that was made or changed.
    """
    chat = _find(world.chats, action.chat, "chat")
    user = _find(chat.members, action.user, f"member of the chat {chat.id}")
    world.version += 1
    return _ACTS[type(action)](_Scene(world, chat, user, now), action)


class _Scene(msgspec.Struct, frozen=True):
    """An action: the chat, the person and the time."""

    world: TelegramWorld
    chat: TelegramChat
    user: TelegramUser
    now: float


def _text(scene: _Scene, text: str) -> TelegramContent:
    read = finished(FormattedText(text), entity_limit=scene.world.settings.entity_limit)
    return TelegramContent(text=read.text, entities=read.entities)


def _write(scene: _Scene, action: WriteMessage) -> int:
    return _post(scene, _text(scene, action.text), thread=action.thread, reply_to=action.reply_to)


def _send_file(scene: _Scene, action: SendFile) -> int:
    file = scene.world.store(action.name, action.content, is_photo=action.photo)
    return _post(scene, TelegramContent(text=action.caption, file=file), thread=action.thread)


def _edit(scene: _Scene, action: EditMessage) -> int:
    message: TelegramMessage = _find(scene.chat.messages, action.message_id, "message")
    if message.sender != scene.user:
        raise ActionProblem(f"{scene.user.first_name} did not write the message {message.message_id}")
    new = _text(scene, action.text)
    content = replace(message.content, text=new.text, entities=new.entities)
    scene.world.change(message, content, scene.now)
    _notify(scene, "edited_channel_post" if scene.chat.type == "channel" else "edited_message", message)
    return message.message_id


def _join(scene: _Scene, action: JoinChat) -> int:
    new = TelegramUser(scene.world.new_number() + 5000, action.name)
    scene.chat.members[new.id] = new
    return _member_changes(scene, new, ("left", "member"))


def _leave(scene: _Scene, _action: LeaveChat) -> int:
    del scene.chat.members[scene.user.id]
    return _member_changes(scene, scene.user, ("member", "left"))


def _change_bot_status(scene: _Scene, action: ChangeBotStatus) -> int:
    old, scene.chat.bot_status = scene.chat.bot_status, action.status
    changed = _member_update(scene, scene.world.bot, (old, action.status))
    scene.world.updates.add("my_chat_member", changed, scene.now)
    return scene.chat.id


def _add_topic(scene: _Scene, action: AddTopic) -> int:
    if not scene.chat.is_forum:
        raise ActionProblem(f"the chat {scene.chat.id} is no forum")
    return scene.world.add_topic(scene.chat, scene.user, action.title, scene.now).message_id


_SUPERGROUP_IDS = -1_000_000_000_000


def _find(found: dict[Any, Any], key: int | None, what: str) -> Any:
    if key is None and found:
        return next(iter(found.values()))
    if key not in found:
        raise ActionProblem(f"there is no {what} with the id {key}: there are {', '.join(map(str, found)) or 'none'}")
    return found[key]


def _post(scene: _Scene, content: TelegramContent, **more: Any) -> int:
    world, chat, user = scene.world, scene.chat, scene.user
    if more.get("thread") is not None:
        _find(chat.topics, more["thread"], "topic")
    if chat.type == "private" and chat.bot_status == "kicked":
        raise ActionProblem(f"{user.first_name} has blocked the bot")
    drafts = (draft for draft in chat.drafts if draft.at <= scene.now < draft.until and not draft.can_stop)
    if world.settings.draft_locks_chat and any(drafts):
        raise ActionProblem(f"{user.first_name} cannot write while a draft without a stop button is shown")
    message = world.new_message(chat, user, content, scene.now, **more)
    _notify(scene, "channel_post" if chat.type == "channel" else "message", message)
    return message.message_id


def _notify(scene: _Scene, kind: str, message: TelegramMessage) -> None:
    if scene.chat.bot_status == "administrator" or (scene.chat.bot_status == "member" and _is_seen(scene, message)):
        scene.world.updates.add(kind, message_object(scene.chat, message), scene.now)


def _is_seen(scene: _Scene, message: TelegramMessage) -> bool:
    """Whether the bot gets the message. With privacy mode, a group keeps from it what is not addressed to it."""
    if not scene.world.settings.privacy_mode or scene.chat.type == "private" or message.service:
        return True
    text, bot = message.content.text, scene.world.bot
    replied = scene.chat.messages.get(message.reply_to or 0)
    return text.startswith("/") or f"@{bot.username}" in text or (replied is not None and replied.sender == bot)


def _press(scene: _Scene, action: PressButton) -> int:
    world, chat, user, now = scene.world, scene.chat, scene.user, scene.now
    for message in reversed(chat.messages.values()):
        if action.message_id not in {None, message.message_id} or message.deleted_at is not None:
            continue
        for row in (message.content.keyboard or {}).get("inline_keyboard", ()):
            for button in row:
                if button["text"] == action.button and "callback_data" in button:
                    query = CallbackQuery(
                        query_id=str(world.new_number()), user=user, message_id=message.message_id, pressed_at=now
                    )
                    chat.queries[query.query_id] = query
                    pressed = {
                        "id": query.query_id,
                        "from": user_object(user),
                        "message": message_object(chat, message),
                        "chat_instance": str(chat.id),
                        "data": button["callback_data"],
                    }
                    world.updates.add("callback_query", pressed, now)
                    return message.message_id
    raise ActionProblem(f"no message in the chat {chat.id} has a button with the text {action.button!r}")


def _react(scene: _Scene, action: ShowReactions) -> int:
    world, chat, user, now = scene.world, scene.chat, scene.user, scene.now
    message: TelegramMessage = _find(chat.messages, action.message_id, "message")
    old = next((emoji for _at, of, emoji in reversed(message.reactions) if of == user.id), ())
    message.reactions.append((now, user.id, action.emoji))
    changed = {
        "chat": chat_object(chat),
        "message_id": message.message_id,
        "user": user_object(user),
        "date": int(now),
        "old_reaction": [{"type": "emoji", "emoji": emoji} for emoji in old],
        "new_reaction": [{"type": "emoji", "emoji": emoji} for emoji in action.emoji],
    }
    # In groups only an administrator gets them (TG-API Update.message_reaction).
    if chat.type == "private" or chat.bot_status == "administrator":
        world.updates.add("message_reaction", changed, now)
    return message.message_id


def _stop(scene: _Scene, action: StopDraft) -> int:
    world, chat, now = scene.world, scene.chat, scene.now
    for draft in reversed(chat.drafts):
        if draft.can_stop and draft.at <= now < draft.until and action.draft_id in {None, draft.draft_id}:
            if not draft.keep_on_stop:
                draft.until = now
            stopped = {"chat": chat_object(chat), "draft_id": draft.draft_id}
            if draft.thread is not None:
                stopped["message_thread_id"] = draft.thread
            world.updates.add("stopped_message_generation", stopped, now)
            return draft.draft_id
    raise ActionProblem(f"no draft in the chat {chat.id} shows a stop button")


def _member_changes(scene: _Scene, user: TelegramUser, statuses: tuple[str, str]) -> int:
    world, chat, now = scene.world, scene.chat, scene.now
    joined = statuses[1] == "member"
    service = {"new_chat_members": [user_object(user)]} if joined else {"left_chat_member": user_object(user)}
    message = world.new_message(chat, user, TelegramContent(), now, service=service)
    _notify(scene, "message", message)
    if chat.bot_status == "administrator":
        world.updates.add("chat_member", _member_update(scene, user, statuses), now)
    return user.id


def _member_update(scene: _Scene, user: TelegramUser, statuses: tuple[str, str]) -> dict[str, Any]:
    old, new = statuses
    return {
        "chat": chat_object(scene.chat),
        "from": user_object(scene.user),
        "date": int(scene.now),
        "old_chat_member": member_object(user, old),
        "new_chat_member": member_object(user, new),
    }


def _migrate(scene: _Scene, _action: MigrateGroup) -> int:
    world, old = scene.world, scene.chat
    if old.type != "group" or old.migrated_to is not None:
        raise ActionProblem(f"the chat {old.id} is no group")
    new_id = _SUPERGROUP_IDS + old.id
    new = world.add_chat(new_id, "supergroup", old.title, *old.members.values(), bot_status=old.bot_status)
    for chat, service in ((old, {"migrate_to_chat_id": new_id}), (new, {"migrate_from_chat_id": old.id})):
        message = world.new_message(chat, scene.user, TelegramContent(), scene.now, service=service)
        _notify(replace(scene, chat=chat), "message", message)
    old.migrated_to = new_id
    return new_id


_ACTS: dict[type, Callable[[_Scene, Any], int]] = {
    WriteMessage: _write,
    EditMessage: _edit,
    SendFile: _send_file,
    PressButton: _press,
    ShowReactions: _react,
    StopDraft: _stop,
    JoinChat: _join,
    LeaveChat: _leave,
    ChangeBotStatus: _change_bot_status,
    AddTopic: _add_topic,
    MigrateGroup: _migrate,
}
