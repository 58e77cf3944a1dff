"""A running turn: numbers its deliveries, saves snapshots of its unsent text, and ends it once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from tailrace.deliveries import NOTICE_ORDINAL, OPEN, Delivery, Snapshot, Turn, TurnState, plan
from tailrace.delivery.preview_slot import not_shown
from tailrace.operations import PostMedia

if TYPE_CHECKING:
    from tailrace.delivery.courier import Courier
    from tailrace.delivery.preview_slot import Shown
    from tailrace.operations import Durable, Interim

SNAPSHOT_EVERY_S = 2.0
_SNAPSHOT_EVERY_CHARACTERS = 4096
_CLOSED = frozenset({TurnState.CANCELLED, TurnState.INTERRUPTED})


class OpenTurn:
    """A turn that was begun. The same operations in the same order get the same delivery ids each time.

    It keeps the lease of its conversation until `end` or `close` is called.
    """

    def __init__(self, courier: Courier, turn: Turn) -> None:
        self._courier = courier
        self._turn = turn
        self._ordinal = 0
        self._snapshot_at = courier.clock.monotonic()
        self._snapshot_size = 0
        self._snapshot_of: tuple[str | None, int] = (None, 0)
        self._is_open = turn.state is TurnState.RUNNING

    @property
    def turn(self) -> Turn:
        """The row of the turn, as it was when the turn was begun."""
        return self._turn

    @property
    def is_finished(self) -> bool:
        """Whether the turn had already ended when it was begun here.

        If its operations are repeated, nothing is sent twice.
        """
        return self._turn.state is not TurnState.RUNNING

    async def earlier_deliveries(self) -> list[Delivery]:
        """All deliveries of earlier attempts of the turn. Waits until they are final, or until the courier drains.

        After this call, new operations follow these deliveries. Without this call, resume the turn by repeating all its
        operations from the first one.
        """
        known = await self._courier.deliveries_of(self._turn.turn_id)
        unfinished = [row for row in known if row.state in OPEN and row.ordinal != NOTICE_ORDINAL]
        if unfinished:
            await self._courier.wait_until_final(self._turn, unfinished)
            # Read them again, because a new delivery may have replaced one of them.
            known = await self._courier.deliveries_of(self._turn.turn_id)
        self._ordinal = self._turn.last_ordinal
        return known

    async def send(self, *operations: Durable) -> list[Delivery]:
        """Deliver these operations in order, after all earlier ones. Returns the deliveries in their final states.

        If the turn was cancelled, or closed as interrupted, nothing is sent and the result is [].
        """
        if self._turn.state in _CLOSED:
            return []
        return await self._courier.deliver(self._turn, await self._plan(operations))

    async def end(self, *operations: Durable, state: TurnState = TurnState.DONE) -> list[Delivery]:
        """Deliver the last operations of the turn, as `send` does. The turn ends when they are recorded.

        With the state `cancelled`, the chat gets no notice if one of these operations fails.
        """
        if self._turn.state in _CLOSED:
            return []
        ends = None if self.is_finished else state
        try:
            planned = await self._plan(operations, is_reported=state is not TurnState.CANCELLED)
            return await self._courier.deliver(self._turn, planned, ends=ends)
        finally:
            self.close()

    def close(self) -> None:
        """Stop using the turn. If it has not ended, it is closed as interrupted, unless it is begun again before.

        May be called twice.
        """
        if self._is_open:
            self._is_open = False
            self._courier.close_turn(self._turn)

    async def cancel(self) -> None:
        """Send no new messages of the turn any more, also after a restart. Existing messages may still be edited."""
        await self._courier.cancel(self._turn)

    def show(self, operation: Interim) -> Shown:
        """Show an interim operation, see `Courier.show`.

        Does nothing after the end of the turn. It also does nothing while a resumed turn repeats old deliveries: the
        messages already show later text, and this operation would replace that by older text.
        """
        if not self._is_open or self._ordinal < self._turn.last_ordinal or not self._courier.owns(self._turn):
            return not_shown()
        return self._courier.show(operation)

    def save_snapshot(self, text: str, message_id: str | None = None, *, is_stream: bool = False) -> bool:
        """Save the text that is in no delivery yet, every 2 s or 4,096 characters. Returns whether it is saved.

        After a crash, recovery finishes the message with the last snapshot. In two cases the snapshot is saved at once:
        if `message_id` has changed, because recovery would otherwise send the text again in a new message; and after
        each delivery, because the earlier snapshot is then out of date. Nothing is saved while a resumed turn repeats
        old deliveries.
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
            self._courier.save_snapshot(self._turn, snapshot)
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
        """Take the file of an earlier attempt to send this delivery, because the agent's own file no longer exists.

        The earlier attempt has recorded a copy with the same turn and ordinal, so it is probably the same file.
        """
        for known in await self._courier.deliveries_of(self._turn.turn_id):
            if known.ordinal == delivery.ordinal and isinstance(known.operation, PostMedia):
                return replace(delivery, operation=known.operation, fingerprint=known.fingerprint, error="")
        return delivery
