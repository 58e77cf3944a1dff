"""A ledger that reports each recorded delivery to a callback, so that a command can show progress."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tailrace.deliveries import Delivery, Turn, TurnState
    from tailrace.ports import Ledger


class ObservedLedger:
    """Passes all calls to a ledger, and calls `on_change` with each delivery that was recorded, moved or adopted.

    `on_change` is called after the change is made, and must not raise.
    """

    def __init__(self, ledger: Ledger, on_change: Callable[[Delivery], None]) -> None:
        self._ledger = ledger
        self._on_change = on_change

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

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

    def _report(self, deliveries: list[Delivery]) -> list[Delivery]:
        for delivery in deliveries:
            self._on_change(delivery)
        return deliveries
