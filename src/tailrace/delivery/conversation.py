"""The sender of one conversation: it holds the lease and sends what is recorded, in order and one at a time.

The sender knows which turns of the conversation were begun in this process, and records their deliveries in the
`queue`. Its task works on the first row of the queue (`steps`) until that row is final, then on the next. A row in the
state `sending` belongs to the sender that set this state. After an answer, an exception, a cancellation or a stop, the
sender gives the row the state that is then known; if it is not known whether the message arrived, that is `ambiguous`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import TYPE_CHECKING, Any

from tailrace.deliveries import FINAL, Delivery, State, TurnState
from tailrace.delivery.preview_slot import PreviewSlot, not_shown
from tailrace.delivery.queue import ConversationQueue
from tailrace.delivery.recovery import closing_deliveries
from tailrace.delivery.steps import SHORT_WAIT_S, Intent, NotDueSoon, SendSteps
from tailrace.errors import Fenced, LedgerClosed, LedgerError, LedgerLost, UsageError
from tailrace.log_context import log_context

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from tailrace.deliveries import Snapshot, Turn
    from tailrace.delivery.preview_slot import Shown
    from tailrace.delivery.sender_context import SenderContext
    from tailrace.operations import Interim

_log = logging.getLogger(__name__)

_LONGEST_PAUSE_S = 60.0


class ConversationSender:
    """The sender of one conversation. It runs a task while there is something to send.

    The sender calls `on_pause` when it becomes idle; while the courier drains, also each time that some work has ended.
    The result of the task is the number of rows that became final.
    """

    def __init__(
        self, conversation: str, context: SenderContext, on_pause: Callable[[ConversationSender], None]
    ) -> None:
        self.conversation = conversation
        self.task: asyncio.Task[int] | None = None
        self._context = context
        self._on_pause = on_pause
        self._queue = ConversationQueue(conversation, context)
        self._steps = SendSteps(self._queue, context, self._in_background)
        self._previews = PreviewSlot()
        self._uses = 0
        self._recordings = 0
        self._turns: Counter[str] = Counter()
        self._given_up: list[Turn] = []
        self._recovering = asyncio.Lock()
        self._is_recovered = False
        self._is_running = False
        self._limit: int | None = None

    def __enter__(self) -> None:
        """Keep the lease until the `with` block ends."""
        self._uses += 1

    def __exit__(self, _kind: type[BaseException] | None, error: BaseException | None, _traceback: object) -> None:
        if isinstance(error, Fenced):
            self._lose_lease()
        self._uses -= 1
        self._pause()

    @property
    def is_busy(self) -> bool:
        """Whether the sender needs the lease now: its task runs, or one of its methods is recording something."""
        return self.task is not None or self._uses > 0

    @property
    def is_idle(self) -> bool:
        """Whether the sender has no work and no open turn. It has then released the lease."""
        return not self.is_busy and not self._turns

    @property
    def is_resumable(self) -> bool:
        """Whether recovery may resume this conversation: the task does not run, and nothing is being recorded."""
        return self.task is None and not self._recordings

    async def begin(self, turn: Turn) -> Turn:
        """Begin a turn. Turns that were interrupted in this conversation are closed first."""
        with self:
            lease = await self._queue.own()
            await self._recover(resumed=turn.turn_id)
            begun = await self._context.retry_while_unavailable(self._context.ledger.begin, lease, turn)
            if begun.state is TurnState.RUNNING and begun.conversation == self.conversation:
                self._turns[begun.turn_id] += 1
            return begun

    def close_turn(self, turn: Turn) -> None:
        """Stop using a turn that was begun here. If the turn has not ended, it is closed later as interrupted."""
        self._turns -= Counter([turn.turn_id])
        self._given_up.append(turn)
        self._pause()

    def save_snapshot(self, turn_id: str, snapshot: Snapshot) -> None:
        """Save the current text of a turn that was begun here. Returns at once: see `Ledger.save_snapshot`."""
        if (lease := self._queue.lease) is not None:
            self._context.ledger.save_snapshot(lease, turn_id, snapshot)

    async def cancel_turn(self, turn_id: str) -> None:
        """Send no new messages of that turn any more. Existing messages may still be edited."""
        self._steps.cancelled_turns.add(turn_id)
        self._steps.wake()
        with self:
            await self._context.retry_while_unavailable(self._context.ledger.cancel, turn_id)

    def owns(self, turn: Turn) -> bool:
        """Whether the turn was begun under the current lease, as far as this process knows."""
        lease = self._queue.lease
        return lease is not None and lease.epoch == turn.epoch

    async def deliver(self, turn: Turn, deliveries: list[Delivery], ends: TurnState | None) -> list[Delivery]:
        """Record deliveries of a turn and send them, as `Courier.deliver` describes."""
        if turn.state is TurnState.RUNNING and not self.owns(turn):
            # Another owner may have closed the turn, or may be sending it.
            raise Fenced(f"turn {turn.turn_id} was begun under a lease that has ended: begin it again")
        with self:
            recorded = await self._record(turn, deliveries, ends)
            waiting = [None if row.state in FINAL else self._queue.final_state(row) for row in recorded]
        ended = []
        for row, waiter in zip(recorded, waiting, strict=True):
            final = await waiter if waiter is not None else row
            ended.append(final or row)
        return ended

    async def wait_until_final(self, deliveries: Sequence[Delivery]) -> None:
        """Wait until recorded deliveries of this conversation are final, or until the sender stops."""
        waiters = [self._queue.final_state(delivery) for delivery in deliveries]
        self._queue.reload()
        self._start()
        for waiter in waiters:
            await waiter

    def show(self, operation: Interim) -> Shown:
        """Show an interim operation: a preview, a draft or typing. The future gets the outcome.

        If a delivery is open, the operation is dropped, because the delivery contains its text.
        """
        if self._queue.first is not None or self._recordings:
            return not_shown()
        shown = self._previews.put(operation)
        self._start()
        return shown

    def resume(self, limit: int) -> asyncio.Task[int]:
        """Send the open deliveries that the ledger has for this conversation.

        The task ends after `limit` deliveries have become final, unless a caller waits for a later one.
        """
        self._limit = limit
        self._queue.reload()
        return self._start()

    def stop(self) -> None:
        """Finish the call that is under way, and start no other. Before this call, set `SenderContext.draining`."""
        # A task that has not started yet is not cancelled, because it could not clean up. It sees `draining` itself.
        if self.task is not None and self._is_running and not self._steps.is_calling:
            self.task.cancel()

    # Recording and recovering

    async def _record(self, turn: Turn, deliveries: list[Delivery], ends: TurnState | None) -> list[Delivery]:
        self._previews.clear()  # an interim operation must not be shown after a later delivery
        self._recordings += 1
        # If the turn was begun only once and has not ended, none of its next delivery ids is recorded yet.
        are_new = turn.attempt == 1 and turn.state is TurnState.RUNNING
        is_free = self.task is None and self._recordings == 1 and self._queue.first is None
        intent = self._steps.decide_at_once(deliveries[0]) if deliveries and are_new and is_free else None
        try:
            if intent is not None:
                deliveries[0], self._steps.intent = intent.delivery, intent
            recorded = await self._queue.record(turn, deliveries, ends, are_new=are_new)
        except asyncio.CancelledError:
            self._start()  # the rows may be recorded all the same; the task then sends them
            raise
        except BaseException:
            self._steps.intent = None if self._steps.intent is intent else self._steps.intent
            raise
        finally:
            self._recordings -= 1
        if intent is not None and self._steps.intent is intent:
            is_sending = recorded[0].state is State.SENDING
            self._steps.intent = Intent(recorded[0], intent.decided_at) if is_sending else None
        self._limit = None
        if any(row.state not in FINAL for row in recorded):
            self._start()
        return recorded

    async def _recover(self, resumed: str = "") -> None:
        """Close the turns that earlier owners left unfinished, except `resumed`, and take over their open rows."""
        async with self._recovering:
            turns = list(self._given_up)
            # Read the turns again: a turn may have ended, or may have been begun again, since its caller gave it up.
            found = [await self._turn_now(turn) for turn in turns]
            left = [now for turn, now in zip(turns, found, strict=True) if now and now.attempt == turn.attempt]
            has_open = not self._is_recovered and (await self._queue.own()).has_open
            if has_open:
                left += await self._context.retry_while_unavailable(
                    self._context.ledger.interrupted_turns, conversation=self.conversation
                )
            for turn in left:
                if turn.turn_id != resumed and turn.state is TurnState.RUNNING:
                    await self._close_interrupted(turn)
            del self._given_up[: len(turns)]  # not earlier: if this task is cancelled, they must still be closed
            self._is_recovered = True
            if has_open:
                await self._queue.adopt()
                self._count_earlier_call(left)
        if self._queue.first is not None:
            self._start()

    def _count_earlier_call(self, turns: Sequence[Turn]) -> None:
        """Count a call for the rate limit: the process that left this open may have made one just before it ended."""
        first = self._queue.first
        targets = [turn.target for turn in turns] + ([] if first is None else [first.operation.target])
        for target in targets[:1]:  # all are the same
            if (channel := self._context.channels.get(target.channel)) is not None:
                channel.count_call(target.chat, group=channel.is_group(target))

    async def _turn_now(self, turn: Turn) -> Turn | None:
        return await self._context.retry_while_unavailable(self._context.ledger.turn, turn.turn_id)

    async def _close_interrupted(self, turn: Turn) -> None:
        """Close a turn that is not continued: its last message says that it was interrupted."""
        try:
            last = await closing_deliveries(self._context, turn)
        except UsageError:
            return  # its channel was never connected: the turn is closed when the channel is connected
        state = TurnState.CANCELLED if turn.is_cancelled else TurnState.INTERRUPTED
        await self._queue.record(turn, last, state, are_new=True)

    # The task

    def _start(self) -> asyncio.Task[int]:
        if self.task is None:
            # The task may go on after the turn that starts it, so it must not have the names of that turn.
            with log_context(conversation=self.conversation, turn="", delivery=""):
                self.task = asyncio.create_task(self._run(), name=f"sender of {self.conversation}")
        return self.task

    async def _run(self) -> int:
        finished, pause_s = self._queue.finished, SHORT_WAIT_S
        self._is_running = True
        try:
            while self._has_work(finished):
                try:
                    await self._step()
                    pause_s = SHORT_WAIT_S
                except (NotDueSoon, Fenced, LedgerLost, LedgerClosed):
                    raise
                except Exception as error:  # noqa: BLE001 -- our own bug must not stop the conversation
                    _log.critical("%s: sending failed and is tried again", self.conversation, exc_info=error)
                    self._queue.reload()
                    if not self._queue.is_awaited:
                        break
                    await self._steps.unless_woken(asyncio.sleep(pause_s))
                    pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        except NotDueSoon:
            pass
        except Fenced as error:
            # One call may have gone out after the lease ended. If the platform has keys or lookups, the new owner does
            # not send that message twice.
            _log.warning("%s: another owner has this conversation: %s", self.conversation, error)
            self._context.fenced += 1
            self._lose_lease()
        except LedgerError as error:
            _log.error("%s: sending stops: %s", self.conversation, error)
        finally:
            self._end_task()
        return self._queue.finished - finished

    async def _step(self) -> None:
        if not self._is_recovered:
            await self._recover()
        elif self._queue.first is None and self._queue.has_more:
            await self._queue.adopt()
        if (first := self._queue.first) is not None:
            with log_context(turn=first.turn_id, delivery=first.id):
                await self._steps.advance(first)
        elif self._previews:
            await self._queue.confirm_lease()
            if self._previews:
                await self._previews.show(self._context.channels)

    def _has_work(self, finished_before: int) -> bool:
        is_limited = self._limit is not None and self._queue.finished - finished_before >= self._limit
        if self._context.draining or (is_limited and not self._queue.is_awaited):
            return False
        return self._queue.first is not None or self._queue.has_more or bool(self._previews)

    def _end_task(self) -> None:
        self.task, self._is_running = None, False
        self._steps.end()
        self._previews.clear()
        self._queue.close()
        self._pause()

    def _pause(self) -> None:
        is_idle = self.task is None and not self._uses and not self._turns
        if is_idle:
            self._queue.release()
            self._is_recovered = False
        if is_idle or self._context.draining:
            self._on_pause(self)

    def _lose_lease(self) -> None:
        self._queue.lose()
        self._steps.intent = None
        self._is_recovered = False

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        """Do work that needs the lease. It goes on even if the task of this sender is cancelled."""
        self._uses += 1

        async def tracked() -> None:
            try:
                await work
            finally:
                self._uses -= 1
                self._pause()

        self._context.run_in_background(tracked())
