"""The courier: sends everything, and records each delivery before and after it is sent.

It sends the deliveries of many conversations at the same time, each conversation strictly in order. The ledger records,
and the channels send. The courier creates one sender for each active conversation, and stops the senders. It does not
look for deliveries that an earlier process left open: `recovery` does that.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from typing import TYPE_CHECKING

from tailrace.deliveries import FINAL, Delivery, Turn, TurnState
from tailrace.delivery.conversation import ConversationSender
from tailrace.delivery.plan import OpenTurn
from tailrace.delivery.preview_slot import not_shown
from tailrace.delivery.queue import PAGE
from tailrace.delivery.sender_context import CourierSettings, SenderContext, SystemClock
from tailrace.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Self

    from tailrace.capabilities import Capabilities
    from tailrace.deliveries import Policy, Snapshot
    from tailrace.delivery.pace import OnCall
    from tailrace.delivery.preview_slot import Shown
    from tailrace.delivery.spool import Spool
    from tailrace.ledger_port import Ledger
    from tailrace.operations import Interim, Target
    from tailrace.ports import Channel, Clock

_CLEAN_UP_S = 5.0


class Courier:
    """Sends deliveries through channels. Use it with `async with`; at the end of the block, `drain` is called.

    `on_change` is called with a delivery each time that a change of the delivery was recorded. It must not raise an
    error.
    """

    def __init__(
        self,
        ledger: Ledger,
        *,
        settings: CourierSettings | None = None,
        spool: Spool | None = None,
        clock: Clock | None = None,
        jitter: Callable[[], float] = random.random,
        on_change: Callable[[Delivery], None] | None = None,
    ) -> None:
        self.ledger = ledger
        self.clock = clock or SystemClock()
        self.spool = spool
        self._on_change = on_change
        self._context = SenderContext(
            ledger, settings or CourierSettings(), self.clock, jitter=jitter, on_change=self._report
        )
        self._senders: dict[str, ConversationSender] = {}
        self._sender_paused = asyncio.Event()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.drain()

    def observe_calls(self, on_call: OnCall) -> None:
        """Call `on_call` after each call to a channel that is connected later, also if the call shows a preview.

        It gets the name of the channel, the operation and the outcome, and must not raise an error.
        """
        self._context.on_call = on_call

    def connect(self, channel: Channel, settings: CourierSettings | None = None) -> None:
        """Send through this channel from now on. The caller has already started the channel.

        `settings` are for the new deliveries of this channel; without them, those of the courier apply.
        """
        self._context.connect(channel, settings)

    def disconnect(self, name: str) -> None:
        """Stop sending through the channel. Its deliveries wait; the waiting does not count as an attempt."""
        self._context.disconnect(name)

    @property
    def connected(self) -> dict[str, Channel]:
        """The connected channels by name."""
        return {name: paced.channel for name, paced in self._context.channels.items()}

    @property
    def fenced(self) -> int:
        """How often another owner took a conversation from this courier.

        Each time, the courier may have made one call after it had lost the lease, because a lease is checked before a
        call.
        """
        return self._context.fenced

    @property
    def connections(self) -> int:
        """How often a channel was connected."""
        return self._context.connections

    async def wait_for_connection(self, timeout_s: float, *, after: int) -> None:
        """Wait until there were more than `after` connections, or until the timeout has passed."""
        if self.connections > after:
            return
        with suppress(TimeoutError):
            # Not `wait_for`, because that can lose a cancellation that comes together with the result.
            async with asyncio.timeout(timeout_s):
                await self._context.next_connection()

    def free_in(self, channel: str, chat: str) -> float | None:
        """An estimate of the seconds until a chat may be called; None if the channel is not connected."""
        paced = self._context.channels.get(channel)
        return None if paced is None else paced.due_in(chat)

    def capabilities(self, target: Target) -> Capabilities:
        """What the channel can do in this chat. Raises `UsageError` if the channel was never connected."""
        return self._context.capabilities(target)

    def policy(self, target: Target) -> Policy:
        """The policy of a new delivery to this target. Raises `UsageError` if the channel was never connected."""
        return self._context.policy(target)

    async def begin(self, turn_id: str, target: Target) -> OpenTurn:
        """Begin a turn, or resume an interrupted one. Deliveries that arrived are not sent again.

        First, all other interrupted turns of this conversation are closed, each with a line that says so. They cannot
        be resumed later, see `OpenTurn.is_finished`. Raises `UsageError` if the turn belongs to another conversation,
        and `Fenced` if another process owns this conversation.
        """
        self.policy(target)  # refuses a channel that was never connected, before anything is recorded
        turn = Turn(turn_id=turn_id, target=target, updated_at=self.clock.wall())
        begun = await self._sender(target.conversation).begin(turn)
        if begun.conversation != target.conversation:
            raise UsageError(f"turn {turn_id} goes to {begun.conversation}: name that chat, or choose another turn id")
        return OpenTurn(self, begun)

    async def deliver(
        self, turn: Turn, deliveries: Sequence[Delivery], *, ends: TurnState | None = None
    ) -> list[Delivery]:
        """Record deliveries of a turn and send them. Returns each in its final state.

        If these are the last deliveries of the turn, `ends` is its final state, which is recorded together with them.
        If the courier is drained meanwhile, open deliveries are returned as they are recorded. They stay open in the
        ledger, and recovery sends them later. Raises `Fenced` if the lease under which the turn was begun has ended.
        """
        if not deliveries and ends is None:
            return []
        return await self._sender(turn.conversation).deliver(turn, list(deliveries), ends)

    async def deliveries_of(self, turn_id: str) -> list[Delivery]:
        """All recorded deliveries of a turn, in their order."""
        return await self._context.deliveries_of(turn_id)

    async def wait_until_final(self, turn: Turn, deliveries: Sequence[Delivery]) -> None:
        """Wait until recorded deliveries of a turn are final, or the courier is drained."""
        await self._sender(turn.conversation).wait_until_final(deliveries)

    def show(self, operation: Interim) -> Shown:
        """Show an interim operation (a preview, a draft, typing) without recording it.

        The operation is dropped if a newer one or a delivery comes first. The future gets the outcome, never an
        exception; `NotNow` means that the operation was dropped. A caller need not wait for the outcome, except between
        two texts for the same stream: a text is dropped while the one before is pending.
        """
        if self._context.draining:
            return not_shown()
        return self._sender(operation.target.conversation).show(operation)

    def owns(self, turn: Turn) -> bool:
        """Whether this courier may still send the turn: its lease has not ended, as far as this process knows."""
        sender = self._senders.get(turn.conversation)
        return sender is not None and sender.owns(turn)

    async def cancel(self, turn: Turn) -> None:
        """Send no new messages of the turn any more, also after a restart. Existing messages may still be edited."""
        await self._sender(turn.conversation).cancel_turn(turn.turn_id)

    def save_snapshot(self, turn: Turn, snapshot: Snapshot) -> None:
        """Save the current text of a turn that was begun here. Returns at once: see `Ledger.save_snapshot`."""
        if (sender := self._senders.get(turn.conversation)) is not None:
            sender.save_snapshot(turn.turn_id, snapshot)

    def close_turn(self, turn: Turn) -> None:
        """Stop using a turn that was begun here. If the turn has not ended, it is closed later as interrupted."""
        if (sender := self._senders.get(turn.conversation)) is not None:
            sender.close_turn(turn)

    def resume(self, conversation: str, *, limit: int = PAGE) -> asyncio.Task[int] | None:
        """Close the interrupted turns of a conversation and send up to `limit` open deliveries.

        Returns a task; its result is the number of deliveries that became final. Returns None if a sender is already at
        work in the conversation.
        """
        if self._context.draining:
            return None
        sender = self._sender(conversation)
        return sender.resume(limit) if sender.is_resumable else None

    async def drain(self, timeout_s: float = 10.0) -> None:
        """Finish the calls that are under way, and start no others. All other deliveries stay open in the ledger.

        If a call takes longer than the timeout, its delivery becomes ambiguous.
        """
        self._context.draining = True
        for sender in list(self._senders.values()):
            sender.stop()
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while any(sender.is_busy for sender in self._senders.values()):
                    self._sender_paused.clear()
                    await self._sender_paused.wait()
        late = {sender.task for sender in self._senders.values() if sender.task is not None}
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late, timeout=_CLEAN_UP_S)
        await self._context.drain_background(_CLEAN_UP_S)

    def _sender(self, conversation: str) -> ConversationSender:
        sender = self._senders.get(conversation)
        if sender is None:
            sender = self._senders[conversation] = ConversationSender(conversation, self._context, self._forget_idle)
        return sender

    def _forget_idle(self, sender: ConversationSender) -> None:
        if self._senders.get(sender.conversation) is sender and sender.is_idle:
            del self._senders[sender.conversation]
        self._sender_paused.set()

    def _report(self, delivery: Delivery) -> None:
        if self.spool is not None and delivery.state in FINAL:
            self.spool.release(delivery)
        if self._on_change is not None:
            self._on_change(delivery)
