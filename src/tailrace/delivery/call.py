"""Performs one operation on one channel: calls the right method with a deadline, and returns the outcome.

Other people write channels, so everything that a channel returns is checked here. An exception becomes an `Outcome`; a
result that is not a receipt becomes an error that names the channel. An exception that is not a `ChannelFault` counts
as ambiguous, and only its type is kept, because its message may contain secrets.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import msgspec

from tailrace.errors import AccessLost, ChannelFault, NotSent, SendRefused
from tailrace.operations import (
    Ambiguous,
    AppendStream,
    CloseStream,
    Delete,
    Delivered,
    Draft,
    Edit,
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
from tailrace.ports import Channel, Deletes, Edits, ReadsBack, SendsMedia, ShowsDrafts, ShowsTyping, StreamsNatively
from tailrace.redaction import redact
from tailrace.surrogates import replace_surrogates

if TYPE_CHECKING:
    from tailrace.deliveries import Delivery
    from tailrace.ports import Clock

_log = logging.getLogger(__name__)

ACCESS_RETRY_S = 60.0
"""How long to wait before the next call if the platform refused access to a chat or to the whole account."""
_GRACE_S = 1.0
_BLOCKED_S = 0.1


class PlatformCall:
    """A call that is under way: a durable operation with its key."""

    def __init__(self, channel: Channel, delivery: Delivery, deadline_s: float, clock: Clock) -> None:
        self._deadline_s = deadline_s
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._waiter: asyncio.Future[None] | None = None
        self._task = self._loop.create_task(self._perform(channel, delivery))

    async def _perform(self, channel: Channel, delivery: Delivery) -> Outcome:
        try:
            return await perform(channel, delivery.operation, delivery.key)
        except asyncio.CancelledError:
            return Ambiguous("the call was cancelled")
        finally:
            self._wake()

    async def wait(self) -> Outcome:
        """Wait for the answer until the deadline. If this wait is cancelled, the call itself goes on until `stop`."""
        began = self._clock.monotonic()
        await self._wait_within(self._deadline_s)
        if not self._task.done() and self._clock.monotonic() - began > self._deadline_s + _BLOCKED_S:
            # The event loop was blocked: the answer may have arrived, but the loop had no time to read it.
            await self._wait_within(_GRACE_S)
        if self._task.done():
            return self._task.result()
        self._task.cancel()
        return Ambiguous(f"no answer within {self._deadline_s:g} s")

    async def _wait_within(self, seconds: float) -> None:
        """Wait until the call has ended. This is cheaper than `asyncio.wait`, and every delivery waits here."""
        self._waiter = waiter = self._loop.create_future()
        timer = self._loop.call_later(seconds, self._wake)
        try:
            await waiter
        finally:
            timer.cancel()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def stop(self) -> Outcome:
        """Cancel the call and return its outcome."""
        self._task.cancel()
        await asyncio.wait({self._task}, timeout=_GRACE_S)
        has_outcome = self._task.done() and not self._task.cancelled()
        return self._task.result() if has_outcome else Ambiguous("the call was stopped")

    @property
    def late_answer(self) -> asyncio.Task[Outcome] | None:
        """The task of the call, if it still runs after the deadline: the answer may come late."""
        return None if self._task.done() else self._task


async def perform(channel: Channel, operation: Operation, key: str = "") -> Outcome:
    """Perform an operation. An error of the channel becomes an outcome."""
    done: Any = None
    try:
        match operation:
            case Post():
                done = await channel.post(operation, key=key)
            case PostMedia() if isinstance(channel, SendsMedia):
                done = await channel.post_media(operation, key=key)
            case Edit() if isinstance(channel, Edits):
                done = await channel.edit(operation)
            case Delete() if isinstance(channel, Deletes):
                done = await channel.delete(operation)
            case OpenStream() if isinstance(channel, StreamsNatively):
                done = await channel.open_stream(operation, key=key)
            case CloseStream() if isinstance(channel, StreamsNatively):
                done = await channel.close_stream(operation)
            case AppendStream() if isinstance(channel, StreamsNatively):
                await channel.append_stream(operation)
                done = Receipt(message_id=operation.stream_id)
            case Draft() if isinstance(channel, ShowsDrafts):
                await channel.draft(operation)
                done = Receipt(message_id=str(operation.draft_id))
            case Typing() if isinstance(channel, ShowsTyping):
                await channel.typing(operation)
                done = Receipt(message_id="")
            case _:
                return Refused(f"the channel {channel.name} cannot do this: {_tag(operation)}")
        return Delivered(_receipt(channel, operation, done))
    except Exception as error:  # noqa: BLE001 -- the channel's own code; the outcome contains the reason
        return outcome_of(error)


async def look_up(channel: ReadsBack, delivery: Delivery) -> Receipt | None:
    """Ask the channel whether a delivery arrived. An error of the channel is raised."""
    since = delivery.first_try_at if delivery.first_try_at is not None else delivery.created_at
    found: Any = await channel.find(delivery.operation.target, delivery.key, since)
    return None if found is None else _receipt(channel, None, found)


def _receipt(channel: Any, operation: Operation | None, result: object) -> Receipt:
    """Check that a channel returned a receipt that can be recorded. Without an operation, `find` returned it."""
    if not isinstance(result, Receipt):
        wrong = type(result).__name__
    elif type(result.message_id) is not str or type(result.degraded) is not str:
        wrong = "a receipt whose fields are not all strings"
    else:
        return msgspec.structs.replace(result, message_id=replace_surrogates(result.message_id))
    method = "find" if operation is None else _tag(operation)
    advice = "It must return Receipt(message_id=...) with the platform's id as a string."
    raise _WrongResult(f"the channel {channel.name!r} returned {wrong} from {method}. {advice}")


class _WrongResult(ChannelFault):
    """A method of a channel returned a value of a wrong type, so it is unknown whether the message was sent."""


def outcome_of(error: BaseException) -> Outcome:
    """The outcome of a call that raised this exception."""
    if not isinstance(error, ChannelFault):
        return Ambiguous(f"the channel raised {type(error).__name__}")  # not its text, which may contain a secret
    reason = replace_surrogates(redact(str(error)))
    match error:
        case SendRefused():
            return Refused(reason, gone=error.gone is True)
        case NotSent():
            wait = error.retry_after
            if wait is not None and not isinstance(wait, int | float):
                _log.warning("a channel raised NotSent with retry_after=%r; it must be a number of seconds", wait)
                wait = None
            return NotNow(reason, retry_after=wait, everywhere=error.everywhere is True)
        case AccessLost():
            _log.error("access is lost, and tried again in %g s: %s", ACCESS_RETRY_S, reason)
            return NotNow(reason, retry_after=ACCESS_RETRY_S, everywhere=error.everywhere is True)
        case _:
            if isinstance(error, _WrongResult):
                _log.error("%s", reason)
            return Ambiguous(reason)


def _tag(operation: Operation) -> str:
    return str(type(operation).__struct_config__.tag)
