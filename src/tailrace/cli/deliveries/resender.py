"""One delivery that a person wants sent: gone on with where it is open, and sent as a new one where it is over."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tailrace.cli.delivery_format import moment, one_line
from tailrace.cli.ledgers import each
from tailrace.deliveries import OPEN, Query, State, Turn, TurnState, fingerprint_of, plan
from tailrace.operations import OpenStream, Post, PostMedia

if TYPE_CHECKING:
    from tailrace.deliveries import Delivery
    from tailrace.delivery import Courier
    from tailrace.operations import Durable


class Sent(NamedTuple):
    """What came of it: `now` is the delivery that says it, None where there can be none, and then `why`.

    `was_there`: it was sent again before, and is not sent once more.
    """

    before: Delivery
    now: Delivery | None
    why: str = ""
    was_there: bool = False

    @property
    def arrived(self) -> bool:
        """Whether it is there."""
        return self.now is not None and self.now.state is State.DELIVERED

    def words(self, ledger: str) -> str:
        """What a person is told of it, and what they can do."""
        before = one_line(self.before.id)
        if self.now is None:
            return f"{before} cannot be sent again: {self.why}"
        now = one_line(self.now.id)
        once_more = f"`tailrace deliveries resend {shlex.quote(self.now.id)}{ledger}` sends it once more"
        if self.was_there:
            return f"{before} was sent again already, as {now}, which is {self.now.state}; {once_more}"
        name = before if now == before else f"{before} again, as {now}"
        if self.arrived and self.now.receipt is not None:
            return f"sent {name} (message {one_line(self.now.receipt.message_id)})"
        why = f": {one_line(self.now.error)}" if self.now.error else ""
        if self.now.state not in OPEN:
            return f"tried to send {name}, which is {self.now.state}{why}"
        until = f" until {moment(self.now.not_before)}" if self.now.not_before is not None else ""
        return f"{now} still waits{until}, as {self.now.state}{why}"


class Resender:
    """Sends by a courier whose channels are connected."""

    def __init__(self, courier: Courier) -> None:
        self._courier = courier
        self._ledger = courier.ledger

    async def go_on(self, conversation: str) -> None:
        """Take up all that is open in a conversation, for as long as something comes of it."""
        waiting = await self._open_in(conversation)
        while waiting and (work := self._courier.resume(conversation)) is not None:
            await work
            before, waiting = waiting, await self._open_in(conversation)
            if before == waiting:
                return

    async def send(self, delivery: Delivery) -> Sent:
        """Send it again, if it is over; tell what became of it, if it was open."""
        if delivery.state in OPEN:
            return Sent(delivery, await self._find(delivery.turn_id, delivery.ordinal) or delivery)
        turn_id = f"{delivery.turn_id}/resend"
        known = await self._find(turn_id, delivery.ordinal)
        if known is not None and known.state not in OPEN:
            return Sent(delivery, known, was_there=True)
        if why := _why_not(delivery):
            return Sent(delivery, None, why)
        target = delivery.operation.target
        new = plan(
            _operation(delivery),
            turn_id=turn_id,
            ordinal=delivery.ordinal,
            policy=self._courier.policy(target),
            now=self._courier.clock.wall(),
        )
        if self._courier.spool is not None:
            new = await self._courier.spool.copy_file(new)
        # The turn it belongs to is long over: nothing is begun that would have to be ended.
        turn = Turn(turn_id=turn_id, target=target, state=TurnState.DONE)
        [ended] = await self._courier.deliver(turn, [new])
        return Sent(delivery, await self._find(turn_id, delivery.ordinal) or ended)

    async def _find(self, turn_id: str, ordinal: int) -> Delivery | None:
        async for delivery in each(self._ledger, Query(turn_id=turn_id)):
            if delivery.ordinal == ordinal:
                return delivery
        return None

    async def _open_in(self, conversation: str) -> set[str]:
        query = Query(conversation=conversation, states=OPEN)
        return {delivery.id async for delivery in each(self._ledger, query)}


def _why_not(delivery: Delivery) -> str:
    """Why there is nothing left of it that could be sent; nothing where there is."""
    if fingerprint_of(delivery.operation) != delivery.fingerprint:
        return "what it said was forgotten (tailrace deliveries purge --bodies)"
    media = delivery.operation
    if isinstance(media, PostMedia) and not media.url and not (media.path and Path(media.path).exists()):
        return "the copy of its file is not kept once a delivery is over"
    return ""


def _operation(delivery: Delivery) -> Durable:
    """What is to be done again. A stream that nobody would end is said as a message."""
    operation = delivery.operation
    return Post(target=operation.target, body=operation.body) if isinstance(operation, OpenStream) else operation
