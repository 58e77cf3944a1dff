"""What the tests of a ledger share: a store that opens the ledger, an owner that uses it, and test values.

The tests are in `ledger_contract` and `ledger_records_contract`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol

from tailrace.capabilities import Unkeyed
from tailrace.deliveries import Delivery, Lease, Policy, Query, Snapshot, State, Turn, TurnState, moved, plan, sending
from tailrace.inbound import InboundMessage
from tailrace.operations import Body, Post, Receipt, Target

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
    from pathlib import Path

    from tailrace.ledger_port import Ledger

POLICY = Policy(idempotency=Unkeyed())
DAY_S = 86_400.0


class LedgerStore(Protocol):
    """The place of one ledger, which can be opened several times. Only `wait` moves the ledger's clock."""

    async def open(self) -> Ledger:
        """Open the ledger as its next owner, as after a crash. The earlier owner cannot change anything any more."""
        ...

    async def take_over(self) -> Ledger:
        """Return an owner that can acquire every conversation at once, although the earlier owner still runs.

        If only one owner can have the ledger open, this is the same owner: its next leases end its earlier ones.
        """
        ...

    def wait(self, seconds: float) -> None:
        """Move the ledger's clock forward."""
        ...

    def overwrite_state(self, delivery: Delivery, state: str) -> None:
        """Write into a row the state `state`, which only a newer version knows. The ledger must be closed."""
        ...

    async def close(self) -> None:
        """Close the ledger if it is open. Raises an error if a resource is not released."""
        ...


class _HasStore(Protocol):
    """A test class that creates its store."""

    def store(self, folder: Path) -> LedgerStore:
        """An empty store; its files are in the folder."""
        ...


def scenario(play: Callable[[Any, LedgerStore], Awaitable[None]]) -> Callable[[_HasStore, Path], None]:
    """Decorate a test method, so that pytest calls it with an empty store."""

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


