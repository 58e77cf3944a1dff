"""Opens a ledger: all checks before the first change, in order.

This module decides whether a file can be trusted. If it cannot, the file is refused with an error that says what
happened and what to do; it is never replaced by an empty file. All code here blocks, so it runs in a thread.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import msgspec

from tailrace.errors import LedgerUnusable
from tailrace.ledger.connection import run, single_value
from tailrace.ledger.files import FileIdentity, HighWaterMark, MarkFile, OwnerLock, make_file, make_folder
from tailrace.ledger.queries import queries
from tailrace.ledger.reader import SqliteReader
from tailrace.ledger.schema import check_origin, migrate
from tailrace.ledger.sqlite_errors import TRANSACTION_ERRORS, opening_error, unreadable
from tailrace.ledger.transitions import RowWriter
from tailrace.ledger.writer import WriterFiles

if TYPE_CHECKING:
    from pathlib import Path

    import apsw

    from tailrace.ledger.connection import Connect


class LedgerLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of an open ledger. The defaults suit all programs.

    `deadline_s`: how long a query may take. `max_waiting`: how many changes may wait before new work is refused;
    changes that finish earlier work are always accepted. `snapshot_s`: how long a snapshot waits for another change, to
    be written together with it. A checkpoint is due after about `checkpoint_frames` pages; a longer log than
    `alarm_bytes` is reported. A file smaller than `small_bytes` is checked completely before it is used.
    """

    deadline_s: float = 5.0
    max_waiting: int = 20_000
    snapshot_s: float = 1.5
    checkpoint_frames: int = 1000
    alarm_bytes: int = 64 * 1024 * 1024
    small_bytes: int = 32 * 1024 * 1024


class OpenedLedger(msgspec.Struct, frozen=True):
    """A ledger that can be trusted, with everything that must be closed at the end.

    `checker` is for a large file: it checks the whole file while the ledger is already in use.
    """

    files: WriterFiles
    rows: RowWriter
    reader: SqliteReader
    checker: SqliteReader | None
    exit_stack: ExitStack

    def release(self) -> None:
        """Close the files, then free the lock."""
        self.exit_stack.close()


def open_files(path: Path, connect: Connect, limits: LedgerLimits, *, adopt_restored: bool) -> OpenedLedger:
    """Open the ledger at `path`. From now on this process owns it; another process that has it open is an error.

    `adopt_restored`: take a file that was restored from an older copy. Without it, such a file is an error.
    """
    with ExitStack() as exit_stack:
        make_folder(path)
        exit_stack.callback(OwnerLock(path).release)
        make_file(path)
        try:
            connection = connect(path, readonly=False)
            exit_stack.callback(connection.close)
            checked = _inspect(connection, path, small_bytes=limits.small_bytes)
            mark_file = MarkFile(path)
            exit_stack.callback(mark_file.close)
            mark, restored_epoch = _take_over(connection, path, mark_file, adopt_restored=adopt_restored)
            rows = RowWriter(connection, path, restored_epoch=restored_epoch)
        except TRANSACTION_ERRORS as error:
            raise opening_error(error, path) from error
        files = WriterFiles(connection, path, FileIdentity(path), mark_file, mark)
        reader = SqliteReader.open_blocking(path, connect, deadline_s=limits.deadline_s)
        exit_stack.callback(reader.release)
        checker = None if checked else SqliteReader.open_blocking(path, connect, deadline_s=float("inf"))
        if checker is not None:
            exit_stack.callback(checker.release)
        return OpenedLedger(files, rows, reader, checker, exit_stack.pop_all())
    raise AssertionError("nothing above swallows an exception")


def _inspect(connection: apsw.Connection, path: Path, *, small_bytes: int) -> bool:
    """Check the file and migrate it to the newest schema. Returns whether the whole content was checked."""
    check_origin(connection, path)
    if single_value(connection, "schema_objects") == 0:
        run(connection, "new_file_settings")
    is_small = path.stat().st_size < small_bytes
    if is_small and (found := single_value(connection, "quick_check")) != "ok":
        raise unreadable(path, str(found))
    run(connection, "writer_settings")
    if single_value(connection, "journal_mode") != "wal":
        raise LedgerUnusable(f"{path} lies on a file system that cannot hold a ledger. Name a path on a local disk.")
    migrate(connection)
    return is_small


def _take_over(
    connection: apsw.Connection, path: Path, mark_file: MarkFile, *, adopt_restored: bool
) -> tuple[HighWaterMark, int]:
    """Start the next epoch. Refuses a ledger that does not have all the commits that its mark counts."""
    sql = queries()
    ledger_id, epoch, restored_epoch, commits = connection.execute(sql["read_ledger"]).get
    found = HighWaterMark(ledger_id=ledger_id, epoch=epoch, commits=commits)
    mark = mark_file.read()
    if not adopt_restored:
        _compare(path, mark, found)
    if mark is None:
        mark = found
        mark_file.write(mark)
        mark_file.sync()
    epoch, commits = max(epoch, mark.epoch) + 1, max(commits, mark.commits) + 1
    restored_epoch = epoch if adopt_restored else restored_epoch
    run(connection, "begin")
    connection.execute(sql["take_over"], (epoch, restored_epoch, commits))
    run(connection, "commit")
    taken = HighWaterMark(ledger_id=ledger_id, epoch=epoch, commits=commits)
    mark_file.write(taken)
    mark_file.sync()
    return taken, restored_epoch


def _compare(path: Path, mark: HighWaterMark | None, found: HighWaterMark) -> None:
    """Refuse a ledger that lacks commits, or whose mark is missing, so that lost commits would not be noticed."""
    if mark is None and found.commits == 0:
        return
    if mark is None:
        raise LedgerUnusable(
            f"{path} has no readable .mark file, so it may lack its last commits: perhaps an older copy was restored "
            f"without it. Restore {path.name}.mark too, or run `tailrace deliveries resend --adopt` to use what is "
            "left; everything open then counts as maybe sent."
        )
    if mark.ledger_id != found.ledger_id:
        raise LedgerUnusable(
            f"{path} is not the ledger that its .mark file belongs to: the file was replaced. Put the right one back, "
            "or run `tailrace deliveries resend --adopt` to use this one."
        )
    missing = max(mark.commits - found.commits, mark.epoch - found.epoch)
    if missing > 0:
        raise LedgerUnusable(
            f"{path} lacks its last {missing} commits: it was damaged, or an older copy was put in its place. Restore "
            "the newest copy, or run `tailrace deliveries resend --adopt` to use what is left; everything open then "
            "counts as maybe sent."
        )
