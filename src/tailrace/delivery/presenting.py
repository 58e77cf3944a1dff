"""Carries one turn to one place: its events to a projector, and what that decides to the courier.

The shell around the projector, and no more: it feeds, asks what is next, has it performed and reports back. What is to
stay is recorded and sent in order; what is shown in between waits for nobody. The last of what a turn says is recorded
together with its end, so that no crash can fall between the two.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from tailrace.deliveries import FINAL, Delivery, State, TurnState
from tailrace.delivery.open_turn import SNAPSHOT_EVERY_S
from tailrace.events import TurnCancelled, TurnCompleted, TurnFailed
from tailrace.operations import Ambiguous, AppendStream, Delivered, Draft, Edit, Outcome, Refused, Typing
from tailrace.projector import Idle, Projector, WaitUntil, restored_messages

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Coroutine

    from tailrace.capabilities import Capabilities
    from tailrace.delivery.open_turn import OpenTurn
    from tailrace.delivery.preview_slot import Shown
    from tailrace.events import Event
    from tailrace.operations import Durable, Interim
    from tailrace.ports import Clock
    from tailrace.projector import ProjectorSettings

_REMEMBER_S = 0.5
_ENDS: dict[type, TurnState] = {
    TurnCompleted: TurnState.DONE,
    TurnFailed: TurnState.FAILED,
    TurnCancelled: TurnState.CANCELLED,
}


async def present(
    events: AsyncIterable[Event],
    turn: OpenTurn,
    capabilities: Capabilities,
    settings: ProjectorSettings | None = None,
    *,
    clock: Clock,
) -> list[Delivery]:
    """Carry the events of a turn that was begun; returns all its deliveries, each as it ended.

    A turn that was begun before is gone on with: the events come again from the first on, and only what is missing is
    sent. Where the courier is drained meanwhile, what was not sent is left for whoever goes on. What the events raise
    is raised again, once what they said until then is delivered as far as it came.
    """
    said = await turn.earlier_deliveries() if turn.turn.last_ordinal else []
    projector = Projector(turn.turn.target, capabilities, settings, earlier=restored_messages(said))
    said.sort(key=lambda delivery: delivery.position)
    return said + await _Presentation(turn, projector, clock).run(events)


class _Presentation:
    """One turn while it is carried."""

    def __init__(self, turn: OpenTurn, projector: Projector, clock: Clock) -> None:
        self._turn = turn
        self._projector = projector
        self._clock = clock
        self._news = asyncio.Event()
        self._ends = TurnState.FAILED
        self._delivered: list[Delivery] = []
        self._remembered_at = float("-inf")
        self._is_kept = True  # what was said so far

    async def run(self, events: AsyncIterable[Event]) -> list[Delivery]:
        listening = asyncio.create_task(self._listen(events))
        try:
            if self._turn.is_finished or await self._perform():
                await listening
        finally:
            listening.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.wait({listening})
        return self._delivered

    async def _listen(self, events: AsyncIterable[Event]) -> None:
        try:
            async for event in events:
                self._ends = _ENDS.get(type(event), self._ends)
                self._projector.feed(event, self._clock.monotonic())
                if isinstance(event, TurnCancelled):
                    self._turn.cancel_unsent()
                self._is_kept = False
                self._remember()
                self._news.set()
        finally:
            self._projector.close(self._clock.monotonic())
            self._news.set()

    async def _perform(self) -> bool:
        """Do what the projector asks for until nothing is left; false where nothing more may be begun before that."""
        while True:
            self._news.clear()
            step = self._projector.next(self._clock.monotonic())
            if isinstance(step, WaitUntil | Idle):
                if self._projector.is_finished:
                    await self._turn.end(state=self._ends)
                    return True
                self._remember()
                await self._wait(step)
            elif self._projector.is_durable(step):
                operations, is_last = self._with_what_follows(step)
                if not await self._deliver(operations, is_last=is_last):
                    return False
                if is_last:
                    return True
            elif isinstance(step, Edit | AppendStream | Draft | Typing):
                self._show(step)

    def _with_what_follows(self, first: Durable) -> tuple[list[Durable], bool]:
        """What can be recorded together with this; and whether it is the last that the turn says."""
        operations = [first]
        while True:
            step = self._projector.next(self._clock.monotonic())
            if isinstance(step, WaitUntil | Idle):
                return operations, self._projector.is_finished
            assert self._projector.is_durable(step), "nothing is shown in between while something that stays is sent"
            operations.append(step)

    async def _deliver(self, operations: list[Durable], *, is_last: bool) -> bool:
        """Record and send these, in order; whether more can follow."""
        send = self._turn.end(*operations, state=self._ends) if is_last else self._turn.send(*operations)
        delivered = await self._remembering(send)
        self._delivered += delivered
        for operation, delivery in zip(operations, delivered, strict=True):
            if delivery.state not in FINAL:
                return False
            self._projector.receipt(operation, _outcome(delivery), self._clock.monotonic())
        self._remember(at_once=True)
        return True

    async def _remembering(self, say: Coroutine[None, None, list[Delivery]]) -> list[Delivery]:
        """Have it said, which may take long, and meanwhile keep what the agent goes on to say."""
        saying = asyncio.create_task(say)
        try:
            while not saying.done():
                await asyncio.wait({saying}, timeout=SNAPSHOT_EVERY_S)
                if not saying.done():
                    self._remember()
        except asyncio.CancelledError:
            saying.cancel()
            await asyncio.wait({saying})
            raise
        return saying.result()

    def _show(self, operation: Interim) -> None:
        shown = self._turn.show(operation)

        def learn(answer: Shown) -> None:
            self._projector.receipt(operation, answer.result(), self._clock.monotonic())
            self._news.set()

        shown.add_done_callback(learn)

    def _remember(self, *, at_once: bool = False) -> None:
        """Keep what no delivery says yet; how often that is written is the turn's to say."""
        now = self._clock.monotonic()
        if at_once or (not self._is_kept and now - self._remembered_at >= _REMEMBER_S):
            self._remembered_at = now
            unsent = self._projector.unsent
            self._is_kept = self._turn.save_snapshot(unsent.text, unsent.message_id, is_stream=unsent.is_stream)

    async def _wait(self, step: WaitUntil | Idle) -> None:
        waits = [] if self._is_kept else [SNAPSHOT_EVERY_S]
        if isinstance(step, WaitUntil):
            waits.append(max(0.0, step.at - self._clock.monotonic()))
        with suppress(TimeoutError):
            async with asyncio.timeout(min(waits, default=None)):
                await self._news.wait()


def _outcome(delivery: Delivery) -> Outcome:
    """What the projector is told of a delivery that ended."""
    if delivery.state is State.DELIVERED and delivery.receipt is not None:
        return Delivered(delivery.receipt)
    if delivery.state is State.UNKNOWN:
        return Ambiguous(delivery.error)
    return Refused(delivery.error)
