"""The courier: sends everything, and records each delivery before and after it is sent.

It sends the deliveries of many conversations at the same time, each conversation strictly in order. The ledger keeps
the record, the channels send. The courier owns which conversations have a sender and how they are stopped. It does not
look for what an earlier process left open: `recovery` does.
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
from tailrace.delivery.plan import OpenTurn
from tailrace.delivery.preview_slot import not_shown
from tailrace.delivery.result import Send
from tailrace.delivery.sender_context import SenderContext, SystemClock
from tailrace.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Self

    from tailrace.delivery.preview_slot import Shown
    from tailrace.delivery.spool import Spool
    from tailrace.operations import Interim, Target
    from tailrace.ports import Channel, Clock, Ledger

_CLEAN_UP_S = 5.0


class CourierSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of new deliveries. Recorded deliveries keep the policy they were recorded with.

    The fields are those of `tailrace.deliveries.Policy`.
    """

    on_unknown: Literal["hold", "resend"] = "hold"
    on_dead: Literal["skip", "halt"] = "skip"
    max_attempts: int = 20
    max_age_s: float = 86_400.0

    def __post_init__(self) -> None:
        if self.max_attempts < 1:
            raise UsageError(f"max_attempts is {self.max_attempts}; it must be at least 1")
        if not self.max_age_s > 0:
            raise UsageError(f"max_age_s is {self.max_age_s:g}; it must be greater than 0")


