"""What Slack sends about people: events, presses of buttons, slash commands. Only the fields in use are decoded."""

from __future__ import annotations

from typing import Any

import msgspec


class EventFile(msgspec.Struct, frozen=True):
    """A file of a message."""

    id: str
    name: str | None = None
    mimetype: str = ""
    size: int | None = None


class ChatEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event of the Events API. The fields depend on `type` and `subtype`."""

    type: str
    subtype: str = ""
    channel: Any = ""
    channel_type: str = ""
    user: Any = ""
    bot_id: str | None = None
    text: str | None = None
    ts: str = ""
    thread_ts: str | None = None
    parent_user_id: str | None = None
    user_team: str | None = None
    team: str | None = None
    files: tuple[EventFile, ...] = ()
    message: ChatEvent | None = None
    previous_message: ChatEvent | None = None
    old_channel_id: str = ""
    new_channel_id: str = ""
    event_ts: str = ""


class Authorization(msgspec.Struct, frozen=True):
    """An installation of the app that may see the event."""

    enterprise_id: str | None = None
    team_id: str | None = None


class EventPayload(msgspec.Struct, frozen=True, kw_only=True):
    """An event with its id. `challenge` is set if Slack asks for a proof of the address."""

    type: str
    event_id: str = ""
    event: ChatEvent | None = None
    team_id: str | None = None
    enterprise_id: str | None = None
    authorizations: tuple[Authorization, ...] = ()
    challenge: str = ""


class _Named(msgspec.Struct, frozen=True):
    id: str = ""
    name: str = ""
    username: str = ""
    team_id: str | None = None


class PressContainer(msgspec.Struct, frozen=True):
    """Where the pressed button is."""

    message_ts: str = ""
    channel_id: str = ""
    thread_ts: str | None = None


class PressedMessage(msgspec.Struct, frozen=True):
    """The message with the pressed button."""

    thread_ts: str | None = None


class PressAction(msgspec.Struct, frozen=True):
    """The button."""

    action_id: str = ""
    value: str | None = None
    action_ts: str = ""


class InteractionPayload(msgspec.Struct, frozen=True, kw_only=True):
    """A press of a button."""

    type: str
    user: _Named = _Named()
    team: _Named | None = None
    enterprise: _Named | None = None
    channel: _Named | None = None
    container: PressContainer = PressContainer()
    message: PressedMessage | None = None
    actions: tuple[PressAction, ...] = ()
    trigger_id: str = ""


class CommandPayload(msgspec.Struct, frozen=True, kw_only=True):
    """A slash command."""

    command: str
    channel_id: str
    user_id: str
    text: str = ""
    user_name: str = ""
    channel_name: str = ""
    team_id: str | None = None
    enterprise_id: str | None = None
    trigger_id: str = ""


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """A frame of Socket Mode."""

    type: str
    envelope_id: str = ""
    payload: msgspec.Raw = msgspec.Raw(b"null")
    reason: str = ""
