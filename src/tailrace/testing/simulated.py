"""Channels to a simulated platform: one over a socket to its process, one that calls it in this process.

Both have every power the platform has, and `ReadsBack` only where the platform can be asked for a key. What comes of
a call is translated at one place: `_receipt` for answers, by their status; `_FAILURES` for everything that ends a call
without one. As an entry point, `simulated_channel` finds its platform by the setting `TAILRACE_SIMULATOR`, which
`tailrace.testing.platform_process.PlatformProcess.environment` gives: JSON such as
`{"port": 4000, "capabilities": {"idempotency": {"kind": "keyed", "window_s": 300}}}`.

A channel has no deadline of its own: whoever calls it has one.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import msgspec

from tailrace.capabilities import Capabilities, Keyed, Readback
from tailrace.errors import ChannelFault, MaybeSent, NotSent, SendRefused, UsageError
from tailrace.operations import (
    AppendStream,
    Body,
    CloseStream,
    Delete,
    Draft,
    Edit,
    OpenStream,
    Operation,
    Post,
    PostMedia,
    Receipt,
    Target,
    Task,
    Typing,
)
from tailrace.testing.wire import GONE, NOT_MODIFIED, TOO_MANY, Absent, Answer, Denied, Done, Ending, Find, Request

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from tailrace.ports import Clock, Inbox
    from tailrace.testing.platform import SimulatedPlatform

LONGEST_LINE = 64 * 1024 * 1024

_ENCODER = msgspec.json.Encoder()
_ANSWERS: msgspec.json.Decoder[Answer] = msgspec.json.Decoder(Answer)

# What is known when a call ends without an answer that can be relied on.
_FAILURES: dict[Ending, tuple[type[ChannelFault], str]] = {
    "unreachable": (NotSent, "the platform could not be reached"),
    "reset": (MaybeSent, "the connection was reset before the answer came"),
    "cut": (MaybeSent, "the answer was cut"),
}


class SimulatorAddress(msgspec.Struct, frozen=True, kw_only=True):
    """Where a platform listens, and what its channel declares."""

    port: int
    capabilities: Capabilities
    host: str = "127.0.0.1"


class _Calls:
    """Every call as an operation; how one is carried to the platform is left to the subclass."""

    name = "simulated"

    def __init__(self, capabilities: Capabilities) -> None:
        self.capabilities = capabilities
        self._scope = capabilities.idempotency.scope if isinstance(capabilities.idempotency, Keyed) else ""

    async def _ask(self, request: Request) -> Answer:
        raise NotImplementedError

    async def _do(self, operation: Operation, key: str = "") -> Receipt:
        return _receipt(await self._ask(Request(operation=operation, key=key, scope=self._scope)), operation)

    async def post(self, target: Target, body: Body, *, key: str) -> Receipt:
        """Show a new message."""
        return await self._do(Post(target=target, body=body), key)

    async def post_media(self, target: Target, media: PostMedia, *, key: str) -> Receipt:
        """Show it as a new message, with its caption."""
        return await self._do(msgspec.structs.replace(media, target=target), key)

    async def edit(self, target: Target, message_id: str, body: Body) -> Receipt:
        """Let the message say `body`."""
        return await self._do(Edit(target=target, message_id=message_id, body=body))

    async def delete(self, target: Target, message_id: str) -> Receipt:
        """Take the message away."""
        return await self._do(Delete(target=target, message_id=message_id))

    async def typing(self, target: Target) -> None:
        """Show that an answer is being written."""
        await self._do(Typing(target=target))

    async def open_stream(self, target: Target, body: Body, *, key: str) -> Receipt:
        """Begin a message that grows."""
        return await self._do(OpenStream(target=target, body=body), key)

    async def append_stream(self, target: Target, stream_id: str, text: str, tasks: tuple[Task, ...] = ()) -> None:
        """Add text at its end, and show the steps."""
        await self._do(AppendStream(target=target, stream_id=stream_id, text=text, tasks=tasks))

    async def close_stream(self, target: Target, stream_id: str, body: Body, tasks: tuple[Task, ...] = ()) -> Receipt:
        """End it, saying all of `body`."""
        return await self._do(CloseStream(target=target, stream_id=stream_id, body=body, tasks=tasks))

    async def draft(self, target: Target, draft_id: int, body: Body) -> None:
        """Show what is being written."""
        await self._do(Draft(target=target, draft_id=draft_id, body=body))


class _Finds(_Calls):
    """The power that only a platform has that keeps keys and shows them."""

    async def find(self, target: Target, key: str) -> Receipt | None:
        """The message posted with that key, if it is there."""
        find = Find(target=target)
        answer = await self._ask(Request(operation=find, key=key))
        return None if isinstance(answer, Absent) else _receipt(answer, find)


class SimulatedChannel(_Calls):
    """A channel over TCP, one connection per call.

    `on_step` is called around each call but typing with `send.before`, `send.written` (the request has left) and
    `send.answered`: a test can stop or kill the process there.
    """

    def __init__(self, address: SimulatorAddress) -> None:
        super().__init__(address.capabilities)
        self.address = address
        self.on_step: Callable[[str], None] | None = None

    async def start(self, inbox: Inbox) -> None:  # noqa: ARG002  nobody writes to this channel
        """Try the connection. Raises `NotSent` where there is none."""
        _, writer = await self._connect()
        writer.transport.abort()

    async def stop(self) -> None:
        """Nothing is held between calls."""

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        try:
            return await asyncio.open_connection(self.address.host, self.address.port, limit=LONGEST_LINE)
        except OSError as error:
            raise _failure("unreachable") from error

    async def _ask(self, request: Request) -> Answer:
        # Typing comes and goes with a timer: counting it would make the other passings hard to find again.
        on_step = None if isinstance(request.operation, Typing) else self.on_step
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
            # Not closed in good order: a call may be cancelled at any moment, and then nothing may linger.
            writer.transport.abort()
        if not line.endswith(b"\n"):
            raise _failure("cut")
        if on_step is not None:
            on_step("send.answered")
        return _ANSWERS.decode(line)


class SimulatedReadableChannel(SimulatedChannel, _Finds):
    """A channel over TCP whose platform can be asked what it has taken."""


class InProcessChannel(_Calls):
    """A channel that calls the platform where it stands; `request_s` and `answer_s` are how long each way takes.

    With a source of randomness each way takes between half and three halves of that.
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
        self._ways = request_s, answer_s
        self._source = source

    async def start(self, inbox: Inbox) -> None:
        """There is nothing to connect."""

    async def stop(self) -> None:
        """There is nothing to disconnect."""

    async def _ask(self, request: Request) -> Answer:
        there, back = (
            self._ways if self._source is None else [way * self._source.uniform(0.5, 1.5) for way in self._ways]
        )
        await asyncio.sleep(there)
        reply = self.platform.handle(request, self._clock.monotonic())
        if reply.ending == "never":
            await asyncio.get_running_loop().create_future()
        if back + reply.delay_s > 0.0:
            await asyncio.sleep(back + reply.delay_s)
        if reply.ending != "whole":
            raise _failure(reply.ending)
        return reply.answer


