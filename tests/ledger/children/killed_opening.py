"""Opens a ledger once for each of its statements, in processes that are killed there; says how often it was."""

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
    ALTER TABLE turn ADD COLUMN mood TEXT;
    CREATE TABLE mood (name TEXT PRIMARY KEY);
    INSERT INTO mood VALUES ('calm');
    PRAGMA user_version = 2;
    """,
)


class Doomed:
    """A connection that takes the process with it at its nth statement."""

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
    def doomed(path: Path, *, readonly: bool) -> Doomed:
        return Doomed(connect(path, readonly=readonly), statement=0 if readonly else statement)

    steps = (*migrations(), SECOND)
    ledger = await SqliteLedger.open(path, connect=doomed, limits=LedgerLimits(migrations=steps))
    await ledger.close()


def kill_everywhere(folder: Path) -> int:
    """In a copy of the folder each, left for the parent to look at."""
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
    raise AssertionError("it has no end")


print(kill_everywhere(Path(sys.argv[1])))