class Courier:
    """Sends deliveries through channels. Use it with `async with`; leaving the block drains it."""

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
        self._context = SenderContext(ledger, self.clock, jitter, on_final=self._release_file)
        self._senders: dict[str, ConversationSender] = {}
        self._sender_ended = asyncio.Event()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.drain()

    def connect(self, channel: Channel) -> None:
        """Send through this channel from now on. The caller has started it."""
        self._context.connect(channel)

    def disconnect(self, name: str) -> None:
        """Stop sending through the channel. Its deliveries wait, and that costs no attempt."""
        self._context.disconnect(name)

    @property
    def connected(self) -> dict[str, Channel]:
        """The connected channels by name."""
        return {name: paced.channel for name, paced in self._context.channels.items()}

    async def wait_for_connection(self, timeout_s: float) -> None:
        """Wait until another channel is connected, at most for the timeout."""
        with suppress(TimeoutError):
            # Not `wait_for`: it can lose a cancellation that comes together with the result.
            async with asyncio.timeout(timeout_s):
                await self._context.next_connection()

    def free_in(self, conversation: str, channel: str) -> float | None:
        """About how many seconds until a conversation of a channel may be called; None if it is not connected."""
        paced = self._context.channels.get(channel)
        if paced is None:
            return None
        # The name alone does not say whether a # separates the thread or belongs to the chat. Both are tried.
        name = conversation.removeprefix(f"{channel}:")
        return max(paced.due_in(name), paced.due_in(name.rpartition("#")[0]))

    def policy(self, target: Target) -> Policy:
        """The policy of a new delivery to this target. Raises `UsageError` if the channel was never connected."""
        capabilities = self._context.capabilities(target.channel)
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
        """Begin a turn, or resume an interrupted one. Deliveries that arrived are not sent again."""
        turn = Turn(turn_id=turn_id, target=target, input=prompt, updated_at=self.clock.wall())
        begun = await self._context.retry_while_unavailable(lambda: self.ledger.begin(turn))
        return OpenTurn(self, begun)

    async def deliver(
        self, turn: Turn, deliveries: Sequence[Delivery], *, ends: TurnState | None = None
    ) -> list[Delivery]:
        """Record deliveries of a turn and send them. Returns each in its final state.

        `ends` is the final state of the turn if these are its last deliveries; it is recorded together with them. If
        the courier is drained meanwhile, unfinished deliveries are returned as recorded. They stay open in the ledger,
        and recovery sends them.
        """
        if not deliveries:
            if ends is not None:
                await self._context.retry_while_unavailable(lambda: self.ledger.end(turn, ends))
            return []
        sender = self._sender(turn.target.conversation)
        with sender.recording():
            recorded = await self._record(sender, turn, list(deliveries), ends)
            waiting = [
                sender.final_state(delivery) if delivery.state not in FINAL else delivery for delivery in recorded
            ]
        ended: list[Delivery] = []
        for now, later in zip(recorded, waiting, strict=True):
            if isinstance(later, Delivery):
                ended.append(later)
            else:
                # Shielded, because other callers may wait for the same delivery.
                final = await asyncio.shield(later)
                ended.append(now if final is None else final)
        return ended

    def show(self, operation: Interim) -> Shown:
        """Show an interim operation without recording it. A newer one replaces it, and a due delivery drops it.

        The future gets the outcome and never an exception; the caller need not wait for it. `NotNow` means that the
        operation was dropped.
        """
        if self._context.draining:
            return not_shown()
        return self._sender(operation.target.conversation).show(operation)

    def cancel_unsent(self, turn: Turn) -> None:
        """The turn was stopped: send no more new messages of it."""
        sender = self._senders.get(turn.target.conversation)
        if sender is not None:
            sender.cancel_unsent(turn.turn_id)

    def resume(self, conversation: str, *, limit: int = PAGE) -> asyncio.Task[int] | None:
        """Send up to `limit` open deliveries of a conversation. Returns the task, None if it has a sender already."""
        if self._context.draining:
            return None
        sender = self._sender(conversation)
        return sender.resume(limit) if sender.is_idle else None

    async def drain(self, timeout_s: float = 10.0) -> None:
        """Start nothing more and finish the calls under way. All else stays open in the ledger.

        Calls that take longer than the timeout become ambiguous.
        """
        self._context.draining = True
        for sender in self._senders.values():
            sender.stop()
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while self._senders:
                    self._sender_ended.clear()
                    await self._sender_ended.wait()
        late = {sender.task for sender in self._senders.values() if sender.task is not None}
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late, timeout=_CLEAN_UP_S)
        await self._context.drain_background(_CLEAN_UP_S)

    def _sender(self, conversation: str) -> ConversationSender:
        sender = self._senders.get(conversation)
        if sender is None:
            sender = self._senders[conversation] = ConversationSender(conversation, self._context, self._forget)
        return sender

    def _forget(self, sender: ConversationSender) -> None:
        if self._senders.get(sender.conversation) is sender:
            del self._senders[sender.conversation]
        self._sender_ended.set()

    async def _record(
        self, sender: ConversationSender, turn: Turn, deliveries: list[Delivery], ends: TurnState | None
    ) -> list[Delivery]:
        """Record deliveries and give them to their sender; the first one as `sending` if it can be sent at once."""
        # A turn that was begun once and has not ended has only new delivery ids.
        are_new = turn.attempt == 1 and turn.state is TurnState.RUNNING
        decided_at = self.clock.monotonic()
        sending = self._sending_at_once(sender, deliveries[0]) if are_new else None
        if sending is not None:
            deliveries[0] = sending
        try:
            recorded = await self._context.retry_while_unavailable(
                lambda: self.ledger.end(turn, ends, plan=deliveries) if ends else self.ledger.plan(deliveries)
            )
        except asyncio.CancelledError:
            self._context.run_in_background(self._resume_cancelled(sender.conversation, sending))
            raise
        for delivery in recorded:
            if delivery.state in FINAL:
                self._release_file(delivery)
        if any(delivery.state not in FINAL for delivery in recorded):
            has_intent = sending is not None and recorded[0].state is State.SENDING
            sender.add(recorded, are_new=are_new, intent_decided_at=decided_at if has_intent else None)
        return recorded

    def _sending_at_once(self, sender: ConversationSender, first: Delivery) -> Delivery | None:
        """The delivery as `sending`, if it can be sent at once: that saves one write to the ledger."""
        target = first.operation.target
        channel = self._context.channels.get(target.channel)
        if (
            channel is None
            or self._context.draining
            or not sender.is_free
            or not channel.is_free(target.chat, group=target.group)
        ):
            return None
        if first.policy.on_dead == "halt" and first.ordinal != 1:
            return None
        step = channel.next_step(first)
        if not isinstance(step, Send):
            return None
        channel.count_call(target.chat, group=target.group)
        return step.delivery

    async def _resume_cancelled(self, conversation: str, sending: Delivery | None) -> None:
        """The caller was cancelled while its deliveries were recorded: send them all the same."""
        if sending is not None:
            now = self.clock.wall()
            first = await self._context.retry_while_unavailable(
                lambda: self.ledger.adopt(conversation, now=now, limit=1)
            )
            if first and first[0].id == sending.id and first[0].state is State.SENDING:
                await mark_not_sent(self._context, first[0], in_doubt=False)
        if not self._context.draining:
            self._sender(conversation).resume(PAGE)

    def _release_file(self, delivery: Delivery) -> None:
        if self.spool is not None:
            self.spool.release(delivery)
