"""The contract suite for both ledgers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from houses import MemoryHouse, SqliteHouse

from tailrace.testing.ledger_contract import LedgerContract

if TYPE_CHECKING:
    from pathlib import Path

    from tailrace.ledger.memory import MemoryLedger
    from tailrace.ledger.sqlite import SqliteLedger
    from tailrace.ports import Ledger
    from tailrace.testing.ledger_scenes import House


class TestMemoryLedger(LedgerContract):
    def house(self, folder: Path) -> House:
        assert folder.is_dir()
        return MemoryHouse()


class TestSqliteLedger(LedgerContract):
    def house(self, folder: Path) -> House:
        return SqliteHouse(folder)


def both_are_ledgers(memory: MemoryLedger, sqlite: SqliteLedger) -> tuple[Ledger, Ledger]:
    return memory, sqlite
