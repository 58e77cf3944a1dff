"""Events from standard input: one JSON object per line, each given on as soon as its line is there.

A line may also be of a recording, which says when its event came: that is past, and of no use here.
A line that is no event fails the turn, as the contract has it, and what is wrong with it is kept with its number for
the person who can mend it.
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
# As `tailrace chat --record` writes it; an event itself begins with its type.
_RECORDED = re.compile(rb'^\s*\{"at":\s*[\d.e+-]+,\s*"event":\s*(\{.*\})\s*\}\s*$', re.DOTALL)
_CHUNKS_AHEAD = 16


class EventLines:
    """The events that come in.

    `count` is how many there were, `has_ended` whether the last of a turn was among them, and `problem` what is wrong
    with the first bad line.
    """

    def __init__(self) -> None:
        self.count = 0
        self.has_ended = False
        self.problem = ""
        self._line = 0

    async def events(self) -> AsyncGenerator[Event, None]:
        """Each event in turn; a line that is none is a `turn_failed`, and nothing is read behind it."""
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
        """Keep what is wrong with the line that came last, unless something was wrong before."""
        self.problem = self.problem or f"line {self._line} of the input: {diagnostic.message} [{diagnostic.code}]"


async def _lines(descriptor: int) -> AsyncGenerator[bytes, None]:
    """The lines of a file, a pipe or a keyboard; the last one may lack its end."""
    chunks: asyncio.Queue[bytes | OSError] = asyncio.Queue(_CHUNKS_AHEAD)
    # A thread of its own, because no event loop can wait for a file. It may be left behind in the middle of a read.
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
    # The loop may end before the input does; then nobody wants it any more.
    with suppress(RuntimeError, CancelledError):
        while chunk and not isinstance(chunk, OSError):
            try:
                # By its number: a reader of `sys.stdin` would hold a lock that the interpreter needs to end.
                chunk = os.read(descriptor, _CHUNK)
            except OSError as error:
                chunk = error
            if not loop.is_closed():
                asyncio.run_coroutine_threadsafe(chunks.put(chunk), loop).result()
