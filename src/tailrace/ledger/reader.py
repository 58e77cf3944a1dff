"""The reader: one thread with a read-only connection, so that no query waits for the disk or delays a write.

Each query is one short statement with a deadline, because a reader that holds an old state lets the log grow without
bound. It needs no lock: the command line reads while a service writes.
"""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tailrace.deliveries import Delivery, OpenConversation, Query, State, Turn, TurnState
from tailrace.errors import LedgerUnusable
from tailrace.ledger.connection import apply_settings, connect, single_value
from tailrace.ledger.files import default_path, wal_of
from tailrace.ledger.queries import queries
from tailrace.ledger.rows import AFTER_ALL, find_query, from_query, to_delivery, to_open_conversation, to_turn
from tailrace.ledger.schema import check_origin, migrations
from tailrace.ledger.sqlite_errors import TRANSACTION_ERRORS, opening_error, runtime_error, unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tailrace.ledger.connection import Connect, Connection, Row, Value
    from tailrace.ledger.schema import Migration

_STEPS_PER_CHECK = 10_000
_LONG_LOG = 16 << 20
"""Longer than SQLite leaves the log when it can restart it: `journal_size_limit` of the writer."""


class SqliteReader:
    """Reads the ledger at `path`. `deadline_s` is how long one query may take."""

    def __init__(self, path: Path, connection: Connection, *, deadline_s: float) -> None:
        self._path = path
        self._connection = connection
        self._deadline_s = deadline_s
        self._deadline = 0.0
        self._closed = False
        self._yields = False
        self._sql = queries()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="tailrace-ledger-reader")
        connection.set_progress_handler(self._is_late, _STEPS_PER_CHECK)

    @classmethod
    async def open(
        cls, path: Path | str | None = None, *, connect: Connect = connect, deadline_s: float = 5.0
    ) -> SqliteReader:
        """Read the ledger at `path`, whether or not a process writes it. Raises `LedgerUnusable` if there is none."""
        path = default_path() if path is None else Path(path)
        return await asyncio.to_thread(cls.open_blocking, path, connect, migrations(), deadline_s=deadline_s)

    @classmethod
    def open_blocking(
        cls, path: Path, connect: Connect, steps: Sequence[Migration], *, deadline_s: float
    ) -> SqliteReader:
        """Like `open`, but blocking."""
        if not path.exists():
            raise LedgerUnusable(
                f"There is no ledger at {path}: nothing was delivered yet, or the ledger is elsewhere."
            )
        with ExitStack() as exit_stack:
            try:
                connection = connect(path, readonly=True)
                exit_stack.callback(connection.close)
                check_origin(connection, path, steps)
                apply_settings(connection, "reader_settings")
                version = single_value(connection, "user_version")
            except TRANSACTION_ERRORS as error:
                raise opening_error(error, path) from error
            if version == 0:
                raise LedgerUnusable(f"{path} is empty: no process has written a ledger to it yet.")
            exit_stack.pop_all()
            return cls(path, connection, deadline_s=deadline_s)
        raise AssertionError("nothing above swallows an exception")

    async def find(self, query: Query, *, after: int | None = None, limit: int = 100) -> list[Delivery]:
        """See `Ledger.find`."""
        return [to_delivery(row, path=self._path) for row in await self._rows(query, after, limit)]

    async def find_readable(self, query: Query, *, limit: int = 100) -> tuple[list[Delivery], list[LedgerUnusable]]:
        """Like `find`, but damaged rows are returned as errors instead of raised."""
        found: list[Delivery] = []
        damaged: list[LedgerUnusable] = []
        for row in await self._rows(query, None, limit):
            try:
                found.append(to_delivery(row, path=self._path))
            except LedgerUnusable as damage:
                damaged.append(damage)
        return found, damaged

    async def _rows(self, query: Query, after: int | None, limit: int) -> list[Row]:
        wanted = from_query(query, among=State, limit=limit)
        wanted["after"] = AFTER_ALL if after is None else after
        return await self._query(find_query(query), wanted)

    async def open_conversations(self, *, after: str = "", limit: int = 256) -> list[OpenConversation]:
        """See `Ledger.open_conversations`."""
        rows = await self._query("open_conversations", {"after": after, "limit": limit})
        return [to_open_conversation(row) for row in rows]

    async def interrupted_turns(self, *, before_epoch: int, state: TurnState, limit: int = 256) -> list[Turn]:
        """Turns in that state of an owner before that epoch."""
        rows = await self._query("interrupted_turns", (before_epoch, state.value, limit))
        return [to_turn(row, path=self._path) for row in rows]

    async def turn(self, turn_id: str) -> Turn | None:
        """The turn with that id, if there is one."""
        rows = await self._query("turn", (turn_id,))
        return to_turn(rows[0], path=self._path) if rows else None

    async def check(self) -> None:
        """Check the whole file. Raises `LedgerUnusable` if it is damaged.

        The log cannot be restarted during the check. If the log gets too long, the check stops with
        `LedgerUnavailable`.
        """
        self._yields = True
        found = await self._run(lambda: single_value(self._connection, "quick_check"), deadline_s=float("inf"))
        if found != "ok":
            raise unreadable(self._path, str(found))

    async def close(self) -> None:
        """Close the reader. May be called twice."""
        await asyncio.to_thread(self.release)

    def release(self) -> None:
        """Like `close`, but blocking."""
        self._closed = True
        self._thread.shutdown(cancel_futures=True)
        self._connection.close()

    async def _query(self, query: str, parameters: Sequence[Value] | Mapping[str, Value]) -> list[Row]:
        sql = self._sql[query]
        rows: list[Row] = await self._run(
            lambda: self._connection.execute(sql, parameters).fetchall(), deadline_s=self._deadline_s
        )
        return rows

    async def _run(self, query: Callable[[], Any], *, deadline_s: float) -> Any:
        def timed() -> Any:
            self._deadline = time.monotonic() + deadline_s
            return query()

        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, timed)
        except TRANSACTION_ERRORS as error:
            raise runtime_error(error, self._path) or error from error

    def _is_late(self) -> bool:
        if self._closed or time.monotonic() > self._deadline:
            return True
        with suppress(OSError):
            return self._yields and wal_of(self._path).stat().st_size > _LONG_LOG
        return False
