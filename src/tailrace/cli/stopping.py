"""What Ctrl-C and SIGTERM mean to a command that sends: end in good order, and at once when asked again.

The first is heard by the command, which lets what is being sent be answered. The second ends the process where it
stands, and so does a clock when the good order takes too long: the ledger has everything that the next one needs.
"""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from tailrace.cli.failures import FAILED
from tailrace.cli.sending import DRAIN_S
from tailrace.delivery.stopping import stops_on_signals

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterator

_MARGIN_S = 3.0


@contextmanager
def stops_in_time(*, last_words: str) -> Iterator[asyncio.Event]:
    """An event that is set when the command is asked to end; `last_words` are said where it ends at once after all."""

    def leave() -> None:
        with suppress(OSError):
            os.write(2, f"tailrace: {last_words}\n".encode("utf-8", "replace"))
        os._exit(FAILED)

    clock = threading.Timer(DRAIN_S + _MARGIN_S, leave)
    clock.daemon = True
    with stops_on_signals(on_first=clock.start, on_second=leave) as asked:
        yield asked
