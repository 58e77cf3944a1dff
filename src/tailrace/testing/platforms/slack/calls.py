"""All methods of the Web API that the simulator knows, by name, with the scopes that they need.

`perform` takes the decoded fields of an HTTP request, and returns the result of the method or raises a `SlackRefusal`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from tailrace.testing.platforms.slack import posting, requests, streams
from tailrace.testing.platforms.slack.objects import file_object, has_replies, message_object, user_object
from tailrace.testing.platforms.slack.rules import SlackRefusal
from tailrace.testing.platforms.slack.scene import Scene
from tailrace.testing.platforms.slack.world import ShownStatus, SlackContent

if TYPE_CHECKING:
    from tailrace.testing.platforms.slack.world import SlackMessage

_OBJECTS = frozenset({"blocks", "metadata", "chunks", "files"})  # forms carry them as JSON
TAKES_NO_JSON = frozenset(
    {
        "apps.connections.open",
        "auth.test",
        "bots.info",
        "conversations.history",
        "conversations.info",
        "conversations.replies",
        "files.completeUploadExternal",
        "files.getUploadURLExternal",
        "files.info",
        "users.info",
    }
)
"""The methods that take a form only. Slack ignores a JSON body there (docs.slack.dev/apis/web-api)."""
_EMOJI = re.compile(r"[a-z0-9_+'-]{1,100}(::skin-tone-[2-6])?")
_HISTORY = {"im": "im:history", "channel": "channels:history", "group": "groups:history"}
_READ = {"im": "im:read", "channel": "channels:read", "group": "groups:read"}


def _auth_test(scene: Scene, _call: requests.Nothing) -> dict[str, Any]:
    world = scene.world
    found = {
        "url": "https://simulated.slack.com/",
        "team": "Simulated",
        "user": world.bot.name,
        "team_id": world.team_id,
        "user_id": world.bot.id,
        "bot_id": world.bot_id,
        "is_enterprise_install": False,
    }
    return found if world.enterprise_id is None else found | {"enterprise_id": world.enterprise_id}


def _set_status(scene: Scene, call: requests.SetStatus) -> dict[str, Any]:
    chat = scene.chat(call.channel_id)
    thread = scene.thread(chat, call.thread_ts) or ""
    for status in chat.statuses:
        if status.thread == thread:
            status.until = min(status.until, scene.now)
    if call.status:
        until = scene.now + scene.world.settings.status_s
        chat.statuses.append(ShownStatus(call.status, thread, scene.now, until))
    scene.world.version += 1
    return {}


def _replies(scene: Scene, call: requests.Listing) -> dict[str, Any]:
    chat = _listed_chat(scene, call)
    root = chat.messages.get(call.ts)
    if root is None or root.deleted_at is not None:
        raise SlackRefusal("thread_not_found")
    thread = root.thread or root.ts
    replies = [each for each in chat.messages.values() if each.thread == thread and each.ts > call.oldest]
    return _listed(scene, call, [chat.messages[thread], *replies])


def _history(scene: Scene, call: requests.Listing) -> dict[str, Any]:
    chat = _listed_chat(scene, call)
    newest_first = [each for each in reversed(chat.messages.values()) if each.thread is None and each.ts > call.oldest]
    return _listed(scene, call, newest_first)


def _listed_chat(scene: Scene, call: requests.Listing) -> Any:
    chat = scene.chat(call.channel, to_write=False)
    _need(scene, _HISTORY[chat.type])
    return chat


def _listed(scene: Scene, call: requests.Listing, messages: list[SlackMessage]) -> dict[str, Any]:
    begin = int(call.cursor) if call.cursor.isdecimal() else 0
    size = max(1, min(call.limit, scene.world.settings.page_size))
    visible = [message for message in messages if message.deleted_at is None]
    shown = [
        message_object(scene.world, message, scene.base, scene.now, with_metadata=call.include_all_metadata)
        for message in visible[begin : begin + size]
    ]
    chat = scene.world.chats[call.channel]
    for each in shown:
        if "thread_ts" not in each and has_replies(chat, each["ts"]):
            each["thread_ts"] = each["ts"]
    has_more = begin + size < len(visible)
    cursor = {"response_metadata": {"next_cursor": str(begin + size)}} if has_more else {}
    return {"messages": shown, "has_more": has_more, **cursor}


def _add_reaction(scene: Scene, call: requests.Reaction) -> dict[str, Any]:
    return _react(scene, call, shows=True)


def _remove_reaction(scene: Scene, call: requests.Reaction) -> dict[str, Any]:
    return _react(scene, call, shows=False)


def _react(scene: Scene, call: requests.Reaction, *, shows: bool) -> dict[str, Any]:
    if not _EMOJI.fullmatch(call.name):
        raise SlackRefusal("invalid_name")
    message = scene.message(scene.chat(call.channel), call.timestamp)
    bot = scene.world.bot.id
    earlier = [is_shown for _at, user, name, is_shown in message.reactions if (user, name) == (bot, call.name)]
    if bool(earlier and earlier[-1]) is shows:
        raise SlackRefusal("already_reacted" if shows else "no_reaction")
    message.reactions.append((scene.now, bot, call.name, shows))
    scene.world.version += 1
    return {}


def _user_info(scene: Scene, call: requests.OfUser) -> dict[str, Any]:
    user = scene.world.users.get(call.user)
    if user is None:
        raise SlackRefusal("user_not_found")
    return {"user": user_object(scene.world, user)}


def _bot_info(scene: Scene, _call: requests.Nothing) -> dict[str, Any]:
    world = scene.world
    return {"bot": {"id": world.bot_id, "app_id": world.app_id, "user_id": world.bot.id, "name": world.bot.name}}


def _channel_info(scene: Scene, call: requests.InChannel) -> dict[str, Any]:
    chat = scene.chat(call.channel, to_write=False)
    _need(scene, _READ[chat.type])
    return {"channel": {"id": chat.id, "name": chat.name, "is_im": chat.type == "im", "is_member": True}}


def _upload_url(scene: Scene, call: requests.UploadUrl) -> dict[str, Any]:
    if not call.filename or not 0 < call.length <= scene.world.settings.upload_bytes:
        raise SlackRefusal("invalid_arguments")
    file = scene.world.store(call.filename, None)
    return {"file_id": file.file_id, "upload_url": f"{scene.base}/upload/v1/{file.file_id}"}


def _complete_upload(scene: Scene, call: requests.CompleteUpload) -> dict[str, Any]:
    files = [scene.world.files.get(str(each.get("id"))) for each in call.files]
    if not files or any(file is None or file.content is None for file in files):
        raise SlackRefusal("file_not_found")
    whole = tuple(file for file in files if file is not None)
    for file, given in zip(whole, call.files, strict=True):
        file.title = str(given.get("title", file.name))
    if call.channel_id is not None:
        chat = scene.chat(call.channel_id)
        thread = scene.thread(chat, call.thread_ts)
        content = SlackContent(text=call.initial_comment, files=whole)
        message = scene.world.new_message(chat, scene.world.bot, content, scene.now, thread=thread)
        scene.event(chat, {**scene.shown(message), "subtype": "file_share"})
    return {"files": [{"id": file.file_id, "title": file.title} for file in whole]}


def _file_info(scene: Scene, call: requests.OfFile) -> dict[str, Any]:
    file = scene.world.files.get(call.file)
    if file is None or file.content is None:
        raise SlackRefusal("file_not_found")
    return {"file": file_object(file, scene.base)}


class _Method(NamedTuple):
    fields: type[msgspec.Struct]
    handler: Callable[[Scene, Any], dict[str, Any]]
    scope: str = ""


_METHODS: dict[str, _Method] = {
    "api.test": _Method(requests.Nothing, lambda _scene, _call: {}),
    "auth.test": _Method(requests.Nothing, _auth_test),
    "chat.postMessage": _Method(requests.PostMessage, posting.post_message, "chat:write"),
    "chat.postEphemeral": _Method(requests.PostEphemeral, posting.post_ephemeral, "chat:write"),
    "chat.update": _Method(requests.ChangeMessage, posting.update_message, "chat:write"),
    "chat.delete": _Method(requests.MessageRef, posting.delete_message, "chat:write"),
    "chat.startStream": _Method(requests.StartStream, streams.start_stream, "chat:write"),
    "chat.appendStream": _Method(requests.AppendToStream, streams.append_stream, "chat:write"),
    "chat.stopStream": _Method(requests.StopStream, streams.stop_stream, "chat:write"),
    "assistant.threads.setStatus": _Method(requests.SetStatus, _set_status, "chat:write"),
    "conversations.replies": _Method(requests.Listing, _replies),
    "conversations.history": _Method(requests.Listing, _history),
    "conversations.info": _Method(requests.InChannel, _channel_info),
    "reactions.add": _Method(requests.Reaction, _add_reaction, "reactions:write"),
    "reactions.remove": _Method(requests.Reaction, _remove_reaction, "reactions:write"),
    "users.info": _Method(requests.OfUser, _user_info, "users:read"),
    "bots.info": _Method(requests.Nothing, _bot_info, "users:read"),
    "files.getUploadURLExternal": _Method(requests.UploadUrl, _upload_url, "files:write"),
    "files.completeUploadExternal": _Method(requests.CompleteUpload, _complete_upload, "files:write"),
    "files.info": _Method(requests.OfFile, _file_info, "files:read"),
}


def perform(scene: Scene, method: str, fields: dict[str, Any]) -> dict[str, Any]:
    """Perform a method and return its result. Every call is counted against the rates, also one that is refused."""
    if method not in _METHODS:
        raise SlackRefusal("unknown_method")
    found = _METHODS[method]
    scene.world.spend(method, str(fields.get("channel", "")), scene.now)
    if found.scope:
        _need(scene, found.scope)
    try:
        read = {
            name: msgspec.json.decode(value) if name in _OBJECTS and isinstance(value, str) else value
            for name, value in fields.items()
            if value is not None
        }
        call = msgspec.convert(read, found.fields, strict=False)
    except msgspec.MsgspecError as error:
        raise SlackRefusal("invalid_arguments", response_metadata={"messages": [f"[ERROR] {error}"]}) from error
    return found.handler(scene, call)


def _need(scene: Scene, scope: str) -> None:
    if scope not in scene.world.scopes:
        raise SlackRefusal("missing_scope", needed=scope, provided=",".join(sorted(scene.world.scopes)))
