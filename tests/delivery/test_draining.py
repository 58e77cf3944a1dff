"""A courier that must stop or wait: drained, cancelled, without its channel or its ledger; what it keeps to itself."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import pytest
from post_office import HERE, PostOffice, Unwritable, edit, post, settled_within, with_deadline

from tailrace.capabilities import Capabilities, Rate, Unkeyed
from tailrace.deliveries import FINAL, OPEN, State
from tailrace.errors import LedgerUnavailable, UsageError
from tailrace.operations import (
    Body,
    Receipt,
    Target,
)
from tailrace.testing.faults import Delayed, NoAnswer, Rule
from tailrace.testing.virtual_time import Simulation, run

if TYPE_CHECKING:
    from tailrace.deliveries import Delivery
    from tailrace.ports import Inbox


def states(deliveries: list[Delivery]) -> list[State]:
    return [delivery.state for delivery in deliveries]


def test_draining_finishes_what_is_being_sent_and_leaves_the_rest_open() -> None:
    async def scene(simulation: Simulation) -> None:
        office = PostOffice(simulation)
        office.fail(Rule(fault=Delayed(3.0), times=None))
        saying = [asyncio.create_task(office.say("t", "one", "two")), asyncio.create_task(office.say("u", "three"))]
        await asyncio.sleep(1.0)
        await office.courier.drain()
        ended = await settled_within(asyncio.gather(*saying), 0.1)
        assert [states(rows) for rows in ended] == [[State.DELIVERED, State.PLANNED], [State.PLANNED]]
        assert office.texts() == ["one"]
        late = await settled_within(office.say("v", "late"), 0.1)
        assert states(late) == [State.PLANNED]
        assert State.SENDING not in states(await office.rows())
        assert len(asyncio.all_tasks()) == 1

    run(scene)


def test_what_is_not_answered_while_draining_is_ambiguous() -> None:
    async def scene(simulation: Simulation) -> None:
        office = PostOffice(simulation, "unkeyed")
        office.fail(NoAnswer())
        saying = asyncio.create_task(office.say("t", "one"))
        await asyncio.sleep(1.0)
        await office.courier.drain(timeout_s=2.0)
        await settled_within(saying, 0.1)
        assert await office.states() == {1: State.AMBIGUOUS}
        assert len(asyncio.all_tasks()) == 1

    run(scene)


@pytest.mark.parametrize("steps", range(8))
def test_draining_at_any_moment_leaves_nothing_as_being_sent(steps: int) -> None:
    async def scene(simulation: Simulation) -> None:
        office = PostOffice(simulation, "unkeyed")
        saying = asyncio.create_task(office.say("t", "one", "two"))
        for _ in range(steps):
            await asyncio.sleep(0)
        await office.courier.drain()
        await settled_within(saying, 0.1)
        assert State.SENDING not in states(await office.rows())
        assert len(asyncio.all_tasks()) == 1
        await office.crash()
        await office.recovery().sweep()
        await settled_within(office.say("t", "one", "two"), 5.0)
        assert office.texts() == ["one", "two"]

    run(scene)


def test_draining_ends_also_where_the_ledger_cannot_be_written() -> None:
    async def scene(simulation: Simulation) -> None:
        office = PostOffice(simulation, "unkeyed")
        ledger = Unwritable()
        office.courier = office.courier_of(ledger.around(office))
        saying = asyncio.create_task(office.say("t", "one"))
        await asyncio.sleep(0.06)
        ledger.is_full = True
        await settled_within(office.courier.drain(timeout_s=2.0), 20.0)
        await settled_within(saying, 0.1)

    run(scene)


def test_a_disconnected_channel_is_waited_for_and_costs_no_try() -> None:
    async def scene(simulation: Simulation) -> None:
        office = PostOffice(simulation, connected=False)
        with pytest.raises(UsageError):
            await office.say("t", "nobody knows this channel yet")
        office.courier.connect(office.channel)
        office.courier.disconnect("simulated")
        saying = asyncio.create_task(office.say("u", "one", "two"))
        await asyncio.sleep(5000)
        assert [row.attempt for row in await office.rows()] == [0, 0]
        office.courier.connect(office.channel)
        ended = await settled_within(saying, 1.0)
        assert [(row.state, row.attempt) for row in ended] == [(State.DELIVERED, 1)] * 2

    run(scene)


def test_a_channel_that_goes_while_its_pace_is_waited_for_is_not_called() -> None:
    async def scene(simulation: Simulation) -> None:
        capabilities = Capabilities(idempotency=Unkeyed(), per_chat=Rate(calls=1, per_s=60.0))
        office = PostOffice(simulation, capabilities)
        saying = asyncio.create_task(office.say("t", "one", "two"))
        await asyncio.sleep(30)
        office.courier.disconnect("simulated")
        await asyncio.sleep(100)
        assert office.texts() == ["one"]
        office.courier.connect(office.channel)
        assert [row.attempt for row in await saying] == [1, 1]
        assert office.platform.complaints == []

    run(scene)


def test_without_an_intent_nothing_is_sent_and_it_goes_on_when_the_ledger_can_be_written() -> None:
    async def scene(simulation: Simulation) -> None:
        office = PostOffice(simulation)
        ledger = Unwritable()
        office.courier = office.courier_of(ledger.around(office))
        office.fail(Rule(fault=Delayed(1.0), times=None))
        saying = asyncio.create_task(office.say("t", "one", "two", "three"))
        await asyncio.sleep(0.5)
        ledger.is_full = True
        beginning = asyncio.create_task(office.say("u", "four"))
        await asyncio.sleep(600)
        assert office.texts() == ["one"]
        assert not saying.done()
        ledger.is_full = False
        ended = await settled_within(asyncio.gather(saying, beginning), 30.0)
        assert {row.state for rows in ended for row in rows} == {State.DELIVERED}
        assert office.texts() == ["one", "two", "three", "four"]

    run(scene)


SECRET = "token-1234-of-somebody"


class LeakyChannel:
    """A channel whose library puts secrets into its errors."""

    name = "simulated"
    capabilities = Capabilities(idempotency=Unkeyed(), deadline_s=1.0)

    def __init__(self, *, late: bool) -> None:
        self._late = late

    async def start(self, inbox: Inbox) -> None:
        raise NotImplementedError

    async def stop(self) -> None:
        raise NotImplementedError

    async def post(self, target: Target, body: Body, *, key: str) -> Receipt:
        try:
            await asyncio.sleep(30.0 if self._late else 0.1)
        except asyncio.CancelledError:
            # As libraries do that take a cancellation for a lost connection.
            raise RuntimeError(f"https://example.org/bot{SECRET}/send {target} {body} {key}") from None
        raise RuntimeError(f"https://example.org/bot{SECRET}/send")

    async def edit(self, target: Target, message_id: str, body: Body) -> Receipt:
        raise RuntimeError(f"{SECRET} {target} {message_id} {body}")


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("drains", [False, True])
def test_what_a_foreign_error_says_reaches_neither_the_ledger_nor_the_log(
    late: bool, drains: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene(simulation: Simulation) -> None:
        office = PostOffice(simulation)
        office.channel = LeakyChannel(late=late)
        office.courier = office.courier_of(office.memory)
        turn = await office.courier.begin("t", HERE)
        turn.show(edit("m1", "hello"))
        await asyncio.sleep(1)
        saying = asyncio.create_task(turn.end(post("hello")))
        await asyncio.sleep(0.05)
        if drains:
            await office.courier.drain(timeout_s=0.0)
        await settled_within(saying, 10.0)
        await office.courier.drain()
        for row in await office.rows():
            assert SECRET not in repr(row)
            assert row.error

    caplog.set_level(logging.DEBUG)
    run(scene)
    assert SECRET not in caplog.text
    assert [record for record in caplog.records if record.name == "asyncio" and record.levelno > logging.INFO] == []


def test_somebody_who_stops_waiting_takes_it_from_nobody_else() -> None:
    async def scene(simulation: Simulation) -> None:
        office = PostOffice(simulation)
        office.fail(Delayed(5.0))
        turn = await office.courier.begin("t", HERE)
        first = asyncio.create_task(turn.send(post("one")))
        await asyncio.sleep(1)
        again = await office.courier.begin("t", HERE)
        second = asyncio.create_task(again.send(post("one")))
        await asyncio.sleep(1)
        first.cancel()
        assert states(await second) == [State.DELIVERED]
        assert office.texts() == ["one"]

    run(scene)


def test_who_is_cancelled_while_it_is_recorded_takes_back_nothing_that_is_being_sent() -> None:
    async def scene(simulation: Simulation) -> None:
        office = PostOffice(simulation, "unkeyed")
        office.fail(Delayed(5.0))
        turn = await office.courier.begin("t", HERE)
        first = asyncio.create_task(turn.send(post("one")))
        await asyncio.sleep(1)
        again = await office.courier.begin("t", HERE)
        second = asyncio.create_task(again.send(post("one")))
        await asyncio.sleep(0)
        second.cancel()
        assert states(await first) == [State.DELIVERED]
        assert office.texts() == ["one"]

    run(scene)


def test_leaving_the_courier_drains_it() -> None:
    async def scene(simulation: Simulation) -> None:
        office = PostOffice(simulation, with_deadline("unkeyed", 5.0))
        office.fail(Delayed(3.0))
        async with office.courier:
            saying = asyncio.create_task(office.say("t", "one"))
            await asyncio.sleep(1)
        assert states(await saying) == [State.DELIVERED]
        assert not OPEN & set(states(await office.rows()))
        assert set(states(await office.rows())) <= FINAL

    run(scene)


def test_what_the_ledger_says_is_unavailable_is_no_error_of_the_turn() -> None:
    async def scene(simulation: Simulation) -> None:
        office = PostOffice(simulation)
        ledger = Unwritable()
        ledger.is_full = True
        with pytest.raises(LedgerUnavailable):
            await ledger.around(office).open_conversations()
        office.courier = office.courier_of(ledger.around(office))
        saying = asyncio.create_task(office.say("t", "one"))
        await asyncio.sleep(60)
        ledger.is_full = False
        assert states(await settled_within(saying, 10.0)) == [State.DELIVERED]

    run(scene)
