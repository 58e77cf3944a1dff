"""The contract suite for both ledgers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stores import MemoryStore, SqliteStore

from tailrace.testing.ledger_contract import LedgerContract

if TYPE_CHECKING:
    from pathlib import Path

    from tailrace.ledger.memory import MemoryLedger
    from tailrace.ledger.sqlite import SqliteLedger
    from tailrace.ledger_port import Ledger
    from tailrace.testing.ledger_scenarios import LedgerStore


class TestMemoryLedger(LedgerContract):
    def store(self, folder: Path) -> LedgerStore:
        assert folder.is_dir()
        return MemoryStore()


class TestSqliteLedger(LedgerContract):
    def store(self, folder: Path) -> LedgerStore:
        return SqliteStore(folder)


def both_are_ledgers(memory: MemoryLedger, sqlite: SqliteLedger) -> tuple[Ledger, Ledger]:
    return memory, sqlite
