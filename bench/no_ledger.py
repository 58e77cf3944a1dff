"""The courier's baseline: a ledger that keeps nothing and answers at once, and a platform that takes its time."""

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
    """Does as if everything were written down."""

    epoch = 1

    async def accept(self, inbound: Inbound) -> str:
        """Every event is new."""
        return inbound.turn_id

    async def begin(self, turn: Turn) -> Turn:
        """Every turn is new."""
        return replace(turn, attempt=1, epoch=1)

    def save_snapshot(self, turn_id: str, snapshot: Snapshot) -> None:
        """Forget it."""

    async def end(self, turn: Turn, state: TurnState, *, plan: Sequence[Delivery] = ()) -> list[Delivery]:  # noqa: ARG002
        """The turn is over."""
        return list(plan)

    async def plan(self, deliveries: Sequence[Delivery]) -> list[Delivery]:
        """They are as they come."""
        return list(deliveries)

    async def move(self, *moves: tuple[Delivery, Delivery], plan: Sequence[Delivery] = ()) -> list[Delivery]:  # noqa: ARG002
        """Nobody is fenced."""
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
        """Nothing is known."""
        return []

    async def prune(self, query: Query, *, limit: int = 200, bodies: bool = False) -> int:  # noqa: ARG002
        """Nothing is there to be forgotten."""
        return 0

    async def close(self) -> None:
        """Nothing is open."""


class SlowPlatform:
    """A channel whose platform answers after `seconds`; `on_post` is told of each message."""

    name = "slow"
    capabilities = Capabilities(idempotency=Keyed(window_s=300.0))

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    async def start(self, inbox: Inbox) -> None:
        """There is nothing to connect."""

    async def stop(self) -> None:
        """There is nothing to disconnect."""

    async def post(self, target: Target, body: Body, *, key: str) -> Receipt:  # noqa: ARG002
        """Take it after a while."""
        await asyncio.sleep(self._seconds)
        return Receipt(message_id=key)
