"""What a worker of the trials has that others have not: points at which it halts, a quick clock, a watched channel."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from typing import TYPE_CHECKING

from kills.crash_points import CrashPoints
from tailrace.delivery.sender_context import SystemClock
from tailrace.testing.simulated import SimulatedChannel, SimulatedReadableChannel

if TYPE_CHECKING:
    from tailrace.operations import Body, Receipt, Target


class HaltingPoints(CrashPoints):
    """Points at one of which nothing goes on for a while.

    At `stop_at` the whole process stops, as by SIGSTOP, until somebody lets it go on. At `block_at` the thread that
    passes waits for a byte of its standard input, and with it all that this thread should do.
    """

    def __init__(self, *, stop_at: tuple[str, int] | None = None, block_at: tuple[str, int] | None = None) -> None:
        super().__init__()
        self._stop_at = stop_at
        self._block_at = block_at
        self._seen: Counter[str] = Counter()

    def reach(self, name: str) -> None:
        """This point is passed now; returns once it goes on."""
        self._seen[name] += 1
        if self._stop_at == (name, self._seen[name]):
            os.kill(os.getpid(), signal.SIGSTOP)
        if self._block_at == (name, self._seen[name]):
            os.read(0, 1)


class QuickClock(SystemClock):
    """A clock for which everything takes `rate` times as long as it does: margins of seconds are soon over."""

    def __init__(self, rate: float) -> None:
        self._rate = rate

    def monotonic(self) -> float:
        """Seconds since some moment, so many times too many."""
        return self._rate * super().monotonic()


class WatchedChannel(SimulatedChannel):
    """A channel that tells when an edit was made, so that a worker does not run ahead of what it shows in between."""

    def __init__(self, plain: SimulatedChannel) -> None:
        super().__init__(plain.address)
        self._edits: dict[str, asyncio.Event] = {}

    async def edit(self, target: Target, message_id: str, body: Body) -> Receipt:
        """Let the message say `body`."""
        try:
            return await super().edit(target, message_id, body)
        finally:
            self.next_edit(target.chat).set()

    def next_edit(self, chat: str) -> asyncio.Event:
        """What is set by the next edit there."""
        return self._edits.setdefault(chat, asyncio.Event())


class WatchedReadableChannel(WatchedChannel, SimulatedReadableChannel):
    """The same for a platform that can be asked what it has taken."""


def watched(plain: SimulatedChannel) -> WatchedChannel:
    """The channel, watched, with the powers it had."""
    return WatchedReadableChannel(plain) if isinstance(plain, SimulatedReadableChannel) else WatchedChannel(plain)
