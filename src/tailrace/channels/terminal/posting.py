"""Whole messages on a stream: each is written out before it counts, and one that is not says how much of it is there.

Written past the stream's own buffer, because only the operating system's count tells a message of which nothing went
out from one that was torn in the middle.
"""

from __future__ import annotations

import asyncio
import errno
import io
import os
from typing import TextIO

from tailrace.errors import ChannelFault, MaybeSent, NotSent, SendRefused

_LOOK_AGAIN_S = 0.02
# The reader has left, or the stream was closed: no later try reaches anybody.
_FOR_GOOD = {errno.EPIPE, errno.EBADF, errno.EIO, errno.ENXIO}


class Posts:
    """Messages for whoever reads `out`, one at a time."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._one_at_a_time = asyncio.Lock()
        self._count = 0

    async def write(self, text: str) -> str:
        """Write the text out; the number of the message.

        Raises `SendRefused` where nobody will read it, `NotSent` where nothing of it could be written now, and
        `MaybeSent` where only its beginning could.
        """
        async with self._one_at_a_time:
            descriptor = self._descriptor()
            if descriptor is None:
                self._out.write(text)
                self._out.flush()
            else:
                await _write_out(descriptor, text.encode(self._out.encoding or "utf-8", "backslashreplace"))
            self._count += 1
            return str(self._count)

    def _descriptor(self) -> int | None:
        """Where to write; None for a stream that lives in memory."""
        if self._out.closed:
            raise SendRefused("the output is closed: nobody can read it")
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
            # Whoever shares the stream has made it one that does not wait.
            await asyncio.sleep(_LOOK_AGAIN_S)
        except OSError as error:
            raise _fault(error, written=written) from error


def _fault(error: OSError, *, written: int) -> ChannelFault:
    reason = error.strerror or type(error).__name__
    if written:
        return MaybeSent(f"the output ended in the middle of the message: {reason}")
    if error.errno in _FOR_GOOD:
        return SendRefused(f"whoever read the output has left: {reason}")
    return NotSent(f"the output takes nothing now: {reason}")