class Owner:
    """An owner of a ledger. It acquires each conversation when it first needs it, and keeps the lease."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self._leases: dict[str, asyncio.Future[Lease]] = {}

    async def lease(self, conversation: str = "telegram:1") -> Lease:
        """The lease of the conversation. The first call acquires it."""
        if conversation not in self._leases:
            self._leases[conversation] = asyncio.ensure_future(self.ledger.acquire(conversation))
        return await self._leases[conversation]

    async def begin(self, turn: Turn) -> Turn:
        """Set a turn to `running`, see `Ledger.begin`."""
        return await self.ledger.begin(await self.lease(turn.conversation), turn)

    async def save_snapshot(self, turn: Turn, snapshot: Snapshot) -> None:
        """Save the current text of a running turn, see `Ledger.save_snapshot`."""
        self.ledger.save_snapshot(await self.lease(turn.conversation), turn.turn_id, snapshot)

    async def end(self, turn: Turn, state: TurnState, *, plan: Sequence[Delivery] = ()) -> list[Delivery]:
        """End a turn and record its last deliveries, see `Ledger.end`."""
        return await self.ledger.end(await self.lease(turn.conversation), turn, state, plan=plan)

    async def plan(self, *deliveries: Delivery) -> list[Delivery]:
        """Record new deliveries, all of one conversation, see `Ledger.plan`."""
        return await self.ledger.plan(await self.lease(deliveries[0].conversation), deliveries)

    async def move(self, *moves: tuple[Delivery, Delivery], plan: Sequence[Delivery] = ()) -> list[Delivery]:
        """Change the states of deliveries, see `Ledger.move`."""
        return await self.ledger.move(await self.lease(moves[0][0].conversation), *moves, plan=plan)

    async def deliver(self, delivery: Delivery, *, now: float = 200.0) -> Delivery:
        """Move a recorded delivery to `delivered`."""
        if delivery.state is not State.SENDING:
            [delivery] = await self.move((delivery, sending(delivery, now=now)))
        [done] = await self.move((delivery, delivered(delivery, now=now)))
        return done

    async def adopt(self, conversation: str = "telegram:1", *, now: float = 9.0, limit: int = 99) -> list[Delivery]:
        """Take over the open deliveries of a conversation, see `Ledger.adopt`."""
        return await self.ledger.adopt(await self.lease(conversation), now=now, limit=limit)

    async def find(self, query: Query | None = None, *, limit: int = 999) -> list[Delivery]:
        """The deliveries that match a query, see `Ledger.find`. Without a query, all deliveries."""
        return await self.ledger.find(query or Query(), limit=limit)

    async def prune(self, query: Query | None = None) -> int:
        """Delete what matches a query, see `Ledger.prune`. Without a query, delete all that can be deleted."""
        return await self.ledger.prune(query or Query())

    async def close(self) -> None:
        """Close the ledger, see `Ledger.close`."""
        await self.ledger.close()


async def assert_raises(call: Awaitable[object], *errors: type[Exception]) -> None:
    """Check that the call raises one of these errors."""
    try:
        answer = await call
    except errors:
        return
    raise AssertionError(f"the call returned {answer!r} and raised none of {errors}")


def target(chat: str = "1") -> Target:
    """A target on the channel `telegram`, with this chat."""
    return Target(channel="telegram", chat=chat)


def turn(turn_id: str = "t", *, chat: str = "1") -> Turn:
    """A new turn with this id and chat."""
    return Turn(turn_id=turn_id, target=target(chat))


def post(turn_id: str, ordinal: int = 1, *, chat: str = "1", text: str = "hello", now: float = 100.0) -> Delivery:
    """A new delivery of a turn, which posts a text."""
    operation = Post(target=target(chat), body=Body(text=text))
    return plan(operation, turn_id=turn_id, ordinal=ordinal, policy=POLICY, now=now)


def delivered(delivery: Delivery, *, now: float = 200.0) -> Delivery:
    """The delivery in its state after the message has arrived."""
    return moved(delivery, State.DELIVERED, now=now, receipt=Receipt(message_id=f"m{delivery.position}"))


def inbound(event_id: str, *, chat: str = "1", account: str = "", text: str = "hi") -> InboundMessage:
    """An incoming message with this event id."""
    return InboundMessage(channel="telegram", account=account, event_id=event_id, target=target(chat), text=text)


def ids(rows: Sequence[Delivery | Turn]) -> list[str]:
    """The ids of deliveries or turns."""
    return [row.turn_id if isinstance(row, Turn) else row.id for row in rows]


async def use_conversation(ledger: Ledger, lease: Lease, chat: str) -> None:
    """Do everything that the owner of a conversation does in a turn. Awaits every call."""
    begun = await ledger.begin(lease, Turn(turn_id=f"turn-{chat}", target=target(chat)))
    name = begun.turn_id
    first, second = await ledger.plan(lease, [sending(post(name, 1, chat=chat), now=1.0), post(name, 2, chat=chat)])
    ledger.save_snapshot(lease, name, Snapshot(text="so far"))
    replacement = post(name, -1, chat=chat)
    await ledger.move(lease, (first, moved(first, State.FAILED, now=2.0)), plan=[replacement])
    replaced, second = await ledger.adopt(lease, now=3.0, limit=9)
    await ledger.move(lease, (replaced, moved(replaced, State.CANCELLED, now=3.0)), (second, sending(second, now=3.0)))
    ledger.save_snapshot(lease, name, Snapshot(text="more"))
    second = sending(second, now=3.0)
    await ledger.move(lease, (second, delivered(second)))
    await ledger.end(lease, begun, TurnState.DONE, plan=[post(name, 3, chat=chat)])


class Paused:
    """Runs a coroutine and pauses it when it suspends for the n-th time, until `go_on` is set.

    The future `reached` gets True at that point, or False if the coroutine ends before.
    """

    def __init__(self, work: Coroutine[Any, Any, None], suspension: int) -> None:
        self.reached = asyncio.get_running_loop().create_future()
        self.go_on = asyncio.Event()
        self._work = work
        self._left = suspension

    async def run(self) -> None:
        """Run the coroutine to its end."""
        try:
            await self
        finally:
            if not self.reached.done():
                self.reached.set_result(False)

    def __await__(self) -> Generator[Any, Any, None]:
        while True:
            try:
                waited_for = self._work.send(None)
            except StopIteration:
                return
            yield waited_for
            self._left -= 1
            if self._left == 0:
                self.reached.set_result(True)
                yield from self.go_on.wait().__await__()
