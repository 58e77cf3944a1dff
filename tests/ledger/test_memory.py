"""The leases of the ledger in memory: several owners, deadlines, and owners that are gone."""

from __future__ import annotations

import asyncio

from stores import StoppedClock

from tailrace.deliveries import State, sending
from tailrace.errors import Fenced
from tailrace.ledger.memory import LEASE_S, MemoryLedger
from tailrace.testing.ledger_scenarios import assert_raises, ids, inbound, post, turn


def test_a_conversation_is_free_when_its_lease_was_released_or_lapsed() -> None:
    async def work() -> None:
        clock = StoppedClock()
        first = MemoryLedger(clock=clock)
        second = first.another_owner()
        lease = await first.acquire("telegram:1")
        await assert_raises(second.acquire("telegram:1"), Fenced)
        await second.acquire("telegram:2")
        first.release(lease)
        lease = await second.acquire("telegram:1")
        clock.now += LEASE_S
        await second.plan(lease, [])  # A lapsed lease that no other owner took is renewed.
        clock.now += LEASE_S - 1
        await assert_raises(first.acquire("telegram:1"), Fenced)
        clock.now += 1
        await first.acquire("telegram:1")
        await assert_raises(second.plan(lease, []), Fenced)

    asyncio.run(work())


def test_a_move_holds_the_lease_for_as_long_as_it_says() -> None:
    async def work() -> None:
        clock = StoppedClock()
        first = MemoryLedger(clock=clock)
        second = first.another_owner()
        lease = await first.acquire("telegram:1")
        [row] = await first.plan(lease, [post("t")])
        await first.move(lease, (row, sending(row, now=1.0)), hold_s=100.0)
        await first.plan(lease, [])
        clock.now += 99.0
        await assert_raises(second.acquire("telegram:1"), Fenced)
        clock.now += 1.0
        [adopted] = await second.adopt(await second.acquire("telegram:1"), now=1.0, limit=9)
        assert adopted.state is State.AMBIGUOUS

    asyncio.run(work())


def test_a_running_turn_is_interrupted_for_others_when_its_lease_lapses() -> None:
    async def work() -> None:
        clock = StoppedClock()
        first = MemoryLedger(clock=clock)
        second = first.another_owner()
        await first.begin(await first.acquire("telegram:1"), turn())
        assert await second.interrupted_turns() == []
        clock.now += LEASE_S
        assert ids(await second.interrupted_turns()) == ["t"]
        assert await first.interrupted_turns() == []
        await second.acquire("telegram:1")
        assert ids(await first.interrupted_turns()) == ["t"]

    asyncio.run(work())


def test_an_owner_that_is_gone_has_no_leases_and_gets_none() -> None:
    async def work() -> None:
        first = MemoryLedger()
        second = first.another_owner()
        gone, kept = await first.acquire("telegram:1"), await second.acquire("telegram:2")
        successor = first.reopen()
        await assert_raises(first.plan(gone, []), Fenced)
        await assert_raises(first.acquire("telegram:3"), Fenced)
        await assert_raises(successor.acquire("telegram:2"), Fenced)
        await second.plan(kept, [])
        await successor.acquire("telegram:1")
        await first.accept(inbound("e"))
        assert ids(await successor.accepted_turns()) == [inbound("e").turn_id]

    asyncio.run(work())
