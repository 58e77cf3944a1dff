"""What the contract of a ledger is played with: a store to open it in, and short ways to say what happens there.

Owns no laws; those are in `ledger_contract` and `ledger_records`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol

from tailrace.capabilities import Unkeyed
from tailrace.deliveries import Delivery, Inbound, Policy, State, moved, plan, sending
from tailrace.operations import Body, Post, Receipt, Target

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from tailrace.ports import Ledger

POLICY = Policy(idempotency=Unkeyed())


class LedgerStore(Protocol):
    """Where one ledger lives, through all its openings."""

    async def open(self) -> Ledger:
        """The ledger with its next owner; the one before is gone, as after a crash or a stop."""
        ...

    def overwrite_state(self, delivery: Delivery, state: str) -> None:
        """Put a state into a row, as a newer version might have. Nobody has the ledger open."""
        ...

    async def close(self) -> None:
        """Close what is open; raises where something is left behind."""
        ...


class _HasStore(Protocol):
    """Tests that say where they play."""

    def store(self, folder: Path) -> LedgerStore:
        """A store with nothing in it; files, if it has any, lie in the folder."""
        ...


def scenario(play: Callable[[Any, LedgerStore], Awaitable[None]]) -> Callable[[_HasStore, Path], None]:
    """A test that plays in a store of its own."""

    def test(self: _HasStore, tmp_path: Path) -> None:
        async def through() -> None:
            store = self.store(tmp_path)
            try:
                await play(self, store)
            finally:
                await store.close()

        asyncio.run(through())

    test.__name__, test.__doc__ = play.__name__, play.__doc__
    return test


async def assert_raises(call: Awaitable[object], *errors: type[Exception]) -> None:
    """See that the call raises one of these."""
    try:
        answer = await call
    except errors:
        return
    raise AssertionError(f"{answer!r} was given where {errors} should have been raised")


def target(chat: str = "1") -> Target:
    """A place."""
    return Target(channel="telegram", chat=chat)


def post(turn_id: str, ordinal: int = 1, *, chat: str = "1", text: str = "hello", now: float = 100.0) -> Delivery:
    """A delivery that nobody knows yet."""
    operation = Post(target=target(chat), body=Body(text=text))
    return plan(operation, turn_id=turn_id, ordinal=ordinal, policy=POLICY, now=now)


def delivered(delivery: Delivery, *, now: float = 200.0) -> Delivery:
    """The same after it arrived."""
    return moved(delivery, State.DELIVERED, now=now, receipt=Receipt(message_id=f"m{delivery.position}"))


async def deliver(ledger: Ledger, delivery: Delivery, *, now: float = 200.0) -> Delivery:
    """Take a recorded delivery all the way."""
    if delivery.state is not State.SENDING:
        [delivery] = await ledger.move((delivery, sending(delivery, now=now)))
    [done] = await ledger.move((delivery, delivered(delivery, now=now)))
    return done


def inbound(event_id: str, turn_id: str, *, account: str = "", text: str = "hi") -> Inbound:
    """Something a person said."""
    return Inbound(
        channel="telegram", account=account, event_id=event_id, turn_id=turn_id, target=target(), text=text, seen_at=1.0
    )


def ids(deliveries: list[Delivery]) -> list[str]:
    """What they are called."""
    return [delivery.id for delivery in deliveries]
