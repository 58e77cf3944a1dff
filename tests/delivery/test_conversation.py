"""The sender of one conversation with a slow ledger: nothing is lost between recording and sending."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from delivery_setup import HERE, DeliverySetup, SlowLedger, edit, finished_within, in_virtual_time, post
from msgspec.structs import replace

from tailrace.capabilities import TELEGRAM, Rate
from tailrace.deliveries import State
from tailrace.operations import Target, Typing
from tailrace.testing.faults import Delayed, Rule, TooMany
from tailrace.testing.virtual_time import Simulation
from tailrace.testing.wire import capabilities_of

if TYPE_CHECKING:
    pass


@in_virtual_time
async def test_a_delivery_recorded_as_sending_survives_a_reload(
    simulation: Simulation,
) -> None:
    setup = DeliverySetup(simulation)
    SlowLedger(setup)
    await setup.courier.begin("old", HERE)
    old = await setup.courier.begin("old", HERE)
    new = await setup.courier.begin("new", HERE)
    said = await finished_within(asyncio.gather(new.send(post("new")), old.send(post("old"))), 30.0)
    assert [row.state for rows in said for row in rows] == [State.DELIVERED] * 2
    assert setup.texts() == ["new", "old"]


@in_virtual_time
async def test_a_delivery_is_sent_although_its_caller_is_cancelled_while_it_is_recorded(
    simulation: Simulation,
) -> None:
    setup = DeliverySetup(simulation, "unkeyed")
    SlowLedger(setup, plan=1.0)
    turn = await setup.courier.begin("t", HERE)
    sending = asyncio.create_task(turn.send(post("one")))
    await asyncio.sleep(0.5)
    sending.cancel()
    await asyncio.sleep(5.0)
    assert await setup.states("t") == {1: State.DELIVERED}


@in_virtual_time
async def test_deliveries_added_during_a_reload_are_sent(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation)
    ledger = SlowLedger(setup, adopt=1.0)
    await setup.record_turn("t", "one")
    assert setup.courier.resume(HERE.conversation) is not None
    await asyncio.sleep(0.5)
    await setup.send_turn("u", "two")
    assert setup.texts() == ["one", "two"]
    assert ledger.calls["find"] == 0  # no delivery had to be looked up


@pytest.mark.parametrize("parts", [1, 3])
@in_virtual_time
async def test_late_acknowledgements_do_not_change_the_order(simulation: Simulation, parts: int) -> None:
    setup = DeliverySetup(simulation)
    SlowLedger(setup, end=2.0)
    first = await setup.courier.begin("first", HERE)
    second = await setup.courier.begin("second", HERE)
    texts = [f"first {part}" for part in range(parts)]
    said = asyncio.gather(first.end(*map(post, texts)), second.send(post("second")))
    await finished_within(said, 30.0)
    assert setup.texts() == [*texts, "second"]


@in_virtual_time
async def test_a_conversation_is_busy_while_its_deliveries_are_recorded(
    simulation: Simulation,
) -> None:
    setup = DeliverySetup(simulation)
    ledger = SlowLedger(setup, end=1.0)
    setup.fail(Rule(fault=Delayed(3.0), kind="post"))
    setup.courier.show(Typing(target=HERE))
    await asyncio.sleep(0.05)
    sending = asyncio.create_task(setup.send_turn("t", "one"))
    await asyncio.sleep(0.5)
    # The typing call is done, and yet the conversation is not idle.
    assert setup.courier.resume(HERE.conversation) is None
    ledger.takes_s.clear()
    await asyncio.sleep(1.0)
    await finished_within(setup.courier.drain(), 5.0)
    assert [row.state for row in await finished_within(sending, 0.1)] == [State.DELIVERED]
    assert len(asyncio.all_tasks()) == 1


@in_virtual_time
async def test_no_interim_edit_is_shown_while_a_delivery_is_recorded(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation, capabilities_of("unkeyed", per_chat=Rate(calls=2, per_s=10.0)))
    await setup.send_turn("t", "a")
    SlowLedger(setup, end=1.0)
    again = await setup.courier.begin("u", HERE)
    ending = asyncio.create_task(again.end(edit(setup.message_id(), "final")))
    await asyncio.sleep(0.5)
    setup.courier.show(edit(setup.message_id(), "in between"))
    await finished_within(ending, 5.0)
    await asyncio.sleep(60)
    assert setup.texts() == ["final"]
    assert setup.platform.counts["edit"] == 1


@in_virtual_time
async def test_a_long_wait_without_a_caller_ends_the_sender(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation)
    setup.fail(TooMany(600.0, everywhere=True))
    held = asyncio.create_task(setup.send_turn("t", "one"))
    await asyncio.sleep(1)
    other = replace(HERE, chat="other")
    await setup.record_turn("u", "two", target=other)
    resumed = setup.courier.resume(other.conversation)
    assert resumed is not None
    assert await finished_within(resumed, 1.0) == 0
    assert [row.state for row in await held] == [State.DELIVERED]
    assert setup.texts(other) == []


def thread(name: str, *, group: bool = False) -> Target:
    return Target(channel="simulated", chat="room", thread=name, group=group)


@in_virtual_time
async def test_the_threads_of_a_chat_share_its_rate_limit(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation, capabilities_of("unkeyed", per_chat=Rate(calls=1, per_s=1.0)))
    turns = [await setup.courier.begin(name, thread(name)) for name in "abc"]
    await asyncio.gather(*(turn.end(*[post(".", turn.turn.target)] * 3) for turn in turns))
    assert [call.at for call in setup.platform.calls] == pytest.approx([0.05 + second for second in range(9)])
    assert setup.platform.complaints == []
    # A turn that has started is finished before the next one starts.
    assert [message.thread for message in setup.platform.history("room")] == [*"aaabbbccc"]


@in_virtual_time
async def test_a_post_in_one_thread_overtakes_an_edit_in_another(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation, capabilities_of("unkeyed", per_chat=Rate(calls=1, per_s=10.0)))
    growing, other = [await setup.courier.begin(name, thread(name)) for name in "ab"]
    [row] = await growing.send(post("a", thread("a")))
    assert row.receipt is not None
    edited = growing.show(edit(row.receipt.message_id, "b", thread("a")))
    await asyncio.sleep(5)
    await other.end(post("c", thread("b")))
    assert not edited.done()
    await edited
    assert [call.kind for call in setup.platform.calls] == ["post", "post", "edit"]
    assert setup.platform.complaints == []


@in_virtual_time
async def test_a_group_has_the_rate_limit_of_groups(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation, TELEGRAM)
    turns = [await setup.courier.begin(name, thread(name, group=True)) for name in "ab"]
    await asyncio.gather(*(turn.end(*[post(".", turn.turn.target)] * 15) for turn in turns))
    assert setup.platform.complaints == []
    assert setup.platform.calls[-1].at > 60.0
    assert len(setup.platform.history("room")) == 30


@in_virtual_time
async def test_resumed_deliveries_keep_the_rate_limit_of_a_group(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation, TELEGRAM)
    room = thread("a", group=True)
    await setup.record_turn("t", *map(str, range(25)), target=room)
    resumed = setup.courier.resume(room.conversation, limit=25)
    assert resumed is not None
    # Then it would have to wait long, and no caller waits. The process before may have made one of the 20 calls.
    assert await resumed == 19
    assert setup.platform.complaints == []


@in_virtual_time
async def test_a_new_process_keeps_the_rate_limit_of_the_one_before(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation, TELEGRAM)
    sending = asyncio.create_task(setup.send_turn("t", "one", "two"))
    await asyncio.sleep(0.3)
    assert setup.texts() == ["one"]
    sending.cancel()
    courier = await setup.crash()
    resumed = courier.resume(HERE.conversation)
    assert resumed is not None
    await resumed
    assert setup.texts() == ["one", "two"]
    assert setup.platform.complaints == []


@in_virtual_time
async def test_a_thread_of_a_waiting_chat_ends_its_sender(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation)
    setup.fail(TooMany(600.0))
    held = asyncio.create_task(setup.send_turn("t", "one", target=thread("a")))
    await asyncio.sleep(1)
    assert setup.courier.free_in("simulated", thread("b").chat) == pytest.approx(599.0, abs=0.5)
    assert setup.courier.free_in("simulated", HERE.chat) == 0.0
    await setup.record_turn("u", "two", target=thread("b"))
    resumed = setup.courier.resume(thread("b").conversation)
    assert resumed is not None
    assert await finished_within(resumed, 1.0) == 0
    await held
