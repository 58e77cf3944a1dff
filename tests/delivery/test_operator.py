"""The verbs of people who run the delivery, in virtual time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec
import pytest
from delivery_setup import HERE, THERE, DeliverySetup, finished_within, in_virtual_time, post

from tailrace.deliveries import OPEN, OpenConversation, Query, State, TurnState
from tailrace.delivery.operator import Operator, Purge, Resend, Resent, Resume
from tailrace.errors import UsageError
from tailrace.operations import Target
from tailrace.testing.faults import Refuse, Reset, Rule, TooMany

if TYPE_CHECKING:
    from tailrace.testing.virtual_time import Simulation

INTERRUPTED = "⚠️ The answer was interrupted here."
ELSEWHERE = Target(channel="elsewhere", chat="x")


def operator_of(setup: DeliverySetup) -> Operator:
    """An operator that can connect the simulated channel, and no other."""

    async def connect(name: str) -> str:
        if name != setup.channel.name:
            return f"the channel {name!r} cannot be started"
        setup.courier.connect(setup.channel)
        return ""

    return Operator(setup.courier, connect)


async def record_elsewhere(setup: DeliverySetup) -> None:
    """Record an open delivery of a channel that cannot be connected."""
    [row] = await setup.record_turn("e", "text")
    lease = await setup.memory.acquire(ELSEWHERE.conversation)
    await setup.memory.plan(lease, [msgspec.structs.replace(row, turn_id="x", operation=post("text", ELSEWHERE))])
    setup.memory.release(lease)


def test_verbs_and_results_can_be_sent_as_json() -> None:
    verbs = [Resend(ids=("t.1",)), Resume(channels=("a",)), Purge(query=Query(states=OPEN, before=1.0), bodies=True)]
    assert msgspec.json.decode(msgspec.json.encode(verbs), type=list[Resend | Resume | Purge]) == verbs
    left = OpenConversation(name="a:b", channel="a", chat="b", state="retry", not_before=2.0)
    assert msgspec.json.decode(msgspec.json.encode(left), type=OpenConversation) == left


@in_virtual_time
async def test_results_of_resend_are_values(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation, "unkeyed")
    setup.fail(Reset())
    await setup.send_turn("t", "first", "second")
    await setup.crash(connected=False)
    operator = operator_of(setup)
    [result] = await operator.resend(Resend(ids=("t.1",)))
    assert result.delivery is not None
    assert (result.id, result.delivery.id, result.delivery.state) == ("t.1", "t/resend.1", State.DELIVERED)
    assert msgspec.json.decode(msgspec.json.encode(result), type=Resent) == result
    [again] = await operator.resend(Resend(ids=("t.1",)))
    assert (again.is_new, again.was_sent_before) == (True, True)
    assert setup.texts().count("first") == 2
    for unknown in ("t.9", "t", "t.x"):
        with pytest.raises(UsageError, match="there is no delivery"):
            await operator.resend(Resend(ids=(unknown,)))


@in_virtual_time
async def test_a_channel_that_cannot_be_connected_stops_only_its_own_deliveries(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation)
    await record_elsewhere(setup)
    await setup.crash(connected=False)
    results = await operator_of(setup).resend(Resend(ids=("e.1", "x.1")))
    problems = {result.id: result.problem for result in results}
    assert problems == {"e.1": "", "x.1": "the channel 'elsewhere' cannot be started"}
    [left] = await operator_of(setup).resume(Resume())
    assert (left.name, left.state) == ("elsewhere:x", "planned")
    assert await operator_of(setup).resume(Resume(channels=("simulated",))) == []


@in_virtual_time
async def test_resend_does_not_wait_behind_a_delivery_that_waits_long(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation)
    setup.fail(Refuse(), TooMany(retry_after=1200))  # the second is for the line about the missing part
    await setup.send_turn("t", "refused")
    await setup.crash()
    [result] = await finished_within(operator_of(setup).resend(Resend(ids=("t.1",))), 60)
    assert result.problem == "t.0 comes before it in this conversation, and waits"


@in_virtual_time
async def test_an_exception_is_raised_itself_and_not_in_a_group(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation)
    await setup.record_turn("t", "here")
    await setup.record_turn("u", "there", target=THERE)

    def report(_: Resent) -> None:
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        await operator_of(setup).resend(Resend(ids=("t.1", "u.1")), report)


@in_virtual_time
async def test_resume_closes_interrupted_turns_and_waits_for_retries(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation)
    turn = await setup.courier.begin("t", HERE)
    await turn.send(post("first"))
    turn.save_snapshot("the rest")
    await setup.record_turn("u", "there", target=THERE)
    await setup.crash(connected=False)
    setup.fail(Rule(fault=TooMany(retry_after=30), kind="post", chat="there"))
    assert await operator_of(setup).resume(Resume()) == []
    assert (setup.texts(), setup.texts(THERE)) == (["first", "the rest", INTERRUPTED], ["there"])
    closed = await setup.memory.turn("t")
    assert closed is not None
    assert closed.state is TurnState.INTERRUPTED


@in_virtual_time
async def test_resume_returns_what_waits_longer(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation)
    setup.fail(TooMany(retry_after=1200))
    await setup.record_turn("t", "text")
    [left] = await finished_within(operator_of(setup).resume(Resume()), 60)
    assert (left.name, left.state, left.not_before is not None) == ("simulated:here", "retry", True)
    assert await operator_of(setup).resume(Resume(within_s=1300)) == []
    assert setup.texts() == ["text"]


@in_virtual_time
async def test_stop_ends_the_wait_of_resume_and_begins_nothing_more(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation)
    setup.fail(TooMany(retry_after=30))
    await setup.record_turn("t", "text")
    operator = operator_of(setup)
    resuming = asyncio.create_task(operator.resume(Resume()))
    await asyncio.sleep(10)
    operator.stop()
    [left] = await finished_within(resuming, 1)
    assert left.state == "retry"
    assert await operator.resend(Resend(ids=("t.1",))) == []


@in_virtual_time
async def test_purge_deletes_in_steps_and_reports_them(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation)
    for number in range(20):
        await setup.record_turn(f"t{number}", *[f"text {at}" for at in range(30)])
    await operator_of(setup).resume(Resume())
    counts: list[int] = []
    assert await operator_of(setup).purge(Purge(query=Query()), counts.append) == 600
    assert counts == [500, 600]
    assert await setup.rows() == []
