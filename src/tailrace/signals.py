"""What the signals SIGINT and SIGTERM do, in every command and in programs that run for long.

The first signal asks the program to finish its work and stop. A later signal ends the process at once. Even then no
message is lost: the ledger has everything that the next process needs to continue, as after a kill.

Use everything here in the main thread, where Python runs signal handlers.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

STOPPING = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def handles_signals(
    handler: Callable[[int, FrameType | None], None], signals: tuple[signal.Signals, ...] = STOPPING
) -> Iterator[tuple[signal.Signals, ...]]:
    """Call `handler` for these signals while the block runs; afterwards restore the earlier handlers.

    A signal that the process ignores stays ignored: a script starts its background jobs with SIGINT ignored, so that
    Ctrl-C does not end them. Yields the signals that are handled.
    """
    caught = tuple(number for number in signals if signal.getsignal(number) is not signal.SIG_IGN)
    before = {number: signal.signal(number, handler) for number in caught}
    try:
        yield caught
    finally:
        for number in caught:
            signal.signal(number, before[number] or signal.SIG_DFL)


@contextmanager
def wakes_loop(signals: tuple[signal.Signals, ...]) -> Iterator[None]:
    """Let these signals wake the running loop while the block runs; their handlers stay as they are.

    Python runs a handler between two steps of its code. A signal that comes just before the loop begins to wait would
    otherwise be handled only when the loop wakes for another reason, which can take half a minute.
    """
    loop = asyncio.get_running_loop()
    caught = [number for number in signals if signal.getsignal(number) is not signal.SIG_IGN]
    for number in caught:
        handler = signal.getsignal(number)
        with suppress(NotImplementedError):  # on Windows
            loop.add_signal_handler(number, lambda: None)
        signal.signal(number, handler or signal.SIG_DFL)
    try:
        yield
    finally:
        for number in caught:
            handler = signal.getsignal(number)
            with suppress(NotImplementedError):
                loop.remove_signal_handler(number)
            signal.signal(number, handler or signal.SIG_DFL)


@contextmanager
def stops_on_signals(
    signals: tuple[signal.Signals, ...] = STOPPING, *, exit_after_s: float | None = None, last_words: str = ""
) -> Iterator[asyncio.Event]:
    """Yield an event that the first of these signals sets; the next signal ends the process. Needs a running loop.

    With `exit_after_s`, the process also ends that many seconds after the first signal, because code that hangs could
    delay the end for ever. Before the process ends in one of these ways, it writes `last_words` to standard error.
    """
    asked, loop = asyncio.Event(), asyncio.get_running_loop()

    def leave(*_: object) -> None:
        exit_at_once(1, last_words)

    def ask(*_: object) -> None:
        # Changed in the signal handler and not in the loop: the process must end even if the loop hangs.
        for number in caught:
            signal.signal(number, leave if last_words else signal.SIG_DFL)
        if exit_after_s is not None:
            exit_later(exit_after_s, 1, last_words)
        loop.call_soon_threadsafe(asked.set)

    with handles_signals(ask, signals) as caught, wakes_loop(caught):
        yield asked


class TurnStop:
    """Handles Ctrl-C while a turn of an agent runs.

    Each further press asks in a stronger way, because agents may ignore one.

    The first press sets the event `first`, the second sets `second`. If the loop has not handled a press when the next
    one comes, the agent blocks the loop. Then only a KeyboardInterrupt in the agent's own code can stop it, and one
    more press ends the process, as Python would do without this class.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.asked = False
        self.first = asyncio.Event()
        self.second = asyncio.Event()
        self._loop = loop
        self._is_pending = False

    def press(self, *_: object) -> None:
        """Handle SIGINT: one press of Ctrl-C."""
        if self._is_pending:
            stop_handling((signal.SIGINT,))
            raise KeyboardInterrupt
        self._is_pending = True
        urgency = self.second if self.asked else self.first
        self.asked = True
        self._loop.call_soon_threadsafe(self._set, urgency)

    def _set(self, urgency: asyncio.Event) -> None:
        self._is_pending = False
        urgency.set()


def stop_handling(signals: tuple[signal.Signals, ...] = STOPPING) -> None:
    """From now on these signals end the process, if they are not ignored."""
    for number in signals:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)


def exit_later(delay_s: float, exit_code: int, last_words: str = "") -> None:
    """End the process after `delay_s` seconds, unless it has ended before.

    Tasks and threads that hang cannot prevent this.
    """
    clock = threading.Timer(delay_s, exit_at_once, args=(exit_code, last_words))
    clock.daemon = True
    clock.start()


def exit_at_once(exit_code: int, last_words: str = "") -> NoReturn:
    """Write `last_words` to standard error and end the process, without waiting for anything."""
    if last_words:
        with suppress(OSError):
            os.write(2, f"tailrace: {last_words}\n".encode("utf-8", "replace"))
    os._exit(exit_code)
