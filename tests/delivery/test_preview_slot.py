"""What is shown while an answer is written, and what it says at last: the latest wins, the final stays."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from delivery_setup import HERE, THERE, DeliverySetup, edit, in_virtual_time, post

from tailrace.capabilities import Capabilities, Rate, Unkeyed
from tailrace.deliveries import State
from tailrace.operations import (
    AppendStream,
    Body,
    CloseStream,
    Delete,
    OpenStream,
    Target,
    Typing,
)
from tailrace.testing.faults import NoAnswer, Refuse, Rule, TooMany
from tailrace.testing.virtual_time import Simulation

if TYPE_CHECKING:
    from tailrace.deliveries import Delivery


def states(deliveries: list[Delivery]) -> list[State]:
    return [delivery.state for delivery in deliveries]


@in_virtual_time
async def test_of_edits_in_between_the_latest_is_shown_and_none_is_recorded(simulation: Simulation) -> None:
    capabilities = Capabilities(idempotency=Unkeyed(), per_chat=Rate(calls=1, per_s=1.0))
    setup = DeliverySetup(simulation, capabilities)
    turn = await setup.courier.begin("t", HERE)
    [row] = await turn.send(post("a"))
    assert row.receipt is not None
    for letters in range(2, 60):
        turn.show(edit(row.receipt.message_id, "a" * letters))
        await asyncio.sleep(0.05)
    await asyncio.sleep(1.5)
    assert setup.texts() == ["a" * 59]
    assert setup.platform.counts["edit"] <= 5
    assert setup.platform.complaints == []
    assert len(await setup.rows()) == 1


@in_virtual_time
async def test_what_is_shown_in_between_gives_way_to_what_stays_and_never_comes_after_it(
    simulation: Simulation,
) -> None:
    capabilities = Capabilities(idempotency=Unkeyed(), per_chat=Rate(calls=1, per_s=10.0))
    setup = DeliverySetup(simulation, capabilities)
    turn = await setup.courier.begin("t", HERE)
    [row] = await turn.send(post("a"))
    assert row.receipt is not None
    live = row.receipt.message_id
    turn.show(edit(live, "in between"))  # waits for the pace
    ending = asyncio.create_task(turn.end(edit(live, "final")))
    await asyncio.sleep(0)
    turn.show(edit(live, "while it is recorded"))
    await ending
    turn.show(edit(live, "after the end"))
    setup.courier.show(Typing(target=THERE))
    await asyncio.sleep(100)
    assert setup.texts() == ["final"]
    assert setup.platform.counts["edit"] == 1


@in_virtual_time
async def test_a_turn_said_again_shows_nothing_over_what_stays(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation)
    turn = await setup.courier.begin("t", HERE)
    await turn.send(post("a"))
    live = setup.message_id()
    await turn.send(edit(live, "whole"))
    await setup.crash()
    again = await setup.courier.begin("t", HERE)
    await again.send(post("a"))
    again.show(edit(live, "half"))
    await asyncio.sleep(5)
    assert setup.texts() == ["whole"]
    await again.send(edit(live, "whole"))
    again.show(edit(live, "whole, and more"))
    await asyncio.sleep(5)
    assert setup.texts() == ["whole, and more"]


@in_virtual_time
async def test_typing_is_shown_and_what_fails_in_between_harms_nothing(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation)
    setup.fail(Rule(fault=NoAnswer(), kind="typing"), Rule(fault=Refuse(), kind="edit"))
    turn = await setup.courier.begin("t", HERE)
    turn.show(Typing(target=HERE))
    await asyncio.sleep(1)
    await turn.send(post("a"))
    turn.show(edit(setup.message_id(), "refused"))
    await asyncio.sleep(5)
    turn.show(Typing(target=HERE))
    await asyncio.sleep(5)
    assert setup.platform.counts["typing"] == 2
    await turn.end(edit(setup.message_id(), "final"))
    assert setup.texts() == ["final"]


@in_virtual_time
async def test_a_retry_after_told_to_an_edit_in_between_holds_the_final_as_well(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation)
    turn = await setup.courier.begin("t", HERE)
    await turn.send(post("a"))
    setup.fail(TooMany(30.0))
    turn.show(edit(setup.message_id(), "in between"))
    await asyncio.sleep(1)
    await turn.end(edit(setup.message_id(), "final"))
    assert setup.platform.calls[-1].at >= 30.0
    assert setup.platform.counts["edit"] == 2


@in_virtual_time
async def test_a_stream_grows_and_says_all_at_its_end_also_where_it_is_gone(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation)
    for name, gone in (("t", False), ("u", True)):
        target = Target(channel="simulated", chat=name)
        turn = await setup.courier.begin(name, target)
        [row] = await turn.send(OpenStream(target=target, body=Body(text="a")))
        assert row.receipt is not None
        stream = row.receipt.message_id
        turn.show(AppendStream(target=target, stream_id=stream, text="b"))
        turn.show(AppendStream(target=target, stream_id=stream, text="c"))
        await asyncio.sleep(1)
        assert setup.texts(target) == ["abc"]
        if gone:
            setup.delete_message(stream, target)
        [row] = await turn.end(CloseStream(target=target, stream_id=stream, body=Body(text="whole")))
        assert row.state is State.DELIVERED
        assert setup.texts(target) == ["whole"]


@in_virtual_time
async def test_a_message_is_taken_away_and_one_that_cannot_be_is_not_called_a_missing_part(
    simulation: Simulation,
) -> None:
    setup = DeliverySetup(simulation)
    turn = await setup.courier.begin("t", HERE)
    await turn.send(post("a"))
    live = setup.message_id()
    await turn.send(Delete(target=HERE, message_id=live))
    assert setup.texts() == []
    assert states(await turn.send(Delete(target=HERE, message_id=live))) == [State.DELIVERED]
    setup.fail(Rule(fault=Refuse(), kind="delete"))
    assert states(await turn.end(Delete(target=HERE, message_id=live))) == [State.FAILED]
    assert setup.texts() == []


@in_virtual_time
async def test_where_the_live_message_is_gone_the_final_is_one_new_message(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation, "unkeyed")
    turn = await setup.courier.begin("t", HERE)
    await turn.send(post("live"))
    live = setup.message_id()
    setup.delete_message(live)
    ended = await turn.end(edit(live, "final"), post("more"))
    assert setup.texts() == ["final", "more"]
    assert [(row.ordinal, row.state) for row in ended] == [(-2, State.DELIVERED), (3, State.DELIVERED)]
    assert await setup.states() == {
        1: State.DELIVERED,
        2: State.SUPERSEDED,
        -2: State.DELIVERED,
        3: State.DELIVERED,
    }


@in_virtual_time
async def test_not_modified_is_success(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation)
    turn = await setup.courier.begin("t", HERE)
    await turn.send(post("same"))
    assert states(await turn.end(edit(setup.message_id(), "same"))) == [State.DELIVERED]
    assert setup.texts() == ["same"]
