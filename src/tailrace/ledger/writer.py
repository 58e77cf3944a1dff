"""The writer thread: it takes all waiting changes, makes them in one transaction, and commits once for all of them.

It decides when to commit, what the callers get, and what happens after an error. A caller gets its result only when
the commit is on disk, the mark is written, and the files are still the ones that were opened. If a change fails, the
transaction is rolled back and the changes are made again one by one, so that only that change fails. `transitions`
decides what a change does to the rows.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from msgspec.structs import replace

from tailrace.errors import Fenced, LedgerError, LedgerLost
from tailrace.ledger.batches import BatchRefused, LedgerChange, RowChange, apply_batch
from tailrace.ledger.queries import queries
from tailrace.ledger.sqlite_errors import TRANSACTION_ERRORS, runtime_error

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence
    from pathlib import Path

    import apsw

    from tailrace.ledger.checkpoints import Checkpoints
    from tailrace.ledger.files import FileIdentity, HighWaterMark, MarkFile
    from tailrace.ledger.transitions import RowWriter

OnLost: TypeAlias = Callable[[LedgerError], None]
MAX_BATCH = 256

_log = logging.getLogger(__name__)


def end_process(error: LedgerError) -> None:
    """Print the error and end the process at once, because only a new process can find out what the ledger has."""
    with suppress(OSError):
        os.write(2, f"tailrace: {error}\n".encode("utf-8", "replace"))
    os._exit(1)


class _RolledBack(Exception):
    """The transaction was rolled back. `for_all`: the cause is not one change, so that all others would fail too."""

    def __init__(self, error: BaseException, *, for_all: bool) -> None:
        super().__init__()
        self.error = error
        self.for_all = for_all


class WriterFiles(msgspec.Struct):
    """The connection that only the writer uses, and the files that show what was committed."""

    connection: apsw.Connection
    path: Path
    identity: FileIdentity
    mark_file: MarkFile
    mark: HighWaterMark


class Writer:
    """The writer thread and its queue. Results are delivered in the event loop.

    `commits` counts the commits of this process, and `commit_s` is the time that they took.
    """

    def __init__(
        self,
        files: WriterFiles,
        rows: RowWriter,
        loop: asyncio.AbstractEventLoop,
        *,
        checkpoints: Checkpoints,
        on_lost: OnLost,
    ) -> None:
        self._files = files
        self._rows = rows
        self._execute = files.connection.execute
        self._loop = loop
        self._checkpoints = checkpoints
        self._on_lost = on_lost
        self._sql = queries()
        self._queue: SimpleQueue[LedgerChange | None] = SimpleQueue()
        self.commits = 0
        self.commit_s = 0.0
        self._lost: LedgerError | None = None
        self._submitted = self._answered = 0
        self._waiters: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._thread = threading.Thread(target=self._work, name="tailrace-ledger-writer", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """How many changes wait to be written."""
        return self._queue.qsize()

    def submit(
        self, apply: Callable[[], Any], *, compound: bool = False, single: RowChange | None = None
    ) -> asyncio.Future[Any]:
        """Submit a change. It is made even if the caller is cancelled."""
        if self._lost is not None:
            raise _copy_of(self._lost)
        future = self._loop.create_future()
        self._submitted += 1
        self._queue.put(LedgerChange(apply, compound=compound, single=single, future=future))
        return future

    def submit_unawaited(self, apply: Callable[[], Any]) -> None:
        """Submit a change; no caller waits for its result."""
        self._submitted += 1
        self._queue.put(LedgerChange(apply))

    async def wait_for_submitted(self) -> None:
        """Wait until all changes that were submitted so far are answered."""
        if self._answered < self._submitted:
            waiter = self._loop.create_future()
            self._waiters.append((self._submitted, waiter))
            await waiter

    def fail(self, error: LedgerError) -> None:
        """Mark the ledger as lost and call `on_lost`. Every later call raises this error."""
        if self._lost is None:
            self._lost = error
            self._on_lost(error)

    def finish(self) -> None:
        """Make the waiting changes, then end the thread. Blocks."""
        self._queue.put(None)
        self._thread.join()

    def _work(self) -> None:
        more = True
        while more:
            batch, more = self._next_batch()
            if not batch:
                continue
            try:
                self._write(batch)
            except Exception as error:  # noqa: BLE001 - a bug must not leave the callers waiting for ever
                self._fail_unexpectedly(error)
                _refuse(batch, self._lost or error)
            # If the loop is closed, no caller waits any more.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._answer, batch)
            try:
                self._checkpoint_if_due(len(batch))
            except Exception as error:  # noqa: BLE001 - as above
                self._fail_unexpectedly(error)

    def _fail_unexpectedly(self, error: Exception) -> None:
        _log.critical("the ledger's writer failed", exc_info=error)
        self.fail(LedgerLost(f"{self._files.path} can no longer be written ({error!r}). Start tailrace again."))

    def _next_batch(self) -> tuple[list[LedgerChange], bool]:
        """Wait for a change. Returns all waiting changes, and False after the last one."""
        batch: list[LedgerChange] = []
        change = self._queue.get()
        with suppress(Empty):
            while change is not None:
                batch.append(change)
                if len(batch) == MAX_BATCH:
                    break
                change = self._queue.get_nowait()
        return batch, change is not None

    def _write(self, batch: Sequence[LedgerChange], *, combined: bool = True) -> None:
        if self._lost is None:
            try:
                self._commit(batch, combined=combined)
            except BatchRefused:
                self._write(batch, combined=False)
            except _RolledBack as rolled_back:
                if len(batch) == 1 or rolled_back.for_all:
                    _refuse(batch, rolled_back.error)
                else:
                    for change in batch:
                        self._write([change])
            except (LedgerLost, Fenced) as lost:
                self.fail(lost)
                _refuse(batch, lost)
        else:
            _refuse(batch, self._lost)

    def _commit(self, batch: Sequence[LedgerChange], *, combined: bool) -> None:
        """Run one transaction. Raises `_RolledBack` if nothing was committed, `LedgerLost` if that is unknown."""
        files = self._files
        mark = replace(files.mark, commits=files.mark.commits + 1)
        begun, began_at = False, time.monotonic()
        try:
            self._execute(self._sql["begin"])
            self._execute(self._sql["count_commit"], (mark.epoch, mark.commits))
            is_owner = files.connection.changes() == 1
            begun = True
            if is_owner:
                self._apply_all(batch, combined=combined)
                self._execute(self._sql["commit"])
        except TRANSACTION_ERRORS as error:
            self._resolve_error(error, mark, for_all=not begun)
        if not is_owner:
            self._roll_back()
            raise Fenced(f"{files.path} is written by another owner. This process must end.")
        # This check is after the commit and before the callers get results: a commit into a deleted file is lost.
        files.identity.check()
        files.mark = mark
        self.commits += 1
        self.commit_s += time.monotonic() - began_at
        try:
            files.mark_file.write(mark)
        except OSError as error:
            _log.warning("%s: its .mark file cannot be written: %s", files.path, error)

    def _apply_all(self, batch: Sequence[LedgerChange], *, combined: bool) -> None:
        if not combined:
            for change in batch:
                self._apply(change)
            return
        try:
            apply_batch(batch, self._rows, self._apply)
        except BatchRefused:
            self._roll_back()
            raise

    def _apply(self, change: LedgerChange) -> None:
        change.error = None
        try:
            if change.compound:
                self._execute(self._sql["savepoint"])
            change.result = change.apply()
            if change.compound:
                self._execute(self._sql["keep_savepoint"])
        except TRANSACTION_ERRORS:
            raise
        except Exception as error:  # noqa: BLE001 - one change must not end the thread
            change.error = error
            if change.compound:
                self._execute(self._sql["undo_savepoint"])
                self._execute(self._sql["keep_savepoint"])

    def _resolve_error(self, error: BaseException, mark: HighWaterMark, *, for_all: bool) -> None:
        """Find out whether a transaction with an error was committed. If it was not, raise an error.

        `for_all`: the error did not come from one change, so that all changes would fail now.
        """
        path = self._files.path
        verdict = runtime_error(error, path)
        if isinstance(verdict, LedgerLost):
            raise verdict from error
        try:
            self._roll_back()
            commits = self._execute(self._sql["read_ledger"]).get[3]
        except TRANSACTION_ERRORS as second:
            if for_all:  # the transaction did not begin, so nothing was committed
                raise _RolledBack(verdict or error, for_all=True) from second
            commits = None
        if commits == mark.commits:
            return
        if commits != self._files.mark.commits:
            raise LedgerLost(f"{path}: it is unknown what was committed last ({error}). Start tailrace again.")
        raise _RolledBack(verdict or error, for_all=for_all) from error

    def _answer(self, batch: Sequence[LedgerChange]) -> None:
        """Give each caller of the batch its result. Runs in the event loop."""
        for change in batch:
            future = change.future
            if future is None or future.done():
                continue
            if change.error is None:
                future.set_result(change.result)
            else:
                future.set_exception(change.error)
        self._answered += len(batch)
        while self._waiters and self._waiters[0][0] <= self._answered:
            _number, waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)

    def _roll_back(self) -> None:
        if self._files.connection.in_transaction:
            self._execute(self._sql["rollback"])

    def _checkpoint_if_due(self, changes: int) -> None:
        """Make a checkpoint if one is due. Without space on the disk, it is tried again; a failed sync is fatal."""
        length = self._files.identity.wal_size
        if self._lost is not None or not self._checkpoints.are_due(changes, length):
            return
        try:
            _busy, frames, _copied = self._execute(self._sql["checkpoint"]).get
            self._checkpoints.made(frames, length)
        except TRANSACTION_ERRORS as error:
            verdict = runtime_error(error, self._files.path)
            if isinstance(verdict, LedgerLost):
                self.fail(verdict)


def _copy_of(error: BaseException) -> BaseException:
    """Copy an error. Each caller gets its own copy, because raising an exception adds a traceback to it."""
    if isinstance(error, Fenced | LedgerError):
        return type(error)(str(error))
    return error


def _refuse(batch: Sequence[LedgerChange], error: BaseException) -> None:
    for change in batch:
        change.error = _copy_of(error)
