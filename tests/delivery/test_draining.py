"""A courier that must stop or wait: draining, cancellation, a missing channel or ledger. Secrets stay out of logs."""

from __future__ import annotations

import asyncio
import gc
import logging
from typing import TYPE_CHECKING

import pytest
from delivery_setup import (
    HERE,
    DeliverySetup,
    FullDisk,
    OnlySends,
    SlowLedger,
    edit,
    finished_within,
    in_virtual_time,
    post,
    states,
    with_deadline,
)

from tailrace.capabilities import Capabilities, Rate, Unkeyed
from tailrace.deliveries import FINAL, OPEN, State
from tailrace.errors import UsageError
from tailrace.operations import Edit, Post, Receipt
from tailrace.testing.faults import Delayed, NoAnswer, Rule
from tailrace.testing.virtual_time import Simulation, run

if TYPE_CHECKING:
    pass


@in_virtual_time
async def test_draining_finishes_calls_under_way_and_leaves_the_rest_open(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation)
    setup.fail(Rule(fault=Delayed(3.0), times=None))
    sending = [
        asyncio.create_task(setup.send_turn("t", "one", "two")),
        asyncio.create_task(setup.send_turn("u", "three")),
    ]
    await asyncio.sleep(1.0)
    await setup.courier.drain()
    ended = await finished_within(asyncio.gather(*sending), 0.1)
    assert [states(rows) for rows in ended] == [[State.DELIVERED, State.PLANNED], [State.PLANNED]]
    assert setup.texts() == ["one"]
    late = await finished_within(setup.send_turn("v", "late"), 0.1)
    assert states(late) == [State.PLANNED]
    assert State.SENDING not in states(await setup.rows())
    assert len(asyncio.all_tasks()) == 1


@in_virtual_time
async def test_a_call_without_an_answer_while_draining_is_ambiguous(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation, "unkeyed")
    setup.fail(NoAnswer())
    sending = asyncio.create_task(setup.send_turn("t", "one"))
    await asyncio.sleep(1.0)
    await setup.courier.drain(timeout_s=2.0)
    await finished_within(sending, 0.1)
    assert await setup.states() == {1: State.AMBIGUOUS}
    assert len(asyncio.all_tasks()) == 1


@pytest.mark.parametrize("steps", range(8))
@in_virtual_time
async def test_draining_at_any_moment_leaves_no_row_sending(simulation: Simulation, steps: int) -> None:
    setup = DeliverySetup(simulation, "unkeyed")
    sending = asyncio.create_task(setup.send_turn("t", "one", "two"))
    for _ in range(steps):
        await asyncio.sleep(0)
    await setup.courier.drain()
    await finished_within(sending, 0.1)
    assert State.SENDING not in states(await setup.rows())
    assert len(asyncio.all_tasks()) == 1
    await setup.crash()
    await setup.recovery().sweep()
    await finished_within(setup.send_turn("t", "one", "two"), 5.0)
    assert setup.texts() == ["one", "two"]


@in_virtual_time
async def test_draining_ends_if_the_ledger_cannot_be_written(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation, "unkeyed")
    ledger = FullDisk()
    setup.courier = setup.courier_of(ledger.around(setup))
    sending = asyncio.create_task(setup.send_turn("t", "one"))
    await asyncio.sleep(0.06)
    ledger.is_full = True
    await finished_within(setup.courier.drain(timeout_s=2.0), 20.0)
    await finished_within(sending, 0.1)


@in_virtual_time
async def test_waiting_for_a_disconnected_channel_costs_no_attempt(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation, connected=False)
    with pytest.raises(UsageError):
        await setup.send_turn("t", "nobody knows this channel yet")
    setup.courier.connect(setup.channel)
    setup.courier.disconnect("simulated")
    sending = asyncio.create_task(setup.send_turn("u", "one", "two"))
    await asyncio.sleep(5000)
    assert [row.attempt for row in await setup.rows()] == [0, 0]
    setup.courier.connect(setup.channel)
    ended = await finished_within(sending, 1.0)
    assert [(row.state, row.attempt) for row in ended] == [(State.DELIVERED, 1)] * 2


@in_virtual_time
async def test_a_channel_disconnected_during_a_wait_is_not_called(simulation: Simulation) -> None:
    capabilities = Capabilities(idempotency=Unkeyed(), per_chat=Rate(calls=1, per_s=60.0))
    setup = DeliverySetup(simulation, capabilities)
    sending = asyncio.create_task(setup.send_turn("t", "one", "two"))
    await asyncio.sleep(30)
    setup.courier.disconnect("simulated")
    await asyncio.sleep(100)
    assert setup.texts() == ["one"]
    setup.courier.connect(setup.channel)
    assert [row.attempt for row in await sending] == [1, 1]
    assert setup.platform.complaints == []


