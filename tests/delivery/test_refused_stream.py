"""A platform that takes no stream: its body is posted, whoever asked gets that, and the receipt says what was lost."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace
from post_office import HERE, PostOffice, edit, post

from tailrace.capabilities import Capabilities, StreamRules, Unkeyed
from tailrace.deliveries import State
from tailrace.operations import AppendStream, Body, CloseStream, OpenStream, Post, Receipt, Refused
from tailrace.testing.faults import Cut, NoAnswer, Refuse, Reset, Rule, ServerError
from tailrace.testing.virtual_time import Simulation, run
from tailrace.testing.wire import capabilities_of

if TYPE_CHECKING:
    from tailrace.testing.faults import Fault

STREAM = OpenStream(target=HERE, body=Body(text="begun"))
LOST = "the platform refused the stream"
REFUSED = Rule(fault=Refuse(400, "no streams here"), kind="open_stream")


def test_a_stream_that_is_refused_is_a_message_and_the_turn_goes_on_in_it() -> None:
    async def scene(simulation: Simulation) -> None:
        office = PostOffice(simulation)
        office.fail(REFUSED)
        turn = await office.courier.begin("t", HERE)
        [row] = await turn.send(STREAM)
        live = office.shown()
        assert (row.ordinal, row.operation) == (-1, Post(target=HERE, body=STREAM.body))
        assert row.receipt == Receipt(message_id=live, degraded=LOST)
        assert await turn.show(AppendStream(target=HERE, stream_id=live, text="more")) == Refused(
            "the stream is closed"
        )
        [last] = await turn.end(CloseStream(target=HERE, stream_id=live, body=Body(text="whole")))
        assert last.receipt == Receipt(message_id=live)
        assert office.texts() == ["whole"]
        assert await office.states() == {1: State.SUPERSEDED, -1: State.DELIVERED, 2: State.DELIVERED}
        assert (await office.rows())[0].error == "no streams here"

    run(scene)


def test_so_it_is_where_the_platform_has_streams_only_elsewhere() -> None:
    async def scene(simulation: Simulation) -> None:
        rules = StreamRules(every_s=1.0, in_threads_only=True)
        office = PostOffice(simulation, Capabilities(idempotency=Unkeyed(), native=rules))
        turn = await office.courier.begin("t", HERE)
        [row, _more] = await turn.end(STREAM, post("more"))
        assert row.receipt is not None
        assert row.receipt.degraded == LOST
        assert office.texts() == ["begun", "more"]

    run(scene)


@pytest.mark.parametrize("fault", [ServerError(), NoAnswer(applied=False), Reset()])
def test_what_was_lost_is_told_also_where_the_message_took_several_tries(fault: Fault) -> None:
    async def scene(simulation: Simulation) -> None:
        office = PostOffice(simulation, "keyed")
        office.fail(REFUSED, Rule(fault=fault, kind="post", times=2))
        turn = await office.courier.begin("t", HERE)
        [row] = await turn.end(STREAM)
        assert row.receipt == Receipt(message_id=office.shown(), degraded=LOST)
        assert row.attempt == 3

    run(scene)


def test_what_was_lost_is_told_also_where_the_platform_had_to_be_asked() -> None:
    async def scene(simulation: Simulation) -> None:
        office = PostOffice(simulation, "readback")
        office.fail(REFUSED, Rule(fault=Cut(), kind="post"))
        turn = await office.courier.begin("t", HERE)
        [row] = await turn.end(STREAM)
        assert row.receipt == Receipt(message_id=office.shown(), degraded=LOST)
        assert (row.attempt, office.platform.counts["find"]) == (1, 1)

    run(scene)


def test_what_was_lost_is_told_also_by_the_next_process() -> None:
    async def scene(simulation: Simulation) -> None:
        office = PostOffice(simulation, "keyed")
        office.fail(REFUSED, Rule(fault=ServerError(), kind="post", times=None))
        turn = await office.courier.begin("t", HERE)
        saying = asyncio.create_task(turn.end(STREAM))
        await asyncio.sleep(0.3)
        await office.crash()
        assert saying.cancelled()
        office.platform.script.clear()
        assert await office.states() == {1: State.SUPERSEDED, -1: State.RETRY}
        await asyncio.sleep(60)
        await office.recovery().sweep()
        [_, row] = await office.rows()
        assert row.receipt == Receipt(message_id=office.shown(), degraded=LOST)

    run(scene)


def test_a_channel_that_cannot_stream_posts() -> None:
    async def scene(simulation: Simulation) -> None:
        office = PostOffice(simulation)

        class PlainChannel:
            name = "simulated"
            capabilities = capabilities_of("keyed")
            start, stop, post = office.channel.start, office.channel.stop, office.channel.post

        office.courier.connect(PlainChannel())
        turn = await office.courier.begin("t", HERE)
        [row] = await turn.end(STREAM)
        assert row.receipt == Receipt(message_id=office.shown(), degraded=LOST)

    run(scene)


def test_where_a_stream_may_have_begun_nothing_is_posted_in_its_place() -> None:
    async def scene(simulation: Simulation) -> None:
        office = PostOffice(simulation, "keyed")
        office.fail(Rule(fault=Reset(applied=True), kind="open_stream"), replace(REFUSED, at=2))
        turn = await office.courier.begin("t", HERE)
        [row] = await turn.end(STREAM)
        assert row.state is State.UNKNOWN
        await asyncio.sleep(1)
        assert office.texts() == [
            "begun",
            "⚠️ Part 1 of this answer may be missing: it is not known whether it arrived.",
        ]

    run(scene)


def test_somebody_who_takes_nothing_at_all_is_asked_once_more_and_it_counts_as_missing() -> None:
    async def scene(simulation: Simulation) -> None:
        office = PostOffice(simulation)
        office.fail(Rule(fault=Refuse(), times=None))
        turn = await office.courier.begin("t", HERE)
        [row] = await turn.end(STREAM)
        assert (row.ordinal, row.state, row.receipt) == (-1, State.FAILED, None)
        assert office.texts() == []

    run(scene)


def test_nothing_is_lost_where_a_message_that_is_gone_is_said_anew() -> None:
    async def scene(simulation: Simulation) -> None:
        office = PostOffice(simulation)
        turn = await office.courier.begin("t", HERE)
        await turn.send(post("live"))
        live = office.shown()
        office.take_away(live)
        [row] = await turn.end(edit(live, "final"))
        assert row.receipt == Receipt(message_id=office.shown())

    run(scene)
