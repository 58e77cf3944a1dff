"""The stores of the ledgers under test."""

from __future__ import annotations

import threading
from contextlib import closing
from typing import TYPE_CHECKING, Any, cast

import apsw
from msgspec.structs import replace

from tailrace.ledger.memory import LEASE_S, MemoryLedger
from tailrace.ledger.sqlite import SqliteLedger

if TYPE_CHECKING:
    from pathlib import Path

    from tailrace.deliveries import Delivery, State
    from tailrace.errors import LedgerError


def execute(path: Path, statements: str, *values: object) -> Any:
    """Run SQL in a file and return its result, as another program would.

    By `apsw` like the ledger: two SQLite libraries in one process do not see each other's locks.
    """
    with closing(apsw.Connection(str(path))) as connection:
        return connection.execute(statements, values).get


class StoppedClock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def wall(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.now


class MemoryStore:
    def __init__(self) -> None:
        self._clock = StoppedClock()
        self._ledger = MemoryLedger(clock=self._clock)

    async def open(self) -> MemoryLedger:
        self.wait(LEASE_S)  # The leases of other owners lapse.
        self._ledger = self._ledger.reopen()
        return self._ledger

    async def take_over(self) -> MemoryLedger:
        self.wait(LEASE_S)
        return self._ledger.another_owner()

    def wait(self, seconds: float) -> None:
        self._clock.now += seconds

    def overwrite_state(self, delivery: Delivery, state: str) -> None:
        self._ledger._contents.rows[delivery.position] = replace(delivery, state=cast("State", state))

    async def close(self) -> None:
        await self._ledger.close()


class SqliteStore:
    """A ledger in a folder. If it is lost, `close` fails instead of the process."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "ledger.db"
        self.lost: list[LedgerError] = []
        self._clock = StoppedClock()
        self._ledger: SqliteLedger | None = None

    async def open(self) -> SqliteLedger:
        if self._ledger is not None:
            await self._ledger.close()
        self._ledger = await SqliteLedger.open(self.path, clock=self._clock, on_lost=self.lost.append)
        return self._ledger

    async def take_over(self) -> SqliteLedger:
        return self._ledger or await self.open()

    def wait(self, seconds: float) -> None:
        self._clock.now += seconds

    def overwrite_state(self, delivery: Delivery, state: str) -> None:
        execute(self.path, "UPDATE delivery SET state = ? WHERE rid = ?", state, delivery.position)

    async def close(self) -> None:
        if self._ledger is not None:
            await self._ledger.close()
        assert [thread.name for thread in threading.enumerate() if "tailrace-ledger" in thread.name] == []
        assert self.lost == []
