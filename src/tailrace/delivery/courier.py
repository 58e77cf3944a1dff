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

from tailrace.deliveries import FINAL, Delivery, Policy, State, Turn, TurnState
from tailrace.delivery.attempt import mark_not_sent
from tailrace.delivery.conversation import PAGE, ConversationSender
from tailrace.delivery.decisions import Send
from tailrace.delivery.open_turn import OpenTurn
from tailrace.delivery.preview_slot import not_shown
from tailrace.delivery.sender_context import SenderContext, SystemClock
from tailrace.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Self

    from tailrace.delivery.preview_slot import Shown
    from tailrace.delivery.spool import Spool
    from tailrace.operations import Interim, Target
    from tailrace.ports import Channel, Clock, Ledger

_TIDY_S = 5.0


class CourierSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How deliveries are treated from now on; those that are recorded keep the policy they were recorded with.

    `on_unknown`, `on_dead`, `budget` and `max_age_s` are those of `tailrace.deliveries.Policy`.
    """

    on_unknown: Literal["hold", "resend"] = "hold"
    on_dead: Literal["skip", "halt"] = "skip"
    max_attempts: int = 20
    max_age_s: float = 86_400.0

    def __post_init__(self) -> None:
        if self.max_attempts < 1:
            raise UsageError(f"budget is {self.max_attempts}; a delivery needs at least 1 try")
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
        self._desk = SenderContext(ledger, self.clock, jitter, settled=self._release_file)
        self._lanes: dict[str, ConversationSender] = {}
        self._rested = asyncio.Event()

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

    async def wait_for_connection(self, timeout_s: float) -> None:
        """Wait until another channel is connected, but no longer than this."""
        with suppress(TimeoutError):
            # Not `wait_for`, which loses a cancellation that comes together with what is waited for.
            async with asyncio.timeout(timeout_s):
                await self._desk.next_connection()

    def free_in(self, conversation: str, channel: str) -> float | None:
        """The seconds until a conversation of a channel can be called, as it looks now; None where not connected."""
        outlet = self._desk.outlets.get(channel)
        if outlet is None:
            return None
        # By its name alone nobody can tell whether it is a thread or a chat with a # in its own: it is one of both.
        place = conversation.removeprefix(f"{channel}:")
        return max(outlet.due_in(place), outlet.due_in(place.rpartition("#")[0]))

    def policy(self, target: Target) -> Policy:
        """How a delivery to that place is treated if it is recorded now. Raises `UsageError` for an unknown channel."""
        capabilities = self._desk.capabilities(target.channel)
        if capabilities is None:
            raise UsageError(f"the channel {target.channel!r} was never connected: start and connect it first")
        settings = self._settings
        return Policy(
            idempotency=capabilities.idempotency,
            on_unknown=settings.on_unknown,
            on_dead=settings.on_dead,
            max_attempts=settings.max_attempts,
            max_age_s=settings.max_age_s,
        )

    async def begin(self, turn_id: str, target: Target, *, prompt: str = "") -> OpenTurn:
        """Begin a turn, or take up one that was interrupted: what it said already is not sent again."""
        turn = Turn(turn_id=turn_id, target=target, input=prompt, updated_at=self.clock.wall())
        begun = await self._desk.retry_while_unavailable(lambda: self.ledger.begin(turn))
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
                await self._desk.retry_while_unavailable(lambda: self.ledger.end(turn, ends))
            return []
        lane = self._lane(turn.target.conversation)
        with lane.expecting():
            recorded = await self._record(lane, turn, list(deliveries), ends)
            waiting = [lane.settled(delivery) if delivery.state not in FINAL else delivery for delivery in recorded]
        ended: list[Delivery] = []
        for now, later in zip(recorded, waiting, strict=True):
            if isinstance(later, Delivery):
                ended.append(later)
            else:
                # Shielded: others may wait for the same delivery.
                final = await asyncio.shield(later)
                ended.append(now if final is None else final)
        return ended

    def show(self, operation: Interim) -> Shown:
        """Show something in between, not written down: the latest wins, and it is dropped where a delivery is due.

        What became of it is told by a future that raises nothing and gets an outcome in any case; nobody has to wait
        for it. What was not shown, because something else came first or there was no place for it, is `NotNow`.
        """
        return not_shown() if self._desk.draining else self._lane(operation.target.conversation).show(operation)

    def cancel_unsent(self, turn: Turn) -> None:
        """The turn was stopped: no message of it that is not yet being sent is begun any more."""
        lane = self._lanes.get(turn.target.conversation)
        if lane is not None:
            lane.cancel_unsent(turn.turn_id)

    def resume(self, conversation: str, *, limit: int = PAGE) -> asyncio.Task[int] | None:
        """Go on with what the ledger holds open of a conversation; the work, or None where it is under way already."""
        if self._desk.draining:
            return None
        lane = self._lane(conversation)
        return lane.resume(limit) if lane.is_idle else None

    async def drain(self, timeout_s: float = 10.0) -> None:
        """Begin nothing more, finish what is being sent, and leave everything in a state to be taken up again.

        What is still being sent after `within_s` is left behind as ambiguous.
        """
        self._desk.draining = True
        for lane in self._lanes.values():
            lane.stop()
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while self._lanes:
                    self._rested.clear()
                    await self._rested.wait()
        late = {lane.task for lane in self._lanes.values() if lane.task is not None}
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late, timeout=_TIDY_S)
        await self._desk.drain_background(_TIDY_S)

    def _lane(self, conversation: str) -> ConversationSender:
        lane = self._lanes.get(conversation)
        if lane is None:
            lane = self._lanes[conversation] = ConversationSender(conversation, self._desk, self._forget)
        return lane

    def _forget(self, lane: ConversationSender) -> None:
        if self._lanes.get(lane.conversation) is lane:
            del self._lanes[lane.conversation]
        self._rested.set()

    async def _record(
        self, lane: ConversationSender, turn: Turn, deliveries: list[Delivery], ends: TurnState | None
    ) -> list[Delivery]:
        """Write deliveries down and hand them to their lane; the first as being sent, where it can go at once."""
        # Only a turn that was begun once, and is not over, has names that cannot be known yet.
        are_new = turn.attempt == 1 and turn.state is TurnState.RUNNING
        decided = self.clock.monotonic()
        at_once = self._at_once(lane, deliveries[0]) if are_new else None
        if at_once is not None:
            deliveries[0] = at_once
        try:
            recorded = await self._desk.retry_while_unavailable(
                lambda: self.ledger.end(turn, ends, plan=deliveries) if ends else self.ledger.plan(deliveries)
            )
        except asyncio.CancelledError:
            self._desk.run_in_background(self._take_up(lane.conversation, at_once))
            raise
        for delivery in recorded:
            if delivery.state in FINAL:
                self._release_file(delivery)
        if any(delivery.state not in FINAL for delivery in recorded):
            is_granted = at_once is not None and recorded[0].state is State.SENDING
            lane.take(recorded, are_new=are_new, granted=decided if is_granted else None)
        return recorded

    def _at_once(self, lane: ConversationSender, first: Delivery) -> Delivery | None:
        """The delivery as it is sent, where it can be this moment: then one writing is saved."""
        target = first.operation.target
        outlet = self._desk.outlets.get(target.channel)
        if (
            outlet is None
            or self._desk.draining
            or not lane.is_free
            or not outlet.is_free(target.chat, group=target.group)
        ):
            return None
        if first.policy.on_dead == "halt" and first.ordinal != 1:
            return None
        step = outlet.next_step(first)
        if not isinstance(step, Send):
            return None
        outlet.spend(target.chat, group=target.group)
        return step.delivery

    async def _take_up(self, conversation: str, at_once: Delivery | None) -> None:
        """Deliveries were recorded and nobody heard of it; the first may be recorded as being sent, and is not."""
        if at_once is not None:
            now = self.clock.wall()
            head = await self._desk.retry_while_unavailable(lambda: self.ledger.adopt(conversation, now=now, limit=1))
            if head and head[0].id == at_once.id and head[0].state is State.SENDING:
                await mark_not_sent(self._desk, head[0], in_doubt=False)
        if not self._desk.draining:
            self._lane(conversation).resume(PAGE)

    def _release_file(self, delivery: Delivery) -> None:
        if self.spool is not None:
            self.spool.release(delivery)
