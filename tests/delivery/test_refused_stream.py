"""A platform that refuses streams: the body is posted instead, and the receipt says what was lost."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from delivery_setup import HERE, DeliverySetup, OnlySends, in_virtual_time
from msgspec.structs import replace

from tailrace.deliveries import State
from tailrace.operations import AppendStream, Body, CloseStream, OpenStream, Post, Receipt, Refused
from tailrace.testing.faults import Cut, NoAnswer, Refuse, Reset, Rule, ServerError
from tailrace.testing.virtual_time import Simulation
from tailrace.testing.wire import capabilities_of

if TYPE_CHECKING:
    from tailrace.testing.faults import Fault

STREAM = OpenStream(target=HERE, body=Body(text="begun"))
LOST = "the platform refused the stream"
REFUSED = Rule(fault=Refuse(400, "no streams here"), kind="open_stream")


@in_virtual_time
async def test_a_refused_stream_is_posted_and_the_turn_continues_in_it(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation)
    setup.fail(REFUSED)
    turn = await setup.courier.begin("t", HERE)
    [row] = await turn.send(STREAM)
    live = setup.message_id()
    assert (row.ordinal, row.operation) == (-1, Post(target=HERE, body=STREAM.body, degraded=LOST))
    assert row.receipt == Receipt(message_id=live, degraded=LOST)
    assert await turn.show(AppendStream(target=HERE, stream_id=live, text="more")) == Refused("the stream is closed")
    [last] = await turn.end(CloseStream(target=HERE, stream_id=live, body=Body(text="whole")))
    assert last.receipt == Receipt(message_id=live)
    assert setup.texts() == ["whole"]
    assert await setup.states() == {1: State.SUPERSEDED, -1: State.DELIVERED, 2: State.DELIVERED}
    assert (await setup.rows())[0].error == "no streams here"


@pytest.mark.parametrize("fault", [ServerError(), NoAnswer(applied=False), Reset()])
@in_virtual_time
async def test_the_receipt_is_degraded_after_several_attempts(simulation: Simulation, fault: Fault) -> None:
    setup = DeliverySetup(simulation, "keyed")
    setup.fail(REFUSED, Rule(fault=fault, kind="post", times=2))
    turn = await setup.courier.begin("t", HERE)
    [row] = await turn.end(STREAM)
    assert row.receipt == Receipt(message_id=setup.message_id(), degraded=LOST)
    assert row.attempt == 3


@in_virtual_time
async def test_the_receipt_is_degraded_after_a_lookup(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation, "readback")
    setup.fail(REFUSED, Rule(fault=Cut(), kind="post"))
    turn = await setup.courier.begin("t", HERE)
    [row] = await turn.end(STREAM)
    assert row.receipt == Receipt(message_id=setup.message_id(), degraded=LOST)
    assert (row.attempt, setup.platform.counts["find"]) == (1, 1)


@in_virtual_time
async def test_the_receipt_is_degraded_in_the_next_process(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation, "keyed")
    setup.fail(REFUSED, Rule(fault=ServerError(), kind="post", times=None))
    turn = await setup.courier.begin("t", HERE)
    sending = asyncio.create_task(turn.end(STREAM))
    await asyncio.sleep(0.3)
    await setup.crash()
    assert sending.cancelled()
    setup.platform.script.clear()
    assert await setup.states() == {1: State.SUPERSEDED, -1: State.RETRY}
    await asyncio.sleep(60)
    await setup.recovery().sweep()
    [_, row] = await setup.rows()
    assert row.receipt == Receipt(message_id=setup.message_id(), degraded=LOST)


@in_virtual_time
async def test_a_channel_that_cannot_stream_posts(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation)

    class PlainChannel(OnlySends):
        capabilities = capabilities_of("keyed")
        post = setup.channel.post

    setup.courier.connect(PlainChannel())
    turn = await setup.courier.begin("t", HERE)
    [row] = await turn.end(STREAM)
    assert row.receipt == Receipt(message_id=setup.message_id(), degraded=LOST)


@in_virtual_time
async def test_a_stream_that_may_be_open_is_not_replaced(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation, "keyed")
    setup.fail(Rule(fault=Reset(applied=True), kind="open_stream"), replace(REFUSED, at=2))
    turn = await setup.courier.begin("t", HERE)
    [row] = await turn.end(STREAM)
    assert row.state is State.UNKNOWN
    await asyncio.sleep(1)
    assert setup.texts() == [
        "begun",
        "⚠️ Part 1 of this answer may be missing: it is not known whether it arrived.",
    ]


@in_virtual_time
async def test_a_refused_replacement_is_a_missing_part(
    simulation: Simulation,
) -> None:
    setup = DeliverySetup(simulation)
    setup.fail(Rule(fault=Refuse(), times=None))
    turn = await setup.courier.begin("t", HERE)
    [row] = await turn.end(STREAM)
    assert (row.ordinal, row.state, row.receipt) == (-1, State.FAILED, None)
    assert setup.texts() == []
