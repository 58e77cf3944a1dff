"""A turn that is being said: names what it says, keeps what it has not yet said for good, and ends it once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from tailrace.deliveries import OPEN, Delivery, Query, Snapshot, Turn, TurnState, plan
from tailrace.delivery.preview_slot import not_shown
from tailrace.operations import PostMedia

if TYPE_CHECKING:
    from tailrace.delivery.courier import Courier
    from tailrace.delivery.preview_slot import Shown
    from tailrace.operations import Durable, Interim

SNAPSHOT_EVERY_S = 2.0
_SNAPSHOT_EVERY_CHARACTERS = 4096


class OpenTurn:
    """One turn in the hands of whoever says it. The same operations in the same order have the same names each time."""

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
        """The turn as it was when it was begun."""
        return self._turn

    @property
    def is_finished(self) -> bool:
        """Whether all it says was recorded by somebody before: it can be said again, and nothing is sent twice."""
        return self._turn.state is not TurnState.RUNNING

    async def earlier_deliveries(self) -> list[Delivery]:
        """All that was said of the turn before it was begun this time, each as it ended; what is said now comes behind.

        For whoever goes on from what is there. Without it the turn is said again from its first word on, by the same
        operations.
        """
        known: dict[int, Delivery] = {}
        position: int | None = None
        while page := await self._courier.ledger.find(Query(turn_id=self._turn.turn_id), after=position):
            position = page[-1].position
            known |= {delivery.ordinal: delivery for delivery in page}
        waiting = [delivery for ordinal, delivery in sorted(known.items()) if ordinal > 0 and delivery.state in OPEN]
        for ended in await self._courier.deliver(self._turn, waiting):
            known[ended.ordinal] = ended
        self._ordinal = self._turn.last_ordinal
        return list(known.values())

    async def send(self, *operations: Durable) -> list[Delivery]:
        """Deliver these, in order, behind all that the turn said before; returns each as it ended."""
        return await self._courier.deliver(self._turn, await self._plan(operations))

    async def end(self, *operations: Durable, state: TurnState = TurnState.DONE) -> list[Delivery]:
        """Deliver these as the last of the turn; it is over once they are recorded.

        Where it was stopped nobody is told of what of these could not be done.
        """
        ends = None if self.is_finished else state
        self._is_ended = True
        is_told = state is not TurnState.CANCELLED
        return await self._courier.deliver(self._turn, await self._plan(operations, is_told=is_told), ends=ends)

    def cancel_unsent(self) -> None:
        """The turn was stopped: no message of it that is not yet being sent is begun any more."""
        self._courier.cancel_unsent(self._turn)

    def show(self, operation: Interim) -> Shown:
        """Show something in between; the latest wins. What became of it is told as by `Courier.show`.

        Nothing is shown after the end, nor where a turn that is said again has not come to what is new: what stays was
        said already, and nothing would put it back.
        """
        if self._is_ended or self.is_finished or self._ordinal < self._turn.last_ordinal:
            return not_shown()
        return self._courier.show(operation)

    def save_snapshot(self, text: str, message_id: str | None = None, *, is_stream: bool = False) -> bool:
        """Keep what was said and no delivery says yet, and the message that shows it: every 2 s or 4,096 characters.

        Gives whether it is kept; what is not is to be told again later.

        After a crash the message is finished with what was kept last. Which message it is, is kept at once: what was
        kept before would be said again in a new one. So is the first after a delivery: what was kept before that is
        not true any more. What a turn that is said again has said for good already is not kept.
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

    async def _plan(self, operations: tuple[Durable, ...], *, is_told: bool = True) -> list[Delivery]:
        target, now = self._turn.target, self._courier.clock.wall()
        policy = self._courier.policy(target)
        if not is_told:
            policy = replace(policy, is_reported=False)
        planned: list[Delivery] = []
        for operation in operations:
            assert operation.target == target, "a turn speaks to one place"
            self._ordinal += 1
            delivery = plan(operation, turn_id=self._turn.turn_id, ordinal=self._ordinal, policy=policy, now=now)
            if isinstance(operation, PostMedia) and self._courier.spool is not None:
                kept = await self._courier.spool.keep(delivery)
                delivery = await self._recorded(kept) if kept.error and self._turn.attempt != 1 else kept
            planned.append(delivery)
        return planned

    async def _recorded(self, delivery: Delivery) -> Delivery:
        """What is recorded under its name, where its file is gone since: it was the same, as far as can be told."""
        position: int | None = None
        while page := await self._courier.ledger.find(Query(turn_id=delivery.turn_id), after=position):
            position = page[-1].position
            for known in page:
                if known.ordinal == delivery.ordinal and isinstance(known.operation, PostMedia):
                    return replace(delivery, operation=known.operation, fingerprint=known.fingerprint, error="")
        return delivery
