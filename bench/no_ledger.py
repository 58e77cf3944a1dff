"""The baseline of the courier: a ledger that stores nothing and answers at once, and a slow platform."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tailrace.capabilities import Capabilities, Keyed
from tailrace.deliveries import Delivery, Inbound, OpenConversation, Query, Snapshot, Turn, TurnState
from tailrace.operations import Body, Receipt, Target

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tailrace.ports import Inbox


class NoLedger:
    """Accepts every call and stores nothing."""

    epoch = 1

    async def accept(self, inbound: Inbound) -> str:
        """Every event is new."""
        return inbound.turn_id

    async def begin(self, turn: Turn) -> Turn:
        """Every turn is new."""
        return replace(turn, attempt=1, epoch=1)

    def save_snapshot(self, turn_id: str, snapshot: Snapshot) -> None:
        """Ignore it."""

    async def end(self, turn: Turn, state: TurnState, *, plan: Sequence[Delivery] = ()) -> list[Delivery]:  # noqa: ARG002
        """The turn has ended."""
        return list(plan)

    async def plan(self, deliveries: Sequence[Delivery]) -> list[Delivery]:
        """All deliveries are new."""
        return list(deliveries)

    async def move(self, *moves: tuple[Delivery, Delivery], plan: Sequence[Delivery] = ()) -> list[Delivery]:  # noqa: ARG002
        """Every move is allowed."""
        return [after for _before, after in moves]

    async def adopt(self, conversation: str, *, now: float, limit: int) -> list[Delivery]:  # noqa: ARG002
        """Nothing is open."""
        return []

    async def open_conversations(self, *, after: str = "", limit: int = 256) -> list[OpenConversation]:  # noqa: ARG002
        """Nothing is open."""
        return []

    async def interrupted_turns(self, *, state: TurnState = TurnState.RUNNING, limit: int = 256) -> list[Turn]:  # noqa: ARG002
        """Nothing was interrupted."""
        return []

    async def find(self, query: Query, *, after: int | None = None, limit: int = 100) -> list[Delivery]:  # noqa: ARG002
        """Nothing is recorded."""
        return []

    async def prune(self, query: Query, *, limit: int = 200, bodies: bool = False) -> int:  # noqa: ARG002
        """Nothing can be pruned."""
        return 0

    async def close(self) -> None:
        """Nothing must be closed."""


class SlowPlatform:
    """A channel whose platform answers after so many seconds."""

    name = "slow"
    capabilities = Capabilities(idempotency=Keyed(window_s=300.0))

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    async def start(self, inbox: Inbox) -> None:
        """Nothing to connect."""

    async def stop(self) -> None:
        """Nothing to disconnect."""

    async def post(self, target: Target, body: Body, *, key: str) -> Receipt:  # noqa: ARG002
        """Accept the message after a while."""
        await asyncio.sleep(self._seconds)
        return Receipt(message_id=key)
