"""Disks that fail on purpose: SQLite with a virtual file system that records and breaks file operations."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import apsw

from tailrace.ledger.connection import connect

if TYPE_CHECKING:
    from collections.abc import Callable


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

    def connect(self, path: Path, *, readonly: bool) -> apsw.Connection:
        return connect(path, readonly=readonly, vfs=self.vfs_name)


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
