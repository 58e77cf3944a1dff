"""Sends one delivery again: an open one is finished, a final one is sent as a new delivery."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tailrace.cli.delivery_format import format_time, one_line
from tailrace.cli.ledgers import all_deliveries
from tailrace.deliveries import OPEN, Query, State, Turn, TurnState, fingerprint_of, plan
from tailrace.operations import OpenStream, Post, PostMedia

if TYPE_CHECKING:
    from tailrace.deliveries import Delivery
    from tailrace.delivery import Courier
    from tailrace.operations import Durable


class Resent(NamedTuple):
    """The result: `now` is the delivery that was sent for `before`; None if it cannot be sent, for the reason `why`.

    `was_known`: it had been sent again before, and was not sent once more.
    """

    before: Delivery
    now: Delivery | None
    why: str = ""
    was_known: bool = False

    @property
    def arrived(self) -> bool:
        """Whether the message is there."""
        return self.now is not None and self.now.state is State.DELIVERED

    def describe(self, ledger: str) -> str:
        """The line for people: what happened, and what they can do."""
        before = one_line(self.before.id)
        if self.now is None:
            return f"{before} cannot be sent again: {self.why}"
        now = one_line(self.now.id)
        if self.was_known:
            once_more = f"`tailrace deliveries resend {shlex.quote(self.now.id)}{ledger}` sends it once more"
            return f"{before} was sent again already, as {now}, which is {self.now.state}; {once_more}"
        name = before if now == before else f"{before} again, as {now}"
        if self.arrived and self.now.receipt is not None:
            return f"sent {name} (message {one_line(self.now.receipt.message_id)})"
        why = f": {one_line(self.now.error)}" if self.now.error else ""
        if self.now.state not in OPEN:
            return f"tried to send {name}, which is {self.now.state}{why}"
        until = f" until {format_time(self.now.not_before)}" if self.now.not_before is not None else ""
        return f"{now} still waits{until}, as {self.now.state}{why}"


class Resender:
    """Sends by a courier whose channels are connected."""

    def __init__(self, courier: Courier) -> None:
        self._courier = courier
        self._ledger = courier.ledger

    async def resume(self, conversation: str) -> None:
        """Send all that is open in a conversation, for as long as that changes something."""
        open_ids = await self._open_in(conversation)
        while open_ids and (work := self._courier.resume(conversation)) is not None:
            await work
            before, open_ids = open_ids, await self._open_in(conversation)
            if before == open_ids:
                return

    async def resend(self, delivery: Delivery) -> Resent:
        """Send a final delivery again; of an open one, say how it is after `resume`."""
        if delivery.state in OPEN:
            return Resent(delivery, await self._find(delivery.turn_id, delivery.ordinal) or delivery)
        turn_id = f"{delivery.turn_id}/resend"
        known = await self._find(turn_id, delivery.ordinal)
        if known is not None and known.state not in OPEN:
            return Resent(delivery, known, was_known=True)
        if why := _why_not(delivery):
            return Resent(delivery, None, why)
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
        # The turn is finished already, so nothing is begun that would have to be ended.
        turn = Turn(turn_id=turn_id, target=target, state=TurnState.DONE)
        [ended] = await self._courier.deliver(turn, [new])
        return Resent(delivery, await self._find(turn_id, delivery.ordinal) or ended)

    async def _find(self, turn_id: str, ordinal: int) -> Delivery | None:
        async for delivery in all_deliveries(self._ledger, Query(turn_id=turn_id)):
            if delivery.ordinal == ordinal:
                return delivery
        return None

    async def _open_in(self, conversation: str) -> set[str]:
        query = Query(conversation=conversation, states=OPEN)
        return {delivery.id async for delivery in all_deliveries(self._ledger, query)}


def _why_not(delivery: Delivery) -> str:
    """Why the delivery cannot be sent again; empty if it can."""
    if fingerprint_of(delivery.operation) != delivery.fingerprint:
        return "its text was deleted (tailrace deliveries purge --bodies)"
    media = delivery.operation
    if isinstance(media, PostMedia) and not media.url and not (media.path and Path(media.path).exists()):
        return "the copy of its file is not kept once a delivery is finished"
    return ""


def _operation(delivery: Delivery) -> Durable:
    """The operation to repeat. A stream becomes a message, because nothing would end the stream."""
    operation = delivery.operation
    return Post(target=operation.target, body=operation.body) if isinstance(operation, OpenStream) else operation
