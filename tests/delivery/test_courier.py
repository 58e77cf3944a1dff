"""The courier: order, resumed turns, notices of missing parts, policies."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from delivery_setup import HERE, DeliverySetup, OnlySends, edit, finished_within, in_virtual_time, post, states
from msgspec.structs import replace

from random_turns.unsteady import unsteady
from tailrace.deliveries import State, TurnState
from tailrace.delivery import CourierSettings
from tailrace.errors import TurnMismatch, UsageError
from tailrace.operations import (
    Post,
    PostMedia,
    Receipt,
    Target,
    Typing,
)
from tailrace.testing.faults import Delayed, NoAnswer, Refuse, Rule, Unreachable
from tailrace.testing.virtual_time import Simulation, run

if TYPE_CHECKING:
    pass


@in_virtual_time
async def test_parts_arrive_in_order_each_with_a_receipt(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation)
    ended = await setup.send_turn("t", "one", "two", "three")
    assert setup.texts() == ["one", "two", "three"]
    assert states(ended) == [State.DELIVERED] * 3
    ids = [message.message_id for message in setup.platform.history("here")]
    assert [row.receipt and row.receipt.message_id for row in ended] == ids


@in_virtual_time
async def test_turns_of_a_conversation_are_sent_one_after_the_other(
    simulation: Simulation,
) -> None:
    setup = DeliverySetup(simulation)
    setup.fail(Rule(fault=Delayed(3.0), times=None))
    names = [f"turn {number}" for number in range(8)]
    await asyncio.gather(*(setup.send_turn(name, f"{name} a", f"{name} b") for name in names))
    assert setup.texts() == [f"{name} {part}" for name in names for part in "ab"]
    times = [seen.at for seen in setup.platform.calls]
    assert all(later - earlier >= 3.0 for earlier, later in pairwise(times))


@in_virtual_time
async def test_a_thread_is_a_conversation_of_its_own(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation)
    thread = replace(HERE, thread="7")
    await setup.send_turn("t", "in it", target=thread)
    await setup.send_turn("u", "beside it")
    assert [message.thread for message in setup.platform.history("here")] == ["7", None]


@in_virtual_time
async def test_a_resumed_turn_sends_only_what_is_missing(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation)
    turn = await setup.courier.begin("t", HERE)
    first = await turn.send(post("one"), post("two"))
    await setup.crash()
    again = await setup.courier.begin("t", HERE)
    assert not again.is_finished
    assert await again.send(post("one"), post("two")) == first
    await again.end(post("three"))
    assert setup.texts() == ["one", "two", "three"]
    whole = await setup.courier.begin("t", HERE)
    assert whole.is_finished
    assert states(await whole.end(post("one"), post("two"), post("three"))) == [State.DELIVERED] * 3
    assert setup.platform.counts["post"] == 3


@pytest.mark.parametrize("kind", ["keyed", "unkeyed", "readback", "repeatable"])
@in_virtual_time
async def test_a_turn_of_a_killed_process_is_repeated_without_duplicates(simulation: Simulation, kind: str) -> None:
    setup = DeliverySetup(simulation, kind)
    setup.fail(NoAnswer())
    sending = asyncio.create_task(setup.send_turn("t", "once"))
    await asyncio.sleep(1.0)
    assert (await setup.states())[1] is State.SENDING
    await setup.crash()
    assert sending.done()
    [row] = await setup.send_turn("t", "once")
    assert setup.texts()[0] == "once"
    assert setup.texts().count("once") == 1
    assert row.state is (State.UNKNOWN if kind == "unkeyed" else State.DELIVERED)


@in_virtual_time
async def test_a_refused_part_is_followed_by_one_notice_and_the_rest(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation)
    setup.fail(Rule(fault=Refuse(), at=2, times=2))
    ended = await setup.send_turn("t", "one", "two", "three", "four")
    assert states(ended) == [State.DELIVERED, State.FAILED, State.DELIVERED, State.DELIVERED]
    # Its notice was refused as well.
    assert setup.texts() == ["one", "three", "four"]
    setup.fail(Rule(fault=Refuse(), at=2), Rule(fault=Refuse(), at=4))
    await setup.send_turn("u", "1", "2", "3", "4")
    assert setup.texts()[3:] == ["1", "⚠️ Part 2 of this answer is missing.", "4"]


@in_virtual_time
async def test_on_dead_halt_cancels_the_rest_of_that_turn_only(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation, on_dead="halt")
    setup.fail(Rule(fault=Refuse(), at=2))
    first = asyncio.create_task(setup.send_turn("t", "one", "two", "three", "four"))
    second = asyncio.create_task(setup.send_turn("u", "next"))
    assert states(await first) == [State.DELIVERED, State.FAILED, State.CANCELLED, State.CANCELLED]
    assert states(await second) == [State.DELIVERED]
    assert setup.texts() == ["one", "⚠️ Part 2 of this answer is missing.", "next"]


@in_virtual_time
async def test_a_halted_turn_sends_nothing_later(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation, on_dead="halt")
    setup.fail(Refuse())
    turn = await setup.courier.begin("t", HERE)
    await turn.send(post("one"))
    assert states(await turn.end(post("two"))) == [State.CANCELLED]
    assert setup.texts() == ["⚠️ Part 1 of this answer is missing."]


@in_virtual_time
async def test_an_unknown_part_is_held_with_a_notice_or_resent_and_marked(simulation: Simulation) -> None:
    hold = DeliverySetup(simulation, "unkeyed")
    hold.fail(NoAnswer())
    assert states(await hold.send_turn("t", "one", "two")) == [State.UNKNOWN, State.DELIVERED]
    notice = "⚠️ Part 1 of this answer may be missing: it is not known whether it arrived."
    assert hold.texts() == ["one", notice, "two"]
    resend = DeliverySetup(simulation, "unkeyed", on_unknown="resend")
    resend.fail(NoAnswer())
    ended = await resend.send_turn("t", "one", "two")
    assert [(row.state, row.may_be_double) for row in ended] == [(State.DELIVERED, True), (State.DELIVERED, False)]
    assert resend.texts() == ["one", "one", "two"]


def test_an_operation_the_channel_cannot_do_fails_alone() -> None:
    class PlainChannel(OnlySends):
        """A channel that can only post."""

        def __init__(self) -> None:
            self.texts: list[str] = []

        async def post(self, post: Post, *, key: str) -> Receipt:
            assert post.target == HERE
            assert key
            self.texts.append(post.body.text)
            return Receipt(message_id=str(len(self.texts)))

    async def scene(simulation: Simulation) -> None:
        setup, plain = DeliverySetup(simulation), PlainChannel()
        setup.courier.connect(plain)
        turn = await setup.courier.begin("t", HERE)
        turn.show(Typing(target=HERE))
        turn.show(edit("m1", "never mind"))
        ended = await turn.end(PostMedia(target=HERE, url="https://example.org/a.png"), post("text"))
        assert states(ended) == [State.FAILED, State.DELIVERED]
        assert plain.texts == ["⚠️ Part 1 of this answer is missing.", "text"]

    run(scene)


def test_deliveries_keep_their_order_with_an_unreliable_ledger() -> None:
    async def scene(simulation: Simulation) -> None:
        setup = DeliverySetup(simulation)
        slow = unsteady(setup.memory, simulation.source, longest_s=5.0, unavailable=0.1)
        setup.courier = setup.courier_of(slow)
        turns = [await setup.courier.begin(f"turn {number}", HERE) for number in range(10)]
        said = [turn.end(post(f"{number} a"), post(f"{number} b")) for number, turn in enumerate(turns)]
        await finished_within(asyncio.gather(*said), 3600.0)
        texts = setup.texts()
        assert sorted(texts) == sorted(f"{number} {part}" for number in range(10) for part in "ab")
        assert [text[0] for text in texts[::2]] == [text[0] for text in texts[1::2]]
        assert texts == [row.operation.body.text for row in await setup.rows() if isinstance(row.operation, Post)]

    for seed in range(10):
        run(scene, seed=seed)


@in_virtual_time
async def test_idle_conversations_leave_no_sender_and_no_task(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation, "unkeyed")
    setup.fail(Rule(fault=Refuse(), at=3, times=10), Rule(fault=Unreachable(), chance=0.3, times=None))
    targets = [Target(channel="simulated", chat=f"chat {number}") for number in range(200)]
    await asyncio.gather(*(setup.send_turn(target.chat, "one", "two", target=target) for target in targets))
    for target in targets:
        setup.courier.show(Typing(target=target))
    with pytest.raises(TurnMismatch):
        await setup.send_turn(targets[0].chat, "other", target=targets[0])
    await asyncio.sleep(10)
    assert setup.courier._senders == {}
    assert len(asyncio.all_tasks()) == 1


@in_virtual_time
async def test_a_turn_without_deliveries_ends(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation)
    turn = await setup.courier.begin("t", HERE)
    assert await turn.end(state=TurnState.CANCELLED) == []
    assert (await setup.courier.begin("t", HERE)).is_finished


@pytest.mark.parametrize("max_age_s", [0.0, -1.0, float("nan")])
def test_settings_that_send_nothing_are_refused(max_age_s: float) -> None:
    with pytest.raises(UsageError):
        CourierSettings(max_age_s=max_age_s)
    with pytest.raises(UsageError):
        CourierSettings(max_attempts=0)
