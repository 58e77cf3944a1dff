"""What operators can do with a ledger: `resend`, `resume` and `purge`. Arguments and results can be written as JSON.

A command that has opened the ledger calls `Operator` itself. If a service has the ledger open, the service calls it for
the person who asks. `resend` and `purge` report progress to a callback; `on_change` of the courier shows each delivery.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from tailrace.deliveries import OPEN, Delivery, OpenConversation, Query, Turn, TurnState, fingerprint_of, plan
from tailrace.delivery.recovery import Recovery
from tailrace.errors import UsageError
from tailrace.operations import OpenStream, Post, PostMedia

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from tailrace.delivery.courier import Courier
    from tailrace.operations import Durable

_MAX_CONVERSATIONS = 16
_SOON_S = 10.0
_MAX_ROWS = 10_000


class Resend(msgspec.Struct, frozen=True, kw_only=True, tag_field="verb", tag="resend", forbid_unknown_fields=True):
    """Send these deliveries: open ones are finished, final ones are sent again as new deliveries."""

    ids: tuple[str, ...]


class Resume(msgspec.Struct, frozen=True, kw_only=True, tag_field="verb", tag="resume", forbid_unknown_fields=True):
    """Finish deliveries and turns that an earlier process left open, in these channels; in all channels if empty.

    Deliveries that must wait longer than `within_s` seconds for their next attempt stay open.
    """

    channels: tuple[str, ...] = ()
    within_s: float = 60.0


class Purge(msgspec.Struct, frozen=True, kw_only=True, tag_field="verb", tag="purge", forbid_unknown_fields=True):
    """Delete final deliveries that match the query. With `bodies` delete only their texts and files."""

    query: Query
    bodies: bool = False


class Resent(msgspec.Struct, frozen=True, kw_only=True):
    """The result of `resend` for the delivery `id`.

    An open delivery was finished: `delivery` is its row. A final delivery was repeated: `delivery` is the row of the
    new delivery, and `is_new` is true. If an earlier `resend` had already repeated it, `was_sent_before` is true, and
    nothing was sent now. If nothing could be sent, `problem` says why.
    """

    id: str
    delivery: Delivery | None = None
    is_new: bool = False
    was_sent_before: bool = False
    problem: str = ""


class Operator:
    """Performs `resend`, `resume` and `purge` with one courier.

    `connect` gets the name of a channel and connects it; it returns the problem, or "" if there is none.
    """

    def __init__(self, courier: Courier, connect: Callable[[str], Awaitable[str]]) -> None:
        self._courier = courier
        self._ledger = courier.ledger
        self._connect_channel = connect
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """Start nothing new.

        `resend` and `resume` return when their current calls have ended; `Courier.drain` waits for that.
        """
        self._stopping.set()

    async def resend(self, verb: Resend, report: Callable[[Resent], None] = lambda _: None) -> list[Resent]:
        """Send the deliveries: within a conversation in their order, several conversations at the same time.

        All other open deliveries of these conversations are sent first. The repetition of a final delivery has the turn
        id `{turn_id}/resend` and the same ordinal. So if `resend` is called twice for a delivery, only one repetition
        is sent. Raises `UsageError` for an id that does not exist.
        """
        found = {name: await self._find(name) for name in verb.ids}
        if unknown := [name for name, delivery in found.items() if delivery is None]:
            raise UsageError(f"there is no delivery {unknown[0]!r}")
        conversations: dict[str, list[Delivery]] = {}
        for delivery in sorted(filter(None, found.values()), key=lambda delivery: delivery.position):
            conversations.setdefault(delivery.conversation, []).append(delivery)
        unreachable = await self._connect({in_order[0].channel for in_order in conversations.values()})
        results: list[Resent] = []
        slots = asyncio.Semaphore(_MAX_CONVERSATIONS)

        async def send(in_order: list[Delivery]) -> None:
            async with slots:
                if not (problem := unreachable.get(in_order[0].channel)):
                    await self._send_open(in_order[0].conversation)
                for chosen in in_order:
                    if not self._stopping.is_set():
                        results.append(Resent(id=chosen.id, problem=problem) if problem else await self._resend(chosen))
                        report(results[-1])

        await asyncio.gather(*map(send, conversations.values()))  # a task group would wrap the exception in a group
        return results

    async def resume(self, verb: Resume) -> list[OpenConversation]:
        """Close interrupted turns and send open deliveries, until no more are due within `within_s`.

        Returns the conversations that are still open. If a conversation has no open delivery, only an interrupted turn,
        its `state` is `running`.
        """
        await self._connect(verb.channels or {left.channel for left in await self.left_open()})
        recovery, clock = Recovery(self._courier), self._courier.clock
        until = clock.monotonic() + verb.within_s
        while not self._stopping.is_set():
            due_in = await recovery.sweep()
            if due_in is None or clock.monotonic() + due_in > until:
                break
            with suppress(TimeoutError):
                async with asyncio.timeout(due_in):
                    await self._stopping.wait()
        return [left for left in await self.left_open() if not verb.channels or left.channel in verb.channels]

    async def purge(self, verb: Purge, report: Callable[[int], None] = lambda _: None) -> int:
        """Delete the deliveries that match, in small steps.

        Returns how many were deleted; `report` gets this after each step.
        """
        count = 0
        while deleted := await self._ledger.prune(verb.query, limit=500, bodies=verb.bodies):
            count += deleted
            report(count)
        return count

    async def _connect(self, names: Iterable[str]) -> dict[str, str]:
        missing = sorted(set(names) - self._courier.connected.keys())
        return {name: await self._connect_channel(name) for name in missing}

    async def left_open(self) -> list[OpenConversation]:
        """The conversations with open deliveries or interrupted turns."""
        found: dict[str, OpenConversation] = {}
        after = ""
        while page := await self._ledger.open_conversations(after=after):
            after = page[-1].name
            found |= {left.name: left for left in page}
        for turn in await self._ledger.interrupted_turns(limit=_MAX_ROWS):
            target, state = turn.target, turn.state.value
            left = OpenConversation(name=turn.conversation, channel=target.channel, chat=target.chat, state=state)
            found.setdefault(left.name, left)
        return list(found.values())

    async def _send_open(self, conversation: str) -> None:
        """Close the interrupted turns of a conversation, and send the open deliveries that are due."""
        while not self._stopping.is_set():
            sending = self._courier.resume(conversation)
            if sending is None or not await sending:
                return  # its sender is already at work, or no delivery is due any more

    async def _resend(self, chosen: Delivery) -> Resent:
        """Repeat a final delivery. For an open one, return its current row: `_send_open` has already handled it."""
        if chosen.state in OPEN:
            return Resent(id=chosen.id, delivery=await self._find(chosen.id))
        turn_id = f"{chosen.turn_id}/resend"
        known = await self._find(f"{turn_id}.{chosen.ordinal}")
        if known is not None and known.state not in OPEN:
            return Resent(id=chosen.id, delivery=known, is_new=True, was_sent_before=True)
        if problem := _why_not(chosen) or await self._why_later(chosen.conversation):
            return Resent(id=chosen.id, problem=problem)
        target = chosen.operation.target
        policy, now = self._courier.policy(target), self._courier.clock.wall()
        new = plan(_repeated(chosen), turn_id=turn_id, ordinal=chosen.ordinal, policy=policy, now=now)
        if self._courier.spool is not None:
            new = await self._courier.spool.copy_file(new)
        # The new turn has the state `done` from the start, so that it never counts as interrupted.
        [sent] = await self._courier.deliver(Turn(turn_id=turn_id, target=target, state=TurnState.DONE), [new])
        return Resent(id=chosen.id, delivery=sent, is_new=True)

    async def _why_later(self, conversation: str) -> str:
        """The reason why the conversation must wait for long; empty if it can send soon."""
        soon = self._courier.clock.wall() + _SOON_S
        rows = await self._ledger.find(Query(conversation=conversation, states=OPEN), limit=_MAX_ROWS)
        waiting = [row.id for row in rows if row.not_before is not None and row.not_before > soon]
        return f"{waiting[-1]} comes before it in this conversation, and waits" if waiting else ""

    async def _find(self, delivery_id: str) -> Delivery | None:
        turn_id, _, ordinal = delivery_id.rpartition(".")
        known = await self._courier.deliveries_of(turn_id)
        return next((delivery for delivery in known if str(delivery.ordinal) == ordinal), None)


def _why_not(delivery: Delivery) -> str:
    """The reason why the delivery cannot be sent again; empty if it can be sent."""
    if fingerprint_of(delivery.operation) != delivery.fingerprint:
        return "its text was deleted (tailrace deliveries purge --bodies)"
    media = delivery.operation
    if isinstance(media, PostMedia) and not media.url and not (media.path and Path(media.path).exists()):
        return "the copy of its file is not kept once a delivery is finished"
    return ""


def _repeated(delivery: Delivery) -> Durable:
    """The operation to repeat. A stream becomes a message, because nothing would close the stream."""
    operation = delivery.operation
    return Post(target=operation.target, body=operation.body) if isinstance(operation, OpenStream) else operation
