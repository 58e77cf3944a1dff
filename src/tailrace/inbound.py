"""What people do on a channel: they write messages, press buttons, and change chats.

A channel makes these values from the events of its platform and gives them to its inbox. If the platform sends an event
twice, both have the same event id. The names of files and people come from strangers: use them as text, never as paths.
"""

from __future__ import annotations

import hashlib
from typing import Literal, TypeAlias

import msgspec

from tailrace.operations import Target


class Sender(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The person or bot that wrote a message or pressed a button. `id` is the platform's id, `name` is for people."""

    id: str
    name: str = ""
    is_bot: bool = False


class Attachment(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file of a message. The channel's method `fetch` loads it. `size` is in bytes, or None if it is not known."""

    id: str
    name: str = ""
    mime: str = ""
    size: int | None = None


class _Inbound(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type"):
    """The fields that all inbound events have.

    `account` names the bot account that got the event; the ids of events are unique within it. `at` is the platform's
    time, in seconds since 1970. `order` grows with each event of the account, if the platform numbers its events.
    """

    channel: str
    event_id: str
    target: Target
    account: str = ""
    at: float = 0.0
    order: int | None = None


class InboundMessage(_Inbound, frozen=True, kw_only=True, tag="message"):
    """A message to the agent.

    `message_id` is the platform's id. `edited`: the person has edited that message, and `text` is the new text.
    `reply_to` is the id of the message that this one answers. `is_addressed`: the message is meant for the bot (a
    private chat, a mention, a reply to the bot, a command). `command` is the word after the slash, without the bot's
    name; `text` then has the rest.
    """

    text: str
    sender: Sender = Sender(id="")
    attachments: tuple[Attachment, ...] = ()
    message_id: str = ""
    edited: bool = False
    reply_to: str | None = None
    is_addressed: bool = True
    command: str = ""

    @property
    def turn_id(self) -> str:
        """The id of the turn that answers the message. The same event always gives the same id."""
        name = f"{self.channel}\0{self.account}\0{self.event_id}".encode("utf-8", "surrogatepass")
        return hashlib.blake2b(name, digest_size=8).hexdigest()


class ButtonPress(_Inbound, frozen=True, kw_only=True, tag="press"):
    """A person pressed one of our buttons: the one with this `value`, below the message with this `message_id`."""

    value: str
    sender: Sender
    message_id: str = ""


class InboundNotice(_Inbound, frozen=True, kw_only=True, tag="notice"):
    """A change of the chat itself.

    moved      the platform gave the chat another id, `moved_to`
    removed    the bot was removed from the chat or blocked; nothing can be sent there
    restored   the bot was added to the chat again, or may write again
    """

    kind: Literal["moved", "removed", "restored"]
    moved_to: str = ""


Inbound: TypeAlias = InboundMessage | ButtonPress | InboundNotice
