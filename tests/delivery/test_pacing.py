"""When calls go out: never more than the rate in any stretch of time, in turn, and not while the platform says no."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.capabilities import Capabilities, Rate, Unkeyed
from tailrace.delivery.outlet import Outlet
from tailrace.delivery.pacing import Pace
from tailrace.operations import Delivered, NotNow, Receipt
from tailrace.testing.platform import SimulatedPlatform
from tailrace.testing.simulated import in_process_channel
from tailrace.testing.virtual_time import Simulation, run

CHATS = ("a", "b", "c")

rates = st.builds(Rate, calls=st.integers(1, 5), per_s=st.sampled_from([0.5, 1.0, 60.0]))
gaps = st.lists(st.tuples(st.floats(0, 3), st.sampled_from(CHATS)), max_size=40)


def paced(per_chat: Rate | None = None, overall: Rate | None = None) -> Capabilities:
    return Capabilities(idempotency=Unkeyed(), per_chat=per_chat, overall=overall)


def call(pace: Pace, chat: str, now: float) -> float:
    """When a caller who comes now, and is the only one, may call."""
    at = pace.chat_due(chat, now)
    at = pace.reserve(at)
    pace.spend(chat, at)
    return at


def check_rate(times: list[float], rate: Rate) -> None:
    """In no stretch of `per_s` are there more than `calls`."""
    assert times == sorted(times)
    for first, one_too_many in zip(times, times[rate.calls :], strict=False):
        assert one_too_many - first >= rate.per_s - 1e-9


@given(rate=rates, gaps=gaps)
def test_a_chat_gets_no_more_than_its_rate_in_any_stretch(rate: Rate, gaps: list[tuple[float, str]]) -> None:
    pace, now = Pace(paced(per_chat=rate)), 0.0
    times: dict[str, list[float]] = {chat: [] for chat in CHATS}
    for gap, chat in gaps:
        now += gap
        times[chat].append(call(pace, chat, max(now, *times[chat], 0.0)))
    for of_chat in times.values():
        check_rate(of_chat, rate)


@given(rate=rates, gaps=gaps)
def test_a_channel_gets_no_more_than_its_rate_in_any_stretch(rate: Rate, gaps: list[tuple[float, str]]) -> None:
    pace, now = Pace(paced(overall=rate)), 0.0
    times: list[float] = []
    for gap, chat in gaps:
        now += gap
        times.append(call(pace, chat, now))
    check_rate(times, rate)


@given(rate=rates, gap=st.floats(0, 100))
def test_calls_that_were_saved_up_are_there_at_once(rate: Rate, gap: float) -> None:
    pace = Pace(paced(per_chat=rate))
    assert [call(pace, "a", gap) for _ in range(rate.calls)] == [gap] * rate.calls
    assert call(pace, "a", gap) == pytest.approx(gap + rate.per_s)


def test_looking_spends_nothing() -> None:
    pace = Pace(paced(per_chat=Rate(calls=1, per_s=1.0), overall=Rate(calls=1, per_s=1.0)))
    assert {pace.due("a", 5.0) for _ in range(10)} == {5.0}
    call(pace, "a", 5.0)
    assert {pace.due("a", 5.0) for _ in range(10)} == {6.0}
    assert {pace.chat_due("b", 5.0) for _ in range(10)} == {5.0}


def test_a_chat_is_held_alone_and_a_channel_as_a_whole() -> None:
    pace = Pace(paced())
    pace.pause(30.0, chat="a", now=0.0)
    assert (pace.due("a", 0.0), pace.due("b", 0.0)) == (30.0, 0.0)
    assert (pace.is_held("a", 29.0), pace.is_held("a", 30.0), pace.is_held("b", 0.0)) == (True, False, False)
    pace.pause(60.0, now=0.0)
    assert (pace.due("a", 0.0), pace.due("b", 0.0)) == (60.0, 60.0)
    pace.pause(10.0, now=0.0)
    assert pace.due("b", 0.0) == 60.0  # a shorter wait does not end a longer one


def test_chats_that_were_long_silent_are_forgotten() -> None:
    pace = Pace(paced(per_chat=Rate(calls=1, per_s=1.0)))
    for second in range(100_000):
        call(pace, f"chat {second}", float(second))
    assert len(pace._chats) < 3000
    pace.pause(1e9, chat="held", now=100_000.0)
    for second in range(100_000, 110_000):
        call(pace, f"chat {second}", float(second))
    assert pace.due("held", 110_000.0) == 1e9


class Caller:
    """Somebody with calls to one chat, one after the other; `times` is when they went."""

    def __init__(self, outlet: Outlet, chat: str, simulation: Simulation) -> None:
        self.times: list[float] = []
        self._outlet = outlet
        self._chat = chat
        self._simulation = simulation

    async def call(self, times: int = 1) -> None:
        for _ in range(times):
            await self._outlet.turn_to_call(self._chat)
            self.times.append(self._simulation.clock.monotonic())
            self._outlet.learn(self._chat, Delivered(Receipt(message_id="m")))
            await asyncio.sleep(0)


def outlet_of(capabilities: Capabilities, simulation: Simulation, before: Outlet | None = None) -> Outlet:
    channel = in_process_channel(SimulatedPlatform(capabilities), simulation.clock)
    return Outlet(channel, simulation.clock, simulation.source.random, before=before)


def test_chats_take_turns_and_none_waits_for_another_that_must_wait_itself() -> None:
    async def scene(simulation: Simulation) -> None:
        capabilities = paced(per_chat=Rate(calls=1, per_s=60.0), overall=Rate(calls=1, per_s=1.0))
        outlet = outlet_of(capabilities, simulation)
        busy = Caller(outlet, "busy", simulation)
        others = [Caller(outlet, f"chat {number}", simulation) for number in range(5)]
        await asyncio.gather(busy.call(3), *(other.call() for other in others))
        assert busy.times == [0.0, 60.0, 120.0]
        assert sorted(time for other in others for time in other.times) == [1.0, 2.0, 3.0, 4.0, 5.0]

    run(scene)


def test_with_one_budget_for_all_everybody_gets_a_like_share() -> None:
    async def scene(simulation: Simulation) -> None:
        outlet = outlet_of(paced(overall=Rate(calls=1, per_s=1.0)), simulation)
        callers = [Caller(outlet, chat, simulation) for chat in CHATS]
        await asyncio.gather(*(caller.call(10) for caller in callers))
        for caller in callers:
            assert {later - earlier for earlier, later in pairwise(caller.times)} == {3.0}

    run(scene)


@pytest.mark.parametrize("everywhere", [False, True])
def test_a_pause_is_obeyed_also_by_who_had_reserved(everywhere: bool) -> None:
    async def scene(simulation: Simulation) -> None:
        outlet = outlet_of(paced(overall=Rate(calls=1, per_s=10.0)), simulation)
        first, second = Caller(outlet, "a", simulation), Caller(outlet, "a" if everywhere else "b", simulation)
        await first.call()
        waiting = asyncio.create_task(second.call())
        await asyncio.sleep(5.0)
        outlet.learn("a" if everywhere else "b", NotNow("busy", retry_after=30.0, everywhere=everywhere))
        await waiting
        assert second.times[0] >= 35.0

    run(scene)


@pytest.mark.parametrize("retry_after", [1e9, -5.0, float("nan"), float("inf")])
def test_what_cannot_be_meant_holds_nobody_for_ever(retry_after: float) -> None:
    async def scene(simulation: Simulation) -> None:
        outlet = outlet_of(paced(), simulation)
        outlet.learn("a", NotNow("busy", retry_after=retry_after, everywhere=True))
        caller = Caller(outlet, "a", simulation)
        await caller.call()
        assert 0 < caller.times[0] <= 4 * 3600 + 1

    run(scene)


def test_a_channel_that_is_connected_again_keeps_its_pace() -> None:
    async def scene(simulation: Simulation) -> None:
        capabilities = paced(per_chat=Rate(calls=1, per_s=60.0))
        before = outlet_of(capabilities, simulation)
        await Caller(before, "a", simulation).call()
        before.learn("b", NotNow("busy", retry_after=500.0, everywhere=False))
        after = outlet_of(capabilities, simulation, before)
        assert (after.due_in("a"), after.due_in("b")) == (60.0, 500.0)
        assert outlet_of(paced(), simulation, before).due_in("a") == 0.0  # another pace than before: begun anew

    run(scene)
