"""The part of `sqlite3` that the ledger uses, as protocols, and the default connection.

Another library, or one that fails on purpose in a test, can take the place of `sqlite3`. Errors are `sqlite3.Error`
with `sqlite_errorcode`, the extended result code, or `MemoryError`.
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
    """The result of a statement."""

    @property
    def rowcount(self) -> int:
        """How many rows were changed."""
        ...

    def fetchone(self) -> Any:
        """The next row, or None."""
        ...

    def fetchall(self) -> list[Any]:
        """All remaining rows."""
        ...


class Connection(Protocol):
    """A connection that starts and ends transactions only explicitly. One thread uses it at a time."""

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        ...

    def execute(self, sql: str, parameters: Sequence[Value] | Mapping[str, Value] = ..., /) -> Cursor:
        """Run one statement."""
        ...

    def set_progress_handler(self, handler: Callable[[], int | None] | None, n: int, /) -> None:
        """Call `handler` after every `n` steps; any result but 0 and None interrupts the statement."""
        ...

    def close(self) -> None:
        """Close the file."""
        ...


class Connect(Protocol):
    """Opens an existing file; waits a little if another process has locked it."""

    def __call__(self, path: Path, *, readonly: bool) -> Connection:
        """Open a connection."""
        ...


def connect(path: Path, *, readonly: bool, busy_timeout_s: float = 2.0) -> sqlite3.Connection:
    """A connection of the standard library. `busy_timeout_s` is how long it waits for the lock of another process."""
    # As a URI with a mode: a plain path would create a missing file.
    address = f"{path.absolute().as_uri()}?mode={'ro' if readonly else 'rw'}"
    return sqlite3.connect(address, uri=True, timeout=busy_timeout_s, isolation_level=None, check_same_thread=False)


def apply_settings(connection: Connection, settings: str) -> None:
    """Run the statements of the named query."""
    for statement in statements(queries()[settings]):
        connection.execute(statement).fetchall()


def single_value(connection: Connection, query: str) -> Any:
    """The only value of a named query without parameters."""
    return connection.execute(queries()[query]).fetchone()[0]
