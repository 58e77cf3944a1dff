"""Records turns of three parts until it is killed before or after the n-th commit. Prints the acknowledged ones."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tailrace.ledger.connection import connect
from tailrace.ledger.sqlite import SqliteLedger
from tailrace.testing.ledger_scenarios import post

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping, Sequence

    from tailrace.ledger.connection import Value


class KillingConnection:
    """A connection that kills its process at a commit."""

    def __init__(self, connection: sqlite3.Connection, *, when: str, commit: int) -> None:
        self._connection = connection
        self._when = when
        self._left = commit
        self.set_progress_handler = connection.set_progress_handler
        self.close = connection.close

    @property
    def in_transaction(self) -> bool:
        return self._connection.in_transaction

    def execute(self, sql: str, parameters: Sequence[Value] | Mapping[str, Value] = ()) -> sqlite3.Cursor:
        self._left -= sql == "COMMIT;"
        kills = self._left == 0 and sql == "COMMIT;"
        if kills and self._when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        cursor = self._connection.execute(sql, parameters)
        if kills:
            os.kill(os.getpid(), signal.SIGKILL)
        return cursor


async def work(path: Path, when: str, commit: int) -> None:
    def killing(path: Path, *, readonly: bool) -> KillingConnection:
        return KillingConnection(connect(path, readonly=readonly), when=when, commit=commit)

    ledger = await SqliteLedger.open(path, connect=killing)

    async def record(name: str) -> None:
        await ledger.plan([post(name, ordinal) for ordinal in (1, 2, 3)])
        print(name, flush=True)

    for group in range(10):
        await asyncio.gather(*(record(f"{group}-{n}") for n in range(5)))


asyncio.run(work(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
