"""The methods that send, edit and delete messages: what each checks, and what it changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from tailrace.testing.platforms.slack.rules import SlackRefusal
from tailrace.testing.platforms.slack.world import SlackContent, Whisper

if TYPE_CHECKING:
    from tailrace.testing.platforms.slack.requests import (
        ChangeMessage,
        MessageCall,
        MessageRef,
        PostEphemeral,
        PostMessage,
    )
    from tailrace.testing.platforms.slack.rules import SlackSettings
    from tailrace.testing.platforms.slack.scene import Scene


def post_message(scene: Scene, call: PostMessage) -> dict[str, Any]:
    """The method `chat.postMessage`: send a message."""
    content = _content(call, scene.world.settings, text_limit=scene.world.settings.post_text_limit)
    metadata = checked_metadata(call.metadata)
    chat = scene.chat(call.channel)
    thread = scene.thread(chat, call.thread_ts)
    message = scene.world.new_message(chat, scene.world.bot, content, scene.now, thread=thread, metadata=metadata)
    shown = scene.shown(message)
    scene.event(chat, shown)
    return {"channel": chat.id, "ts": message.ts, "message": shown}


def post_ephemeral(scene: Scene, call: PostEphemeral) -> dict[str, Any]:
    """The method `chat.postEphemeral`: send a message that only one person sees."""
    content = _content(call, scene.world.settings, text_limit=scene.world.settings.post_text_limit)
    chat = scene.chat(call.channel)
    if call.user not in chat.members:
        raise SlackRefusal("user_not_in_channel")
    scene.thread(chat, call.thread_ts)
    chat.whispers.append(Whisper(scene.now, chat.members[call.user], content.markdown or content.text))
    scene.world.version += 1
    return {"message_ts": f"{scene.now:.6f}"}


def update_message(scene: Scene, call: ChangeMessage) -> dict[str, Any]:
    """The method `chat.update`: replace the content of a message of the bot. The metadata stays if none is given."""
    settings = scene.world.settings
    content = _content(call, settings, text_limit=settings.update_text_limit)
    metadata = checked_metadata(call.metadata)
    chat = scene.chat(call.channel)
    message = scene.message(chat, call.ts)
    if message.sender is not scene.world.bot:
        raise SlackRefusal("cant_update_message")
    if message.is_streaming(scene.now):
        raise SlackRefusal("streaming")
    if settings.can_edit_s is not None and scene.now - message.at > settings.can_edit_s:
        raise SlackRefusal("edit_window_closed")
    tasks = message.content.tasks if settings.update_keeps_tasks else ()
    content = replace(content, files=message.content.files, tasks=tasks)
    message.metadata = metadata or message.metadata
    if content != message.content:  # an edit without a change succeeds (section 3)
        previous = scene.shown(message)
        scene.world.change(message, content, scene.now)
        changed = {"message": scene.shown(message), "previous_message": previous, "hidden": True}
        scene.event(chat, {"subtype": "message_changed", "ts": f"{scene.now:.6f}", **changed})
    return {"channel": chat.id, "ts": message.ts, "message": scene.shown(message)}


def delete_message(scene: Scene, call: MessageRef) -> dict[str, Any]:
    """The method `chat.delete`. With the token of a bot, only messages of the bot can be deleted."""
    chat = scene.chat(call.channel)
    message = scene.message(chat, call.ts)
    if message.sender is not scene.world.bot:
        raise SlackRefusal("cant_delete_message")
    message.deleted_at = scene.now
    scene.world.version += 1
    deleted = {"deleted_ts": message.ts, "previous_message": scene.shown(message), "hidden": True}
    scene.event(chat, {"subtype": "message_deleted", "ts": f"{scene.now:.6f}", **deleted})
    return {"channel": chat.id, "ts": message.ts}


def checked_metadata(metadata: dict[str, Any] | None) -> dict[str, Any] | None:
    """The metadata of a message. Raises `SlackRefusal` if its form is wrong."""
    if metadata is not None and not (
        isinstance(metadata.get("event_type"), str) and isinstance(metadata.get("event_payload"), dict)
    ):
        raise SlackRefusal("invalid_metadata")
    return metadata


def _content(call: MessageCall, settings: SlackSettings, *, text_limit: int) -> SlackContent:
    if call.markdown_text is not None:
        if call.text or call.blocks:
            raise SlackRefusal("markdown_text_conflict")
        if not call.markdown_text.strip():
            raise SlackRefusal("no_text")
        if len(call.markdown_text) > settings.markdown_limit:
            raise SlackRefusal("msg_too_long")
        return SlackContent(markdown=call.markdown_text)
    blocks = checked_blocks(call.blocks or [], settings)
    if not call.text.strip() and not blocks:
        raise SlackRefusal("no_text")
    if len(call.text) > text_limit:
        raise SlackRefusal("msg_too_long")
    return SlackContent(text=call.text, blocks=blocks)


def checked_blocks(blocks: list[dict[str, Any]], settings: SlackSettings) -> tuple[dict[str, Any], ...]:
    """The blocks of a message. Raises `SlackRefusal` if there are too many, or if one is too long."""
    if len(blocks) > settings.block_limit:
        raise SlackRefusal("msg_blocks_too_many")
    for block in blocks:
        kind, text = block.get("type"), block.get("text")
        words = text.get("text", "") if isinstance(text, dict) else text
        is_long = (kind == "section" and len(words or "") > settings.section_limit) or (
            kind == "header" and len(words or "") > settings.header_limit
        )
        elements = block.get("elements", []) if kind == "actions" else []
        values = [str(element.get("value", "")) for element in elements]
        if not kind or is_long or any(len(value) > settings.button_value_limit for value in values):
            raise SlackRefusal("invalid_blocks")
        ids = [element.get("action_id") for element in elements]
        if len(set(ids)) < len(ids):  # the id of an element is unique in its block (SL-REF)
            raise SlackRefusal("invalid_blocks")
    if sum(len(block["text"]) for block in blocks if block["type"] == "markdown") > settings.markdown_limit:
        raise SlackRefusal("msg_blocks_too_long")
    return tuple(blocks)
