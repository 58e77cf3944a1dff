"""The reader: one thread with a read-only connection, so that queries and writes do not wait for each other.

Each query is one short statement with a deadline, because SQLite cannot shorten its log while a query reads an old
state. The reader needs no lock, so the command line can read while a service writes.
"""

from __future__ import annotations

import asyncio
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tailrace.deliveries import Delivery, OpenConversation, Query, State, Turn
from tailrace.errors import LedgerClosed, LedgerUnusable
from tailrace.ledger.connection import connect, run, single_value
from tailrace.ledger.files import default_path, wal_of
from tailrace.ledger.queries import queries
from tailrace.ledger.rows import (
    AFTER_ALL,
    encoded_epochs,
    find_query,
    from_query,
    to_delivery,
    to_open_conversation,
    to_turn,
)
from tailrace.ledger.schema import check_origin
from tailrace.ledger.sqlite_errors import TRANSACTION_ERRORS, opening_error, runtime_error, unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import apsw

    from tailrace.ledger.connection import Connect, Row, Value

_log = logging.getLogger(__name__)
_STEPS_PER_CHECK = 10_000
_LONG_LOG = 16 << 20
"""A check stops when the log is longer than this: the `journal_size_limit` of the writer, to which SQLite cuts it."""


class SqliteReader:
    """Reads the ledger at `path`. `deadline_s` is how long one query may take."""

    def __init__(self, path: Path, connection: apsw.Connection, *, deadline_s: float) -> None:
        self._path = path
        self._connection = connection
        self._deadline_s = deadline_s
        self._deadline = 0.0
        self._closed = False
        self._damaged: set[str] = set()
        self._yields = False
        self._sql = queries()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="tailrace-ledger-reader")
        connection.set_progress_handler(self._is_late, _STEPS_PER_CHECK)

    @classmethod
    async def open(
        cls, path: Path | str | None = None, *, connect: Connect = connect, deadline_s: float = 5.0
    ) -> SqliteReader:
        """Open the ledger at `path` for reading, also while it is written. Raises `LedgerUnusable` if there is none."""
        path = default_path() if path is None else Path(path)
        return await asyncio.to_thread(cls.open_blocking, path, connect, deadline_s=deadline_s)

    @classmethod
    def open_blocking(cls, path: Path, connect: Connect, *, deadline_s: float) -> SqliteReader:
        """Like `open`, but blocks the calling thread."""
        if not path.exists():
            raise LedgerUnusable(
                f"There is no ledger at {path}: nothing was delivered yet, or the ledger is elsewhere."
            )
        with ExitStack() as exit_stack:
            try:
                connection = connect(path, readonly=True)
                exit_stack.callback(connection.close)
                check_origin(connection, path)
                run(connection, "reader_settings")
                version = single_value(connection, "user_version")
            except TRANSACTION_ERRORS as error:
                raise opening_error(error, path) from error
            if version == 0:
                raise LedgerUnusable(f"{path} is empty: no process has written a ledger to it yet.")
            exit_stack.pop_all()
            return cls(path, connection, deadline_s=deadline_s)
        raise AssertionError("nothing above swallows an exception")

    async def find(self, query: Query, *, after: int | None = None, limit: int = 100) -> list[Delivery]:
        """The deliveries that match a query, see `Ledger.find`."""
        return [to_delivery(row, path=self._path) for row in await self._rows(query, after, limit)]

    async def find_readable(self, query: Query, *, limit: int = 100) -> tuple[list[Delivery], list[LedgerUnusable]]:
        """Like `find`, but does not raise an error for a damaged row.

        Returns all readable rows, and the errors of the others.
        """
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
        """The conversations with open deliveries, see `Ledger.open_conversations`."""
        rows = await self._query("open_conversations", {"after": after, "limit": limit})
        return [to_open_conversation(row) for row in rows]

    async def interrupted_turns(
        self, *, leases: Sequence[int] = (), conversation: str | None = None, limit: int = 256
    ) -> list[Turn]:
        """The running turns whose lease has ended, see `Ledger.interrupted_turns`.

        `leases` are the epochs of the current leases.
        """
        return await self._turns("interrupted_turns", conversation, limit, leases=encoded_epochs(leases))

    async def accepted_turns(self, *, conversation: str | None = None, limit: int = 256) -> list[Turn]:
        """The turns that were accepted but never begun, see `Ledger.accepted_turns`."""
        return await self._turns("accepted_turns", conversation, limit)

    async def _turns(self, query: str, conversation: str | None, limit: int, **wanted: Value) -> list[Turn]:
        # SQLite sorts blobs after texts, so all names are between "" and b"".
        first, last = ("", b"") if conversation is None else (conversation, conversation)
        found: list[Turn] = []
        for row in await self._query(query, {"first": first, "last": last, "limit": limit, **wanted}):
            try:
                found.append(to_turn(row, path=self._path))
            except LedgerUnusable as damage:
                if row[0] not in self._damaged:
                    _log.error("%s It is left out.", damage)
                self._damaged.add(row[0])
        return found

    async def has_open(self, conversation: str) -> bool:
        """Whether the conversation has open deliveries or running turns."""
        return bool((await self._query("has_open", (conversation,)))[0][0])

    async def turn(self, turn_id: str) -> Turn | None:
        """The turn with that id, if there is one."""
        rows = await self._query("turn", (turn_id,))
        return to_turn(rows[0], path=self._path) if rows else None

    async def stored(self, kind: str) -> dict[str, bytes]:
        """All values of a kind, see `Ledger.stored`."""
        return dict(await self._query("stored", (kind,)))

    async def check(self) -> None:
        """Check the whole file. Raises `LedgerUnusable` if it is damaged.

        SQLite cannot shorten its log during the check. If the log gets too long, the check stops with
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
        """Like `close`, but blocks the calling thread until the reader is closed."""
        self._closed = True
        self._thread.shutdown()
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
            self._refuse_if_closed()
            return await asyncio.get_running_loop().run_in_executor(self._thread, timed)
        except TRANSACTION_ERRORS as error:
            self._refuse_if_closed()
            raise runtime_error(error, self._path) or error from error

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise LedgerClosed(f"{self._path} is closed.")

    def _is_late(self) -> bool:
        if self._closed or time.monotonic() > self._deadline:
            return True
        with suppress(OSError):
            return self._yields and wal_of(self._path).stat().st_size > _LONG_LOG
        return False
