"""Performs one operation with one channel: calls the right method, and turns what it raises into an `Outcome`.

An exception that is not a `ChannelFault` counts as ambiguous. Only its type is kept, because its message may contain
secrets.
"""

from __future__ import annotations

from tailrace.errors import ChannelFault, MaybeSent, NotSent, SendRefused
from tailrace.operations import (
    Ambiguous,
    AppendStream,
    CloseStream,
    Delete,
    Draft,
    Durable,
    Edit,
    Interim,
    NotNow,
    OpenStream,
    Operation,
    Outcome,
    Post,
    PostMedia,
    Receipt,
    Refused,
    Typing,
)
from tailrace.ports import Channel, Deletes, Edits, SendsMedia, ShowsDrafts, ShowsTyping, StreamsNatively


async def perform(channel: Channel, operation: Durable, key: str) -> Receipt:
    """Perform a durable operation. Raises what the channel raises, and `SendRefused` if the channel cannot do it."""
    target = operation.target
    match operation:
        case Post():
            return await channel.post(target, operation.body, key=key)
        case PostMedia() if isinstance(channel, SendsMedia):
            return await channel.post_media(target, operation, key=key)
        case Edit() if isinstance(channel, Edits):
            return await channel.edit(target, operation.message_id, operation.body)
        case Delete() if isinstance(channel, Deletes):
            return await channel.delete(target, operation.message_id)
        case OpenStream() if isinstance(channel, StreamsNatively):
            return await channel.open_stream(target, operation.body, key=key)
        case CloseStream() if isinstance(channel, StreamsNatively):
            return await channel.close_stream(target, operation.stream_id, operation.body, operation.tasks)
    raise _unsupported(channel, operation)


async def perform_interim(channel: Channel, operation: Interim) -> Receipt:
    """Perform an interim operation. Raises as `perform` does."""
    target = operation.target
    match operation:
        case Edit() if isinstance(channel, Edits):
            return await channel.edit(target, operation.message_id, operation.body)
        case AppendStream() if isinstance(channel, StreamsNatively):
            await channel.append_stream(target, operation.stream_id, operation.text, operation.tasks)
            return Receipt(message_id=operation.stream_id)
        case Draft() if isinstance(channel, ShowsDrafts):
            await channel.draft(target, operation.draft_id, operation.body)
            return Receipt(message_id=str(operation.draft_id))
        case Typing() if isinstance(channel, ShowsTyping):
            await channel.typing(target)
            return Receipt(message_id="")
    raise _unsupported(channel, operation)


def _unsupported(channel: Channel, operation: Operation) -> SendRefused:
    return SendRefused(f"the channel {channel.name} cannot do this: {type(operation).__name__}")


def outcome_of(error: BaseException) -> Outcome:
    """The outcome of a call that raised this exception."""
    match error:
        case SendRefused():
            return Refused(str(error), gone=error.gone)
        case NotSent():
            return NotNow(str(error), retry_after=error.retry_after, everywhere=error.everywhere)
        case MaybeSent() | ChannelFault():
            return Ambiguous(str(error))
        case _:
            return Ambiguous(f"the channel raised {type(error).__name__}")
