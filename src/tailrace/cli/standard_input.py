"""Reads events from standard input: one JSON object per line. Each event is yielded as soon as its line is complete.

A line may also be from a recording; its time is then ignored. If a line is not an event, the turn fails, and `problem`
has the reason and the line number.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import threading
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import TYPE_CHECKING

from tailrace.errors import ContractViolation, Diagnostic
from tailrace.events import Event, TurnCancelled, TurnCompleted, TurnFailed, decode_event

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

_CHUNK = 65_536
_MAX_CHUNKS_AHEAD = 16
# A line of `tailrace chat --record`. A line with only an event begins with the type of the event.
_RECORDED = re.compile(rb'^\s*\{"at":\s*[\d.e+-]+,\s*"event":\s*(\{.*\})\s*\}\s*$', re.DOTALL)


class EventLines:
    """The events that come on standard input.

    `count` is how many events were read so far, `end` the terminal event if it was read, and `problem` the error in the
    first wrong line.
    """

    def __init__(self) -> None:
        self.count = 0
        self.end: TurnCompleted | TurnFailed | TurnCancelled | None = None
        self.problem = ""
        self._line = 0

    async def events(self) -> AsyncGenerator[Event, None]:
        """Read the events. A line that is not an event becomes a `turn_failed`, and reading stops."""
        try:
            async for line in _lines(sys.stdin.fileno()):
                self._line += 1
                if not line.strip():
                    continue
                event = decode_event(_RECORDED.sub(rb"\1", line))
                self.count += 1
                if self.end is None and isinstance(event, TurnCompleted | TurnFailed | TurnCancelled):
                    self.end = event
                yield event
        except ContractViolation as violation:
            self.refuse(violation.diagnostic)
            yield TurnFailed(code=violation.diagnostic.code, message=violation.diagnostic.message)
        except OSError as error:
            self.problem = self.problem or f"standard input cannot be read: {error.strerror}."

    def refuse(self, diagnostic: Diagnostic) -> None:
        """Store in `problem` why the contract refuses the present line. The first problem stays."""
        self.problem = self.problem or f"line {self._line} of the input: {diagnostic.message} [{diagnostic.code}]"


async def _lines(descriptor: int) -> AsyncGenerator[bytes, None]:
    """The lines of an open file, pipe or keyboard, each as soon as it is complete. The last one needs no line end."""
    chunks: asyncio.Queue[bytes | OSError] = asyncio.Queue(_MAX_CHUNKS_AHEAD)
    # A thread reads, because an event loop cannot wait for a file. A daemon thread does not keep the process alive.
    threading.Thread(target=_pump, args=(descriptor, asyncio.get_running_loop(), chunks), daemon=True).start()
    pieces: list[bytes] = []
    while chunk := await chunks.get():
        if isinstance(chunk, OSError):
            raise chunk
        first, *others = chunk.split(b"\n")
        pieces.append(first)
        for other in others:
            yield b"".join(pieces)
            pieces = [other]
    if last := b"".join(pieces):
        yield last


def _pump(descriptor: int, loop: asyncio.AbstractEventLoop, chunks: asyncio.Queue[bytes | OSError]) -> None:
    chunk: bytes | OSError = b"begin"
    # The loop may end before the input does.
    with suppress(RuntimeError, CancelledError):
        while chunk and not isinstance(chunk, OSError):
            try:
                # Not through `sys.stdin`: its reader holds a lock that the interpreter needs in order to exit.
                chunk = os.read(descriptor, _CHUNK)
            except OSError as error:
                chunk = error
            if not loop.is_closed():
                asyncio.run_coroutine_threadsafe(chunks.put(chunk), loop).result()
