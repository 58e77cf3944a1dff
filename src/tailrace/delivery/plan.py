"""A running turn: numbers its deliveries, saves snapshots of its unsent text, and ends it once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from tailrace.deliveries import NOTICE_ORDINAL, OPEN, Delivery, Query, Snapshot, State, Turn, TurnState, plan
from tailrace.delivery.preview_slot import not_shown
from tailrace.operations import PostMedia

if TYPE_CHECKING:
    from tailrace.delivery.courier import Courier
    from tailrace.delivery.preview_slot import Shown
    from tailrace.operations import Durable, Interim

SNAPSHOT_EVERY_S = 2.0
_SNAPSHOT_EVERY_CHARACTERS = 4096


class OpenTurn:
    """A turn that was begun. The same operations in the same order get the same delivery ids each time."""

    def __init__(self, courier: Courier, turn: Turn) -> None:
        self._courier = courier
        self._turn = turn
        self._ordinal = 0
        self._snapshot_at = courier.clock.monotonic()
        self._snapshot_size = 0
        self._snapshot_of: tuple[str | None, int] = (None, 0)
        self._is_ended = False

    @property
    def turn(self) -> Turn:
        """The turn as it was recorded when it was begun."""
        return self._turn

    @property
    def is_finished(self) -> bool:
        """Whether the turn ended before. Its operations may be repeated; nothing is sent twice."""
        return self._turn.state is not TurnState.RUNNING

    async def earlier_deliveries(self) -> list[Delivery]:
        """All deliveries of the turn of earlier times, in their final states unless the courier drains.

        After this call, operations continue behind them. Without it, resume by repeating all operations from the first.
        """
        known = await self._recorded_deliveries()
        # As planned: rows begin in no other state, and the ledger answers with the state that it has recorded.
        unfinished = [
            replace(delivery, state=State.PLANNED)
            for delivery in known
            if delivery.state in OPEN and delivery.ordinal != NOTICE_ORDINAL
        ]
        if unfinished:
            await self._courier.deliver(self._turn, unfinished)
            known = await self._recorded_deliveries()  # one of them may have been replaced by a new one
        self._ordinal = self._turn.last_ordinal
        return known

    async def _recorded_deliveries(self) -> list[Delivery]:
        """All deliveries of the turn in the ledger, in their order."""
        query = Query(turn_id=self._turn.turn_id)
        known: list[Delivery] = []
        while page := await self._courier.ledger.find(query, after=known[-1].position if known else None):
            known += page
        return sorted(known, key=lambda delivery: delivery.position)

    async def send(self, *operations: Durable) -> list[Delivery]:
        """Deliver these operations in order, behind all earlier ones. Returns each as it ended."""
        return await self._courier.deliver(self._turn, await self._plan(operations))

    async def end(self, *operations: Durable, state: TurnState = TurnState.DONE) -> list[Delivery]:
        """Deliver these as the last operations of the turn. The turn has ended as soon as they are recorded.

        If the turn was cancelled, users are not notified of missing parts among them.
        """
        ends = None if self.is_finished else state
        self._is_ended = True
        is_reported = state is not TurnState.CANCELLED
        return await self._courier.deliver(self._turn, await self._plan(operations, is_reported=is_reported), ends=ends)

    def cancel_unsent(self) -> None:
        """The turn was stopped: send no more new messages of it. Changes of existing messages are still made."""
        self._courier.cancel_unsent(self._turn)

    def show(self, operation: Interim) -> Shown:
        """Show an interim operation, see `Courier.show`.

        Does nothing after the end. While a resumed turn repeats old deliveries it does nothing either: the messages
        show later text already, and nothing would restore it.
        """
        if self._is_ended or self.is_finished or self._ordinal < self._turn.last_ordinal:
            return not_shown()
        return self._courier.show(operation)

    def save_snapshot(self, text: str, message_id: str | None = None, *, is_stream: bool = False) -> bool:
        """Save the text that is in no delivery yet, every 2 s or 4,096 characters. Returns whether it is saved.

        After a crash the message is finished with the last snapshot. Two snapshots are saved at once: one with another
        `message_id`, because recovery would otherwise send the text again in a new message; and the first after a
        delivery, because the snapshot before it is out of date. While a resumed turn repeats old deliveries nothing is
        saved.
        """
        if self._ordinal < self._turn.last_ordinal:
            return True
        now = self._courier.clock.monotonic()
        grown = abs(len(text) - self._snapshot_size)
        is_due = now - self._snapshot_at >= SNAPSHOT_EVERY_S or grown >= _SNAPSHOT_EVERY_CHARACTERS
        is_due = is_due or (message_id, self._ordinal) != self._snapshot_of
        if is_due:
            self._snapshot_at = now
            self._snapshot_size = len(text)
            self._snapshot_of = message_id, self._ordinal
            snapshot = Snapshot(text=text, message_id=message_id, is_stream=is_stream, after=self._ordinal)
            self._courier.ledger.save_snapshot(self._turn.turn_id, snapshot)
        return is_due

    async def _plan(self, operations: tuple[Durable, ...], *, is_reported: bool = True) -> list[Delivery]:
        target, now = self._turn.target, self._courier.clock.wall()
        policy = self._courier.policy(target)
        if not is_reported:
            policy = replace(policy, is_reported=False)
        planned: list[Delivery] = []
        for operation in operations:
            assert operation.target == target, "all operations of a turn have the target of the turn"
            self._ordinal += 1
            delivery = plan(operation, turn_id=self._turn.turn_id, ordinal=self._ordinal, policy=policy, now=now)
            if isinstance(operation, PostMedia) and self._courier.spool is not None:
                delivery = await self._courier.spool.copy_file(delivery)
                if delivery.error and self._turn.attempt != 1:
                    delivery = await self._with_recorded_file(delivery)
            planned.append(delivery)
        return planned

    async def _with_recorded_file(self, delivery: Delivery) -> Delivery:
        """The file is gone, so use the copy of the earlier attempt. Nothing shows that the file was another one."""
        for known in await self._recorded_deliveries():
            if known.ordinal == delivery.ordinal and isinstance(known.operation, PostMedia):
                return replace(delivery, operation=known.operation, fingerprint=known.fingerprint, error="")
        return delivery
