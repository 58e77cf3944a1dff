"""What the ledger needs of a connection to SQLite, and the connection it uses where nobody gives another.

The protocols are the narrow part of the standard library's `sqlite3` that the ledger uses, so that another library,
or one that breaks on purpose, can stand in its place. Errors are `sqlite3.Error` with `sqlite_errorcode`, the
extended result code, or `MemoryError`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from tailrace.ledger.queries import queries, statements

if TYPE_CHECKING:
    from pathlib import Path

Value: TypeAlias = str | bytes | int | float | None
Row: TypeAlias = tuple[Any, ...]


class Cursor(Protocol):
    """What came of a statement."""

    @property
    def rowcount(self) -> int:
        """How many rows it changed."""
        ...

    def fetchone(self) -> Any:
        """The next row, or None."""
        ...

    def fetchall(self) -> list[Any]:
        """All rows that are left."""
        ...


class Connection(Protocol):
    """A connection that begins and ends transactions only when told; used by one thread at a time."""

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        ...

    def execute(self, sql: str, parameters: Sequence[Value] | Mapping[str, Value] = ..., /) -> Cursor:
        """Run one statement."""
        ...

    def set_progress_handler(self, handler: Callable[[], int | None] | None, n: int, /) -> None:
        """Ask `handler` after every `n` steps whether to go on; anything but 0 and None interrupts the statement."""
        ...

    def close(self) -> None:
        """Let go of the file."""
        ...


class Connect(Protocol):
    """Opens the file, which exists, and waits a little where somebody else holds it."""

    def __call__(self, path: Path, *, readonly: bool) -> Connection:
        """A connection to it."""
        ...


def connect(path: Path, *, readonly: bool, busy_s: float = 2.0) -> sqlite3.Connection:
    """A connection of the standard library; `busy_s` is how long it waits for a lock of somebody else."""
    # As a URI, because only so a file that is gone is not made anew.
    address = f"{path.absolute().as_uri()}?mode={'ro' if readonly else 'rw'}"
    return sqlite3.connect(address, uri=True, timeout=busy_s, isolation_level=None, check_same_thread=False)


def apply(connection: Connection, settings: str) -> None:
    """Set the connection as the query of that name says."""
    for statement in statements(queries()[settings]):
        connection.execute(statement).fetchall()


def ask(connection: Connection, query: str) -> Any:
    """The one value that a query without parameters gives."""
    return connection.execute(queries()[query]).fetchone()[0]