@in_virtual_time
async def test_nothing_is_sent_while_the_ledger_cannot_be_written(
    simulation: Simulation,
) -> None:
    setup = DeliverySetup(simulation)
    ledger = FullDisk()
    setup.courier = setup.courier_of(ledger.around(setup))
    setup.fail(Rule(fault=Delayed(1.0), times=None))
    sending = asyncio.create_task(setup.send_turn("t", "one", "two", "three"))
    await asyncio.sleep(0.5)
    ledger.is_full = True
    beginning = asyncio.create_task(setup.send_turn("u", "four"))
    await asyncio.sleep(600)
    assert setup.texts() == ["one"]
    assert not sending.done()
    ledger.is_full = False
    ended = await finished_within(asyncio.gather(sending, beginning), 30.0)
    assert {row.state for rows in ended for row in rows} == {State.DELIVERED}
    assert setup.texts() == ["one", "two", "three", "four"]


SECRET = "token-1234-of-somebody"


class LeakyChannel(OnlySends):
    """A channel whose library puts secrets into its errors."""

    capabilities = Capabilities(idempotency=Unkeyed(), deadline_s=1.0)

    def __init__(self, *, late: bool) -> None:
        self._late = late

    async def post(self, post: Post, *, key: str) -> Receipt:
        try:
            await asyncio.sleep(30.0 if self._late else 0.1)
        except asyncio.CancelledError:
            # Some libraries take a cancellation for a lost connection.
            raise RuntimeError(f"https://example.org/bot{SECRET}/send {post} {key}") from None
        raise RuntimeError(f"https://example.org/bot{SECRET}/send")

    async def edit(self, edit: Edit) -> Receipt:
        raise RuntimeError(f"{SECRET} {edit}")


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("drains", [False, True])
def test_secrets_in_errors_of_a_channel_are_not_stored_or_logged(
    late: bool, drains: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene(simulation: Simulation) -> None:
        setup = DeliverySetup(simulation)
        setup.channel = LeakyChannel(late=late)
        setup.courier = setup.courier_of(setup.memory)
        turn = await setup.courier.begin("t", HERE)
        turn.show(edit("m1", "hello"))
        await asyncio.sleep(1)
        sending = asyncio.create_task(turn.end(post("hello")))
        await asyncio.sleep(0.05)
        if drains:
            await setup.courier.drain(timeout_s=0.0)
        await finished_within(sending, 10.0)
        await setup.courier.drain()
        for row in await setup.rows():
            assert SECRET not in repr(row)
            assert row.error

    caplog.set_level(logging.DEBUG)
    run(scene)
    assert SECRET not in caplog.text
    assert [record for record in caplog.records if record.name == "asyncio" and record.levelno > logging.INFO] == []


@in_virtual_time
async def test_a_cancelled_caller_does_not_cancel_the_delivery_of_another(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation)
    setup.fail(Delayed(5.0))
    turn = await setup.courier.begin("t", HERE)
    first = asyncio.create_task(turn.send(post("one")))
    await asyncio.sleep(1)
    again = await setup.courier.begin("t", HERE)
    second = asyncio.create_task(again.send(post("one")))
    await asyncio.sleep(1)
    first.cancel()
    assert states(await second) == [State.DELIVERED]
    assert setup.texts() == ["one"]


@in_virtual_time
async def test_a_caller_cancelled_while_recording_does_not_stop_a_call(
    simulation: Simulation,
) -> None:
    setup = DeliverySetup(simulation, "unkeyed")
    setup.fail(Delayed(5.0))
    turn = await setup.courier.begin("t", HERE)
    first = asyncio.create_task(turn.send(post("one")))
    await asyncio.sleep(1)
    again = await setup.courier.begin("t", HERE)
    second = asyncio.create_task(again.send(post("one")))
    await asyncio.sleep(0)
    second.cancel()
    assert states(await first) == [State.DELIVERED]
    assert setup.texts() == ["one"]


@in_virtual_time
async def test_leaving_the_courier_block_drains_it(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation, with_deadline("unkeyed", 5.0))
    setup.fail(Delayed(3.0))
    async with setup.courier:
        sending = asyncio.create_task(setup.send_turn("t", "one"))
        await asyncio.sleep(1)
    assert states(await sending) == [State.DELIVERED]
    assert not OPEN & set(states(await setup.rows()))
    assert set(states(await setup.rows())) <= FINAL


def test_an_error_after_the_deadline_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def scene(simulation: Simulation) -> None:
        setup = DeliverySetup(simulation)
        setup.channel = LeakyChannel(late=True)
        SlowLedger(setup, move=5.0)
        sending = asyncio.create_task(setup.send_turn("t", "one"))
        await asyncio.sleep(2)  # the deadline has passed, and the outcome is being recorded
        await setup.courier.drain(timeout_s=0.0)
        await sending
        gc.collect()

    caplog.set_level(logging.DEBUG)
    run(scene)
    assert SECRET not in caplog.text
