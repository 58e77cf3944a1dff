"""The files of a ledger: their paths, permissions, owner lock, and high-water mark.

SQLite's own files are `<path>`, `<path>-wal` and `<path>-shm`. Beside them is `<path>.lock`, which the one process that
writes has locked, and `<path>.mark` with the number of acknowledged commits. If the end of the log is damaged, SQLite
drops its last commits silently; the mark shows that they are missing. This module does not know what is in the ledger.

It never opens a file that SQLite has open: closing it would release SQLite's own locks on that file.
"""

from __future__ import annotations

import errno
import os
import re
import sys
from contextlib import suppress
from pathlib import Path

import msgspec

from tailrace.errors import LedgerInUse, LedgerLost, LedgerUnusable

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

_LOCKED_ERRORS = {errno.EAGAIN, errno.EACCES, errno.EDEADLK}
_PRIVATE_FILE, _PRIVATE_FOLDER = 0o600, 0o700
_FLAGS = os.O_RDWR | os.O_CREAT
for _flag in ("O_CLOEXEC", "O_NOFOLLOW", "O_BINARY"):  # the first two exist on POSIX, the third on Windows
    _FLAGS |= getattr(os, _flag, 0)


def data_directory() -> Path:
    """The directory in which programs of this user store data, on this operating system."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Application Support"
    else:
        base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(base) / "tailrace"


def default_path() -> Path:
    """The default path of the ledger."""
    return data_directory() / "ledger.db"


def wal_of(path: Path) -> Path:
    """The path of SQLite's write-ahead log, which has the latest commits."""
    return path.with_name(f"{path.name}-wal")


def make_folder(path: Path) -> None:
    """Create the folder of the ledger, for its owner only. An existing folder keeps its permissions."""
    try:
        if not path.parent.is_dir():
            path.parent.mkdir(mode=_PRIVATE_FOLDER, parents=True, exist_ok=True)
            path.parent.chmod(_PRIVATE_FOLDER)
        elif path == default_path():
            path.parent.chmod(_PRIVATE_FOLDER)
    except OSError as error:
        raise _refused(path.parent, error) from error


def make_file(path: Path) -> None:
    """Create an empty file if there is none. Only its owner may read the files of the ledger.

    The mode is set even if another umask was in force when a file was made or restored. SQLite gives its new files the
    mode of the ledger file.
    """
    if path.is_symlink():
        raise _refused(path, OSError(errno.ELOOP, ""))
    if not path.exists() or path.stat().st_size == 0:
        for other in (wal_of(path), path.with_name(f"{path.name}.mark")):
            if other.exists() and other.stat().st_size > 0:
                raise LedgerUnusable(
                    f"{path} is {'empty' if path.exists() else 'gone'}, but {other.name} shows that there was a "
                    "ledger. Put the file back or restore the newest copy. To start an empty ledger, move the files "
                    "named after it away."
                )
        os.close(_private(path))
    for file in (path, wal_of(path), path.with_name(f"{path.name}-shm")):
        _make_private(file)


def _private(path: Path) -> int:
    try:
        descriptor = os.open(path, _FLAGS, _PRIVATE_FILE)
    except OSError as error:
        raise _refused(path, error) from error
    _make_private(path)
    return descriptor


def _make_private(path: Path) -> None:
    with suppress(OSError):  # Another user's file keeps its mode: only write access is needed.
        path.chmod(_PRIVATE_FILE)


def _refused(path: Path, error: OSError) -> LedgerUnusable:
    if error.errno == errno.ELOOP:
        return LedgerUnusable(
            f"{path} is a symbolic link, which could lead to a file of another user. Remove it, or name another path "
            "for the ledger."
        )
    return LedgerUnusable(
        f"{path} cannot be written ({error.strerror}). Give this user permission to write there, or name another path "
        "for the ledger."
    )


