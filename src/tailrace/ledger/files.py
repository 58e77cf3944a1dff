"""The files of a ledger: their paths, permissions, owner lock, and high-water mark.

Beside `<path>` and SQLite's own files (`-wal`, `-shm`) there are `<path>.lock`, locked by the one process that writes,
and `<path>.mark`, the number of acknowledged commits. SQLite drops a damaged tail of its log silently; the mark,
written after each commit, shows that. This module does not know the content of the ledger.

It never opens a file that SQLite has open: closing that would release SQLite's own locks on it.
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
# O_CLOEXEC exists on POSIX, O_BINARY on Windows.
_FLAGS = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


def data_directory() -> Path:
    """The directory of this platform for the data of a program and user."""
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
    """The write-ahead log of SQLite, with the latest commits."""
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
    """Create an empty file that only its owner may read, whatever the umask. SQLite gives its own files the same
    mode."""
    if path.exists() and path.stat().st_size > 0:
        return
    for other in (wal_of(path), path.with_name(f"{path.name}.mark")):
        if other.exists() and other.stat().st_size > 0:
            raise LedgerUnusable(
                f"{path} is {'empty' if path.exists() else 'gone'}, but {other.name} shows that there was a ledger. "
                "Put the file back or restore the newest copy. To start an empty ledger, move the files named after it "
                "away."
            )
    os.close(_private(path))


def _private(path: Path) -> int:
    try:
        descriptor = os.open(path, _FLAGS, _PRIVATE_FILE)
    except OSError as error:
        raise _refused(path, error) from error
    with suppress(OSError):  # A file of another user keeps its mode; it is enough that it can be written.
        path.chmod(_PRIVATE_FILE)
    return descriptor


def _refused(path: Path, error: OSError) -> LedgerUnusable:
    return LedgerUnusable(
        f"{path} cannot be written ({error.strerror}). Give this user permission to write there, or name another path "
        "for the ledger."
    )


class OwnerLock:
    """The lock of the one process that writes. The kernel frees it, however the process ends."""

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
            # Far behind the process id, so that other processes can read it.
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
        """Free the lock. The file stays: if it were deleted, two processes could hold locks of that name."""
        os.close(self._descriptor)


class HighWaterMark(msgspec.Struct, frozen=True, kw_only=True):
    """The latest known state of a ledger: its id, epoch and number of acknowledged commits."""

    ledger_id: str
    epoch: int
    commits: int


class MarkFile:
    """The mark on disk. It is never ahead of the ledger, so it needs no sync of its own."""

    _LINE = re.compile(rb"([0-9a-f]{32}) (\d{20}) (\d{20})\n")

    def __init__(self, path: Path) -> None:
        self._descriptor = _private(path.with_name(f"{path.name}.mark"))

    def read(self) -> HighWaterMark | None:
        """Read the mark. None if the file is new, or was truncated by a loss of power."""
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
        """Sync the mark, so that there is one, perhaps an older one, after a loss of power."""
        os.fsync(self._descriptor)

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
        """Raise `LedgerLost` if a file was deleted or replaced: what is written now would be lost."""
        try:
            same = self._stat() == self._opened
        except OSError:
            same = False
        if not same:
            raise LedgerLost(
                f"{self._path} or its -wal file was deleted or replaced while in use. Put the files back or "
                "restore the newest copy, and start tailrace again."
            )
