"""What Ctrl-C and SIGTERM mean to a command that sends: end in good order, and at once when asked again.

The first is heard by the command, which lets what is being sent be answered. The second ends the process where it
stands, and so does a clock when the good order takes too long: the ledger has everything that the next one needs.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tailrace.cli.failures import FAILED
from tailrace.cli.sending import DRAIN_S

if TYPE_CHECKING:
    from typing import Self

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_MARGIN_S = 3.0


class Stop:
    """Whether the command was asked to end: `asked` is set then. `last_words` are said where it ends at once."""

    def __init__(self, *, last_words: str) -> None:
        self.asked = asyncio.Event()
        self._last_words = f"tailrace: {last_words}\n"
        self._loop = asyncio.get_running_loop()
        self._before: dict[int, Any] = {}
        self._clock: threading.Timer | None = None

    def __enter__(self) -> Self:
        for number in _SIGNALS:
            # What was started to run on in the background is not ended by somebody else's Ctrl-C.
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._press)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _press(self, *_: object) -> None:
        """Called in the main thread between any two instructions, also while it waits for whoever reads its output."""
        if self._clock is not None:
            self._leave()
        self._clock = threading.Timer(DRAIN_S + _MARGIN_S, self._leave)
        self._clock.daemon = True
        self._clock.start()
        self._loop.call_soon_threadsafe(self.asked.set)

    def _leave(self) -> None:
        with suppress(OSError):
            os.write(2, self._last_words.encode("utf-8", "replace"))
        os._exit(FAILED)
