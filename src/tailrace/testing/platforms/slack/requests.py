"""The fields of the methods that send and edit messages. Fields that the simulator does not know are ignored."""

from __future__ import annotations

from typing import Any

import msgspec


class InChannel(msgspec.Struct, frozen=True, kw_only=True):
    """The base of calls that concern a channel or a direct message."""

    channel: str


class MessageCall(InChannel, frozen=True, kw_only=True):
    """The fields that all methods have that send or edit a message."""

    text: str = ""
    markdown_text: str | None = None
    blocks: list[dict[str, Any]] | None = None
    metadata: dict[str, Any] | None = None


class PostMessage(MessageCall, frozen=True, kw_only=True):
    """The fields of `chat.postMessage`."""

    thread_ts: str | None = None
    link_names: bool = False


class PostEphemeral(MessageCall, frozen=True, kw_only=True):
    """The fields of `chat.postEphemeral`."""

    user: str
    thread_ts: str | None = None


class ChangeMessage(MessageCall, frozen=True, kw_only=True):
    """The fields of `chat.update`."""

    ts: str


class MessageRef(InChannel, frozen=True, kw_only=True):
    """The fields of `chat.delete`."""

    ts: str


class StartStream(InChannel, frozen=True, kw_only=True):
    """The fields of `chat.startStream`."""

    thread_ts: str | None = None
    markdown_text: str | None = None
    chunks: list[dict[str, Any]] | None = None
    recipient_user_id: str | None = None
    recipient_team_id: str | None = None


class AppendToStream(InChannel, frozen=True, kw_only=True):
    """The fields of `chat.appendStream`."""

    ts: str
    markdown_text: str | None = None
    chunks: list[dict[str, Any]] | None = None


class StopStream(AppendToStream, frozen=True, kw_only=True):
    """The fields of `chat.stopStream`."""

    blocks: list[dict[str, Any]] | None = None
    metadata: dict[str, Any] | None = None


class SetStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of `assistant.threads.setStatus`. An empty status removes the shown one."""

    channel_id: str
    thread_ts: str
    status: str = ""


class Listing(InChannel, frozen=True, kw_only=True):
    """The fields of `conversations.history`, and with `ts` those of `conversations.replies`."""

    ts: str = ""
    oldest: str = "0"
    cursor: str = ""
    limit: int = 100
    include_all_metadata: bool = False


class Reaction(InChannel, frozen=True, kw_only=True):
    """The fields of `reactions.add` and `reactions.remove`."""

    timestamp: str
    name: str


class OfUser(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of `users.info`."""

    user: str


class OfFile(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of `files.info`."""

    file: str


class UploadUrl(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of `files.getUploadURLExternal`."""

    filename: str
    length: int


class CompleteUpload(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of `files.completeUploadExternal`."""

    files: list[dict[str, Any]]
    channel_id: str | None = None
    thread_ts: str | None = None
    initial_comment: str = ""


class Nothing(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of methods that take none."""
