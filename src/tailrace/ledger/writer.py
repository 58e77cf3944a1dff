"""The one thread that writes: it takes all changes that wait, makes them in one transaction, and commits once for all.

Owns when a commit happens, what its callers are told, and what becomes of an error. Nobody is told that a change was
made before the commit is on the disk, the mark is written and the files are still those that were opened. A change that
cannot be made fails alone: the transaction is rolled back and the changes are made again one by one. What a change does
to the rows is the book's.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec.structs import replace

from tailrace.errors import Fenced, LedgerError, LedgerLost
from tailrace.ledger.faults import TRANSACTION_ERRORS, at_run_time
from tailrace.ledger.queries import queries
from tailrace.ledger.together import Change, RefusedTogether, Single, make_together

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence
    from pathlib import Path

    from tailrace.ledger.checkpoints import Checkpoints
    from tailrace.ledger.connection import Connection
    from tailrace.ledger.files import Anchor, HighWaterMark, MarkFile
    from tailrace.ledger.transitions import RowWriter

OnLost: TypeAlias = Callable[[LedgerError], None]
MOST_TOGETHER = 256

_log = logging.getLogger(__name__)


def end_process(error: LedgerError) -> None:
    """Say what happened and end the process at once: only the next one can know what is in the ledger."""
    with suppress(OSError):
        os.write(2, f"tailrace: {error}\n".encode("utf-8", "replace"))
    os._exit(1)


class _RolledBack(Exception):
    """Nothing of the transaction was made. `for_all`: whatever else is tried now would end the same way."""

    def __init__(self, error: BaseException, *, for_all: bool) -> None:
        super().__init__()
        self.error = error
        self.for_all = for_all


class WriterFiles:
    """What the writer works with: the connection it alone uses, and the files that witness what it did."""

    def __init__(
        self, connection: Connection, path: Path, *, anchor: Anchor, mark_file: MarkFile, mark: HighWaterMark
    ) -> None:
        self.connection = connection
        self.path = path
        self.anchor = anchor
        self.mark_file = mark_file
        self.mark = mark


class Writer:
    """The thread, and the changes that wait for it. Answers are given in the loop."""

    def __init__(
        self,
        desk: WriterFiles,
        book: RowWriter,
        loop: asyncio.AbstractEventLoop,
        *,
        checkpoints: Checkpoints,
        on_lost: OnLost,
    ) -> None:
        self._desk = desk
        self._book = book
        self._execute = desk.connection.execute
        self._loop = loop
        self._checkpoints = checkpoints
        self._on_lost = on_lost
        self._sql = queries()
        self._queue: SimpleQueue[Change | None] = SimpleQueue()
        self._lost: LedgerError | None = None
        self._handed_in = self._answered = 0
        self._onlookers: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._thread = threading.Thread(target=self._work, name="tailrace-ledger-writer", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """How many changes wait."""
        return self._queue.qsize()

    def submit(
        self, made: Callable[[], Any], *, compound: bool = False, single: Single | None = None
    ) -> asyncio.Future[Any]:
        """Hand in a change; it is made whether or not anybody still waits for the answer."""
        if self._lost is not None:
            raise _anew(self._lost)
        future = self._loop.create_future()
        self._handed_in += 1
        self._queue.put(Change(made, compound=compound, single=single, future=future))
        return future

    def mention(self, made: Callable[[], Any]) -> None:
        """Hand in a change that nobody waits for."""
        self._handed_in += 1
        self._queue.put(Change(made))

    async def catch_up(self) -> None:
        """Wait until all that was handed in so far is answered, whatever the answers are."""
        if self._answered < self._handed_in:
            onlooker = self._loop.create_future()
            self._onlookers.append((self._handed_in, onlooker))
            await onlooker

    def lose(self, error: LedgerError) -> None:
        """From now on nobody can rely on the ledger: every call raises, and whoever runs the process is told."""
        if self._lost is None:
            self._lost = error
            self._on_lost(error)

    def finish(self) -> None:
        """Make what waits, and end the thread. Blocks until it has."""
        self._queue.put(None)
        self._thread.join()

    def _work(self) -> None:
        more = True
        while more:
            batch, more = self._take()
            if not batch:
                continue
            try:
                self._write(batch)
            except Exception as error:  # noqa: BLE001 - a mistake of ours must not leave everybody waiting for ever
                self._break(error)
                _refuse(batch, self._lost or error)
            # A loop that is closed has nobody left who waits.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._answer, batch)
            try:
                self._tidy(len(batch))
            except Exception as error:  # noqa: BLE001 - as above
                self._break(error)

    def _break(self, error: Exception) -> None:
        _log.critical("the ledger's writer failed", exc_info=error)
        self.lose(LedgerLost(f"{self._desk.path} can no longer be written ({error!r}). Start tailrace again."))

    def _take(self) -> tuple[list[Change], bool]:
        """All changes that wait, once there is one, and whether more may come."""
        batch: list[Change] = []
        change = self._queue.get()
        with suppress(Empty):
            while change is not None:
                batch.append(change)
                if len(batch) == MOST_TOGETHER:
                    break
                change = self._queue.get_nowait()
        return batch, change is not None

    def _write(self, batch: Sequence[Change], *, together: bool = True) -> None:
        if self._lost is None:
            try:
                self._commit(batch, together=together)
            except RefusedTogether:
                self._write(batch, together=False)
            except _RolledBack as rolled_back:
                if len(batch) == 1 or rolled_back.for_all:
                    _refuse(batch, rolled_back.error)
                else:
                    for change in batch:
                        self._write([change])
            except (LedgerLost, Fenced) as lost:
                self.lose(lost)
                _refuse(batch, lost)
        else:
            _refuse(batch, self._lost)

    def _commit(self, batch: Sequence[Change], *, together: bool) -> None:
        """One transaction. Raises `_RolledBack` where nothing was made, and `LedgerLost` where nobody knows."""
        desk = self._desk
        mark = replace(desk.mark, commits=desk.mark.commits + 1)
        begun = False
        try:
            self._execute(self._sql["begin"])
            mine = self._execute(self._sql["count_commit"], (mark.epoch, mark.commits)).rowcount
            begun = True
            if mine:
                self._make_all(batch, together=together)
                self._execute(self._sql["commit"])
        except TRANSACTION_ERRORS as error:
            self._settle(error, mark, for_all=not begun)
        if not mine:
            self._roll_back()
            raise Fenced(f"{desk.path} is written by another owner. This process must end.")
        # After the commit, before anybody is told of it: it may have gone to files that nobody finds any more.
        desk.anchor.check()
        desk.mark = mark
        try:
            desk.mark_file.write(mark)
        except OSError as error:
            _log.warning("%s: the mark beside it cannot be written: %s", desk.path, error)

    def _make_all(self, batch: Sequence[Change], *, together: bool) -> None:
        if not together:
            for change in batch:
                self._make(change)
            return
        try:
            make_together(batch, self._book, self._make)
        except RefusedTogether:
            self._roll_back()
            raise

    def _make(self, change: Change) -> None:
        change.error = None
        try:
            if change.compound:
                self._execute(self._sql["savepoint"])
            change.result = change.made()
            if change.compound:
                self._execute(self._sql["keep_savepoint"])
        except TRANSACTION_ERRORS:
            raise
        except Exception as error:  # noqa: BLE001 - one change must not end the thread that all others need
            change.error = error
            if change.compound:
                self._execute(self._sql["undo_savepoint"])
                self._execute(self._sql["keep_savepoint"])

    def _settle(self, error: BaseException, mark: HighWaterMark, *, for_all: bool) -> None:
        """After an error in a transaction: returns where it was committed all the same, and raises where it was not."""
        path = self._desk.path
        verdict = at_run_time(error, path)
        if isinstance(verdict, LedgerLost):
            raise verdict from error
        try:
            self._roll_back()
            commits = self._execute(self._sql["standing"]).fetchone()[3]
        except TRANSACTION_ERRORS as second:
            if for_all:  # Not even begun: there is nothing that could have been committed.
                raise _RolledBack(verdict or error, for_all=True) from second
            commits = None
        if commits == mark.commits:
            return
        if commits != self._desk.mark.commits:
            raise LedgerLost(f"{path}: what was committed last cannot be told ({error}). Start tailrace again.")
        raise _RolledBack(verdict or error, for_all=for_all) from error

    def _answer(self, batch: Sequence[Change]) -> None:
        """In the loop: tell everybody whose change was in the batch."""
        for change in batch:
            future = change.future
            if future is None or future.done():
                continue
            if change.error is None:
                future.set_result(change.result)
            else:
                future.set_exception(change.error)
        self._answered += len(batch)
        while self._onlookers and self._onlookers[0][0] <= self._answered:
            _number, onlooker = self._onlookers.popleft()
            if not onlooker.done():
                onlooker.set_result(None)

    def _roll_back(self) -> None:
        if self._desk.connection.in_transaction:
            self._execute(self._sql["rollback"])

    def _tidy(self, changes: int) -> None:
        """Make a checkpoint where one is due. One that fails for want of space is due again; a failed sync is fatal."""
        length = self._desk.anchor.wal_size
        if self._lost is not None or not self._checkpoints.are_due(changes, length):
            return
        try:
            _busy, frames, _copied = self._execute(self._sql["checkpoint"]).fetchone()
            self._checkpoints.made(frames, length)
        except TRANSACTION_ERRORS as error:
            verdict = at_run_time(error, self._desk.path)
            if isinstance(verdict, LedgerLost):
                self.lose(verdict)


def _anew(error: BaseException) -> BaseException:
    """The same error for one more caller: an exception that was raised belongs to where it was raised."""
    if isinstance(error, Fenced | LedgerError):
        return type(error)(str(error))
    return error


def _refuse(batch: Sequence[Change], error: BaseException) -> None:
    for change in batch:
        change.error = _anew(error)
