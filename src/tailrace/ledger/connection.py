"""Opens connections to the SQLite file.

`apsw` contains its own SQLite, which is the same in every installation. The SQLite of Python is a fifth slower. It is
also often older than 3.51.3: then two connections that make a checkpoint at the same moment can lose commits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import apsw

from tailrace.ledger.queries import queries

if TYPE_CHECKING:
    from pathlib import Path

Value: TypeAlias = str | bytes | int | float | None
Row: TypeAlias = tuple[Any, ...]


class Connect(Protocol):
    """Opens an existing file; waits a little if another process has locked it. One thread at a time may use it."""

    def __call__(self, path: Path, *, readonly: bool) -> apsw.Connection:
        """Open a connection."""
        ...


def connect(
    path: Path,
    *,
    readonly: bool,
    busy_timeout_s: float = 2.0,
    vfs: str | None = None,
    of: type[apsw.Connection] = apsw.Connection,
) -> apsw.Connection:
    """Open a connection. Tests pass another virtual file system (`vfs`) and another class (`of`)."""
    # Not SQLITE_OPEN_CREATE: a missing file must not be created.
    flags = apsw.SQLITE_OPEN_READONLY if readonly else apsw.SQLITE_OPEN_READWRITE
    connection = of(str(path), flags=flags, vfs=vfs)
    connection.set_busy_timeout(int(busy_timeout_s * 1000))
    return connection


def run(connection: apsw.Connection, query: str) -> None:
    """Run the statements of a named query without parameters."""
    connection.execute(queries()[query]).fetchall()


def single_value(connection: apsw.Connection, query: str) -> Any:
    """The only value of a named query without parameters."""
    return connection.execute(queries()[query]).get
