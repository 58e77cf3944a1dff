"""The opening of a ledger: everything that must be true before the first change, in the order in which it is looked at.

Owns the decision whether a file can be trusted. A ledger that cannot be is refused with what happened and what to do;
it is never replaced by an empty one. All of it blocks, and runs in a thread.
"""

from __future__ import annotations

import logging
from contextlib import ExitStack
from typing import TYPE_CHECKING

import msgspec

from tailrace.errors import LedgerUnusable
from tailrace.ledger.connection import apply, ask
from tailrace.ledger.faults import TRANSACTION_ERRORS, at_opening, unreadable
from tailrace.ledger.files import Anchor, HighWaterMark, MarkFile, OwnerLock, make_file, make_folder
from tailrace.ledger.queries import queries
from tailrace.ledger.reader import SqliteReader
from tailrace.ledger.schema import Migration, check_origin, migrate, migrations
from tailrace.ledger.transitions import RowWriter
from tailrace.ledger.writer import WriterFiles

if TYPE_CHECKING:
    from pathlib import Path

    from tailrace.ledger.connection import Connect, Connection

_log = logging.getLogger(__name__)


class LedgerLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What may be set, with values that suit everybody.

    `deadline_s` is how long a question may take, `most_waiting` how many changes may wait before new work is refused
    (what ends work that was begun is always taken), `snapshot_s` how long a snapshot waits for a change to ride with.
    A checkpoint is due after about `checkpoint_frames` pages; a log longer than `alarm_bytes` is told of. A file below
    `small_bytes` is read to its end before it is used. Without `migrations` they are those of this version.
    """

    deadline_s: float = 5.0
    most_waiting: int = 20_000
    snapshot_s: float = 1.5
    checkpoint_frames: int = 1000
    alarm_bytes: int = 64 * 1024 * 1024
    small_bytes: int = 32 * 1024 * 1024
    migrations: tuple[Migration, ...] = ()


class Opened:
    """A ledger that can be trusted, and all that must be let go of in the end.

    `checker` is there for a file that is too long to be read before it is used: it reads beside the work.
    """

    def __init__(
        self, desk: WriterFiles, book: RowWriter, reader: SqliteReader, *, checker: SqliteReader | None, held: ExitStack
    ) -> None:
        self.desk = desk
        self.book = book
        self.reader = reader
        self.checker = checker
        self._held = held

    def let_go(self) -> None:
        """Close the files and free the lock, in this order."""
        self._held.close()


def open_files(path: Path, connect: Connect, terms: LedgerLimits, *, adopt_restored: bool) -> Opened:
    """Take the ledger at `path` as its next owner."""
    steps = terms.migrations or migrations()
    with ExitStack() as held:
        make_folder(path)
        held.callback(OwnerLock(path).let_go)
        make_file(path)
        try:
            connection = connect(path, readonly=False)
            held.callback(connection.close)
            checked = _inspect(connection, path, steps, small_bytes=terms.small_bytes)
            mark_file = MarkFile(path)
            held.callback(mark_file.close)
            mark, restored_epoch = _take_over(connection, path, mark_file, adopt_restored=adopt_restored)
            book = RowWriter(connection, path, epoch=mark.epoch, restored_epoch=restored_epoch)
        except TRANSACTION_ERRORS as error:
            raise at_opening(error, path) from error
        desk = WriterFiles(connection, path, anchor=Anchor(path), mark_file=mark_file, mark=mark)
        reader = SqliteReader.beside(path, connect, steps, deadline_s=terms.deadline_s)
        held.callback(reader.let_go)
        checker = None if checked else SqliteReader.beside(path, connect, steps, deadline_s=float("inf"))
        if checker is not None:
            held.callback(checker.let_go)
        return Opened(desk, book, reader, checker=checker, held=held.pop_all())
    raise AssertionError("nothing above swallows an exception")


def _inspect(connection: Connection, path: Path, steps: tuple[Migration, ...], *, small_bytes: int) -> bool:
    """Look whose file it is and whether it is whole, and bring it to this version; whether it was read to its end."""
    check_origin(connection, path, steps)
    if ask(connection, "schema_objects") == 0:
        apply(connection, "new_file_settings")
    small = path.stat().st_size < small_bytes
    if small and (found := ask(connection, "quick_check")) != "ok":
        raise unreadable(path, str(found))
    apply(connection, "writer_settings")
    if ask(connection, "journal_mode") != "wal":
        raise LedgerUnusable(f"{path} lies on a file system that cannot hold a ledger. Name a path on a local disk.")
    migrate(connection, steps)
    return small


def _take_over(
    connection: Connection, path: Path, mark_file: MarkFile, *, adopt_restored: bool
) -> tuple[HighWaterMark, int]:
    """Begin the next epoch, if the ledger is as far as its mark says."""
    sql = queries()
    ledger_id, epoch, restored_epoch, commits = connection.execute(sql["standing"]).fetchone()
    mark = mark_file.read()
    if mark is None and commits > 0:
        _log.warning("%s has no readable mark beside it: whether its last commits are there cannot be told.", path)
    if mark is not None and not adopt_restored:
        _compare(path, mark, HighWaterMark(ledger_id=ledger_id, epoch=epoch, commits=commits))
    if mark is not None:
        epoch, commits = max(epoch, mark.epoch), max(commits, mark.commits)
    epoch, commits = epoch + 1, commits + 1
    restored_epoch = epoch if adopt_restored else restored_epoch
    connection.execute(sql["begin"])
    connection.execute(sql["take_over"], (epoch, restored_epoch, commits))
    connection.execute(sql["commit"])
    taken = HighWaterMark(ledger_id=ledger_id, epoch=epoch, commits=commits)
    mark_file.write(taken)
    mark_file.sync()
    return taken, restored_epoch


def _compare(path: Path, mark: HighWaterMark, found: HighWaterMark) -> None:
    if mark.ledger_id != found.ledger_id:
        raise LedgerUnusable(
            f"{path} is another ledger than the one its mark is of: the file was swapped. Put the right one back, or "
            "run `tailrace deliveries resend --adopt` to go on with this one."
        )
    missing = max(mark.commits - found.commits, mark.epoch - found.epoch)
    if missing > 0:
        raise LedgerUnusable(
            f"{path} lacks its last {missing} commits: it was damaged, or an older copy was put in its place. Restore "
            "the newest copy, or run `tailrace deliveries resend --adopt` to go on with what is left; what was open "
            "counts as maybe sent then."
        )
