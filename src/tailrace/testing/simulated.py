"""Channels to a simulated platform: one over TCP to its process, one to a platform in the same process.

Both have all optional protocols of channels, but `ReadsBack` only if the platform can look up a key. `_receipt`
translates answers to receipts and errors by their status; `_FAILURES` has the errors for calls without a complete
answer. A channel has no deadline: its caller has one.

As an entry point, `simulated_channel` reads the address of its platform from the setting `TAILRACE_SIMULATOR`. This is
JSON such as `{"port": 4000, "capabilities": {"idempotency": {"kind": "keyed", "window_s": 300}}}`, and
`tailrace.testing.platform_process.PlatformProcess.environment` gives it.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import msgspec

from tailrace.capabilities import Capabilities, Keyed, Readback
from tailrace.errors import AccessLost, ChannelFault, LedgerUnavailable, MaybeSent, NotSent, SendRefused, UsageError
from tailrace.operations import Delete, Edit, Receipt, Typing
from tailrace.testing.wire import (
    GONE,
    NO_ACCESS,
    NOT_MODIFIED,
    TOO_MANY,
    Absent,
    Acknowledge,
    Answer,
    Arrived,
    Denied,
    Done,
    Ending,
    Find,
    Poll,
    Request,
)

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from tailrace.inbound import ButtonPress
    from tailrace.operations import AppendStream, CloseStream, Draft, OpenStream, Operation, Post, PostMedia, Target
    from tailrace.ports import Clock, Inbox
    from tailrace.testing.platform import SimulatedPlatform

LONGEST_LINE = 64 * 1024 * 1024
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.05, 2.0

_ENCODER = msgspec.json.Encoder()
_ANSWERS: msgspec.json.Decoder[Answer] = msgspec.json.Decoder(Answer)

# The error for a call that ends without a complete answer.
_FAILURES: dict[Ending, tuple[type[ChannelFault], str]] = {
    "unreachable": (NotSent, "the platform could not be reached"),
    "reset": (MaybeSent, "the connection was reset before the answer came"),
    "cut": (MaybeSent, "the answer was cut"),
}


class SimulatorAddress(msgspec.Struct, frozen=True, kw_only=True):
    """Where a platform listens, and the capabilities of its channel."""

    port: int
    capabilities: Capabilities
    host: str = "127.0.0.1"


class _Calls:
    """The methods of a channel to a simulated platform. A subclass sends the requests and polls to the platform."""

    name = "simulated"

    def __init__(self, capabilities: Capabilities) -> None:
        self.capabilities = capabilities
        self._scope = capabilities.idempotency.scope if isinstance(capabilities.idempotency, Keyed) else ""
        self._receiving: asyncio.Task[None] | None = None

    async def _ask(self, request: Request | Poll) -> Answer:
        raise NotImplementedError

    async def start(self, inbox: Inbox) -> None:
        """Begin to receive what people do."""
        self._receiving = asyncio.create_task(self._receive(inbox))

    async def stop(self) -> None:
        """Stop receiving. Sending still works, because it needs no connection."""
        if self._receiving is not None and not self._receiving.done():
            self._receiving.cancel()
            await asyncio.wait([self._receiving])

    async def wait_closed(self) -> None:
        """Wait until the channel receives no more events. If an error such as `AccessLost` is the reason, raise it."""
        if self._receiving is not None:
            await asyncio.wait([self._receiving])
            if not self._receiving.cancelled():
                self._receiving.result()

    async def _receive(self, inbox: Inbox) -> None:
        """Give the events to the inbox in their order. Each event is given again until it is recorded."""
        taken, wait_s = 0, _FIRST_WAIT_S
        while True:
            try:
                answer = await self._ask(Poll(taken))
                if isinstance(answer, Denied):
                    raise _denial(answer)
                assert isinstance(answer, Arrived), "a poll gets an event or a refusal"
                await inbox.receive(answer.inbound)
            except (NotSent, MaybeSent, LedgerUnavailable):
                await asyncio.sleep(wait_s)
                wait_s = min(2.0 * wait_s, _LONGEST_WAIT_S)
            else:
                taken, wait_s = answer.number, _FIRST_WAIT_S

    async def _perform(self, operation: Operation | Find | Acknowledge, key: str = "") -> Receipt:
        return _receipt(await self._ask(Request(operation=operation, key=key, scope=self._scope)), operation)

    async def post(self, op: Post, *, key: str) -> Receipt:
        """Send a new message."""
        return await self._perform(op, key)

    async def post_media(self, op: PostMedia, *, key: str) -> Receipt:
        """Send a file as a new message."""
        return await self._perform(op, key)

    async def edit(self, op: Edit) -> Receipt:
        """Replace the body of a message."""
        return await self._perform(op)

    async def delete(self, op: Delete) -> Receipt:
        """Delete a message."""
        return await self._perform(op)

    async def typing(self, op: Typing) -> None:
        """Show that an answer is being written."""
        await self._perform(op)

    async def open_stream(self, op: OpenStream, *, key: str) -> Receipt:
        """Start a message to which text can be appended."""
        return await self._perform(op, key)

    async def append_stream(self, op: AppendStream) -> None:
        """Append text to an open stream, and show the tasks of the agent."""
        await self._perform(op)

    async def close_stream(self, op: CloseStream) -> Receipt:
        """Close a stream. Its message then shows the body of the operation."""
        return await self._perform(op)

    async def draft(self, op: Draft) -> None:
        """Show a draft: a text that is not a message yet."""
        await self._perform(op)

    async def acknowledge(self, press: ButtonPress, text: str) -> None:
        """Show the person that the press of a button was received."""
        await self._perform(Acknowledge(target=press.target, event_id=press.event_id, text=text))


class _Finds(_Calls):
    """A channel that can also look up a message by its key."""

    async def find(self, target: Target, key: str, since: float) -> Receipt | None:  # noqa: ARG002  all are searched
        """Look up the message with this key."""
        find = Find(target=target)
        answer = await self._ask(Request(operation=find, key=key))
        return None if isinstance(answer, Absent) else _receipt(answer, find)


class SimulatedChannel(_Calls):
    """A channel over TCP, with one connection per call.

    During each call except typing, `on_step` is called with `send.before`, `send.written` (the request was written) and
    `send.answered`. A test can stop or kill the process at these points.
    """

    def __init__(self, address: SimulatorAddress) -> None:
        super().__init__(address.capabilities)
        self.address = address
        self.on_step: Callable[[str], None] | None = None

    async def start(self, inbox: Inbox) -> None:
        """Check the connection, then receive what people do. Raises `NotSent` if there is no connection."""
        _, writer = await self._connect()
        writer.transport.abort()
        await super().start(inbox)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        try:
            return await asyncio.open_connection(self.address.host, self.address.port, limit=LONGEST_LINE)
        except OSError as error:
            raise _failure("unreachable") from error

    async def _ask(self, request: Request | Poll) -> Answer:
        # Polls and typing depend on timers. If they were counted, the n-th call would be another one in each run.
        is_timed = isinstance(request, Poll) or isinstance(request.operation, Typing)
        on_step = None if is_timed else self.on_step
        if on_step is not None:
            on_step("send.before")
        reader, writer = await self._connect()
        try:
            writer.write(_ENCODER.encode(request) + b"\n")
            await writer.drain()
            if on_step is not None:
                on_step("send.written")
            line = await reader.readline()
        except ConnectionError as error:
            raise _failure("reset") from error
        finally:
            # `close` would wait until the buffer is sent. But after a cancelled call nothing may be left open.
            writer.transport.abort()
        if not line.endswith(b"\n"):
            raise _failure("cut")
        if on_step is not None:
            on_step("send.answered")
        return _ANSWERS.decode(line)


class SimulatedReadableChannel(SimulatedChannel, _Finds):
    """A channel over TCP whose platform can look up keys."""


class InProcessChannel(_Calls):
    """A channel to a platform in this process. A request takes `request_s` seconds to arrive, an answer `answer_s`.

    With a `source` of random numbers, each of these times is multiplied by a number from 0.5 to 1.5.
    """

    def __init__(
        self,
        platform: SimulatedPlatform,
        clock: Clock,
        *,
        request_s: float = 0.0,
        answer_s: float = 0.0,
        source: random.Random | None = None,
    ) -> None:
        super().__init__(platform.capabilities)
        self.platform = platform
        self._clock = clock
        self._latencies = request_s, answer_s
        self._source = source
        self._arrived = asyncio.Event()

    async def _wait_for_event(self, poll: Poll) -> Answer:
        self.platform.on_inbound.add(self._arrived.set)
        while (answer := self.platform.poll(poll.taken, self._clock.monotonic())) is None:
            self._arrived.clear()
            await self._arrived.wait()
        return answer

    async def _ask(self, request: Request | Poll) -> Answer:
        if isinstance(request, Poll):
            return await self._wait_for_event(request)
        request_s, answer_s = (
            seconds if self._source is None else seconds * self._source.uniform(0.5, 1.5) for seconds in self._latencies
        )
        await asyncio.sleep(request_s)
        reply = self.platform.handle(request, self._clock.monotonic())
        if reply.ending == "never":
            await asyncio.get_running_loop().create_future()
        if answer_s + reply.delay_s > 0.0:
            await asyncio.sleep(answer_s + reply.delay_s)
        if reply.ending != "whole":
            raise _failure(reply.ending)
        return reply.answer


class InProcessReadableChannel(InProcessChannel, _Finds):
    """A channel to a platform in this process that can look up keys."""


def simulated_channel(address: SimulatorAddress | None = None) -> SimulatedChannel:
    """Create the channel to a platform process. `address` is by default read from the setting `TAILRACE_SIMULATOR`.

    Raises `UsageError` if both are missing.
    """
    address = address or _address(os.environ.get("TAILRACE_SIMULATOR", ""))
    if isinstance(address.capabilities.idempotency, Readback):
        return SimulatedReadableChannel(address)
    return SimulatedChannel(address)


def in_process_channel(
    platform: SimulatedPlatform,
    clock: Clock,
    *,
    request_s: float = 0.0,
    answer_s: float = 0.0,
    source: random.Random | None = None,
) -> InProcessChannel:
    """Create the channel to a platform in this process. It has `ReadsBack` if the platform can look up keys."""
    readable = isinstance(platform.capabilities.idempotency, Readback)
    kind = InProcessReadableChannel if readable else InProcessChannel
    return kind(platform, clock, request_s=request_s, answer_s=answer_s, source=source)


def _address(setting: str) -> SimulatorAddress:
    try:
        return msgspec.json.decode(setting, type=SimulatorAddress)
    except msgspec.MsgspecError as error:
        raise UsageError(
            f"TAILRACE_SIMULATOR is not the address of a platform ({error}): set it to PlatformProcess.environment"
        ) from error


def _receipt(answer: Answer, operation: Operation | Find | Acknowledge) -> Receipt:
    """Convert the platform's answer to a receipt. Raises an error for an answer with a failure, by its HTTP status."""
    match answer:
        case Done():
            return Receipt(message_id=answer.message_id)
        case Denied(status=status) if status == NOT_MODIFIED and isinstance(operation, Edit):
            return Receipt(message_id=operation.message_id)
        case Denied(status=status) if status == GONE and isinstance(operation, Delete):
            return Receipt(message_id=operation.message_id)
        case Denied():
            raise _denial(answer)
        case _:
            raise MaybeSent("the answer of the platform does not belong to the call")


def _denial(denied: Denied) -> ChannelFault:
    status = denied.status
    if status == TOO_MANY:
        # A header that is not a number is ignored. The caller decides how long a wait it accepts.
        wait = denied.retry_after if isinstance(denied.retry_after, float | int) else None
        return NotSent(denied.reason, retry_after=wait, everywhere=denied.everywhere)
    if status == NO_ACCESS:
        return AccessLost(denied.reason, everywhere=denied.everywhere)
    if status == 503:
        return NotSent(denied.reason)
    if status >= 500:
        return MaybeSent(denied.reason)
    return SendRefused(denied.reason, gone=status == GONE)


def _failure(ending: Ending) -> ChannelFault:
    kind, reason = _FAILURES[ending]
    return kind(reason)
