"""The courier: everything that is sent to anybody goes through it, written down before and after.

It performs the deliveries of many conversations side by side, each conversation strictly in order, through the ports
alone: the ledger keeps the record, the channels send. It owns which conversations are under way and how they are
stopped; what happens in one of them is `lane`'s. It does not look for what an earlier process left: `recovery` does.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from typing import TYPE_CHECKING, Literal

import msgspec

from tailrace.deliveries import FINAL, Delivery, Policy, State, Turn, TurnState, sending
from tailrace.delivery.attempt import take_back
from tailrace.delivery.desk import Desk, SystemClock
from tailrace.delivery.lane import PAGE, Lane
from tailrace.delivery.open_turn import OpenTurn
from tailrace.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Self

    from tailrace.delivery.spool import Spool
    from tailrace.operations import Interim, Target
    from tailrace.ports import Channel, Clock, Ledger


class CourierSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How deliveries are treated from now on; those that are recorded keep the policy they were recorded with.

    `on_unknown`, `on_dead`, `budget` and `max_age_s` are those of `tailrace.deliveries.Policy`.
    """

    on_unknown: Literal["hold", "resend"] = "hold"
    on_dead: Literal["skip", "halt"] = "skip"
    budget: int = 20
    max_age_s: float = 86_400.0

    def __post_init__(self) -> None:
        if self.budget < 1:
            raise UsageError(f"budget is {self.budget}; a delivery needs at least 1 try")
        if not self.max_age_s > 0:
            raise UsageError(f"max_age_s is {self.max_age_s:g}; nothing could be sent before it is too old")


