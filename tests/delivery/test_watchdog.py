"""A loop that does not answer is told of once, with the place where it hangs; one that answers is left alone."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import TYPE_CHECKING

import pytest

from tailrace.delivery.watchdog import Watchdog

if TYPE_CHECKING:
    from collections.abc import Iterator


class Listener(logging.Handler):
    """Keeps what is logged, and can be waited for by a thread that may not do anything else."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[str] = []
        self.heard = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.told.append(record.getMessage())
        self.heard.set()


@pytest.fixture
def listener() -> Iterator[Listener]:
    log = logging.getLogger("tailrace.delivery.watchdog")
    handler = Listener()
    log.addHandler(handler)
    yield handler
    log.removeHandler(handler)


def test_each_stall_is_told_of_once_with_its_place(listener: Listener) -> None:
    def hang_until_it_is_told() -> None:
        assert listener.heard.wait(30)
        listener.heard.clear()

    async def main() -> None:
        with Watchdog(timeout_s=0.05):
            hang_until_it_is_told()
            await asyncio.sleep(0)
            hang_until_it_is_told()

    asyncio.run(main())
    assert len(listener.told) == 2
    for told in listener.told:
        assert "has not answered for 0.05 s" in told
        assert "hang_until_it_is_told" in told


def test_it_ends_with_what_it_watches(listener: Listener) -> None:
    async def main() -> None:
        with Watchdog(timeout_s=60):
            await asyncio.sleep(0)

    asyncio.run(main())
    assert listener.told == []
    assert "tailrace-watchdog" not in {thread.name for thread in threading.enumerate()}
