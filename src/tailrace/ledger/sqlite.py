"""The ledger in a SQLite file, with a writer thread, a reader thread and a file lock.

This module opens the ledger, keeps the order of calls, and keeps snapshots until the next change. Other modules do the
rest: `files` (lock, mark, permissions), `leases`, `schema` (versions), `transitions` (what a change does), `writer`
(commits), `reader` (queries).
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from msgspec.structs import replace

from tailrace.errors import Fenced, LedgerClosed, LedgerError, LedgerLost, LedgerUnavailable, LedgerUnusable
from tailrace.ledger.checkpoints import Checkpoints
from tailrace.ledger.connection import connect
from tailrace.ledger.files import default_path
from tailrace.ledger.leases import Leases
from tailrace.ledger.opening import LedgerLimits, OpenedLedger, open_files
from tailrace.ledger.rows import encoded
from tailrace.ledger.transitions import Move, check_end, check_moves, check_plan
from tailrace.ledger.writer import OnLost, Writer, end_process

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tailrace.deliveries import (
        Accepted,
        Delivery,
        Lease,
        OpenConversation,
        Query,
        Snapshot,
        Turn,
        TurnState,
    )
    from tailrace.inbound import InboundMessage
    from tailrace.ledger.batches import RowChange
    from tailrace.ledger.connection import Connect
    from tailrace.ledger.reader import SqliteReader
    from tailrace.ports import Clock

_CHECK_AGAIN_S = 60.0
_DEFAULTS = LedgerLimits()
_log = logging.getLogger(__name__)

Result = TypeVar("Result")


class LedgerActivity(NamedTuple):
    """How many commits there were, how long they took together, and how many changes wait to be written."""

    commits: int
    commit_s: float
    changes_waiting: int


class SqliteLedger:
    """The ledger at one path, owned by one process. Use `open` to create it."""

    def __init__(self, opened: OpenedLedger, *, clock: Clock | None, on_lost: OnLost, limits: LedgerLimits) -> None:
        files = opened.files
        self._wall = time.time if clock is None else clock.wall
        self._opened = opened
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._reader = opened.reader
        self._rows = opened.rows
        checkpoints = Checkpoints(files.path, frames=limits.checkpoint_frames, alarm_bytes=limits.alarm_bytes)
        self._writer = Writer(files, self._rows, self._loop, checkpoints=checkpoints, on_lost=on_lost)
        self._snapshots: dict[str, tuple[int, str]] = {}
        self._flush: asyncio.TimerHandle | None = None
        self._closing: asyncio.Future[None] | None = None
        self._check: asyncio.Future[None] | None = None
        if opened.checker is not None:
            self._check = asyncio.ensure_future(self._check_file(opened.checker))
        self._leases = Leases(files.mark.epoch)

    @classmethod
    async def open(
        cls,
        path: Path | str | None = None,
        *,
        clock: Clock | None = None,
        connect: Connect = connect,
        on_lost: OnLost = end_process,
        limits: LedgerLimits = _DEFAULTS,
        adopt_restored: bool = False,
    ) -> SqliteLedger:
        """Open the ledger at `path` as its only owner. Creates the file if there is none.

        Raises `LedgerInUse` if another process has it open, and `LedgerUnusable` if the file cannot be trusted. A
        ledger that was restored from an older copy, or that lost its last commits, can be opened only with
        `adopt_restored`; all open deliveries then become ambiguous. If the ledger fails while in use, `on_lost` is
        called from another thread; by default it ends the process.
        """
        path = default_path() if path is None else Path(path)
        opening = asyncio.ensure_future(
            asyncio.to_thread(open_files, path, connect, limits, adopt_restored=adopt_restored)
        )
        try:
            opened = await asyncio.shield(opening)
        except asyncio.CancelledError:
            # The thread goes on and cannot be stopped. Close the ledger that it opens.
            opening.add_done_callback(_close_opened)
            raise
        return cls(opened, clock=clock, on_lost=on_lost, limits=limits)

    @property
    def activity(self) -> LedgerActivity:
        """What the writer has done so far in this process. May be read in any thread."""
        return LedgerActivity(self._writer.commits, self._writer.commit_s, self._writer.waiting)

    async def accept(self, message: InboundMessage) -> Accepted:
        """Record an incoming message and its turn, see `Ledger.accept`."""
        self._refuse_if_overloaded()
        return await self._change(partial(self._rows.accept, message, self._wall()), compound=True)

    async def cancel(self, turn_id: str) -> None:
        """Cancel a turn for ever, see `Ledger.cancel`."""
        await self._change(partial(self._rows.cancel, turn_id))

    async def acquire(self, conversation: str) -> Lease:
        """Become the owner of a conversation, see `Ledger.acquire`.

        Never raises `Fenced`: no other process has the file.
        """
        self._refuse_if_closed()
        self._submit_snapshots()  # they belong to the lease that ends now
        lease = self._leases.acquire(conversation)
        await self._wait_for_submitted()
        return replace(lease, has_open=await self._reader.has_open(conversation))

    def release(self, lease: Lease) -> None:
        """End a lease, see `Ledger.release`."""
        self._leases.release(lease)

    async def begin(self, lease: Lease, turn: Turn) -> Turn:
        """Set a turn to `running`, see `Ledger.begin`."""
        return await self._change(partial(self._rows.begin, lease, turn, self._wall()), lease=lease)

    def save_snapshot(self, lease: Lease, turn_id: str, snapshot: Snapshot) -> None:
        """Save the current text of a running turn, see `Ledger.save_snapshot`."""
        with suppress(Fenced, UnicodeEncodeError):  # drop a snapshot that cannot be stored
            self._leases.check(lease)
            self._snapshots[turn_id] = lease.epoch, encoded(snapshot)
        if self._flush is None and self._snapshots and self._closing is None:
            self._flush = self._loop.call_later(self._limits.snapshot_s, self._submit_snapshots)

    async def end(self, lease: Lease, turn: Turn, state: TurnState, *, plan: Sequence[Delivery] = ()) -> list[Delivery]:
        """End a turn and record its last deliveries, see `Ledger.end`."""
        check_end(state)
        new = check_plan(lease, plan)
        change = partial(self._rows.end, lease, turn, state, new, self._wall())
        return await self._change(change, lease=lease, compound=bool(new))

    async def plan(self, lease: Lease, deliveries: Sequence[Delivery]) -> list[Delivery]:
        """Record new deliveries, see `Ledger.plan`."""
        new = check_plan(lease, deliveries)
        self._refuse_if_overloaded()
        single = (None, new[0]) if len(new) == 1 else None
        change = partial(self._rows.plan, new)
        return await self._change(change, lease=lease, compound=len(new) > 1, single=single)

    async def move(
        self,
        lease: Lease,
        *moves: Move,
        plan: Sequence[Delivery] = (),
        hold_s: float = 0.0,  # noqa: ARG002 -- the file lock has no deadline, so there is nothing to extend
    ) -> list[Delivery]:
        """Change the states of deliveries, see `Ledger.move`."""
        notices = check_moves(lease, moves, plan)
        single = moves[0] if len(moves) == 1 and not notices else None
        change = partial(self._rows.move, moves, notices)
        compound = len(moves) + len(notices) > 1
        return await self._change(change, lease=lease, compound=compound, single=single)

    async def adopt(self, lease: Lease, *, now: float, limit: int) -> list[Delivery]:
        """Take over the open rows that an earlier lease left, see `Ledger.adopt`."""
        return await self._change(partial(self._rows.adopt, lease, now, limit), lease=lease)

    async def open_conversations(self, *, after: str = "", limit: int = 256) -> list[OpenConversation]:
        """The conversations with open deliveries, see `Ledger.open_conversations`."""
        await self._wait_for_submitted()
        return await self._reader.open_conversations(after=after, limit=limit)

    async def interrupted_turns(self, *, conversation: str | None = None, limit: int = 256) -> list[Turn]:
        """The running turns whose lease has ended, see `Ledger.interrupted_turns`."""
        await self._wait_for_submitted()
        leases = self._leases.epochs(conversation)
        return await self._reader.interrupted_turns(leases=leases, conversation=conversation, limit=limit)

    async def accepted_turns(self, *, conversation: str | None = None, limit: int = 256) -> list[Turn]:
        """The turns that were accepted but never begun, see `Ledger.accepted_turns`."""
        await self._wait_for_submitted()
        return await self._reader.accepted_turns(conversation=conversation, limit=limit)

    async def turn(self, turn_id: str) -> Turn | None:
        """The turn with that id, if there is one."""
        await self._wait_for_submitted()
        return await self._reader.turn(turn_id)

    async def find(self, query: Query, *, after: int | None = None, limit: int = 100) -> list[Delivery]:
        """The deliveries that match a query, see `Ledger.find`."""
        await self._wait_for_submitted()
        return await self._reader.find(query, after=after, limit=limit)

    async def prune(self, query: Query, *, limit: int = 200, bodies: bool = False) -> int:
        """Delete final deliveries and ended turns that match a query, see `Ledger.prune`."""
        change = partial(self._rows.prune, query, limit, self._wall(), bodies=bodies)
        return await self._change(change, compound=True)

    async def store(self, kind: str, key: str, value: bytes | None) -> None:
        """Record a small value under its kind and key, see `Ledger.store`."""
        await self._change(partial(self._rows.store, kind, key, value))

    async def stored(self, kind: str) -> dict[str, bytes]:
        """All values of a kind, see `Ledger.stored`."""
        await self._wait_for_submitted()
        return await self._reader.stored(kind)

    async def close(self) -> None:
        """Write all submitted changes, then close the files. May be called twice."""
        if self._closing is None:
            self._submit_snapshots()
            if self._check is not None:
                self._check.cancel()
            self._closing = self._loop.run_in_executor(None, self._release)
        # Shielded: if the caller is cancelled, closing must still be completed.
        await asyncio.shield(self._closing)

    def _release(self) -> None:
        self._writer.finish()
        self._opened.release()

    def _refuse_if_overloaded(self) -> None:
        if self._writer.waiting > self._limits.max_waiting:
            raise LedgerUnavailable(
                f"{self._opened.files.path}: {self._writer.waiting} changes wait for the disk, which is too slow. "
                "New work is refused until they are written."
            )

    def _refuse_if_closed(self) -> None:
        if self._closing is not None:
            raise LedgerClosed(f"{self._opened.files.path} is closed.")

    def _change(
        self,
        apply: Callable[[], Result],
        *,
        lease: Lease | None = None,
        compound: bool = False,
        single: RowChange | None = None,
    ) -> asyncio.Future[Result]:
        self._refuse_if_closed()
        if lease is not None:
            self._leases.check(lease)
        if self._snapshots:
            self._submit_snapshots()
        return self._writer.submit(apply, compound=compound, single=single)

    def _submit_snapshots(self) -> None:
        if self._flush is not None:
            self._flush.cancel()
            self._flush = None
        if self._snapshots:
            snapshots = [(turn_id, *snapshot) for turn_id, snapshot in self._snapshots.items()]
            self._writer.submit_unawaited(partial(self._rows.save_snapshots, snapshots, self._wall()))
            self._snapshots = {}

    async def _wait_for_submitted(self) -> None:
        """Wait for all earlier changes, so that a query sees them.

        If a change fails, only its own caller gets the error.
        """
        self._refuse_if_closed()
        await self._writer.wait_for_submitted()

    async def _check_file(self, checker: SqliteReader) -> None:
        try:
            while not await self._is_checked(checker):  # noqa: ASYNC110 -- waits for time
                await asyncio.sleep(_CHECK_AGAIN_S)
        except (LedgerUnusable, LedgerLost) as error:
            self._writer.fail(LedgerLost(str(error)))
        except LedgerError as error:
            _log.warning("%s could not be checked: %s", self._opened.files.path, error)

    async def _is_checked(self, checker: SqliteReader) -> bool:
        try:
            await checker.check()
        except LedgerUnavailable:
            return False
        return True


def _close_opened(opening: asyncio.Future[OpenedLedger]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().release()
