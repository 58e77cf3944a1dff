"""The methods for streams: messages to which the bot appends text and tasks until it stops them, or until they end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from tailrace.testing.platforms.slack.posting import checked_blocks, checked_metadata
from tailrace.testing.platforms.slack.rules import SlackRefusal
from tailrace.testing.platforms.slack.world import SlackContent, SlackTask

if TYPE_CHECKING:
    from tailrace.testing.platforms.slack.requests import AppendToStream, StartStream, StopStream
    from tailrace.testing.platforms.slack.scene import Scene
    from tailrace.testing.platforms.slack.world import SlackChat, SlackMessage

_STATUSES = frozenset({"pending", "in_progress", "complete", "error"})


def start_stream(scene: Scene, call: StartStream) -> dict[str, Any]:
    """The method `chat.startStream`: begin a message to which text can be appended."""
    settings = scene.world.settings
    text, chunks = _appended(scene, call.markdown_text, call.chunks)
    chat = scene.chat(call.channel)
    if call.thread_ts is None and settings.streams_need_thread:
        raise SlackRefusal("stream_without_thread")
    thread = scene.thread(chat, call.thread_ts)
    if chat.type != "im":
        if not call.recipient_user_id:
            raise SlackRefusal("missing_recipient_user_id")
        if not call.recipient_team_id:
            raise SlackRefusal("missing_recipient_team_id")
    content = SlackContent(markdown=text)
    message = scene.world.new_message(
        chat,
        scene.world.bot,
        content,
        scene.now,
        thread=thread,
        streams_until=scene.now + settings.stream_lifetime_s,
        tasks={},
    )
    _show(scene, message, content, chunks)
    return {"channel": chat.id, "ts": message.ts}


def append_stream(scene: Scene, call: AppendToStream) -> dict[str, Any]:
    """The method `chat.appendStream`: append text, or show the state of tasks."""
    if call.markdown_text is None and not call.chunks:
        raise SlackRefusal("invalid_arguments")
    chat, message = _open(scene, call)
    _append(scene, message, call)
    return {"channel": chat.id, "ts": message.ts}


def stop_stream(scene: Scene, call: StopStream) -> dict[str, Any]:
    """The method `chat.stopStream`: end the stream, with more text, tasks, blocks and metadata."""
    blocks = checked_blocks(call.blocks or [], scene.world.settings)
    metadata = checked_metadata(call.metadata)
    chat, message = _open(scene, call)
    _append(scene, message, call)
    if blocks:
        scene.world.change(message, replace(message.content, blocks=blocks), scene.now)
    message.metadata = metadata or message.metadata
    message.is_stopped = True
    scene.world.version += 1
    scene.event(chat, scene.shown(message))
    return {"channel": chat.id, "ts": message.ts, "message": scene.shown(message)}


def _open(scene: Scene, call: AppendToStream) -> tuple[SlackChat, SlackMessage]:
    chat = scene.chat(call.channel)
    message = scene.message(chat, call.ts)
    if message.sender is not scene.world.bot:
        raise SlackRefusal("not_own_stream")
    if not message.is_streaming(scene.now):
        raise SlackRefusal("not_streaming")
    return chat, message


def _append(scene: Scene, message: SlackMessage, call: AppendToStream) -> None:
    text, chunks = _appended(scene, call.markdown_text, call.chunks)
    _show(scene, message, replace(message.content, markdown=(message.content.markdown or "") + text), chunks)


def _appended(
    scene: Scene, markdown: str | None, chunks: list[dict[str, Any]] | None
) -> tuple[str, list[dict[str, Any]]]:
    """The text of a call, and its other chunks. Raises `SlackRefusal` if they are wrong or too long."""
    settings, chunks = scene.world.settings, chunks or []
    if markdown is not None and chunks:
        raise SlackRefusal("markdown_text_conflict")
    text = markdown or ""
    for chunk in chunks:
        match chunk.get("type"):
            case "markdown_text":
                text += str(chunk.get("text", ""))
            case "task_update":
                if not chunk.get("id") or not chunk.get("title") or chunk.get("status", "pending") not in _STATUSES:
                    raise SlackRefusal("invalid_chunks")
                if any(len(str(chunk.get(name, ""))) > settings.task_field_limit for name in ("details", "output")):
                    raise SlackRefusal("task_too_long")
            case "plan_update":
                if len(str(chunk.get("title", ""))) > settings.task_field_limit:
                    raise SlackRefusal("task_too_long")
            case _:
                raise SlackRefusal("invalid_chunks")
    if len(text) > settings.markdown_limit:
        raise SlackRefusal("msg_too_long")
    return text, chunks


def _show(scene: Scene, message: SlackMessage, content: SlackContent, chunks: list[dict[str, Any]]) -> None:
    for chunk in chunks:
        if chunk["type"] == "task_update":
            task = message.tasks.setdefault(chunk["id"], SlackTask())
            # The title and the status replace the earlier ones, and details are appended (section 4).
            task.title, task.status = chunk["title"], chunk.get("status", "pending")
            task.details += str(chunk.get("details", ""))
    tasks = tuple((task.title, task.status) for task in message.tasks.values())
    content = replace(content, tasks=tasks)
    if content != message.content:
        scene.world.change(message, content, scene.now)
