"""Converts what Slack sends to inbound values: who wrote what, in which chat, and whether it is meant for the bot.

Pure. An answer stands in the thread of its message, so the thread of a message that is in none is the message itself.
"""

from __future__ import annotations

import re
from html import unescape
from typing import TYPE_CHECKING, Literal

import msgspec

from tailrace.inbound import Attachment, ButtonPress, Inbound, InboundMessage, InboundNotice, Sender
from tailrace.operations import Target

if TYPE_CHECKING:
    from tailrace.channels.slack.events import ChatEvent, CommandPayload, EventPayload, InteractionPayload

# Messages of people. All other subtypes tell of changes, such as that somebody has joined.
_OF_PEOPLE = frozenset({"", "file_share", "thread_broadcast", "me_message", "bot_message"})
_OF_MEMBERS = ("member_joined_channel", "member_left_channel")
_KINDS: dict[str, Literal["moved", "removed", "restored"]] = {
    "channel_id_changed": "moved",
    "channel_left": "removed",
    "group_left": "removed",
    "member_joined_channel": "restored",
    "member_left_channel": "removed",
}
_BRACKETED = re.compile(r"<([^\s<>|][^<>|]*)(?:\|([^<>]*))?>")
_COMMAND = re.compile(r"/(\w+)(?:\s+|$)")


class AppAccount(msgspec.Struct, frozen=True, kw_only=True):
    """The app that receives the events. `channel` is the name of its channel, `user_id` the id of its bot user.

    `team_id` is the workspace, `enterprise_id` the organisation if there is one.
    """

    channel: str
    user_id: str
    bot_id: str = ""
    team_id: str = ""
    enterprise_id: str | None = None
    is_enterprise_install: bool = False

    @property
    def id(self) -> str:
        """The id of the account. In a workspace, two apps have different bot users."""
        home = self.enterprise_id if self.is_enterprise_install and self.enterprise_id else self.team_id
        return f"{home}/{self.user_id}"

    def is_of(self, team_id: str | None, enterprise_id: str | None) -> bool:
        """Whether an event of this workspace or organisation is for this account.

        One app can be installed in many workspaces, and all their events come over the same connection.
        """
        if self.is_enterprise_install and enterprise_id:
            return enterprise_id == self.enterprise_id
        return team_id in (None, "", self.team_id)


def inbound_of_event(payload: EventPayload, app: AppAccount) -> Inbound | None:
    """Convert an event. Returns None for one to ignore, such as a message of the bot itself."""
    event = payload.event
    if event is None or not _is_for(payload, app):
        return None
    if event.type == "message" and event.subtype == "message_changed":
        return _edited(event, payload.event_id, app)
    if event.type in ("message", "app_mention"):
        return _message(event, event, app)
    return _notice(event, payload.event_id, app)


def inbound_of_press(payload: InteractionPayload, app: AppAccount) -> ButtonPress | None:
    """Convert a press of a button. Returns None for a button that this channel has not made."""
    team = payload.team.id if payload.team is not None else None
    enterprise = payload.enterprise.id if payload.enterprise is not None else None
    pressed = payload.actions[0] if payload.actions else None
    if pressed is None or not pressed.action_id.startswith("tailrace-") or pressed.value is None:
        return None
    if payload.type != "block_actions" or not app.is_of(team, enterprise):
        return None
    container = payload.container
    chat = container.channel_id or (payload.channel.id if payload.channel is not None else "")
    thread = container.thread_ts or (payload.message.thread_ts if payload.message is not None else None)
    return ButtonPress(
        channel=app.channel,
        account=app.id,
        event_id=f"press {container.message_ts} {payload.user.id} {pressed.action_ts or payload.trigger_id}",
        at=_seconds(pressed.action_ts),
        target=Target(channel=app.channel, chat=chat, thread=thread, group=not chat.startswith("D")),
        value=pressed.value,
        sender=Sender(id=payload.user.id, name=payload.user.name or payload.user.username),
        message_id=container.message_ts,
    )


def inbound_of_command(payload: CommandPayload, app: AppAccount) -> InboundMessage | None:
    """Convert a slash command. It belongs to no thread: Slack has no slash commands in threads."""
    if not app.is_of(payload.team_id, payload.enterprise_id):
        return None
    is_direct = payload.channel_id.startswith("D")
    return InboundMessage(
        channel=app.channel,
        account=app.id,
        event_id=f"command {payload.trigger_id}",
        target=Target(channel=app.channel, chat=payload.channel_id, group=not is_direct),
        text=plain_text(payload.text, app).strip(),
        command=payload.command.removeprefix("/"),
        sender=Sender(id=payload.user_id, name=payload.user_name),
    )