class Courier:
    """Carries deliveries to channels. Use it as `async with`; leaving drains it."""

    def __init__(
        self,
        ledger: Ledger,
        *,
        settings: CourierSettings | None = None,
        spool: Spool | None = None,
        clock: Clock | None = None,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.ledger = ledger
        self.clock = clock or SystemClock()
        self.spool = spool
        self._settings = settings or CourierSettings()
        self._desk = Desk(ledger, self.clock, jitter, settled=self._release_file)
        self._lanes: dict[str, Lane] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.drain()

    def connect(self, channel: Channel) -> None:
        """The channel was started: what is for it can be sent."""
        self._desk.connect(channel)

    def disconnect(self, name: str) -> None:
        """The channel cannot send; what is for it waits, and costs no try."""
        self._desk.disconnect(name)

    @property
    def connected(self) -> dict[str, Channel]:
        """The channels that can send, by their names."""
        return {name: outlet.channel for name, outlet in self._desk.outlets.items()}

    async def connected_within(self, seconds: float) -> None:
        """Wait until another channel is connected, but no longer than this."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._desk.next_connection(), seconds)

    def policy(self, target: Target) -> Policy:
        """How a delivery to that place is treated if it is recorded now. Raises `UsageError` for an unknown channel."""
        outlet = self._desk.outlets.get(target.channel)
        if outlet is None:
            raise UsageError(f"the channel {target.channel!r} is not connected: start and connect it first")
        settings = self._settings
        return Policy(
            idempotency=outlet.channel.capabilities.idempotency,
            on_unknown=settings.on_unknown,
            on_dead=settings.on_dead,
            budget=settings.budget,
            max_age_s=settings.max_age_s,
        )

    async def begin(self, turn_id: str, target: Target, *, prompt: str = "") -> OpenTurn:
        """Begin a turn, or take up one that was interrupted: what it said already is not sent again."""
        turn = Turn(turn_id=turn_id, target=target, input=prompt, updated_at=self.clock.wall())
        begun = await self._desk.steadily(lambda: self.ledger.begin(turn))
        return OpenTurn(self, begun)

    async def deliver(
        self, turn: Turn, deliveries: Sequence[Delivery], *, ends: TurnState | None = None
    ) -> list[Delivery]:
        """Record deliveries of a turn and see them through; returns each as it ended.

        With `ends` they are the last of the turn, which is over once they are recorded. What is not final when the
        courier is drained is returned as it was recorded: it is open, and whoever recovers the ledger goes on with it.
        """
        if not deliveries:
            if ends is not None:
                await self._desk.steadily(lambda: self.ledger.end(turn, ends))
            return []
        lane = self._lane(turn.target.conversation)
        lane.hush()
        recorded = await self._record(lane, turn, list(deliveries), ends)
        waiting = [lane.settled(delivery) if delivery.state not in FINAL else delivery for delivery in recorded]
        if self._desk.draining:
            lane.release()
        ended: list[Delivery] = []
        for now, later in zip(recorded, waiting, strict=True):
            ended.append(later if isinstance(later, Delivery) else await later or now)
        return ended

    def show(self, operation: Interim) -> None:
        """Show something in between, not written down: the latest wins, and it is dropped where a delivery is due."""
        if not self._desk.draining:
            self._lane(operation.target.conversation).show(operation)

    def resume(self, conversation: str, *, at_most: int = PAGE) -> asyncio.Task[None] | None:
        """Go on with what the ledger holds open of a conversation; the work, or None where it is under way already."""
        lane = self._lane(conversation)
        return lane.resume(at_most) if lane.is_idle and not self._desk.draining else None

    async def drain(self, within_s: float = 10.0) -> None:
        """Begin nothing more, finish what is being sent, and leave everything in a state to be taken up again.

        What is still being sent after `within_s` is left behind as ambiguous.
        """
        self._desk.draining = True
        lanes = [lane for lane in self._lanes.values() if lane.task is not None]
        for lane in lanes:
            if not lane.is_sending and lane.task is not None:
                lane.task.cancel()
        tasks = {lane.task for lane in lanes if lane.task is not None}
        if tasks:
            _done, late = await asyncio.wait(tasks, timeout=within_s)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)
        for lane in list(self._lanes.values()):
            lane.release()
        await self._desk.tidied()

    def _lane(self, conversation: str) -> Lane:
        lane = self._lanes.get(conversation)
        if lane is None:
            lane = self._lanes[conversation] = Lane(conversation, self._desk, self._forget)
        return lane

    def _forget(self, lane: Lane) -> None:
        if lane.is_idle and self._lanes.get(lane.conversation) is lane:
            del self._lanes[lane.conversation]

    async def _record(
        self, lane: Lane, turn: Turn, deliveries: list[Delivery], ends: TurnState | None
    ) -> list[Delivery]:
        """Write deliveries down and hand them to their lane; the first as being sent, where it can go at once."""
        outlet = self._desk.outlets.get(turn.target.channel)
        # Only a turn that was begun once has names that cannot be known yet.
        are_new = turn.attempt == 1
        first = deliveries[0]
        goes_at_once = (
            are_new
            and lane.is_idle
            and outlet is not None
            and outlet.is_free(lane.conversation)
            and not self._desk.draining
            and (first.policy.on_dead == "skip" or first.ordinal == 1)
        )
        if goes_at_once and outlet is not None:
            outlet.spend(lane.conversation)
            deliveries[0] = sending(first, now=self.clock.wall())
        try:
            recorded = await self._desk.steadily(
                lambda: self.ledger.end(turn, ends, plan=deliveries) if ends else self.ledger.plan(deliveries)
            )
        except asyncio.CancelledError:
            self._desk.tidy(self._take_up(lane, first))
            raise
        for delivery in recorded:
            if delivery.state in FINAL:
                self._release_file(delivery)
        lane.take(recorded, are_new=are_new, granted=goes_at_once and recorded[0].state is State.SENDING)
        return recorded

    async def _take_up(self, lane: Lane, first: Delivery) -> None:
        """Deliveries were recorded and nobody heard of it; the first may be recorded as being sent, and is not."""
        now = self.clock.wall()
        for delivery in await self.ledger.adopt(lane.conversation, now=now, limit=PAGE):
            is_it = (delivery.turn_id, delivery.ordinal) == (first.turn_id, first.ordinal)
            if is_it and delivery.state is State.SENDING:
                await take_back(self._desk, delivery)
        if not self._desk.draining:
            lane.resume(PAGE)

    def _release_file(self, delivery: Delivery) -> None:
        if self.spool is not None:
            self.spool.release(delivery)
