"""A turn is resumed by a process that finds unfinished deliveries of the last one in the ledger."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from delivery_setup import HERE, DeliverySetup, in_virtual_time

from tailrace.capabilities import Capabilities, EditRules, Unkeyed
from tailrace.deliveries import State
from tailrace.delivery.presenting import present
from tailrace.events import Event, TextDelta, TurnCompleted, TurnStarted
from tailrace.projector import ProjectorSettings
from tailrace.testing.faults import Fault, NoAnswer, Rule, TooMany
from tailrace.testing.virtual_time import Simulation

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tailrace.deliveries import Delivery

TEXT = "An answer that is long enough to be posted at once, and no longer than one message. "
LIMITS = Capabilities(idempotency=Unkeyed(), limit=1000, edits=EditRules(every_s=1.0), deletes=True)


async def events(*events: Event) -> AsyncIterator[Event]:
    for event in events:
        await asyncio.sleep(0.1)
        yield event


async def presented(setup: DeliverySetup) -> list[Delivery]:
    turn = await setup.courier.begin("t", HERE)
    said = events(TurnStarted(), TextDelta(text=TEXT), TurnCompleted())
    return await present(said, turn, LIMITS, ProjectorSettings(presentation="final"), clock=setup.clock)


@pytest.mark.parametrize(
    ("fault", "left"),
    [(TooMany(60.0), State.RETRY), (NoAnswer(applied=False), State.AMBIGUOUS)],
    ids=["waiting for its retry", "without an answer"],
)
@in_virtual_time
async def test_a_turn_is_resumed_with_an_unfinished_delivery(simulation: Simulation, fault: Fault, left: State) -> None:
    setup = DeliverySetup(simulation, LIMITS, on_unknown="resend")
    setup.fail(Rule(fault=fault, kind="post"))
    first = asyncio.create_task(presented(setup))
    await asyncio.sleep(30.5)
    assert await setup.states() == {1: left}
    first.cancel()
    await setup.crash()
    assert [delivery.state for delivery in await presented(setup)] == [State.DELIVERED]
    assert setup.texts() == [TEXT.strip()]


@in_virtual_time
async def test_a_courier_that_drains_while_a_turn_is_resumed_adds_nothing_to_it(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation, LIMITS)
    setup.fail(Rule(fault=TooMany(60.0), kind="post"))
    first = asyncio.create_task(presented(setup))
    await asyncio.sleep(5.0)
    first.cancel()
    await setup.crash()
    resumed = asyncio.create_task(presented(setup))
    await asyncio.sleep(5.0)
    await setup.courier.drain()
    assert [delivery.state for delivery in await resumed] == [State.RETRY]
    await setup.crash()
    await presented(setup)
    assert setup.texts() == [TEXT.strip()]
