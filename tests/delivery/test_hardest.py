"""The hardest cases of deliveries: each is a failure that people saw elsewhere, shown here not to happen."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace
from post_office import HERE, PostOffice, edit, post

from tailrace.capabilities import Capabilities, EditRules, Keyed, Rate
from tailrace.deliveries import OPEN, State, TurnState
from tailrace.delivery import Recovery
from tailrace.delivery.recovery import INTERRUPTED
from tailrace.operations import Target, Typing
from tailrace.testing.faults import Fault, NoAnswer, Refuse, Reset, Rule, TooMany, Unreachable
from tailrace.testing.virtual_time import Simulation, run
from tailrace.testing.wire import capabilities_of

if TYPE_CHECKING:
    from tailrace.deliveries import Delivery

KINDS = ("keyed", "readback", "repeatable", "unkeyed")


def test_hardest_2_a_live_message_becomes_the_final_after_a_crash_and_there_is_no_second_one() -> None:
    async def scene(simulation: Simulation) -> None:
        office = PostOffice(simulation, replace(capabilities_of("keyed"), edits=EditRules(every_s=1.0)))
        turn = await office.courier.begin("t", HERE)
        turn.save_snapshot("Hel", None)
        await asyncio.sleep(3)
        turn.save_snapshot("Hello", None)
        await turn.send(post("Hello"))
        live = office.shown()
        turn.save_snapshot("Hello, wor", live)  # at once: by what was kept before, it would be said in a second message
        turn.show(edit(live, "Hello, world, how"))
        await asyncio.sleep(1)
        await office.crash()
        await office.recovery().sweep()
        assert office.texts() == ["Hello, wor", INTERRUPTED]
        assert office.platform.history("here")[0].message_id == live
        assert (await office.courier.begin("t", HERE)).turn.state is TurnState.INTERRUPTED

    run(scene)


def test_hardest_14_a_thousand_pending_rows_and_a_transport_that_comes_late() -> None:
    async def scene(simulation: Simulation) -> None:
        capabilities = Capabilities(
            idempotency=Keyed(window_s=300.0), per_chat=Rate(calls=1, per_s=1.0), overall=Rate(calls=30, per_s=1.0)
        )
        office = PostOffice(simulation, capabilities, max_age_s=3600.0)
        for number in range(500):
            await office.plan(f"old {number}", "too old", target=Target(channel="simulated", chat=f"c{number % 50}"))
        await asyncio.sleep(3601)
        for number in range(1000):
            chat = f"c{number % 100}"
            await office.plan(f"new {number}", f"new {number}", target=Target(channel="simulated", chat=chat))
        # Ten chats have blocked the bot: a hundred of the thousand are refused for good, with the lines that tell so.
        office.fail(*(Rule(fault=Refuse(), chat=f"c{number}", times=None) for number in range(10)))
        await office.crash(connected=False)
        recovering = asyncio.create_task(office.recovery().run())
        await asyncio.sleep(30)
        assert office.platform.counts == {}
        assert {row.attempt for row in await office.rows()} == {0}
        office.courier.connect(office.channel)
        connected_at = simulation.clock.monotonic()
        await asyncio.sleep(300)
        recovering.cancel()
        assert "too old" not in {message.text for message in office.platform.history()}
        check_the_thousand(await office.rows(), office, connected_at)

    run(scene)


def check_the_thousand(rows: list[Delivery], office: PostOffice, connected_at: float) -> None:
    ended = {name: [row for row in rows if row.turn_id.startswith(name) and row.ordinal > 0] for name in ("old", "new")}
    assert {row.state for row in ended["old"]} == {State.DEAD}
    assert [row.state for row in ended["new"]].count(State.FAILED) == 100
    assert [row.state for row in ended["new"]].count(State.DELIVERED) == 900
    for number in range(10, 100):
        expected = [f"new {10 * 10 * nth + number}" for nth in range(10)]
        assert office.platform.texts(f"c{number}") == expected
    assert office.platform.complaints == []
    # No chat waits for another: with thirty calls a second all have their first one within a few seconds.
    first = {seen.chat: seen.at for seen in reversed(office.platform.calls)}
    assert max(first.values()) <= connected_at + 30
    # As fast as the paces allow: 1,100 calls at thirty a second, and twenty in the chats that refuse.
    assert office.platform.calls[-1].at <= connected_at + 120


def test_hardest_6_two_recoveries_and_a_live_sender_send_a_row_once() -> None:
    async def scene(simulation: Simulation) -> None:
        office = PostOffice(simulation, "unkeyed")
        office.fail(Rule(fault=Unreachable(), times=2))
        await office.plan("t", "one", "two")
        await office.crash()
        second = office.courier_of(office.memory)
        sweeps = [office.recovery().sweep(), Recovery(second).sweep(), office.recovery().sweep()]
        await asyncio.gather(office.say("t", "one", "two"), *sweeps)
        assert office.texts() == ["one", "two"]
        assert await office.states() == {1: State.DELIVERED, 2: State.DELIVERED}

    run(scene)


@pytest.mark.parametrize("steps", range(12))
def test_hardest_6_at_whatever_moment_the_others_come(steps: int) -> None:
    async def scene(simulation: Simulation) -> None:
        office = PostOffice(simulation, "unkeyed")
        second = office.courier_of(office.memory)
        saying = asyncio.create_task(office.say("t", "one", "two"))
        for _ in range(steps):
            await asyncio.sleep(0)
        await asyncio.gather(saying, Recovery(second).sweep(), office.recovery().sweep())
        assert office.texts() == ["one", "two"]

    run(scene)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fault", [NoAnswer(applied=True), NoAnswer(applied=False), Reset(), Reset(applied=False)])
def test_hardest_4_an_ambiguous_first_preview_is_neither_doubled_nor_silent(kind: str, fault: Fault) -> None:
    async def scene(simulation: Simulation) -> None:
        office = PostOffice(simulation, kind)
        office.fail(fault)
        turn = await office.courier.begin("t", HERE)
        turn.show(Typing(target=HERE))
        [row] = await turn.send(post("Hel"))
        if row.receipt is not None:
            await turn.end(edit(row.receipt.message_id, "Hello"))
            assert office.texts() == ["Hello"]
        else:
            assert kind == "unkeyed"
            await turn.end(post("Hello"))
            assert [text for text in office.texts() if "⚠️" not in text][-1] == "Hello"
            assert sum("may be missing" in text for text in office.texts()) == 1
            assert office.texts().count("Hello") == 1

    run(scene)


@pytest.mark.parametrize("crashes", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("what", ["not modified", "429", "applied without an answer", "gone", "gone and unanswered"])
def test_hardest_3_there_is_exactly_one_complete_final(what: str, kind: str, crashes: bool) -> None:
    async def scene(simulation: Simulation) -> None:
        office = PostOffice(simulation, kind)
        turn = await office.courier.begin("t", HERE)
        await turn.send(post("the whole answer" if what == "not modified" else "the"))
        live = office.shown()
        turn.show(edit(live, "the whole"))
        await asyncio.sleep(1)
        if "gone" in what:
            office.take_away(live)
        if what == "429":
            office.fail(Rule(fault=TooMany(30.0), kind="edit"))
        elif "answer" in what:
            office.fail(Rule(fault=NoAnswer(), kind="edit"))
        ending = asyncio.create_task(turn.end(edit(live, "the whole answer")))
        await asyncio.sleep(1)
        if crashes:
            await office.crash()
            recovering = asyncio.create_task(office.recovery().run())
            await asyncio.sleep(120)
            recovering.cancel()
        else:
            await ending
        assert office.texts() == ["the whole answer"]
        assert not OPEN & set((await office.states()).values())

    run(scene)
