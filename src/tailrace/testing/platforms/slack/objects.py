"""The objects of the Web API and of events, as the platform sends them: users, messages, files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tailrace.testing.platforms.slack.world import SlackChat, SlackFile, SlackMessage, SlackUser, SlackWorld


def user_object(world: SlackWorld, user: SlackUser) -> dict[str, Any]:
    """A user, as `users.info` gives it."""
    profile = {"display_name": user.name, "real_name": user.name}
    return {
        "id": user.id,
        "team_id": world.team_id,
        "name": user.name.lower(),
        "real_name": user.name,
        "is_bot": user.is_bot,
        "profile": profile,
    }


def file_object(file: SlackFile, base: str) -> dict[str, Any]:
    """A file of a message. `base` is the address of the simulator."""
    return {
        "id": file.file_id,
        "name": file.name,
        "title": file.title or file.name,
        "mimetype": file.mime_type,
        "size": len(file.content or b""),
        "url_private": f"{base}/files-pri/{file.file_id}/file",
        "url_private_download": f"{base}/files-pri/{file.file_id}/download/file",
    }


def message_object(
    world: SlackWorld, message: SlackMessage, base: str, now: float, *, with_metadata: bool = False
) -> dict[str, Any]:
    """A message, as `conversations.replies` and events give it."""
    content = message.content
    found: dict[str, Any] = {
        "type": "message",
        "user": message.sender.id,
        "text": content.text if content.markdown is None else content.markdown,
        "ts": message.ts,
        "team": world.team_id,
    }
    if message.sender.is_bot:
        found |= {"bot_id": world.bot_id, "app_id": world.app_id}
    if message.thread is not None:
        found["thread_ts"] = message.thread
    if content.blocks:
        found["blocks"] = list(content.blocks)
    if content.files:
        found["files"] = [file_object(file, base) for file in content.files]
    if len(message.versions) > 1:
        found["edited"] = {"user": message.sender.id, "ts": f"{message.versions[-1].at:.6f}"}
    if message.streams_until is not None:
        found["streaming_state"] = "in_progress" if message.is_streaming(now) else "completed"
    if with_metadata and message.metadata is not None:
        found["metadata"] = message.metadata
    return found


def has_replies(chat: SlackChat, ts: str) -> bool:
    """Whether the message with this `ts` began a thread."""
    return any(message.thread == ts and message.deleted_at is None for message in chat.messages.values())
