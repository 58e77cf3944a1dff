"""Questions: one thread with a connection that can only read, so that no question waits for the disk or delays a write.

Each question is one short statement with a deadline, because a reader that holds an old state lets the log grow without
bound. Needs no lock: the command line reads beside a running service.
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
from tailrace.ledger.connection import apply, ask, connect
from tailrace.ledger.faults import TRANSACTION_ERRORS, at_opening, at_run_time, unreadable
from tailrace.ledger.files import default_path, wal_of
from tailrace.ledger.queries import queries
from tailrace.ledger.rows import ANYWHERE, from_query, search_for, to_delivery, to_open_conversation, to_turn
from tailrace.ledger.schema import check_origin, migrations

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tailrace.ledger.connection import Connect, Connection, Row, Value
    from tailrace.ledger.schema import Migration

_STEPS_BETWEEN_LOOKS = 10_000
_LONG_LOG = 16 << 20
"""Longer than SQLite keeps it where it can begin anew: `journal_size_limit` of the writer."""


class SqliteReader:
    """What is in the ledger at `path`. `deadline_s` is how long one question may take."""

    def __init__(self, path: Path, connection: Connection, *, deadline_s: float) -> None:
        self._path = path
        self._connection = connection
        self._deadline_s = deadline_s
        self._until = 0.0
        self._closed = False
        self._gives_way = False
        self._sql = queries()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="tailrace-ledger-reader")
        connection.set_progress_handler(self._is_late, _STEPS_BETWEEN_LOOKS)

    @classmethod
    async def open(
        cls, path: Path | str | None = None, *, connect: Connect = connect, deadline_s: float = 5.0
    ) -> SqliteReader:
        """Read the ledger at `path`, whether or not a process writes it. Raises `LedgerUnusable` if there is none."""
        path = default_path() if path is None else Path(path)
        return await asyncio.to_thread(cls.beside, path, connect, migrations(), deadline_s=deadline_s)

    @classmethod
    def beside(cls, path: Path, connect: Connect, steps: Sequence[Migration], *, deadline_s: float) -> SqliteReader:
        """The same, from a thread that may block."""
        if not path.exists():
            raise LedgerUnusable(f"There is no ledger at {path}: nothing was delivered yet, or it lies elsewhere.")
        with ExitStack() as held:
            try:
                connection = connect(path, readonly=True)
                held.callback(connection.close)
                check_origin(connection, path, steps)
                apply(connection, "reader_settings")
                version = ask(connection, "user_version")
            except TRANSACTION_ERRORS as error:
                raise at_opening(error, path) from error
            if version == 0:
                raise LedgerUnusable(f"{path} is empty. Whoever writes it first makes a ledger of it.")
            held.pop_all()
            return cls(path, connection, deadline_s=deadline_s)
        raise AssertionError("nothing above swallows an exception")

    async def find(self, query: Query, *, after: int | None = None, limit: int = 100) -> list[Delivery]:
        """See `Ledger.find`."""
        return [to_delivery(row, path=self._path) for row in await self._rows_of(query, after, limit)]

    async def find_legible(self, query: Query, *, limit: int = 100) -> tuple[list[Delivery], list[LedgerUnusable]]:
        """Those that can be read, and for each row that is damaged what there is to say of it: for whoever looks."""
        found: list[Delivery] = []
        illegible: list[LedgerUnusable] = []
        for row in await self._rows_of(query, None, limit):
            try:
                found.append(to_delivery(row, path=self._path))
            except LedgerUnusable as damage:
                illegible.append(damage)
        return found, illegible

    async def _rows_of(self, query: Query, after: int | None, limit: int) -> list[Row]:
        wanted = from_query(query, among=State, limit=limit)
        wanted["after"] = ANYWHERE if after is None else after
        return await self._ask(search_for(query), wanted)

    async def open_conversations(self, *, after: str = "", limit: int = 256) -> list[OpenConversation]:
        """See `Ledger.waiting`."""
        rows = await self._ask("waiting", {"after": after, "limit": limit})
        return [to_open_conversation(row) for row in rows]

    async def interrupted_turns(self, *, before_epoch: int, state: TurnState, limit: int = 256) -> list[Turn]:
        """Turns in that state of an owner before that epoch."""
        rows = await self._ask("interrupted", (before_epoch, state.value, limit))
        return [to_turn(row, path=self._path) for row in rows]

    async def turn(self, turn_id: str) -> Turn | None:
        """The turn of that id, if it is known."""
        rows = await self._ask("turn_named", (turn_id,))
        return to_turn(rows[0], path=self._path) if rows else None

    async def check(self) -> None:
        """Read the whole file. Raises `LedgerUnusable` where it is damaged.

        While one state of the file is read its log cannot begin anew. Where that has grown too long the check gives way
        to the work, and raises `LedgerUnavailable`.
        """
        self._gives_way = True
        found = await self._run(lambda: ask(self._connection, "quick_check"), deadline_s=float("inf"))
        if found != "ok":
            raise unreadable(self._path, str(found))

    async def close(self) -> None:
        """Let go. Calling it twice is harmless."""
        await asyncio.to_thread(self.let_go)

    def let_go(self) -> None:
        """The same, from a thread that may block."""
        self._closed = True
        self._thread.shutdown(cancel_futures=True)
        self._connection.close()

    async def _ask(self, query: str, parameters: Sequence[Value] | Mapping[str, Value]) -> list[Row]:
        sql = self._sql[query]
        rows: list[Row] = await self._run(
            lambda: self._connection.execute(sql, parameters).fetchall(), deadline_s=self._deadline_s
        )
        return rows

    async def _run(self, question: Callable[[], Any], *, deadline_s: float) -> Any:
        def timed() -> Any:
            self._until = time.monotonic() + deadline_s
            return question()

        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, timed)
        except TRANSACTION_ERRORS as error:
            raise at_run_time(error, self._path) or error from error

    def _is_late(self) -> bool:
        if self._closed or time.monotonic() > self._until:
            return True
        with suppress(OSError):
            return self._gives_way and wal_of(self._path).stat().st_size > _LONG_LOG
        return False
