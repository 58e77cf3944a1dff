"""What a channel is asked to do, and the outcome.

An operation is a value that a channel performs: a `target`, what to do there, and the rendered `Body`.
`tailrace.markdown` makes the bodies, so a channel does not need to know Markdown. The channel answers with a `Receipt`.
An `Outcome` is what is known after the call, also if no answer came.

`Durable` operations are recorded before and after they are performed. `Interim` operations (edits of a message that is
still being written, drafts, typing) are not recorded, because the next one shows everything that the last one showed.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec


class Entity(msgspec.Struct, frozen=True, kw_only=True):
    """The style of one range of the text, for platforms that take styles as a list. Offsets count UTF-16 units."""

    type: str
    offset: int
    length: int
    url: str | None = None
    language: str | None = None


class Button(msgspec.Struct, frozen=True, kw_only=True):
    """A button below a message. A press arrives as a `ButtonPress` with the same `value`, at most 64 bytes."""

    label: str
    value: str


class Body(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A rendered message: its text, and other forms and parts that platforms accept.

    `html` and `markdown` are other forms of the same message; where they cannot be shown, the platform shows `text`. An
    edit replaces the `buttons` too: an edit without buttons removes them.
    """

    text: str
    entities: tuple[Entity, ...] = ()
    html: str | None = None
    markdown: str | None = None
    buttons: tuple[Button, ...] = ()


class Target(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where to send: a chat of a channel, and its thread if there is one. `group`: the chat has several people."""

    channel: str
    chat: str
    thread: str | None = None
    group: bool = False

    @classmethod
    def of_source(cls, channel: str, source_id: str) -> Target:
        """The target of a source id: `{chat}`, or `{chat}--{thread}`."""
        chat, _, thread = source_id.partition("--")
        return cls(channel=channel, chat=chat, thread=thread or None)

    @property
    def conversation(self) -> str:
        """The name of the conversation: `channel:chat` or `channel:chat#thread`. No two conversations share a name.

        In the names of channel and chat, `%` and the separator that follows the name are percent-encoded.
        """
        channel, chat = self.channel, self.chat
        if "%" in channel or ":" in channel:
            channel = channel.replace("%", "%25").replace(":", "%3A")
        if "%" in chat or "#" in chat:
            chat = chat.replace("%", "%25").replace("#", "%23")
        return f"{channel}:{chat}" if self.thread is None else f"{channel}:{chat}#{self.thread}"


class Task(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One step of the work, for platforms that show steps of their own beside the text."""

    id: str
    title: str
    status: Literal["pending", "in_progress", "complete", "error"] = "in_progress"
    details: str = ""


class Receipt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The platform's confirmation of an operation. If a part of it had to be left out, `degraded` says which."""

    message_id: str
    degraded: str = ""


class _Operation(msgspec.Struct, frozen=True, kw_only=True, tag_field="do", omit_defaults=True):
    """Base of all operations. `target` says in which chat the operation is performed."""

    target: Target


class Post(_Operation, frozen=True, kw_only=True, tag="post"):
    """Send a new message. If `reply_to` is set, it is a reply to that message.

    `is_processing`: this is the processing message (what the agent is doing), not a part of the answer. `degraded` is
    set if the message replaces an operation that failed: it says what people lose by that, and the receipt repeats it.
    """

    body: Body
    reply_to: str | None = None
    degraded: str = ""
    is_processing: bool = msgspec.field(name="aside", default=False)  # its key in ledgers


class PostMedia(_Operation, frozen=True, kw_only=True, tag="post_media"):
    """Send a picture, a sound or a file as a new message, from a `url` or from a `path` on this machine.

    The caption is rendered, as a `Body` is; `entities` are the styles of its ranges.
    """

    url: str | None = None
    path: str | None = None
    mime: str = ""
    caption: str = ""
    entities: tuple[Entity, ...] = ()


class Edit(_Operation, frozen=True, kw_only=True, tag="edit"):
    """Replace the whole body of a message."""

    message_id: str
    body: Body


class Delete(_Operation, frozen=True, kw_only=True, tag="delete"):
    """Delete a message. If the message does not exist any more, the deletion counts as successful."""

    message_id: str


class OpenStream(_Operation, frozen=True, kw_only=True, tag="open_stream"):
    """Open a message to which text can be appended; the receipt's id is the id of the stream."""

    body: Body


class AppendStream(_Operation, frozen=True, kw_only=True, tag="append_stream"):
    """Append text to an open stream, and show tasks that are new or changed."""

    stream_id: str
    text: str = ""
    tasks: tuple[Task, ...] = ()


class CloseStream(_Operation, frozen=True, kw_only=True, tag="close_stream"):
    """Close a stream; its message then has this body. If the stream is already closed, edit its message instead."""

    stream_id: str
    body: Body
    tasks: tuple[Task, ...] = ()


class Draft(_Operation, frozen=True, kw_only=True, tag="draft"):
    """Show for a while a text that is not a message yet. A new draft with the same `draft_id` replaces the old one."""

    draft_id: int
    body: Body


class Typing(_Operation, frozen=True, kw_only=True, tag="typing"):
    """Show for a while that an answer is being written."""


Durable: TypeAlias = Post | PostMedia | Edit | Delete | OpenStream | CloseStream
Interim: TypeAlias = Edit | AppendStream | Draft | Typing
Operation: TypeAlias = Durable | Interim

_DURABLE_DECODER: msgspec.json.Decoder[Durable] = msgspec.json.Decoder(Durable)
_ENCODER = msgspec.json.Encoder()


def encode_operation(operation: Durable) -> bytes:
    """The operation as JSON; equal operations give equal bytes."""
    # Into our own buffer: if memory runs out while msgspec's buffer grows, msgspec crashes instead of raising.
    buffer = bytearray()
    _ENCODER.encode_into(operation, buffer)
    return bytes(buffer)


def decode_operation(encoded: bytes) -> Durable:
    """Decode an operation. Raises `msgspec.ValidationError` if the bytes are not an encoded operation."""
    return _DURABLE_DECODER.decode(encoded)


class Delivered(msgspec.Struct, frozen=True, tag_field="outcome", tag="delivered"):
    """The operation arrived, and the platform confirmed it."""

    receipt: Receipt


class Refused(msgspec.Struct, frozen=True, tag_field="outcome", tag="refused"):
    """The operation certainly did not arrive, and never will: the platform would refuse the same call again.

    `gone` is true if the platform refused because the message to change does not exist any more.
    """

    reason: str
    gone: bool = False


class NotNow(msgspec.Struct, frozen=True, tag_field="outcome", tag="not_now"):
    """The operation certainly did not arrive, and the same call may succeed later.

    `retry_after`: the seconds to wait, if the platform names them; such a try does not count as an attempt.
    `everywhere`: all chats must wait, not only this one.
    """

    reason: str
    retry_after: float | None = None
    everywhere: bool = False


class Ambiguous(msgspec.Struct, frozen=True, tag_field="outcome", tag="ambiguous"):
    """The operation may have arrived: the call began, and no reliable answer came."""

    reason: str


Outcome: TypeAlias = Delivered | Refused | NotNow | Ambiguous
