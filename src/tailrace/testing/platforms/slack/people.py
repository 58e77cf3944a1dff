"""Performs the actions of people: changes the chats, and adds the events that the app gets."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import escape
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from tailrace.testing.platforms.simulator import ActionProblem
from tailrace.testing.platforms.slack.actions import (
    Action,
    ChangeBotMembership,
    EditInSlack,
    PressInSlack,
    RunSlashCommand,
    SendFileInSlack,
    WriteInSlack,
)
from tailrace.testing.platforms.slack.scene import Scene
from tailrace.testing.platforms.slack.world import SlackChat, SlackContent, SlackMessage, SlackUser

if TYPE_CHECKING:
    from tailrace.testing.platforms.slack.world import SlackWorld

_ADDRESS = re.compile(r"https?://[^\s<>]+")


def act(world: SlackWorld, action: Action, base: str, now: float) -> str:
    """Perform an action of a person. Returns the id of the message or the chat that was made or changed."""
    chat = _find(world.chats, action.chat, "chat")
    user = _find(chat.members, action.user, f"member of the chat {chat.id}")
    world.version += 1
    return _ACTS[type(action)](Scene(world, base, now), chat, user, action)


def _find(found: dict[str, Any], key: str | None, what: str) -> Any:
    if key is None and found:
        return next(iter(found.values()))
    if key not in found:
        raise ActionProblem(f"there is no {what} with the id {key}: there are {', '.join(found) or 'none'}")
    return found[key]


def _typed(world: SlackWorld, text: str) -> str:
    """The text as Slack stores it: escaped, with mentions and addresses in angle brackets."""
    text = _ADDRESS.sub(lambda found: f"<{found[0]}>", escape(text, quote=False))
    return text.replace("@bot", f"<@{world.bot.id}>")


def _write(scene: Scene, chat: SlackChat, user: SlackUser, action: WriteInSlack) -> str:
    if action.thread is None and re.match(r"/\w", action.text):
        command, _, rest = action.text.partition(" ")
        return _run_command(scene, chat, user, RunSlashCommand(command=command, text=rest))
    return _post(scene, chat, user, SlackContent(text=_typed(scene.world, action.text)), action.thread)


def _send_file(scene: Scene, chat: SlackChat, user: SlackUser, action: SendFileInSlack) -> str:
    file = scene.world.store(action.name, action.content)
    return _post(scene, chat, user, SlackContent(text=_typed(scene.world, action.text), files=(file,)), action.thread)


def _post(scene: Scene, chat: SlackChat, user: SlackUser, content: SlackContent, thread: str | None) -> str:
    if thread is not None and thread not in chat.messages:
        raise ActionProblem(f"there is no message {thread} to reply to")
    message = scene.world.new_message(chat, user, content, scene.now, thread=thread)
    if not chat.is_bot_member:
        return message.ts
    shown = scene.shown(message) | {"client_msg_id": f"client-{message.ts}"}
    if thread is not None:
        shown["parent_user_id"] = chat.messages[thread].sender.id
    if content.files:
        shown["subtype"] = "file_share"
    scene.event(chat, shown)
    if chat.type != "im" and f"<@{scene.world.bot.id}>" in content.text:
        mention = {**shown, "type": "app_mention", "channel": chat.id, "event_ts": message.ts}
        scene.world.new_events.append(("events_api", mention))
    return message.ts


def _edit(scene: Scene, chat: SlackChat, user: SlackUser, action: EditInSlack) -> str:
    message: SlackMessage = _find(chat.messages, action.message_id, "message")
    if message.sender != user:
        raise ActionProblem(f"{user.name} did not write the message {message.ts}")
    previous = scene.shown(message)
    content = replace(message.content, text=_typed(scene.world, action.text))
    scene.world.change(message, content, scene.now)
    changed = {"message": scene.shown(message), "previous_message": previous, "hidden": True}
    scene.event(chat, {"subtype": "message_changed", "ts": f"{scene.now:.6f}", **changed})
    return message.ts


def _press(scene: Scene, chat: SlackChat, user: SlackUser, action: PressInSlack) -> str:
    for message in reversed(chat.messages.values()):
        if action.message_id not in {None, message.ts} or message.deleted_at is not None:
            continue
        for block in message.content.blocks:
            for element in block.get("elements", []) if block["type"] == "actions" else []:
                if element.get("text", {}).get("text") == action.button:
                    _send_press(scene, chat, user, message, element)
                    return message.ts
    raise ActionProblem(f"no message in the chat {chat.id} has a button with the text {action.button!r}")


def _send_press(scene: Scene, chat: SlackChat, user: SlackUser, message: SlackMessage, element: dict[str, Any]) -> None:
    world = scene.world
    container = {"type": "message", "message_ts": message.ts, "channel_id": chat.id, "is_ephemeral": False}
    if message.thread is not None:
        container["thread_ts"] = message.thread
    pressed = {
        "type": "block_actions",
        "user": {"id": user.id, "username": user.name.lower(), "name": user.name, "team_id": world.team_id},
        "api_app_id": world.app_id,
        "container": container,
        "trigger_id": f"{world.new_number()}.trigger",
        "team": {"id": world.team_id, "domain": "simulated"},
        "enterprise": None if world.enterprise_id is None else {"id": world.enterprise_id},
        "channel": {"id": chat.id, "name": chat.name},
        "message": scene.shown(message),
        "actions": [{**element, "block_id": "b", "action_ts": f"{scene.now:.6f}"}],
    }
    world.new_events.append(("interactive", pressed))


def _run_command(scene: Scene, chat: SlackChat, user: SlackUser, action: RunSlashCommand) -> str:
    world = scene.world
    sent = {
        "api_app_id": world.app_id,
        "team_id": world.team_id,
        "channel_id": chat.id,
        "channel_name": "directmessage" if chat.type == "im" else chat.name,
        "user_id": user.id,
        "user_name": user.name,
        "command": action.command,
        "text": escape(action.text, quote=False),
        "trigger_id": f"{world.new_number()}.trigger",
    }
    if world.enterprise_id is not None:
        sent["enterprise_id"] = world.enterprise_id
    world.new_events.append(("slash_commands", sent))
    return chat.id


def _change_membership(scene: Scene, chat: SlackChat, user: SlackUser, action: ChangeBotMembership) -> str:
    if chat.type == "im":
        raise ActionProblem("nobody can remove the bot from a direct message")
    chat.is_bot_member = action.is_member
    if action.is_member:
        joined = {"user": scene.world.bot.id, "channel_type": chat.type[0].upper(), "inviter": user.id}
        event = {"type": "member_joined_channel", "team": scene.world.team_id, **joined}
    else:
        event = {"type": f"{chat.type}_left", "actor_id": user.id}
    scene.world.new_events.append(("events_api", {**event, "channel": chat.id, "event_ts": f"{scene.now:.6f}"}))
    return chat.id


_ACTS: dict[type, Callable[[Scene, SlackChat, SlackUser, Any], str]] = {
    WriteInSlack: _write,
    EditInSlack: _edit,
    SendFileInSlack: _send_file,
    PressInSlack: _press,
    RunSlashCommand: _run_command,
    ChangeBotMembership: _change_membership,
}
