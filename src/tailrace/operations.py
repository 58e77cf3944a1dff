"""What a channel is asked to do, and the outcome.

An operation is a value that a channel performs: a `target`, what to do there, and the rendered `Body`. Bodies are made
by `tailrace.markdown`; a channel sends them without knowing Markdown. The channel answers with a `Receipt`. What is
known after the call, with or without an answer, is an `Outcome`.

`Durable` operations are recorded before and after they are performed. `Interim` ones (edits of a message that is still
being written, drafts, typing) are not: the latest wins, and losing one loses nothing.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec


class Entity(msgspec.Struct, frozen=True, kw_only=True):
    """The style of a range of a body's text, for platforms that take styles as a list. Offsets count UTF-16 units."""

    type: str
    offset: int
    length: int
    url: str | None = None
    language: str | None = None


class Body(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A rendered message: its text, and what else the platform takes.

    `html` and `markdown` are other forms of the same message; the platform shows `text` where it cannot show them.
    """

    text: str
    entities: tuple[Entity, ...] = ()
    html: str | None = None
    markdown: str | None = None


class Target(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where to send: a chat of a channel, and its thread if there is one. `group`: the chat has several people."""

    channel: str
    chat: str
    thread: str | None = None
    group: bool = False

    @property
    def conversation(self) -> str:
        """The name of the conversation. Its operations are performed strictly in order."""
        return f"{self.channel}:{self.chat}" if self.thread is None else f"{self.channel}:{self.chat}#{self.thread}"


class Task(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One step of the work, for platforms that show steps of their own beside the text."""

    id: str
    title: str
    status: Literal["pending", "in_progress", "complete", "error"] = "in_progress"
    details: str = ""


class Receipt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The platform's confirmation of an operation; `degraded` says what was left out to get it through, if anything."""

    message_id: str
    degraded: str = ""


class _Operation(msgspec.Struct, frozen=True, kw_only=True, tag_field="do", omit_defaults=True):
    """The field that all operations have."""

    target: Target


class Post(_Operation, frozen=True, kw_only=True, tag="post"):
    """Send a new message. `is_processing`: it is the processing message, not part of the answer."""

    body: Body
    is_processing: bool = msgspec.field(name="aside", default=False)  # its key in ledgers


class PostMedia(_Operation, frozen=True, kw_only=True, tag="post_media"):
    """Send a picture, a sound or a file as a new message, from a `url` or from a `path` on this machine."""

    url: str | None = None
    path: str | None = None
    mime: str = ""
    caption: str = ""


class Edit(_Operation, frozen=True, kw_only=True, tag="edit"):
    """Replace the whole body of a message."""

    message_id: str
    body: Body


class Delete(_Operation, frozen=True, kw_only=True, tag="delete"):
    """Delete a message. If it does not exist any more, that counts as success."""

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
    """Close a stream as a message with this body. A stream that is closed already gets the body by an edit."""

    stream_id: str
    body: Body
    tasks: tuple[Task, ...] = ()


class Draft(_Operation, frozen=True, kw_only=True, tag="draft"):
    """Show for a while what is being written, before there is a message. The same `draft_id` again replaces it."""

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
    """The encoded operation. Raises `msgspec.ValidationError` for any other bytes."""
    return _DURABLE_DECODER.decode(encoded)


class Delivered(msgspec.Struct, frozen=True, tag_field="outcome", tag="delivered"):
    """The operation arrived, and the platform confirmed it."""

    receipt: Receipt


class Refused(msgspec.Struct, frozen=True, tag_field="outcome", tag="refused"):
    """The operation surely did not arrive and never will: the same call would be refused again.

    `gone`: only because the message does not exist any more.
    """

    reason: str
    gone: bool = False


class NotNow(msgspec.Struct, frozen=True, tag_field="outcome", tag="not_now"):
    """The operation surely did not arrive, and the same call may succeed later.

    `retry_after`: the seconds to wait, if the platform says so. `everywhere`: the platform means all chats, not only
    this one.
    """

    reason: str
    retry_after: float | None = None
    everywhere: bool = False


class Ambiguous(msgspec.Struct, frozen=True, tag_field="outcome", tag="ambiguous"):
    """The operation may have arrived: the call began, and no reliable answer came."""

    reason: str


Outcome: TypeAlias = Delivered | Refused | NotNow | Ambiguous
