"""What a channel is asked to do, and what comes of it.

An operation is a value that something else performs: where (`target`), what, and the rendered `Body` that leaves
the process, made by `tailrace.markdown` and sent by a channel that needs to know nothing about Markdown. What a
channel answers is a `Receipt`; what is known after the call is an `Outcome`.

`Durable` operations are written down before and after they are performed. `Interim` ones (the edits of a message
that is still being written, drafts, typing) are not: the latest wins, and losing one loses nothing.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec


class Entity(msgspec.Struct, frozen=True, kw_only=True):
    """A style over a range of a body's text, for platforms that take styles beside the text; offsets are UTF-16."""

    type: str
    offset: int
    length: int
    url: str | None = None
    language: str | None = None


class Body(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message as one platform takes it: its text, and the styles or another form where the platform has them apart.

    `html` and `markdown` say the same as `text`, for platforms that take it so and fall back to the text.
    """

    text: str
    entities: tuple[Entity, ...] = ()
    html: str | None = None
    markdown: str | None = None


class Target(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where to: a chat of a channel, and the thread in it where there is one; `group` where several people are."""

    channel: str
    chat: str
    thread: str | None = None
    group: bool = False

    @property
    def conversation(self) -> str:
        """The name of the place: what is said there is said strictly in order."""
        return f"{self.channel}:{self.chat}" if self.thread is None else f"{self.channel}:{self.chat}#{self.thread}"


class Task(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One step of the work beside the text, for platforms that show steps on their own."""

    id: str
    title: str
    status: Literal["pending", "in_progress", "complete", "error"] = "in_progress"
    details: str = ""


class Receipt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The platform's word that something is there; `degraded` says what was given up to get it there, if anything."""

    message_id: str
    degraded: str = ""


class _Operation(msgspec.Struct, frozen=True, kw_only=True, tag_field="do", omit_defaults=True):
    """What all operations have: where."""

    target: Target


class Post(_Operation, frozen=True, kw_only=True, tag="post"):
    """A new message. `aside`: it shows how the work goes on, and is no part of the answer."""

    body: Body
    is_processing: bool = msgspec.field(name="aside", default=False)  # the name in ledgers


class PostMedia(_Operation, frozen=True, kw_only=True, tag="post_media"):
    """A picture, a sound or a file as a new message: at a `url`, or at a `path` on this machine."""

    url: str | None = None
    path: str | None = None
    mime: str = ""
    caption: str = ""


class Edit(_Operation, frozen=True, kw_only=True, tag="edit"):
    """Another body in place of all that the message said."""

    message_id: str
    body: Body


class Delete(_Operation, frozen=True, kw_only=True, tag="delete"):
    """The message is taken away; one that is gone already is deleted."""

    message_id: str


class OpenStream(_Operation, frozen=True, kw_only=True, tag="open_stream"):
    """A new message that the platform itself lets grow; the receipt's id is the stream's."""

    body: Body


class AppendStream(_Operation, frozen=True, kw_only=True, tag="append_stream"):
    """More text at the end of an open stream, and steps that are new or have another state."""

    stream_id: str
    text: str = ""
    tasks: tuple[Task, ...] = ()


class CloseStream(_Operation, frozen=True, kw_only=True, tag="close_stream"):
    """The stream ends as a message that says all of `body`; one that is closed already is set to it."""

    stream_id: str
    body: Body
    tasks: tuple[Task, ...] = ()


class Draft(_Operation, frozen=True, kw_only=True, tag="draft"):
    """What is being written, shown for a while as no message yet; the same `draft_id` again replaces it."""

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
    # Into a buffer of ours: where memory ends while its own one grows, msgspec crashes instead of raising.
    buffer = bytearray()
    _ENCODER.encode_into(operation, buffer)
    return bytes(buffer)


def decode_operation(encoded: bytes) -> Durable:
    """The operation that was encoded. Raises `msgspec.ValidationError` for anything else."""
    return _DURABLE_DECODER.decode(encoded)


class Delivered(msgspec.Struct, frozen=True, tag_field="outcome", tag="delivered"):
    """It is there, and this is the platform's word for it."""

    receipt: Receipt


class Refused(msgspec.Struct, frozen=True, tag_field="outcome", tag="refused"):
    """It is surely not there and never will be: the same call would be refused again.

    `gone` is true where the message it was about is not there any more, and only that is wrong.
    """

    reason: str
    gone: bool = False


class NotNow(msgspec.Struct, frozen=True, tag_field="outcome", tag="not_now"):
    """It is surely not there, and the same call may succeed later: after `retry_after` seconds where they were told.

    `everywhere` is true where the platform meant the whole channel, not this chat alone.
    """

    reason: str
    retry_after: float | None = None
    everywhere: bool = False


class Ambiguous(msgspec.Struct, frozen=True, tag_field="outcome", tag="ambiguous"):
    """It may be there: the call began, and no answer came that can be relied on."""

    reason: str


Outcome: TypeAlias = Delivered | Refused | NotNow | Ambiguous