def plain_text(text: str, app: AppAccount) -> str:
    """The text as the person typed it: without the brackets of addresses and mentions, and with entities decoded."""
    return unescape(_BRACKETED.sub(lambda found: _typed(found[1], found[2], app), text))


def _typed(inside: str, label: str | None, app: AppAccount) -> str:
    if inside == f"@{app.user_id}":
        return ""
    if inside.startswith("!"):
        return label if label and label[0] in "@#" else f"@{label or inside[1:].partition('^')[0]}"
    if inside[:1] in ("@", "#"):
        return f"{inside[0]}{label}" if label else inside
    if not label or inside in (label, f"http://{label}", f"https://{label}", f"mailto:{label}"):
        return label or inside
    return f"{label} ({inside})"


def _is_for(payload: EventPayload, app: AppAccount) -> bool:
    if payload.authorizations:
        return any(app.is_of(each.team_id, each.enterprise_id) for each in payload.authorizations)
    return app.is_of(payload.team_id, payload.enterprise_id)


def _message(event: ChatEvent, message: ChatEvent, app: AppAccount) -> InboundMessage | None:
    """Convert a message. `event` is the event around it.

    The event id is made of the channel and the time stamp of the message: a mention arrives as two events, as a message
    and as a mention, and both must be one message. A repeated event has the same event id, too.
    """
    is_own = message.user == app.user_id or (app.bot_id and message.bot_id == app.bot_id)
    raw = message.text or ""
    attachments = _attachments(message)
    if is_own or message.subtype not in _OF_PEOPLE or not message.ts or not (raw.strip() or attachments):
        return None
    sender_id = str(message.user or message.bot_id or "")
    text = plain_text(raw, app)
    mentions = f"<@{app.user_id}>" in raw or f"<@{app.user_id}|" in raw
    text = text.strip() if mentions else text
    command = _COMMAND.match(text)
    is_direct = event.channel_type == "im" or str(event.channel).startswith("D")
    is_addressed = is_direct or mentions or event.type == "app_mention" or message.parent_user_id == app.user_id
    target = Target(
        channel=app.channel, chat=str(event.channel), thread=message.thread_ts or message.ts, group=not is_direct
    )
    return InboundMessage(
        channel=app.channel,
        account=app.id,
        event_id=f"{event.channel} {message.ts}",
        at=_seconds(message.ts),
        order=_order(message.ts),
        target=target,
        text=text[command.end() :] if command else text,
        command=command[1] if command else "",
        sender=Sender(id=sender_id, is_bot=message.bot_id is not None),
        attachments=attachments,
        message_id=message.ts,
        reply_to=message.thread_ts if message.thread_ts != message.ts else None,
        is_addressed=is_addressed,
    )


def _edited(event: ChatEvent, event_id: str, app: AppAccount) -> InboundMessage | None:
    """Convert an edit. Slack also reports one if only a preview of a link was added: then the text is the same."""
    before = event.previous_message
    if event.message is None or (before is not None and before.text == event.message.text):
        return None
    message = _message(event, event.message, app)
    if message is None:
        return None
    at = _seconds(event.ts)
    return msgspec.structs.replace(message, event_id=event_id, at=at, order=_order(event.ts), edited=True)


def _notice(event: ChatEvent, event_id: str, app: AppAccount) -> InboundNotice | None:
    """Convert a change of the chat. Returns None for all other events, and for those about other members."""
    kind = _KINDS.get(event.type)
    if kind is None or (event.type in _OF_MEMBERS and event.user != app.user_id):
        return None
    return InboundNotice(
        channel=app.channel,
        account=app.id,
        event_id=event_id,
        at=_seconds(event.event_ts),
        target=Target(channel=app.channel, chat=event.old_channel_id or str(event.channel), group=True),
        kind=kind,
        moved_to=event.new_channel_id,
    )


def _attachments(message: ChatEvent) -> tuple[Attachment, ...]:
    return tuple(
        Attachment(id=file.id, name=file.name or "", mime=file.mimetype, size=file.size) for file in message.files
    )


def _seconds(ts: str) -> float:
    try:
        return float(ts)
    except ValueError:
        return 0.0


def _order(ts: str) -> int | None:
    """A number that grows with the time stamp of a message: its microseconds."""
    whole, _, rest = ts.partition(".")
    is_stamp = whole.isdecimal() and rest.isdecimal() and len(whole) < 12 and len(rest) == 6
    return int(whole + rest) if is_stamp else None


def target_of(source_id: str, channel: str) -> Target:
    """The target of a source id: `{channel_id}--{thread_ts}`, or `{channel_id}` alone."""
    chat, _, thread = source_id.partition("--")
    return Target(channel=channel, chat=chat, thread=thread or None, group=not chat.startswith("D"))
