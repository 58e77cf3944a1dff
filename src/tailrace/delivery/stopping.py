"""How a process is asked to stop: the first signal asks, the second ends it.

Whoever runs for long waits for the event, begins nothing more, drains its courier and closes its ledger. A process that
is ended by the second signal leaves what a killed one leaves: the next one goes on with it.
"""

from __future__ import annotations

import asyncio
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

STOPPING = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def stops_on_signals(
    signals: tuple[signal.Signals, ...] = STOPPING,
    *,
    on_first: Callable[[], None] | None = None,
    on_second: Callable[[], None] | None = None,
) -> Iterator[asyncio.Event]:
    """An event that is set by the first of these signals; from then on they do what they do to any process: end it.

    For the main thread, inside its running loop. One that is ignored, as by what runs in the background, stays ignored.
    What stood before stands again afterwards. `on_first` and `on_second` are called at once, between any two
    instructions of the main thread, the latter in place of ending the process.
    """
    asked, loop = asyncio.Event(), asyncio.get_running_loop()
    heard = [number for number in signals if signal.getsignal(number) is not signal.SIG_IGN]

    def ask(_number: int, _frame: object) -> None:
        # At once, not in the loop: a loop that hangs must not be able to keep the process.
        for number in heard:
            signal.signal(number, signal.SIG_DFL if on_second is None else lambda *_: on_second())
        if on_first is not None:
            on_first()
        loop.call_soon_threadsafe(asked.set)

    before = {number: signal.signal(number, ask) for number in heard}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
