"""The hardest cases of deliveries: failures that users of other systems reported."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from delivery_setup import HERE, DeliverySetup, edit, in_virtual_time, post
from msgspec.structs import replace

from tailrace.capabilities import Capabilities, EditRules, Keyed, Rate
from tailrace.deliveries import OPEN, State, TurnState
from tailrace.delivery import Recovery
from tailrace.delivery.recovery import INTERRUPTED
from tailrace.operations import Target, Typing
from tailrace.testing.faults import Fault, NoAnswer, Refuse, Reset, Rule, TooMany, Unreachable
from tailrace.testing.virtual_time import Simulation
from tailrace.testing.wire import capabilities_of

if TYPE_CHECKING:
    from tailrace.deliveries import Delivery

KINDS = ("keyed", "readback", "repeatable", "unkeyed")


@in_virtual_time
async def test_hardest_2_after_a_crash_the_live_message_becomes_the_final(
    simulation: Simulation,
) -> None:
    setup = DeliverySetup(simulation, replace(capabilities_of("keyed"), edits=EditRules(every_s=1.0)))
    turn = await setup.courier.begin("t", HERE)
    turn.save_snapshot("Hel", None)
    await asyncio.sleep(3)
    turn.save_snapshot("Hello", None)
    await turn.send(post("Hello"))
    live = setup.message_id()
    turn.save_snapshot(
        "Hello, wor", live
    )  # saved at once: with the snapshot before, recovery would send a second message
    turn.show(edit(live, "Hello, world, how"))
    await asyncio.sleep(1)
    await setup.crash()
    await setup.recovery().sweep()
    assert setup.texts() == ["Hello, wor", INTERRUPTED]
    assert setup.platform.history("here")[0].message_id == live
    assert (await setup.courier.begin("t", HERE)).turn.state is TurnState.INTERRUPTED


@in_virtual_time
async def test_hardest_14_a_thousand_open_rows_and_a_late_connection(simulation: Simulation) -> None:
    capabilities = Capabilities(
        idempotency=Keyed(window_s=300.0), per_chat=Rate(calls=1, per_s=1.0), overall=Rate(calls=30, per_s=1.0)
    )
    setup = DeliverySetup(simulation, capabilities, max_age_s=3600.0)
    for number in range(500):
        await setup.record_turn(f"old {number}", "too old", target=Target(channel="simulated", chat=f"c{number % 50}"))
    await asyncio.sleep(3601)
    for number in range(1000):
        chat = f"c{number % 100}"
        await setup.record_turn(f"new {number}", f"new {number}", target=Target(channel="simulated", chat=chat))
    # Ten chats have blocked the bot: a hundred of the thousand are refused for good, and their notices too.
    setup.fail(*(Rule(fault=Refuse(), chat=f"c{number}", times=None) for number in range(10)))
    await setup.crash(connected=False)
    recovering = asyncio.create_task(setup.recovery().run())
    await asyncio.sleep(30)
    assert setup.platform.counts == {}
    assert {row.attempt for row in await setup.rows()} == {0}
    setup.courier.connect(setup.channel)
    connected_at = simulation.clock.monotonic()
    await asyncio.sleep(300)
    recovering.cancel()
    assert "too old" not in {message.text for message in setup.platform.history()}
    check_the_thousand(await setup.rows(), setup, connected_at)


def check_the_thousand(rows: list[Delivery], setup: DeliverySetup, connected_at: float) -> None:
    ended = {name: [row for row in rows if row.turn_id.startswith(name) and row.ordinal > 0] for name in ("old", "new")}
    assert {row.state for row in ended["old"]} == {State.DEAD}
    assert [row.state for row in ended["new"]].count(State.FAILED) == 100
    assert [row.state for row in ended["new"]].count(State.DELIVERED) == 900
    for number in range(10, 100):
        expected = [f"new {10 * 10 * nth + number}" for nth in range(10)]
        assert setup.platform.texts(f"c{number}") == expected
    assert setup.platform.complaints == []
    # No chat waits for another: with thirty calls a second each has its first call within a few seconds.
    first = {seen.chat: seen.at for seen in reversed(setup.platform.calls)}
    assert max(first.values()) <= connected_at + 30
    # As fast as the rates allow: 1,100 calls at thirty a second, and twenty in the chats that refuse.
    assert setup.platform.calls[-1].at <= connected_at + 120


@in_virtual_time
async def test_hardest_6_two_recoveries_and_a_live_sender_send_a_row_once(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation, "unkeyed")
    setup.fail(Rule(fault=Unreachable(), times=2))
    await setup.record_turn("t", "one", "two")
    await setup.crash()
    second = setup.courier_of(setup.memory.another_owner())
    sweeps = [setup.recovery().sweep(), Recovery(second).sweep(), setup.recovery().sweep()]
    await asyncio.gather(setup.send_turn("t", "one", "two"), *sweeps)
    assert setup.texts() == ["one", "two"]
    assert await setup.states() == {1: State.DELIVERED, 2: State.DELIVERED}


@pytest.mark.parametrize("steps", range(12))
@in_virtual_time
async def test_hardest_6_recoveries_at_any_moment_send_a_row_once(simulation: Simulation, steps: int) -> None:
    setup = DeliverySetup(simulation, "unkeyed")
    second = setup.courier_of(setup.memory.another_owner())
    sending = asyncio.create_task(setup.send_turn("t", "one", "two"))
    for _ in range(steps):
        await asyncio.sleep(0)
    await asyncio.gather(sending, Recovery(second).sweep(), setup.recovery().sweep())
    assert setup.texts() == ["one", "two"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fault", [NoAnswer(applied=True), NoAnswer(applied=False), Reset(), Reset(applied=False)])
@in_virtual_time
async def test_hardest_4_an_ambiguous_first_preview_is_not_doubled_or_lost(
    simulation: Simulation, kind: str, fault: Fault
) -> None:
    setup = DeliverySetup(simulation, kind)
    setup.fail(fault)
    turn = await setup.courier.begin("t", HERE)
    turn.show(Typing(target=HERE))
    [row] = await turn.send(post("Hel"))
    if row.receipt is not None:
        await turn.end(edit(row.receipt.message_id, "Hello"))
        assert setup.texts() == ["Hello"]
    else:
        assert kind == "unkeyed"
        await turn.end(post("Hello"))
        assert [text for text in setup.texts() if "⚠️" not in text][-1] == "Hello"
        assert sum("may be missing" in text for text in setup.texts()) == 1
        assert setup.texts().count("Hello") == 1


@pytest.mark.parametrize("crashes", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("what", ["not modified", "429", "applied without an answer", "gone", "gone and unanswered"])
@in_virtual_time
async def test_hardest_3_there_is_exactly_one_complete_final(
    simulation: Simulation, what: str, kind: str, crashes: bool
) -> None:
    setup = DeliverySetup(simulation, kind)
    turn = await setup.courier.begin("t", HERE)
    await turn.send(post("the whole answer" if what == "not modified" else "the"))
    live = setup.message_id()
    turn.show(edit(live, "the whole"))
    await asyncio.sleep(1)
    if "gone" in what:
        setup.delete_message(live)
    if what == "429":
        setup.fail(Rule(fault=TooMany(30.0), kind="edit"))
    elif "answer" in what:
        setup.fail(Rule(fault=NoAnswer(), kind="edit"))
    ending = asyncio.create_task(turn.end(edit(live, "the whole answer")))
    await asyncio.sleep(1)
    if crashes:
        await setup.crash()
        recovering = asyncio.create_task(setup.recovery().run())
        await asyncio.sleep(120)
        recovering.cancel()
    else:
        await ending
    assert setup.texts() == ["the whole answer"]
    assert not OPEN & set((await setup.states()).values())
