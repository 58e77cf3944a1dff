"""The ledger in a file: SQLite with a writer thread, a reader thread and a file lock.

Owns the opening, the order of calls, and the snapshots that ride along; the rest has rooms of its own: `files` (lock,
mark, rights), `schema` (versions), `book` (what a change does), `writer` (commits), `reader` (questions).
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
from tailrace.ledger.opening import LedgerLimits, Opened, open_files
from tailrace.ledger.rows import encoded
from tailrace.ledger.transitions import Move, check_end, check_moves, check_plan
from tailrace.ledger.writer import OnLost, Writer, end_process

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tailrace.deliveries import Delivery, Inbound, OpenConversation, Query, Snapshot, Turn
    from tailrace.ledger.connection import Connect
    from tailrace.ledger.reader import SqliteReader
    from tailrace.ledger.together import Single
    from tailrace.ports import Clock

_CHECK_AGAIN_S = 60.0
_USUAL = LedgerLimits()
_log = logging.getLogger(__name__)


class SqliteLedger:
    """The ledger at one path, held by one process. Made by `open`."""

    def __init__(self, opened: Opened, *, clock: Clock | None, on_lost: OnLost, terms: LedgerLimits) -> None:
        desk = opened.desk
        self._wall = time.time if clock is None else clock.wall
        self._opened = opened
        self._terms = terms
        self._loop = asyncio.get_running_loop()
        self._reader = opened.reader
        self._book = opened.book
        checkpoints = Checkpoints(desk.path, frames=terms.checkpoint_frames, alarm_bytes=terms.alarm_bytes)
        self._writer = Writer(desk, self._book, self._loop, checkpoints=checkpoints, on_lost=on_lost)
        self._snapshots: dict[str, str] = {}
        self._flush: asyncio.TimerHandle | None = None
        self._closing: asyncio.Future[None] | None = None
        self._check: asyncio.Future[None] | None = None
        if opened.checker is not None:
            self._check = asyncio.ensure_future(self._check_file(opened.checker))
        self.epoch = self._book.epoch

    @classmethod
    async def open(
        cls,
        path: Path | str | None = None,
        *,
        clock: Clock | None = None,
        connect: Connect = connect,
        on_lost: OnLost = end_process,
        terms: LedgerLimits = _USUAL,
        adopt_restored: bool = False,
    ) -> SqliteLedger:
        """Open the ledger at `path`, made where there is none, as its one owner.

        Raises `LedgerInUse` where another process holds it, and `LedgerUnusable` where it cannot be trusted. One that
        was restored from an older copy, or has lost its last commits, is only opened with `adopt_restored`: then all
        that was open counts as maybe sent. `on_lost` is called, from another thread, when the ledger breaks while in
        use; if nobody says otherwise the process ends there.
        """
        path = default_path() if path is None else Path(path)
        opening = asyncio.ensure_future(
            asyncio.to_thread(open_files, path, connect, terms, adopt_restored=adopt_restored)
        )
        try:
            opened = await asyncio.shield(opening)
        except asyncio.CancelledError:
            # The thread cannot be stopped; what it opens for nobody is let go of.
            opening.add_done_callback(_let_go_of)
            raise
        return cls(opened, clock=clock, on_lost=on_lost, terms=terms)

    async def accept(self, inbound: Inbound) -> str:
        """See `Ledger.accept`."""
        self._admit()
        turn_id: str = await self._change(partial(self._book.accept, inbound, self._wall()), compound=True)
        return turn_id

    async def begin(self, turn: Turn) -> Turn:
        """See `Ledger.begin`."""
        begun: Turn = await self._change(partial(self._book.begin, turn, self._wall()))
        return begun

    def save_snapshot(self, turn_id: str, snapshot: Snapshot) -> None:
        """See `Ledger.remember`."""
        with suppress(UnicodeEncodeError):  # it cannot be kept
            self._snapshots[turn_id] = encoded(snapshot)
        if self._flush is None and self._snapshots and self._closing is None:
            self._flush = self._loop.call_later(self._terms.snapshot_s, self._hand_in_snapshots)

    async def end(self, turn: Turn, state: TurnState, *, plan: Sequence[Delivery] = ()) -> list[Delivery]:
        """See `Ledger.end`."""
        check_end(state)
        check_plan(plan)
        change = partial(self._book.end, turn, state, tuple(plan), self._wall())
        recorded: list[Delivery] = await self._change(change, compound=bool(plan))
        return recorded

    async def plan(self, deliveries: Sequence[Delivery]) -> list[Delivery]:
        """See `Ledger.plan`."""
        check_plan(deliveries)
        self._admit()
        single = (None, deliveries[0]) if len(deliveries) == 1 else None
        change = partial(self._book.plan, tuple(deliveries))
        recorded: list[Delivery] = await self._change(change, compound=len(deliveries) > 1, single=single)
        return recorded

    async def move(self, *moves: Move, plan: Sequence[Delivery] = ()) -> list[Delivery]:
        """See `Ledger.move`."""
        check_moves(moves, plan)
        single = moves[0] if len(moves) == 1 and not plan else None
        change = partial(self._book.move, moves, tuple(plan))
        moved: list[Delivery] = await self._change(change, compound=len(moves) + len(plan) > 1, single=single)
        return moved

    async def adopt(self, conversation: str, *, now: float, limit: int) -> list[Delivery]:
        """See `Ledger.adopt`."""
        adopted: list[Delivery] = await self._change(partial(self._book.adopt, conversation, now, limit))
        return adopted

    async def open_conversations(self, *, after: str = "", limit: int = 256) -> list[OpenConversation]:
        """See `Ledger.waiting`."""
        await self._what_was_handed_in()
        return await self._reader.open_conversations(after=after, limit=limit)

    async def interrupted_turns(self, *, state: TurnState = TurnState.RUNNING, limit: int = 256) -> list[Turn]:
        """See `Ledger.interrupted`."""
        await self._what_was_handed_in()
        return await self._reader.interrupted_turns(before_epoch=self.epoch, state=state, limit=limit)

    async def find(self, query: Query, *, after: int | None = None, limit: int = 100) -> list[Delivery]:
        """See `Ledger.find`."""
        await self._what_was_handed_in()
        return await self._reader.find(query, after=after, limit=limit)

    async def prune(self, query: Query, *, limit: int = 200, bodies: bool = False) -> int:
        """See `Ledger.prune`."""
        pruned: int = await self._change(partial(self._book.prune, query, limit, bodies=bodies), compound=True)
        return pruned

    async def close(self) -> None:
        """See `Ledger.close`."""
        if self._closing is None:
            self._hand_in_snapshots()
            if self._check is not None:
                self._check.cancel()
            self._closing = self._loop.run_in_executor(None, self._let_go)
        # Whoever is cancelled while waiting does not leave it half closed.
        await asyncio.shield(self._closing)

    def _let_go(self) -> None:
        self._writer.finish()
        self._opened.let_go()

    def _admit(self) -> None:
        if self._writer.waiting > self._terms.most_waiting:
            raise LedgerUnavailable(
                f"{self._opened.desk.path}: {self._writer.waiting} changes wait for the disk, which is too slow. "
                "Nothing new is taken until they are written."
            )

    def _change(
        self, made: Callable[[], Any], *, compound: bool = False, single: Single | None = None
    ) -> asyncio.Future[Any]:
        if self._closing is not None:
            raise LedgerUnavailable(f"{self._opened.desk.path} is closed.")
        if self._snapshots:
            self._hand_in_snapshots()
        return self._writer.submit(made, compound=compound, single=single)

    def _hand_in_snapshots(self) -> None:
        if self._flush is not None:
            self._flush.cancel()
            self._flush = None
        if self._snapshots:
            self._writer.mention(partial(self._book.save_snapshots, list(self._snapshots.items()), self._wall()))
            self._snapshots = {}

    async def _what_was_handed_in(self) -> None:
        """Wait for the changes before a question, so that it sees them; whether they were made is not its matter."""
        if self._closing is not None:
            raise LedgerUnavailable(f"{self._opened.desk.path} is closed.")
        await self._writer.catch_up()

    async def _check_file(self, checker: SqliteReader) -> None:
        try:
            while not await self._is_checked(checker):  # noqa: ASYNC110 -- it is time that is waited for
                await asyncio.sleep(_CHECK_AGAIN_S)
        except (LedgerUnusable, LedgerLost) as error:
            self._writer.lose(LedgerLost(str(error)))
        except LedgerError as error:
            _log.warning("%s could not be checked: %s", self._opened.desk.path, error)

    async def _is_checked(self, checker: SqliteReader) -> bool:
        try:
            await checker.check()
        except LedgerUnavailable:
            return False
        return True


def _let_go_of(opening: asyncio.Future[Opened]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().let_go()
