"""Notices that some code blocks the event loop, and logs where.

While the loop is blocked nothing can be sent or answered, no timeout works, and no task can report the problem. So a
thread pings the loop again and again. If no answer comes in time, the thread logs the stack of the loop's thread, once
for each time that the loop is blocked.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import traceback
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Literal, Self

if TYPE_CHECKING:
    from types import TracebackType

_log = logging.getLogger(__name__)


class Watchdog:
    """Watches the running loop while the `with` block runs. The loop must answer a ping within `timeout_s`."""

    def __init__(self, *, timeout_s: float = 5.0) -> None:
        self._timeout_s = timeout_s
        self._signals: SimpleQueue[Literal["alive", "stop"]] = SimpleQueue()

    def __enter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._watched = threading.get_ident()
        self._thread = threading.Thread(target=self._watch, name="tailrace-watchdog", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._signals.put("stop")
        self._thread.join()

    def _watch(self) -> None:
        while self._ping():
            try:
                signal = self._signals.get(timeout=self._timeout_s)
            except Empty:
                self._log_stack()
                signal = self._signals.get()
            if signal == "stop":
                return

    def _ping(self) -> bool:
        """Ping the loop after a pause. Returns False when the `with` block has ended."""
        try:
            return self._signals.get(timeout=self._timeout_s / 2) != "stop"
        except Empty:
            self._loop.call_soon_threadsafe(self._signals.put, "alive")
            return True

    def _log_stack(self) -> None:
        frame = sys._current_frames().get(self._watched)  # noqa: SLF001  the only way to see another thread
        stack = "".join(traceback.format_stack(frame)) if frame is not None else "a thread that has ended"
        _log.warning("the event loop has not answered for %g s. Its stack:\n%s", self._timeout_s, stack)
