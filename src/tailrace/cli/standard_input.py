"""Reads events from standard input: one JSON object per line, each yielded as soon as its line is complete.

A line may come from a recording: its time is ignored. A line that is not an event fails the turn; `problem` then holds
the reason and the line number.
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
# As `tailrace chat --record` writes it; an event itself begins with its type.
_RECORDED = re.compile(rb'^\s*\{"at":\s*[\d.e+-]+,\s*"event":\s*(\{.*\})\s*\}\s*$', re.DOTALL)


class EventLines:
    """The events of the input.

    `count` is how many events were read, `has_ended` whether one of them was terminal, and `problem` what is wrong with
    the first bad line.
    """

    def __init__(self) -> None:
        self.count = 0
        self.has_ended = False
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
                self.has_ended = self.has_ended or isinstance(event, TurnCompleted | TurnFailed | TurnCancelled)
                yield event
        except ContractViolation as violation:
            self.refuse(violation.diagnostic)
            yield TurnFailed(code=violation.diagnostic.code, message=violation.diagnostic.message)
        except OSError as error:
            self.problem = self.problem or f"standard input cannot be read: {error.strerror}."
            raise

    def refuse(self, diagnostic: Diagnostic) -> None:
        """Store what is wrong with the current line, unless an earlier line was wrong."""
        self.problem = self.problem or f"line {self._line} of the input: {diagnostic.message} [{diagnostic.code}]"


async def _lines(descriptor: int) -> AsyncGenerator[bytes, None]:
    """The lines of a file, a pipe or a keyboard; the last one may lack its line end."""
    chunks: asyncio.Queue[bytes | OSError] = asyncio.Queue(_MAX_CHUNKS_AHEAD)
    # A thread, because an event loop cannot wait for a file. As a daemon it does not keep the process alive.
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
