"""A channel that fails is started again with growing pauses, and the others do not notice."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from delivery_setup import in_virtual_time

from gateway.gateway_setup import GatewaySetup
from tailrace.errors import AccessLost, ChannelFault, NotSent
from tailrace.operations import Target
from tailrace.testing.simulated import InProcessChannel

if TYPE_CHECKING:
    from tailrace.ports import Inbox
    from tailrace.testing.virtual_time import Simulation


class FailingChannel(InProcessChannel):
    """A second channel. Its start fails as long as there is an `error`; `starts` are the times of all starts."""

    name = "other"

    def __init__(self, setup: GatewaySetup, error: Exception | None) -> None:
        super().__init__(setup.platform, setup.clock)
        self.error = error
        self.starts: list[float] = []
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def start(self, inbox: Inbox) -> None:  # noqa: ARG002 -- the port has it
        self.starts.append(self._clock.monotonic())
        if self.error is not None:
            raise self.error
        self.closed = asyncio.get_running_loop().create_future()

    async def wait_closed(self) -> None:
        await self.closed


def with_other(setup: GatewaySetup, error: Exception | None) -> FailingChannel:
    other = FailingChannel(setup, error)
    setup.new_channels = lambda: [setup.new_channel(), other]
    return other


@in_virtual_time
async def test_a_channel_that_cannot_start_is_tried_again_and_the_others_answer(simulation: Simulation) -> None:
    setup = GatewaySetup(simulation)
    other = with_other(setup, NotSent("there is no network"))
    async with setup.running():
        setup.say("one")
        await setup.read("ok: one")
        await asyncio.sleep(600)
        setup.say("two")
        await setup.read("ok: one", "ok: two")
        assert setup.lines == ["ready: simulated"]
        other.error = None
        await setup.until(lambda: setup.lines == ["ready: simulated", "ready: other"])
    pauses = [round(later - earlier, 3) for earlier, later in pairwise(other.starts)]
    assert pauses[:6] == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0]
    assert set(pauses[6:]) == {60.0}


@in_virtual_time
async def test_a_channel_that_breaks_while_a_turn_runs_elsewhere_comes_back(simulation: Simulation) -> None:
    setup = GatewaySetup(simulation)
    other = with_other(setup, None)
    async with setup.running():
        setup.say("slow")
        await setup.until(lambda: bool(setup.texts()))
        other.closed.set_exception(ValueError("a bug in a plugin"))
        await setup.until(lambda: len(other.starts) == 2, within_s=3)
        setup.agent.go_on.set()
        await setup.read("I begin with this answer now. ok: slow")
    assert setup.lines == ["ready: simulated", "ready: other", "ready: other", setup.lines[-1]]


@in_virtual_time
async def test_an_answer_waits_for_its_channel(simulation: Simulation) -> None:
    setup = GatewaySetup(simulation)
    other = with_other(setup, None)
    target = Target(channel="other", chat="7")
    async with setup.running():
        setup.say("slow", channel="other", target=target)
        await setup.until(lambda: bool(setup.texts()))
        other.error = NotSent("there is no network")
        other.closed.set_exception(NotSent("the connection broke"))
        await asyncio.sleep(1)
        setup.agent.go_on.set()
        await asyncio.sleep(100)
        assert "ok: slow" not in setup.texts()[0]
        other.error = None
        await setup.read("I begin with this answer now. ok: slow")


@pytest.mark.parametrize("with_a_good_one", [True, False])
def test_a_wrong_token_ends_the_process_only_if_no_channel_works(with_a_good_one: bool) -> None:
    @in_virtual_time
    async def scene(simulation: Simulation) -> None:
        setup = GatewaySetup(simulation)
        other = FailingChannel(setup, AccessLost("the token is wrong", everywhere=True))
        setup.new_channels = lambda: [*([setup.new_channel()] if with_a_good_one else []), other]
        if with_a_good_one:
            async with setup.running():
                setup.say("one")
                await setup.read("ok: one")
        else:
            with pytest.raises(ChannelFault, match="other: the token is wrong"):
                async with setup.running():
                    await asyncio.sleep(10)

    scene()