class OwnerLock:
    """The lock of the one process that writes. The kernel frees it when the process ends, also after a kill."""

    def __init__(self, path: Path) -> None:
        self._descriptor = _private(path.with_name(f"{path.name}.lock"))
        try:
            self._lock()
        except OSError as error:
            pid = self._owner_pid()
            os.close(self._descriptor)
            if error.errno not in _LOCKED_ERRORS:
                raise _refused(path, error) from error
            who = "another process" if pid is None else f"process {pid}"
            raise LedgerInUse(f"{path} is in use by {who}. End that process, or name another path.", pid=pid) from error
        os.ftruncate(self._descriptor, 0)
        os.write(self._descriptor, f"{os.getpid()}\n".encode())

    if sys.platform == "win32":

        def _lock(self) -> None:
            # The locked byte is far behind the process id, so that other processes can read that id.
            os.lseek(self._descriptor, 1 << 20, os.SEEK_SET)
            msvcrt.locking(self._descriptor, msvcrt.LK_NBLCK, 1)
            os.lseek(self._descriptor, 0, os.SEEK_SET)

    else:

        def _lock(self) -> None:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _owner_pid(self) -> int | None:
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        written = os.read(self._descriptor, 32).strip()
        return int(written) if written.isdigit() else None

    def release(self) -> None:
        """Free the lock. The lock file stays: if it were deleted, two processes could lock two files of that name."""
        os.close(self._descriptor)


class HighWaterMark(msgspec.Struct, frozen=True, kw_only=True):
    """The latest known state of a ledger: its id, epoch and number of acknowledged commits."""

    ledger_id: str
    epoch: int
    commits: int


class MarkFile:
    """The file `<path>.mark` with the high-water mark of the ledger.

    The mark is written after each commit, so it never counts more commits than the ledger has. It needs no sync: after
    a loss of power it may count fewer. It is made and synced before the first commit, and then overwritten in place;
    all its bytes are in one sector, which a disk writes completely or not at all. So a ledger with commits has a mark,
    unless somebody removed it.
    """

    _LINE = re.compile(rb"([0-9a-f]{32}) (\d{20}) (\d{20})\n")

    def __init__(self, path: Path) -> None:
        self._folder = path.parent
        self._descriptor = _private(path.with_name(f"{path.name}.mark"))

    def read(self) -> HighWaterMark | None:
        """Read the mark. None if the file has no valid mark."""
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        found = self._LINE.fullmatch(os.read(self._descriptor, 256))
        return found and HighWaterMark(ledger_id=found[1].decode(), epoch=int(found[2]), commits=int(found[3]))

    def write(self, mark: HighWaterMark) -> None:
        """Write the mark in place: always the same number of bytes, in one write."""
        line = f"{mark.ledger_id} {mark.epoch:020d} {mark.commits:020d}\n".encode()
        if sys.platform == "win32":
            os.lseek(self._descriptor, 0, os.SEEK_SET)
            os.write(self._descriptor, line)
        else:
            os.pwrite(self._descriptor, line, 0)

    def sync(self) -> None:
        """Sync the mark to the disk, and also its folder, so that the file still has its name after a loss of power."""
        os.fsync(self._descriptor)
        if sys.platform != "win32":
            folder = os.open(self._folder, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


class FileIdentity:
    """Notices that the ledger file or its write-ahead log was deleted or replaced since it was opened."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._names = (os.fspath(path), os.fspath(wal_of(path)))
        self._opened = self._stat()

    def _stat(self) -> list[tuple[int, int]]:
        self.wal_size = 0
        found = []
        for name in self._names:
            status = os.stat(name)  # noqa: PTH116 - runs twice per commit, and a string is three times as fast as a Path
            found.append((status.st_dev, status.st_ino))
            self.wal_size = status.st_size
        return found

    def check(self) -> None:
        """Raise `LedgerLost` if a file was deleted or replaced, because new writes would be lost."""
        try:
            same = self._stat() == self._opened
        except OSError:
            same = False
        if not same:
            raise LedgerLost(
                f"{self._path} or its -wal file was deleted or replaced while in use. Put the files back or "
                "restore the newest copy, and start tailrace again."
            )
