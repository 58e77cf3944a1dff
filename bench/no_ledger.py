"""The baseline of the courier: a ledger that stores nothing and answers at once, and a slow platform."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tailrace.capabilities import Capabilities, Keyed
from tailrace.deliveries import Accepted, Delivery, Lease, OpenConversation, Query, Snapshot, Turn, TurnState
from tailrace.operations import Post, Receipt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tailrace.inbound import InboundMessage
    from tailrace.ports import Inbox


class NoLedger:
    """Accepts every call and stores nothing."""

    async def accept(self, message: InboundMessage) -> Accepted:
        """Every event is new."""
        return Accepted(turn_id=message.turn_id, is_new=True, ahead=0)

    async def cancel(self, turn_id: str) -> None:
        """No turn is known."""

    async def acquire(self, conversation: str) -> Lease:
        """Every conversation is free."""
        return Lease(conversation=conversation, owner="", epoch=1)

    def release(self, lease: Lease) -> None:
        """Nothing is owned."""

    async def begin(self, lease: Lease, turn: Turn) -> Turn:
        """Every turn is new."""
        return replace(turn, attempt=1, epoch=lease.epoch)

    def save_snapshot(self, lease: Lease, turn_id: str, snapshot: Snapshot) -> None:
        """Ignore it."""

    async def end(self, lease: Lease, turn: Turn, state: TurnState, *, plan: Sequence[Delivery] = ()) -> list[Delivery]:  # noqa: ARG002
        """The turn has ended."""
        return list(plan)

    async def plan(self, lease: Lease, deliveries: Sequence[Delivery]) -> list[Delivery]:  # noqa: ARG002
        """All deliveries are new."""
        return list(deliveries)

    async def move(
        self,
        lease: Lease,  # noqa: ARG002
        *moves: tuple[Delivery, Delivery],
        plan: Sequence[Delivery] = (),
        hold_s: float = 0.0,  # noqa: ARG002
    ) -> list[Delivery]:
        """Every move is allowed."""
        return [*(after for _before, after in moves), *plan]

    async def adopt(self, lease: Lease, *, now: float, limit: int) -> list[Delivery]:  # noqa: ARG002
        """Nothing is open."""
        return []

    async def open_conversations(self, *, after: str = "", limit: int = 256) -> list[OpenConversation]:  # noqa: ARG002
        """Nothing is open."""
        return []

    async def interrupted_turns(self, *, conversation: str | None = None, limit: int = 256) -> list[Turn]:  # noqa: ARG002
        """Nothing was interrupted."""
        return []

    async def accepted_turns(self, *, conversation: str | None = None, limit: int = 256) -> list[Turn]:  # noqa: ARG002
        """Nothing waits."""
        return []

    async def turn(self, turn_id: str) -> Turn | None:  # noqa: ARG002
        """Nothing is recorded."""
        return None

    async def find(self, query: Query, *, after: int | None = None, limit: int = 100) -> list[Delivery]:  # noqa: ARG002
        """Nothing is recorded."""
        return []

    async def prune(self, query: Query, *, limit: int = 200, bodies: bool = False) -> int:  # noqa: ARG002
        """Nothing can be pruned."""
        return 0

    async def store(self, kind: str, key: str, value: bytes | None) -> None:
        """Ignore it."""

    async def stored(self, kind: str) -> dict[str, bytes]:  # noqa: ARG002
        """Nothing is stored."""
        return {}

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

    async def wait_closed(self) -> None:
        """There is no connection."""

    async def post(self, post: Post, *, key: str) -> Receipt:  # noqa: ARG002
        """Accept the message after a while."""
        await asyncio.sleep(self._seconds)
        return Receipt(message_id=key)
