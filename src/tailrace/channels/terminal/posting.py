"""Writes whole messages to a stream. A receipt means that the whole message is written.

An error says whether a part of the message was written. To know that, the writer does not use the buffer of the stream:
only the operating system returns the number of bytes that were written.
"""

from __future__ import annotations

import asyncio
import errno
import io
import os
from typing import TextIO

from tailrace.errors import ChannelFault, MaybeSent, NotSent, SendRefused

_RETRY_S = 0.02
# The reader has left, or the stream was closed: no later attempt can succeed.
_PERMANENT = {errno.EPIPE, errno.EBADF, errno.EIO, errno.ENXIO}


class MessageWriter:
    """Writes messages to `out`, one at a time."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._lock = asyncio.Lock()
        self._count = 0

    async def write(self, text: str) -> str:
        """Write the text out and return the number of the message.

        Raises `SendRefused` if the reader is gone for good, `NotSent` if nothing could be written now, and `MaybeSent`
        if only the beginning was written.
        """
        async with self._lock:
            descriptor = self._descriptor()
            if descriptor is None:
                self._out.write(text)
                self._out.flush()
            else:
                await _write_out(descriptor, text.encode(self._out.encoding or "utf-8", "backslashreplace"))
            self._count += 1
            return str(self._count)

    def _descriptor(self) -> int | None:
        """The descriptor to write to; None for a stream in memory."""
        if self._out.closed:
            raise SendRefused("the output is closed: no message can be written")
        try:
            self._out.flush()
            return self._out.fileno()
        except io.UnsupportedOperation:
            return None
        except OSError as error:
            raise _fault(error, written=0) from error


async def _write_out(descriptor: int, encoded: bytes) -> None:
    written = 0
    while written < len(encoded):
        try:
            written += os.write(descriptor, encoded[written:])
        except BlockingIOError:
            # Another process that shares the stream made it non-blocking: wait and try again.
            await asyncio.sleep(_RETRY_S)
        except OSError as error:
            raise _fault(error, written=written) from error


def _fault(error: OSError, *, written: int) -> ChannelFault:
    reason = error.strerror or type(error).__name__
    if written:
        return MaybeSent(f"the output ended in the middle of the message: {reason}")
    if error.errno in _PERMANENT:
        return SendRefused(f"the reader of the output has closed it: {reason}")
    return NotSent(f"the output takes nothing now: {reason}")
