"""What the requests about deliveries do in a gateway: progress, and a client that ends before the result."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from delivery_setup import THERE, DeliverySetup, in_virtual_time

from tailrace.deliveries import Query
from tailrace.delivery.operator import Purge, Resend, Resume
from tailrace.errors import UsageError
from tailrace.gateway.handlers import DeliveryRequests
from tailrace.testing.faults import TooMany

if TYPE_CHECKING:
    from tailrace.deliveries import Delivery
    from tailrace.testing.virtual_time import Simulation


def requests_of(setup: DeliverySetup) -> DeliveryRequests:
    """The requests of a gateway, whose courier reports each change to them."""
    listeners: list[DeliveryRequests] = []

    def on_change(delivery: Delivery) -> None:
        for listener in listeners:
            listener.on_change(delivery)

    setup.courier = setup.courier_of(setup.memory, on_change=on_change)
    listeners.append(DeliveryRequests(setup.courier))
    return listeners[0]


@in_virtual_time
async def test_resume_reports_the_conversations_that_were_open(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation)
    setup.fail(TooMany(retry_after=30))
    await setup.record_turn("t", "one", "two")
    handlers = requests_of(setup).handlers()
    reported: list[Any] = []
    resuming = asyncio.ensure_future(handlers[Resume](Resume(), reported.append))
    await asyncio.sleep(1)
    await setup.send_turn("other", "elsewhere", target=THERE)
    assert await resuming == []
    assert {each.id for each in reported} == {"t.1", "t.2"}
    assert [each.state for each in reported][-1] == "delivered"
    count = len(reported)
    await setup.send_turn("later", "later")
    assert len(reported) == count
    assert await handlers[Purge](Purge(query=Query(turn_id="t")), reported.append) == 2


@in_virtual_time
async def test_if_the_client_ends_nothing_new_is_begun(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation)
    await setup.record_turn("t", *(f"text {number}" for number in range(9)))
    handlers = requests_of(setup).handlers()
    setup.fail(TooMany(retry_after=30))
    resuming = asyncio.ensure_future(handlers[Resume](Resume(), lambda _: None))
    await asyncio.sleep(1)
    resuming.cancel()
    with pytest.raises(asyncio.CancelledError):
        await resuming
    await asyncio.sleep(600)
    assert setup.texts() == []
    assert await handlers[Resume](Resume(), lambda _: None) == []
    assert len(setup.texts()) == 9


@in_virtual_time
async def test_an_unknown_delivery_is_an_error(simulation: Simulation) -> None:
    handlers = requests_of(DeliverySetup(simulation)).handlers()
    with pytest.raises(UsageError, match="there is no delivery"):
        await handlers[Resend](Resend(ids=("t.1",)), lambda _: None)
