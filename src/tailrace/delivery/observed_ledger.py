"""A ledger that reports each recorded delivery to a callback, so that a command can show progress."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.deliveries import TurnState

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tailrace.deliveries import Delivery, Inbound, OpenConversation, Query, Snapshot, Turn
    from tailrace.ports import Ledger


class ObservedLedger:
    """Passes all calls to a ledger, and calls `on_change` with each delivery that was recorded, moved or adopted.

    `on_change` is called after the change is made, and must not raise.
    """

    def __init__(self, ledger: Ledger, on_change: Callable[[Delivery], None]) -> None:
        self._ledger = ledger
        self._on_change = on_change
        self.epoch = ledger.epoch

    async def accept(self, inbound: Inbound) -> str:
        """See `Ledger.accept`."""
        return await self._ledger.accept(inbound)

    async def begin(self, turn: Turn) -> Turn:
        """See `Ledger.begin`."""
        return await self._ledger.begin(turn)

    def save_snapshot(self, turn_id: str, snapshot: Snapshot) -> None:
        """See `Ledger.save_snapshot`."""
        self._ledger.save_snapshot(turn_id, snapshot)

    async def end(self, turn: Turn, state: TurnState, *, plan: Sequence[Delivery] = ()) -> list[Delivery]:
        """See `Ledger.end`."""
        return self._report(await self._ledger.end(turn, state, plan=plan))

    async def plan(self, deliveries: Sequence[Delivery]) -> list[Delivery]:
        """See `Ledger.plan`."""
        return self._report(await self._ledger.plan(deliveries))

    async def move(self, *moves: tuple[Delivery, Delivery], plan: Sequence[Delivery] = ()) -> list[Delivery]:
        """See `Ledger.move`."""
        return self._report(await self._ledger.move(*moves, plan=plan))

    async def adopt(self, conversation: str, *, now: float, limit: int) -> list[Delivery]:
        """See `Ledger.adopt`."""
        return self._report(await self._ledger.adopt(conversation, now=now, limit=limit))

    async def open_conversations(self, *, after: str = "", limit: int = 256) -> list[OpenConversation]:
        """See `Ledger.open_conversations`."""
        return await self._ledger.open_conversations(after=after, limit=limit)

    async def interrupted_turns(self, *, state: TurnState = TurnState.RUNNING, limit: int = 256) -> list[Turn]:
        """See `Ledger.interrupted_turns`."""
        return await self._ledger.interrupted_turns(state=state, limit=limit)

    async def find(self, query: Query, *, after: int | None = None, limit: int = 100) -> list[Delivery]:
        """See `Ledger.find`."""
        return await self._ledger.find(query, after=after, limit=limit)

    async def prune(self, query: Query, *, limit: int = 200, bodies: bool = False) -> int:
        """See `Ledger.prune`."""
        return await self._ledger.prune(query, limit=limit, bodies=bodies)

    async def close(self) -> None:
        """See `Ledger.close`."""
        await self._ledger.close()

    def _report(self, deliveries: list[Delivery]) -> list[Delivery]:
        for delivery in deliveries:
            self._on_change(delivery)
        return deliveries
