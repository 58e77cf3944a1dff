"""The faults of a platform that speaks HTTP: whether a call is performed, and how much of an answer arrives."""

from __future__ import annotations

import asyncio
import math
import socket
import struct

from aiohttp import web

from tailrace.testing.faults import (
    Cut,
    Delayed,
    Fault,
    Late,
    LoseAccess,
    NoAnswer,
    Refuse,
    Reset,
    ServerError,
    SlowBody,
    TooMany,
    Unreachable,
)

_SLOW_PIECES = 10


def is_performed(fault: Fault | None) -> bool:
    """Whether the platform performs a call to which this fault applies."""
    if isinstance(fault, ServerError | Reset | Cut | NoAnswer):
        return fault.applied
    return not isinstance(fault, Refuse | LoseAccess | TooMany | Unreachable)


def is_silent(fault: Fault | None) -> bool:
    """Whether the caller gets no complete answer."""
    if isinstance(fault, Late):
        return not fault.answered
    return isinstance(fault, Unreachable | Reset | Cut | NoAnswer)


async def send_bytes(
    request: web.Request, status: int, content: bytes, headers: dict[str, str], fault: Fault | None
) -> web.StreamResponse:
    """Send this answer, changed as the fault says: late, in small pieces, only half of it, or not at all."""
    if isinstance(fault, Unreachable | Reset):
        _reset(request)
    elif isinstance(fault, NoAnswer | Late) and is_silent(fault):
        await asyncio.Event().wait()  # until the caller leaves, which cancels this
    elif isinstance(fault, Cut | SlowBody):
        response = web.StreamResponse(status=status, headers={**headers, "Content-Length": str(len(content))})
        await response.prepare(request)
        if isinstance(fault, Cut):
            await response.write(content[: len(content) // 2])
            _close(request)
            return response
        size = max(1, math.ceil(len(content) / _SLOW_PIECES))
        for begin in range(0, len(content), size):
            await asyncio.sleep(fault.by_s / _SLOW_PIECES)
            await response.write(content[begin : begin + size])
        await response.write_eof()
        return response
    elif isinstance(fault, Delayed):
        await asyncio.sleep(fault.by_s)
    return web.Response(status=status, body=content, headers=headers)


def _reset(request: web.Request) -> None:
    if request.transport is not None:
        linger = struct.pack("ii", 1, 0)  # with a linger time of zero, closing sends RST
        request.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        request.transport.abort()


def _close(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.close()
