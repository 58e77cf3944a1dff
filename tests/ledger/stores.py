"""Where the ledgers under test live."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from typing import TYPE_CHECKING, cast

from msgspec.structs import replace

from tailrace.ledger.memory import MemoryLedger
from tailrace.ledger.sqlite import SqliteLedger

if TYPE_CHECKING:
    from pathlib import Path

    from tailrace.deliveries import Delivery, State
    from tailrace.errors import LedgerError


class MemoryStore:
    def __init__(self) -> None:
        self._ledger: MemoryLedger | None = None

    async def open(self) -> MemoryLedger:
        self._ledger = MemoryLedger() if self._ledger is None else self._ledger.reopen()
        return self._ledger

    def overwrite_state(self, delivery: Delivery, state: str) -> None:
        assert self._ledger is not None
        self._ledger._contents.rows[delivery.position] = replace(delivery, state=cast("State", state))

    async def close(self) -> None:
        if self._ledger is not None:
            await self._ledger.close()


class SqliteStore:
    """A ledger in a folder; one that is lost raises here instead of ending the process."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "ledger.db"
        self.lost: list[LedgerError] = []
        self._ledger: SqliteLedger | None = None

    async def open(self) -> SqliteLedger:
        if self._ledger is not None:
            await self._ledger.close()
        self._ledger = await SqliteLedger.open(self.path, on_lost=self.lost.append)
        return self._ledger

    def overwrite_state(self, delivery: Delivery, state: str) -> None:
        with closing(sqlite3.connect(self.path)) as connection, connection:
            connection.execute("UPDATE delivery SET state = ? WHERE rid = ?", (state, delivery.position))

    async def close(self) -> None:
        if self._ledger is not None:
            await self._ledger.close()
        assert [thread.name for thread in threading.enumerate() if "tailrace-ledger" in thread.name] == []
        assert self.lost == []
