"""A blocked event loop is logged once with its stack; one that answers is not."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import TYPE_CHECKING

import pytest

from tailrace.gateway.watchdog import Watchdog

if TYPE_CHECKING:
    from collections.abc import Iterator


class Listener(logging.Handler):
    """Keeps log messages, and lets a blocked thread wait for the next one."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []
        self.logged = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())
        self.logged.set()


@pytest.fixture
def listener() -> Iterator[Listener]:
    log = logging.getLogger("tailrace.gateway.watchdog")
    handler = Listener()
    log.addHandler(handler)
    yield handler
    log.removeHandler(handler)


def test_each_blocked_loop_is_logged_once_with_its_stack(listener: Listener) -> None:
    def block_until_logged() -> None:
        assert listener.logged.wait(30)
        listener.logged.clear()

    async def main() -> None:
        with Watchdog(timeout_s=0.05):
            block_until_logged()
            await asyncio.sleep(0)
            block_until_logged()

    asyncio.run(main())
    assert len(listener.messages) == 2
    for message in listener.messages:
        assert "has not answered for 0.05 s" in message
        assert "block_until_logged" in message


def test_the_watchdog_ends_with_its_block(listener: Listener) -> None:
    async def main() -> None:
        with Watchdog(timeout_s=60):
            await asyncio.sleep(0)

    asyncio.run(main())
    assert listener.messages == []
    assert "tailrace-watchdog" not in {thread.name for thread in threading.enumerate()}