class InProcessReadableChannel(InProcessChannel, _Finds):
    """A channel in this process whose platform can be asked what it has taken."""


def simulated_channel(address: SimulatorAddress | None = None) -> SimulatedChannel:
    """The channel to a platform process: at this address, or at that of the setting `TAILRACE_SIMULATOR`.

    Raises `UsageError` where no platform is named.
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
    """The channel to a platform in this process, with the powers it has."""
    readable = isinstance(platform.capabilities.idempotency, Readback)
    kind = InProcessReadableChannel if readable else InProcessChannel
    return kind(platform, clock, request_s=request_s, answer_s=answer_s, source=source)


def _address(setting: str) -> SimulatorAddress:
    try:
        return msgspec.json.decode(setting, type=SimulatorAddress)
    except msgspec.MsgspecError as error:
        raise UsageError(f"TAILRACE_SIMULATOR names no platform ({error}): set it as its process says") from error


def _receipt(answer: Answer, operation: Operation | Find) -> Receipt:
    """What the platform's answer means. The statuses are those of HTTP."""
    match answer:
        case Done():
            return Receipt(message_id=answer.message_id)
        case Denied(status=status) if status == NOT_MODIFIED and isinstance(operation, Edit):
            return Receipt(message_id=operation.message_id)
        case Denied(status=status) if status == GONE and isinstance(operation, Delete):
            return Receipt(message_id=operation.message_id)
        case Denied(status=status):
            raise _denial(status, answer)
        case _:
            raise MaybeSent("the platform answered something else than was asked")


def _denial(status: int, denied: Denied) -> ChannelFault:
    if status == TOO_MANY:
        # A header that is no number says nothing; how long a number is believed is for the caller to say.
        wait = denied.retry_after if isinstance(denied.retry_after, float | int) else None
        return NotSent(denied.reason, retry_after=wait, everywhere=denied.everywhere)
    if status == 503:
        return NotSent(denied.reason)
    if status >= 500:
        return MaybeSent(denied.reason)
    return SendRefused(denied.reason, gone=status == GONE)


def _failure(ending: Ending) -> ChannelFault:
    kind, reason = _FAILURES[ending]
    return kind(reason)
