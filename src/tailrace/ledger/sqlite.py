"""The ledger in a SQLite file, with a writer thread, a reader thread and a file lock.

Owns the opening, the order of calls, and the snapshots that wait for the next change. The rest is in modules of its
own: `files` (lock, mark, permissions), `schema` (versions), `transitions` (what a change does), `writer` (commits),
`reader` (queries).
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tailrace.deliveries import TurnState
from tailrace.errors import LedgerError, LedgerLost, LedgerUnavailable, LedgerUnusable
from tailrace.ledger.checkpoints import Checkpoints
from tailrace.ledger.connection import connect
from tailrace.ledger.files import default_path
from tailrace.ledger.opening import LedgerLimits, OpenedLedger, open_files
from tailrace.ledger.rows import encoded
from tailrace.ledger.transitions import Move, check_end, check_moves, check_plan
from tailrace.ledger.writer import OnLost, Writer, end_process

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tailrace.deliveries import Delivery, Inbound, OpenConversation, Query, Snapshot, Turn
    from tailrace.ledger.batches import RowChange
    from tailrace.ledger.connection import Connect
    from tailrace.ledger.reader import SqliteReader
    from tailrace.ports import Clock

_CHECK_AGAIN_S = 60.0
_DEFAULTS = LedgerLimits()
_log = logging.getLogger(__name__)


class SqliteLedger:
    """The ledger at one path, owned by one process. Created by `open`."""

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
        self._snapshots: dict[str, str] = {}
        self._flush: asyncio.TimerHandle | None = None
        self._closing: asyncio.Future[None] | None = None
        self._check: asyncio.Future[None] | None = None
        if opened.checker is not None:
            self._check = asyncio.ensure_future(self._check_file(opened.checker))
        self.epoch = self._rows.epoch

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
        ledger that was restored from an older copy, or that lost its last commits, opens only with `adopt_restored`:
        then everything open becomes ambiguous. `on_lost` is called from another thread if the ledger fails while in
        use; by default the process ends there.
        """
        path = default_path() if path is None else Path(path)
        opening = asyncio.ensure_future(
            asyncio.to_thread(open_files, path, connect, limits, adopt_restored=adopt_restored)
        )
        try:
            opened = await asyncio.shield(opening)
        except asyncio.CancelledError:
            # The thread cannot be stopped, so close what it opens.
            opening.add_done_callback(_close_opened)
            raise
        return cls(opened, clock=clock, on_lost=on_lost, limits=limits)

    async def accept(self, inbound: Inbound) -> str:
        """See `Ledger.accept`."""
        self._refuse_if_overloaded()
        turn_id: str = await self._change(partial(self._rows.accept, inbound, self._wall()), compound=True)
        return turn_id

    async def begin(self, turn: Turn) -> Turn:
        """See `Ledger.begin`."""
        begun: Turn = await self._change(partial(self._rows.begin, turn, self._wall()))
        return begun

    def save_snapshot(self, turn_id: str, snapshot: Snapshot) -> None:
        """See `Ledger.save_snapshot`."""
        with suppress(UnicodeEncodeError):  # it cannot be stored
            self._snapshots[turn_id] = encoded(snapshot)
        if self._flush is None and self._snapshots and self._closing is None:
            self._flush = self._loop.call_later(self._limits.snapshot_s, self._submit_snapshots)

    async def end(self, turn: Turn, state: TurnState, *, plan: Sequence[Delivery] = ()) -> list[Delivery]:
        """See `Ledger.end`."""
        check_end(state)
        check_plan(plan)
        change = partial(self._rows.end, turn, state, tuple(plan), self._wall())
        recorded: list[Delivery] = await self._change(change, compound=bool(plan))
        return recorded

    async def plan(self, deliveries: Sequence[Delivery]) -> list[Delivery]:
        """See `Ledger.plan`."""
        check_plan(deliveries)
        self._refuse_if_overloaded()
        single = (None, deliveries[0]) if len(deliveries) == 1 else None
        change = partial(self._rows.plan, tuple(deliveries))
        recorded: list[Delivery] = await self._change(change, compound=len(deliveries) > 1, single=single)
        return recorded

    async def move(self, *moves: Move, plan: Sequence[Delivery] = ()) -> list[Delivery]:
        """See `Ledger.move`."""
        check_moves(moves, plan)
        single = moves[0] if len(moves) == 1 and not plan else None
        change = partial(self._rows.move, moves, tuple(plan))
        moved: list[Delivery] = await self._change(change, compound=len(moves) + len(plan) > 1, single=single)
        return moved

    async def adopt(self, conversation: str, *, now: float, limit: int) -> list[Delivery]:
        """See `Ledger.adopt`."""
        adopted: list[Delivery] = await self._change(partial(self._rows.adopt, conversation, now, limit))
        return adopted

    async def open_conversations(self, *, after: str = "", limit: int = 256) -> list[OpenConversation]:
        """See `Ledger.open_conversations`."""
        await self._wait_for_submitted()
        return await self._reader.open_conversations(after=after, limit=limit)

    async def interrupted_turns(self, *, state: TurnState = TurnState.RUNNING, limit: int = 256) -> list[Turn]:
        """See `Ledger.interrupted_turns`."""
        await self._wait_for_submitted()
        return await self._reader.interrupted_turns(before_epoch=self.epoch, state=state, limit=limit)

    async def find(self, query: Query, *, after: int | None = None, limit: int = 100) -> list[Delivery]:
        """See `Ledger.find`."""
        await self._wait_for_submitted()
        return await self._reader.find(query, after=after, limit=limit)

    async def prune(self, query: Query, *, limit: int = 200, bodies: bool = False) -> int:
        """See `Ledger.prune`."""
        pruned: int = await self._change(partial(self._rows.prune, query, limit, bodies=bodies), compound=True)
        return pruned

    async def close(self) -> None:
        """See `Ledger.close`."""
        if self._closing is None:
            self._submit_snapshots()
            if self._check is not None:
                self._check.cancel()
            self._closing = self._loop.run_in_executor(None, self._release)
        # Shielded: a cancelled caller must not leave it half closed.
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

    def _change(
        self, apply: Callable[[], Any], *, compound: bool = False, single: RowChange | None = None
    ) -> asyncio.Future[Any]:
        if self._closing is not None:
            raise LedgerUnavailable(f"{self._opened.files.path} is closed.")
        if self._snapshots:
            self._submit_snapshots()
        return self._writer.submit(apply, compound=compound, single=single)

    def _submit_snapshots(self) -> None:
        if self._flush is not None:
            self._flush.cancel()
            self._flush = None
        if self._snapshots:
            self._writer.submit_unawaited(
                partial(self._rows.save_snapshots, list(self._snapshots.items()), self._wall())
            )
            self._snapshots = {}

    async def _wait_for_submitted(self) -> None:
        """Wait for earlier changes, so that a query sees them. Their errors go to their own callers."""
        if self._closing is not None:
            raise LedgerUnavailable(f"{self._opened.files.path} is closed.")
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
