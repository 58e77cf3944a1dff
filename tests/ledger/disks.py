"""Disks that fail on purpose: SQLite with a virtual file system that records and breaks file operations.

`apsw` provides the virtual file system. The ledger uses it through its own connection protocol.
"""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tailrace.ledger.connection import Value


class Event:
    """A file operation: write at an offset, cut to a size, sync, or delete."""

    def __init__(self, what: str, name: str = "", offset: int = 0, content: bytes = b"") -> None:
        self.what = what
        self.name = name
        self.offset = offset
        self.content = content


class Disk(apsw.VFS):
    """Records the file operations, and calls `before(what, name)` before each of them."""

    def __init__(self, name: str) -> None:
        super().__init__(name, "")
        self.vfs_name = name
        self.events: list[Event] = []
        self.before: Callable[[str, str], None] = lambda _what, _name: None

    def note(self, event: Event) -> None:
        self.before(event.what, event.name)
        self.events.append(event)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        return File(self, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        self.note(Event("delete", Path(filename).name))
        super().xDelete(filename, syncdir)

    def connect(self, path: Path, *, readonly: bool) -> ApswConnection:
        flags = apsw.SQLITE_OPEN_READONLY if readonly else apsw.SQLITE_OPEN_READWRITE
        return ApswConnection(apsw.Connection(str(path), vfs=self.vfs_name, flags=flags))


class File(apsw.VFSFile):
    def __init__(self, disk: Disk, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        super().__init__("", name, flags)
        full = name.filename() if isinstance(name, apsw.URIFilename) else name
        self._disk = disk
        self._name = Path(full or "").name

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        self._disk.note(Event("write", self._name, offset, bytes(data)))
        super().xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        self._disk.note(Event("cut", self._name, newsize))
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:  # noqa: N802
        self._disk.note(Event("sync", self._name))
        super().xSync(flags)


def disk_error(code: int) -> apsw.Error:
    error = apsw.IOError("the disk breaks on purpose")
    vars(error).update(extendedresult=code, result=code & 0xFF)
    return error


@contextmanager
def translated() -> Iterator[None]:
    try:
        yield
    except apsw.Error as error:
        translation = sqlite3.OperationalError(str(error))
        translation.sqlite_errorcode = vars(error)["extendedresult"]
        raise translation from error


class ApswCursor:
    def __init__(self, cursor: apsw.Cursor, rowcount: int) -> None:
        self._cursor = cursor
        self.rowcount = rowcount

    def fetchone(self) -> Any:
        with translated():
            return self._cursor.fetchone()

    def fetchall(self) -> list[Any]:
        with translated():
            return self._cursor.fetchall()


class ApswConnection:
    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    @property
    def in_transaction(self) -> bool:
        return self._connection.in_transaction

    def execute(self, sql: str, parameters: Sequence[Value] | Mapping[str, Value] = ()) -> ApswCursor:
        with translated():
            cursor = self._connection.execute(sql, parameters)
            return ApswCursor(cursor, self._connection.changes())

    def set_progress_handler(self, handler: Callable[[], int | None] | None, n: int) -> None:
        self._connection.set_progress_handler(None if handler is None else lambda: bool(handler()), n)

    def close(self) -> None:
        with translated():
            self._connection.close()
