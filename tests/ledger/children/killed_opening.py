"""Opens copies of a ledger in processes that are killed at the n-th statement, for every n. Prints how many."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tailrace.ledger.connection import connect
from tailrace.ledger.opening import LedgerLimits
from tailrace.ledger.schema import migration, migrations
from tailrace.ledger.sqlite import SqliteLedger

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping, Sequence

    from tailrace.ledger.connection import Value

SECOND = migration(
    2,
    """
    ALTER TABLE turn ADD COLUMN extra TEXT;
    CREATE TABLE extra (name TEXT PRIMARY KEY);
    INSERT INTO extra VALUES ('row');
    PRAGMA user_version = 2;
    """,
)


class KillingConnection:
    """A connection that kills its process at the n-th statement."""

    def __init__(self, connection: sqlite3.Connection, *, statement: int) -> None:
        self._connection = connection
        self._left = statement
        self.set_progress_handler = connection.set_progress_handler
        self.close = connection.close

    @property
    def in_transaction(self) -> bool:
        return self._connection.in_transaction

    def execute(self, sql: str, parameters: Sequence[Value] | Mapping[str, Value] = ()) -> sqlite3.Cursor:
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return self._connection.execute(sql, parameters)


async def open_once(path: Path, statement: int) -> None:
    def killing(path: Path, *, readonly: bool) -> KillingConnection:
        return KillingConnection(connect(path, readonly=readonly), statement=0 if readonly else statement)

    steps = (*migrations(), SECOND)
    ledger = await SqliteLedger.open(path, connect=killing, limits=LedgerLimits(migrations=steps))
    await ledger.close()


def kill_everywhere(folder: Path) -> int:
    """Each in a copy of the folder, which the test then reads."""
    for statement in range(1, 1000):
        copy = folder.with_name(f"{folder.name}-{statement}")
        shutil.copytree(folder, copy)
        child = os.fork()
        if child == 0:
            asyncio.run(open_once(copy / "ledger.db", statement))
            os._exit(0)
        if os.waitpid(child, 0)[1] == 0:
            shutil.rmtree(copy)
            return statement - 1
    raise AssertionError("the opening never ends")


print(kill_everywhere(Path(sys.argv[1])))
