"""Notices that the event loop does not answer, and says where it hangs: somebody's code blocks it.

Nothing can be sent, answered or timed out meanwhile, and nothing in the loop can say so. A thread asks the loop for a
sign of life again and again; where none comes in time it logs what the loop's thread is at, once until it answers.
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
    """Watches the running loop for as long as the `with` lasts; `after_s` is how long it may leave a call waiting."""

    def __init__(self, *, after_s: float = 5.0) -> None:
        self._after_s = after_s
        self._signs: SimpleQueue[Literal["alive", "over"]] = SimpleQueue()

    def __enter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._watched = threading.get_ident()
        self._thread = threading.Thread(target=self._watch, name="tailrace-watchdog", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._signs.put("over")
        self._thread.join()

    def _watch(self) -> None:
        while self._asks():
            try:
                sign = self._signs.get(timeout=self._after_s)
            except Empty:
                self._tell()
                sign = self._signs.get()
            if sign == "over":
                return

    def _asks(self) -> bool:
        """Ask the loop for a sign of life, after a while; false where it is over."""
        try:
            return self._signs.get(timeout=self._after_s / 2) != "over"
        except Empty:
            self._loop.call_soon_threadsafe(self._signs.put, "alive")
            return True

    def _tell(self) -> None:
        frame = sys._current_frames().get(self._watched)  # noqa: SLF001  there is no other way to see another thread
        stack = "".join(traceback.format_stack(frame)) if frame is not None else "a thread that has ended"
        _log.warning("the event loop has not answered for %g s; it is at:\n%s", self._after_s, stack)
