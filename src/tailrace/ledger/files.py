"""The files of a ledger: where it lies, who may read it, who holds it, and how far it had come.

Beside `<path>` and what SQLite puts there (`-wal`, `-shm`) stand `<path>.lock`, held by the one process that writes,
and `<path>.mark`, which says how many commits were acknowledged. SQLite cuts off a damaged tail without a word; the
mark, written after each commit, is how that is noticed. Nothing here knows what is in the ledger.

No file that SQLite has open is ever opened here: closing it would drop SQLite's own locks on it.
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

_HELD = {errno.EAGAIN, errno.EACCES, errno.EDEADLK}
_PRIVATE_FILE, _PRIVATE_FOLDER = 0o600, 0o700
# Some platforms have the one, some the other.
_FLAGS = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


def data_directory() -> Path:
    """Where this platform keeps a program's own data for this user."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Application Support"
    else:
        base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(base) / "tailrace"


def default_path() -> Path:
    """Where the ledger lies where nobody says otherwise."""
    return data_directory() / "ledger.db"


def wal_of(path: Path) -> Path:
    """The file in which SQLite keeps what was committed last."""
    return path.with_name(f"{path.name}-wal")


def make_folder(path: Path) -> None:
    """Make the folder of the ledger, for its owner alone. One that was there stays as somebody made it."""
    try:
        if not path.parent.is_dir():
            path.parent.mkdir(mode=_PRIVATE_FOLDER, parents=True, exist_ok=True)
            path.parent.chmod(_PRIVATE_FOLDER)
        elif path == default_path():
            path.parent.chmod(_PRIVATE_FOLDER)
    except OSError as error:
        raise _refused(path.parent, error) from error


def make_file(path: Path) -> None:
    """Make an empty file that only its owner may read, whatever the umask; what SQLite puts beside it follows it."""
    if path.exists() and path.stat().st_size > 0:
        return
    for witness in (wal_of(path), path.with_name(f"{path.name}.mark")):
        if witness.exists() and witness.stat().st_size > 0:
            raise LedgerUnusable(
                f"{path} is {'empty' if path.exists() else 'gone'}, but {witness.name} says that there was a ledger. "
                "Put the file back or restore the newest copy; to begin an empty ledger, move the files named after "
                "it away."
            )
    os.close(_private(path))


def _private(path: Path) -> int:
    try:
        descriptor = os.open(path, _FLAGS, _PRIVATE_FILE)
    except OSError as error:
        raise _refused(path, error) from error
    with suppress(OSError):  # Somebody else's file keeps its rights; that it can be written is enough.
        path.chmod(_PRIVATE_FILE)
    return descriptor


def _refused(path: Path, error: OSError) -> LedgerUnusable:
    return LedgerUnusable(
        f"{path} cannot be written ({error.strerror}). Give this user the right to write there, or name another path "
        "for the ledger."
    )


class OwnerLock:
    """The lock of the one process that writes. The kernel frees it however the process ends."""

    def __init__(self, path: Path) -> None:
        self._descriptor = _private(path.with_name(f"{path.name}.lock"))
        try:
            self._take()
        except OSError as error:
            pid = self._holder()
            os.close(self._descriptor)
            if error.errno not in _HELD:
                raise _refused(path, error) from error
            who = "another process" if pid is None else f"process {pid}"
            raise LedgerInUse(f"{path} is in use by {who}. End that one, or name another path.", pid=pid) from error
        os.ftruncate(self._descriptor, 0)
        os.write(self._descriptor, f"{os.getpid()}\n".encode())

    if sys.platform == "win32":

        def _take(self) -> None:
            # Far behind the number that stands in the file, which others read.
            os.lseek(self._descriptor, 1 << 20, os.SEEK_SET)
            msvcrt.locking(self._descriptor, msvcrt.LK_NBLCK, 1)
            os.lseek(self._descriptor, 0, os.SEEK_SET)

    else:

        def _take(self) -> None:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _holder(self) -> int | None:
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        written = os.read(self._descriptor, 32).strip()
        return int(written) if written.isdigit() else None

    def let_go(self) -> None:
        """Free the lock. The file stays: were it taken away, two could hold a lock of that name."""
        os.close(self._descriptor)


class HighWaterMark(msgspec.Struct, frozen=True, kw_only=True):
    """How far a ledger had come: which one, whose, and how many commits were acknowledged."""

    ledger_id: str
    epoch: int
    commits: int


class MarkFile:
    """The mark on the disk. It is never ahead of the ledger, so that it needs no sync of its own."""

    _LINE = re.compile(rb"([0-9a-f]{32}) (\d{20}) (\d{20})\n")

    def __init__(self, path: Path) -> None:
        self._descriptor = _private(path.with_name(f"{path.name}.mark"))

    def read(self) -> HighWaterMark | None:
        """What it says; None where it is new, or was cut when the power failed."""
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        found = self._LINE.fullmatch(os.read(self._descriptor, 256))
        return found and HighWaterMark(ledger_id=found[1].decode(), epoch=int(found[2]), commits=int(found[3]))

    def write(self, mark: HighWaterMark) -> None:
        """Say how far the ledger is now: always as many bytes, in place, in one write."""
        line = f"{mark.ledger_id} {mark.epoch:020d} {mark.commits:020d}\n".encode()
        if sys.platform == "win32":
            os.lseek(self._descriptor, 0, os.SEEK_SET)
            os.write(self._descriptor, line)
        else:
            os.pwrite(self._descriptor, line, 0)

    def sync(self) -> None:
        """See to it that there is a mark, if maybe an old one, after the loss of power."""
        os.fsync(self._descriptor)

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._descriptor)


class Anchor:
    """Which files the paths of the ledger and of its newest commits led to when it was opened."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._names = (os.fspath(path), os.fspath(wal_of(path)))
        self._held = self._look()

    def _look(self) -> list[tuple[int, int]]:
        self.wal_size = 0
        found = []
        for name in self._names:
            there = os.stat(name)  # noqa: PTH116 - twice per commit: a string is three times as fast as a Path
            found.append((there.st_dev, there.st_ino))
            self.wal_size = there.st_size
        return found

    def check(self) -> None:
        """Raise `LedgerLost` if a file was deleted or replaced: what is written now would reach nobody."""
        try:
            same = self._look() == self._held
        except OSError:
            same = False
        if not same:
            raise LedgerLost(
                f"{self._path} or its -wal file was deleted or replaced while in use, and is not made anew. Put the "
                "files back or restore the newest copy, and start tailrace again."
            )
