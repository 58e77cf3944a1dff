"""Sends the events of one turn to one conversation: a projector decides the operations, the courier performs them.

The code here gives each event to the projector, asks it for the next operation, passes that to the courier and reports
the outcome to the projector. It waits for durable operations, but not for interim ones. The last operations of a turn
are recorded together with its end, so that no crash can come between the two.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from tailrace.deliveries import FINAL, NOTICE_ORDINAL, OPEN, Delivery, State, TurnState
from tailrace.delivery.plan import SNAPSHOT_EVERY_S
from tailrace.events import TurnCancelled, TurnCompleted, TurnFailed
from tailrace.operations import Ambiguous, AppendStream, Delivered, Draft, Edit, Outcome, Refused, Typing
from tailrace.projector import Idle, Projector, WaitUntil, restored_messages

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Coroutine

    from tailrace.capabilities import Capabilities
    from tailrace.delivery.plan import OpenTurn
    from tailrace.delivery.preview_slot import Shown
    from tailrace.events import Event
    from tailrace.operations import Durable, Interim
    from tailrace.ports import Clock
    from tailrace.projector import ProjectorSettings

_log = logging.getLogger(__name__)

_OFFER_SNAPSHOT_EVERY_S = 0.5
_STOP_READING_S = 5.0
_END_STATES: dict[type, TurnState] = {
    TurnCompleted: TurnState.DONE,
    TurnFailed: TurnState.FAILED,
    TurnCancelled: TurnState.CANCELLED,
}


class EventsCut(Exception):
    """Raise this in the iterator `events` of `present` if the events stop before the end of their turn.

    The turn then stays open and can be resumed.
    """


async def present(
    events: AsyncIterable[Event],
    turn: OpenTurn,
    capabilities: Capabilities,
    settings: ProjectorSettings | None = None,
    *,
    clock: Clock,
) -> list[Delivery]:
    """Present the events of a turn that was begun. Returns all deliveries of the turn in their last known state.

    To resume an interrupted turn, pass its events again from the first one: only the missing messages are sent. If the
    turn has already ended, no event is read and nothing is sent. If the courier is drained meanwhile, the deliveries
    that are not finished stay open in the ledger. If `events` raises an exception, the earlier events are delivered
    first; then the exception is raised here too. After `EventsCut` the turn stays open, with its unsent text in the
    snapshot; any other exception makes it a failed turn.
    """
    try:
        earlier = await turn.earlier_deliveries() if turn.turn.last_ordinal else []
        is_unfinished = any(row.state in OPEN and row.ordinal != NOTICE_ORDINAL for row in earlier)
        if turn.is_finished or is_unfinished:
            return earlier  # if unfinished: the courier is drained; the next operations depend on these outcomes
        projector = Projector(turn.turn.target, capabilities, settings, earlier=restored_messages(earlier))
        return earlier + await _Presentation(turn, projector, clock).run(events)
    finally:
        turn.close()


class _Presentation:
    """The presentation of one turn."""

    def __init__(self, turn: OpenTurn, projector: Projector, clock: Clock) -> None:
        self._turn = turn
        self._projector = projector
        self._clock = clock
        self._changed = asyncio.Event()
        self._end_state = TurnState.FAILED
        self._delivered: list[Delivery] = []
        self._snapshot_at = float("-inf")
        self._is_saved = True  # whether the latest text is in a snapshot
        self._is_repeating = False  # there was none to save, because an earlier process had sent more
        self._is_cut = False

    async def run(self, events: AsyncIterable[Event]) -> list[Delivery]:
        reading = asyncio.create_task(self._read(events))
        try:
            if await self._perform():
                await reading
        finally:
            await _stop_reading(reading)
        return self._delivered

    async def _read(self, events: AsyncIterable[Event]) -> None:
        try:
            async for event in events:
                self._end_state = _END_STATES.get(type(event), self._end_state)
                self._projector.feed(event, self._clock.monotonic())
                if isinstance(event, TurnCancelled):
                    await self._turn.cancel()
                self._is_saved = False
                self._save_snapshot()
                self._changed.set()
        except EventsCut:
            self._is_cut = True
            raise
        finally:
            if not self._is_cut:
                self._projector.close(self._clock.monotonic())
            self._changed.set()

    async def _perform(self) -> bool:
        """Perform the projector's operations until the turn is finished. Returns False if the courier is drained.

        After `EventsCut` it returns when all complete messages are sent and the other text is saved.
        """
        while True:
            self._changed.clear()
            step = self._projector.next(self._clock.monotonic())
            if isinstance(step, WaitUntil | Idle):
                if self._projector.is_finished:
                    await self._turn.end(state=self._end_state)
                    return True
                self._save_snapshot()
                if self._is_cut and self._is_saved:
                    return True
                await self._wait(step)
            elif self._projector.is_durable(step):
                operations, is_last = self._collect_durable(step)
                if not await self._deliver(operations, is_last=is_last):
                    return False
                if is_last:
                    return True
            elif isinstance(step, Edit | AppendStream | Draft | Typing):
                if self._is_repeating:
                    self._save_snapshot(at_once=True)  # before people see more than the old snapshot says
                self._show(step)

    def _collect_durable(self, first: Durable) -> tuple[list[Durable], bool]:
        """Collect `first` and the durable operations that follow it at once, to record all of them in one commit.

        Also returns whether they end the turn.
        """
        operations = [first]
        while True:
            step = self._projector.next(self._clock.monotonic())
            if isinstance(step, WaitUntil | Idle):
                return operations, self._projector.is_finished
            assert self._projector.is_durable(step), (
                "the projector asks for nothing interim while something durable is being sent"
            )
            operations.append(step)

    async def _deliver(self, operations: list[Durable], *, is_last: bool) -> bool:
        """Record and send the operations in order. Returns False if the courier was drained before the end."""
        call = self._turn.end(*operations, state=self._end_state) if is_last else self._turn.send(*operations)
        delivered = await self._saving_snapshots(call)
        self._delivered += delivered
        for operation, delivery in zip(operations, delivered, strict=True):
            if delivery.state not in FINAL:
                return False
            self._projector.receipt(operation, _outcome(delivery), self._clock.monotonic())
        self._save_snapshot(at_once=True)
        return True

    async def _saving_snapshots(self, call: Coroutine[None, None, list[Delivery]]) -> list[Delivery]:
        """Await a call that may take long, and meanwhile save snapshots of the growing text."""
        sending = asyncio.create_task(call)
        try:
            while not sending.done():
                await asyncio.wait({sending}, timeout=SNAPSHOT_EVERY_S)
                if not sending.done():
                    self._save_snapshot()
        except asyncio.CancelledError:
            sending.cancel()
            await asyncio.wait({sending})
            raise
        return sending.result()

    def _show(self, operation: Interim) -> None:
        shown = self._turn.show(operation)

        def report(answer: Shown) -> None:
            self._projector.receipt(operation, answer.result(), self._clock.monotonic())
            self._changed.set()

        shown.add_done_callback(report)

    def _save_snapshot(self, *, at_once: bool = False) -> None:
        """Pass the text that is in no delivery yet to the turn. The turn decides whether to save the text now."""
        now = self._clock.monotonic()
        if at_once or (not self._is_saved and now - self._snapshot_at >= _OFFER_SNAPSHOT_EVERY_S):
            self._snapshot_at = now
            unsent = self._projector.unsent
            self._is_repeating = unsent is None
            self._is_saved = unsent is not None and self._turn.save_snapshot(
                unsent.text, unsent.message_id, is_stream=unsent.is_stream
            )

    async def _wait(self, step: WaitUntil | Idle) -> None:
        waits = [] if self._is_saved else [SNAPSHOT_EVERY_S]
        if isinstance(step, WaitUntil):
            waits.append(max(0.0, step.at - self._clock.monotonic()))
        with suppress(TimeoutError):
            async with asyncio.timeout(min(waits, default=None)):
                await self._changed.wait()


async def _stop_reading(reading: asyncio.Task[None]) -> None:
    """Stop reading events. If the agent does not stop within a few seconds, do not wait any longer."""
    if not reading.done():
        reading.cancel()
        await asyncio.wait({reading}, timeout=_STOP_READING_S)
    if not reading.done():
        _log.warning("the agent did not stop within %g s; its events are no longer read", _STOP_READING_S)


def _outcome(delivery: Delivery) -> Outcome:
    """Convert a final delivery to the outcome that the projector gets."""
    if delivery.state is State.DELIVERED and delivery.receipt is not None:
        return Delivered(delivery.receipt)
    if delivery.state is State.UNKNOWN:
        return Ambiguous(delivery.error)
    return Refused(delivery.error)
