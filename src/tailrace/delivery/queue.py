"""The queue of one conversation: its lease, its first open rows, and the callers that wait for rows to become final.

All changes of the conversation in the ledger go through here, so memory and ledger always agree. The queue keeps only
the first open rows in memory. If `has_more` is true, the ledger may have others, and they are adopted from there. The
ledger itself also refuses a row that is out of order, and a change by an owner whose lease has ended.
"""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

from tailrace.deliveries import FINAL, Delivery, State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tailrace.deliveries import Lease, Turn, TurnState
    from tailrace.delivery.sender_context import SenderContext

PAGE = 16
_CONFIRM_AFTER_S = 20.0  # a lease with a deadline lasts longer

Key: TypeAlias = tuple[str, int]


def key_of(delivery: Delivery) -> Key:
    """The turn and the ordinal of a delivery."""
    return delivery.turn_id, delivery.ordinal


class ConversationQueue:
    """The open rows of one conversation, in order. `finished` counts the rows that became final."""

    def __init__(self, conversation: str, context: SenderContext) -> None:
        self.conversation = conversation
        self.has_more = True
        self.finished = 0
        self._context = context
        self._ledger = context.ledger
        self._lease: Lease | None = None
        self._owned_at = 0.0  # the last moment at which the lease was known to be valid (monotonic clock)
        self._acquiring = asyncio.Lock()
        self._rows: list[Delivery] = []
        self._version = 0
        self._waiters: dict[Key, list[asyncio.Future[Delivery | None]]] = {}

    @property
    def first(self) -> Delivery | None:
        """The first open row that is in memory."""
        return self._rows[0] if self._rows else None

    @property
    def is_awaited(self) -> bool:
        """Whether a caller waits until a delivery of this queue is final."""
        return bool(self._waiters)

    @property
    def lease(self) -> Lease | None:
        """The current lease, if this queue has one."""
        return self._lease

    async def own(self) -> Lease:
        """The lease of the conversation; acquires it if needed. Raises `Fenced` if another owner has it."""
        if self._lease is None:
            async with self._acquiring:
                if self._lease is None:
                    now = self._context.clock.monotonic()
                    self._lease = await self._context.retry_while_unavailable(self._ledger.acquire, self.conversation)
                    self.has_more = self._lease.has_open
                    self._owned_at = now
        return self._lease

    async def confirm_lease(self) -> None:
        """Renew the lease if the last renewal was long ago. Raises `Fenced` if another owner has the conversation.

        Needed before a call that is not recorded: a process that was paused would otherwise not notice the new owner.
        """
        lease, now = await self.own(), self._context.clock.monotonic()
        if now - self._owned_at > _CONFIRM_AFTER_S:
            await self._context.retry_while_unavailable(self._ledger.plan, lease, ())
            self._owned_at = now

    def release(self) -> None:
        """End the lease, so that another owner can take the conversation."""
        if self._lease is not None:
            self._ledger.release(self._lease)
            self._lease = None

    def lose(self) -> None:
        """Forget the lease, because it has ended or another owner changed a row. The next use acquires a new lease."""
        self._lease = None
        self.reload()

    def reload(self) -> None:
        """Drop the rows in memory. They are read from the ledger again when they are needed."""
        self._rows.clear()
        self.has_more = True
        self._version += 1

    def close(self) -> None:
        """Drop all rows in memory; the ledger still has them. Callers that wait get None."""
        self.reload()
        for waiters in self._waiters.values():
            _resolve(waiters, None)
        self._waiters.clear()

    async def adopt(self) -> None:
        """Take over the first open rows of the conversation from the ledger, which earlier owners may have left."""
        lease, clock, version = await self.own(), self._context.clock, self._version
        now, asked_at = clock.wall(), clock.monotonic()
        rows = await self._context.retry_while_unavailable(self._ledger.adopt, lease, now=now, limit=PAGE)
        self._owned_at = asked_at
        # If rows were added while the ledger was read, it is unknown whether this page has them.
        self.has_more = len(rows) == PAGE or self._version != version
        self._version += 1
        self._rows = list(rows)
        for row in rows:
            self._context.on_change(row)

    async def record(
        self, turn: Turn, deliveries: Sequence[Delivery], ends: TurnState | None, *, are_new: bool
    ) -> list[Delivery]:
        """Record deliveries of a turn and queue them. If `ends` is a state, the turn ends with it in the same step.

        `are_new`: none of them was recorded before. If the caller is cancelled, they may still be recorded.
        """
        version = self._version
        try:
            lease = self._lease or await self.own()
            retry = self._context.retry_while_unavailable
            if ends is not None:
                recorded = await retry(self._ledger.end, lease, turn, ends, plan=deliveries)
            else:
                recorded = await retry(self._ledger.plan, lease, deliveries)
        except asyncio.CancelledError:
            self.reload()
            raise
        is_current, self._version = version == self._version, self._version + 1
        if is_current and recorded and recorded[0].state is State.SENDING:
            self._rows.clear()  # the ledger allows `sending` only if no other row is open here
            self.has_more = False
        if not are_new or not is_current:
            self.reload()  # these rows, or others, may have changed since they were recorded
        elif recorded and not self.has_more:
            self._insert(recorded)
        for row in recorded:
            self._context.on_change(row)
        return recorded

    async def move(self, *states: Delivery, plan: Sequence[Delivery] = ()) -> None:
        """Record the next states of a row; `states` begins with the current one. `plan` is queued after the row."""
        lease = self._lease or await self.own()
        recorded = await self._context.retry_while_unavailable(self._ledger.move, lease, *pairwise(states), plan=plan)
        self.replace(states[0], states[-1], recorded[len(states) - 1 :])

    async def move_to_sending(self, before: Delivery, sending: Delivery, *, hold_s: float) -> None:
        """Record that a row is being sent. The lease then lasts at least `hold_s` more seconds.

        This is not retried: if the ledger is unavailable, the caller decides again.
        """
        await self._ledger.move(await self.own(), (before, sending), hold_s=hold_s)
        self.replace(before, sending)

    def replace(self, before: Delivery, after: Delivery, added: Sequence[Delivery] = ()) -> None:
        """Replace a row in memory, and add the rows recorded right after it. If the row is final, wake its callers."""
        is_first = bool(self._rows) and self._rows[0].position == before.position
        if after.state in FINAL:
            self.finished += 1
            if is_first:
                del self._rows[0]
            self._wake_callers(after)
        elif is_first:
            self._rows[0] = after
        if added and is_first:
            self._insert(added)
        elif added:
            self.reload()
        for row in (after, *added):
            self._context.on_change(row)

    def final_state(self, delivery: Delivery) -> asyncio.Future[Delivery | None]:
        """A future for the final state of a row; it gets None if the sender stops before."""
        waiter: asyncio.Future[Delivery | None] = asyncio.get_running_loop().create_future()
        self._waiters.setdefault(key_of(delivery), []).append(waiter)
        return waiter

    def _insert(self, added: Sequence[Delivery]) -> None:
        is_behind = not self._rows or added[0].position > self._rows[-1].position
        self._rows += added
        if not is_behind:
            self._rows.sort(key=lambda row: row.position)

    def _wake_callers(self, final: Delivery) -> None:
        waiters = self._waiters.pop(key_of(final), [])
        if waiters and final.state is State.SUPERSEDED:
            self._waiters[final.turn_id, -final.ordinal] = waiters  # they wait for its replacement
        else:
            _resolve(waiters, final)


def _resolve(waiters: list[asyncio.Future[Delivery | None]], final: Delivery | None) -> None:
    for waiter in waiters:
        if not waiter.done():
            waiter.set_result(final)
