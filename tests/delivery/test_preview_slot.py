"""Interim operations: their outcomes, and their order among themselves and with deliveries."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from delivery_setup import HERE, THERE, DeliverySetup, OnlySends, edit, finished_within, in_virtual_time, post, states
from msgspec.structs import replace

from tailrace.capabilities import Capabilities, Rate, Unkeyed
from tailrace.deliveries import State
from tailrace.operations import (
    Ambiguous,
    AppendStream,
    Body,
    CloseStream,
    Delete,
    Delivered,
    Draft,
    Interim,
    NotNow,
    OpenStream,
    Outcome,
    Receipt,
    Refused,
    Target,
    Task,
    Typing,
)
from tailrace.testing.faults import Cut, Delayed, Fault, Late, NoAnswer, Refuse, Rule, ServerError, TooMany
from tailrace.testing.virtual_time import Simulation, run

if TYPE_CHECKING:
    from tailrace.delivery import OpenTurn

NOT_SHOWN = NotNow("a durable operation came first", retry_after=0.0)
SLOW = Capabilities(idempotency=Unkeyed(), per_chat=Rate(calls=1, per_s=10.0))


def shown_as(message_id: str) -> Delivered:
    return Delivered(Receipt(message_id=message_id))


def draft(text: str, draft_id: int = 1) -> Draft:
    return Draft(target=HERE, draft_id=draft_id, body=Body(text=text))


def append(stream_id: str, text: str, *tasks: Task) -> AppendStream:
    return AppendStream(target=HERE, stream_id=stream_id, text=text, tasks=tasks)


def called(setup: DeliverySetup) -> list[str]:
    return [call.kind for call in setup.platform.calls]


async def turn_with_message(setup: DeliverySetup) -> tuple[OpenTurn, str]:
    """A turn with a live message."""
    turn = await setup.courier.begin("t", HERE)
    [row] = await turn.send(post("a"))
    assert row.receipt is not None
    return turn, row.receipt.message_id


@in_virtual_time
async def test_the_outcome_of_a_shown_operation_is_its_receipt(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation)
    turn, live = await turn_with_message(setup)
    assert await turn.show(Typing(target=HERE)) == shown_as("")
    assert await turn.show(draft("thinking", 7)) == shown_as("7")
    assert [seen.text for seen in setup.platform.drafts("here", simulation.clock.monotonic())] == ["thinking"]
    assert [await turn.show(edit(live, "b")) for _ in range(2)] == [shown_as(live)] * 2
    [row] = await turn.send(OpenStream(target=HERE, body=Body(text="s")))
    assert row.receipt is not None
    stream = row.receipt.message_id
    assert await turn.show(append(stream, "t")) == shown_as(stream)
    assert setup.texts() == ["b", "st"]


@pytest.mark.parametrize(
    ("fault", "outcome"),
    [
        (Refuse(), Refused("the bot was blocked")),
        (TooMany(30.0), NotNow("too many requests", retry_after=30.0)),
        (ServerError(), NotNow("the platform has a problem")),
        (Cut(), Ambiguous("the answer was cut")),
        (NoAnswer(), Ambiguous("no answer within 30 s")),
    ],
)
@in_virtual_time
async def test_the_outcome_is_the_answer_of_the_channel(simulation: Simulation, fault: Fault, outcome: Outcome) -> None:
    setup = DeliverySetup(simulation)
    turn, live = await turn_with_message(setup)
    setup.fail(fault)
    assert await finished_within(turn.show(edit(live, "b")), 30.1) == outcome


@in_virtual_time
async def test_typing_without_an_answer_delays_nothing_for_long(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation)
    turn = await setup.courier.begin("t", HERE)
    setup.fail(NoAnswer())
    assert await finished_within(turn.show(Typing(target=HERE)), 5.1) == Ambiguous("no answer within 5 s")


@in_virtual_time
async def test_an_edit_that_is_performed_late_does_not_replace_the_final_text(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation)
    turn, live = await turn_with_message(setup)
    setup.fail(Late(after_s=8.0, answered=False))
    shown = turn.show(edit(live, "b"))
    await asyncio.sleep(0.1)
    await turn.end(edit(live, "whole"))
    assert isinstance(await shown, Ambiguous)
    await asyncio.sleep(60.0)
    assert setup.texts() == ["whole"]


@in_virtual_time
async def test_the_outcome_of_an_edit_of_a_deleted_message_is_gone(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation)
    turn, live = await turn_with_message(setup)
    setup.delete_message(live)
    assert await turn.show(edit(live, "b")) == Refused("there is no such message", gone=True)


@in_virtual_time
async def test_only_the_latest_operation_per_message_is_shown(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation, SLOW)
    turn, live = await turn_with_message(setup)
    edits = [turn.show(edit(live, text)) for text in ("b", "c", "d")]
    drafts = [turn.show(draft(text, draft_id)) for text, draft_id in (("x", 1), ("y", 2), ("z", 1))]
    typing = [turn.show(Typing(target=HERE)) for _ in range(2)]
    assert await asyncio.gather(*edits) == [NOT_SHOWN, NOT_SHOWN, shown_as(live)]
    assert await asyncio.gather(*drafts) == [NOT_SHOWN, shown_as("2"), shown_as("1")]
    assert await asyncio.gather(*typing) == [NOT_SHOWN, shown_as("")]
    assert setup.texts() == ["d"]
    assert called(setup) == ["post", "edit", "draft", "draft", "typing"]
    assert setup.platform.complaints == []
    seen = setup.platform.drafts("here", simulation.clock.monotonic())
    assert [each.text for each in seen] == ["z", "y"]


@in_virtual_time
async def test_a_stream_takes_one_text_after_the_other(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation, SLOW)
    turn, live = await turn_with_message(setup)
    [row] = await turn.send(OpenStream(target=HERE, body=Body(text="s")))
    assert row.receipt is not None
    stream = row.receipt.message_id
    read = Task(id="1", title="read")
    shown = [turn.show(append(stream, "t", read)), turn.show(edit(live, "b")), turn.show(append(stream, "too early"))]
    assert await asyncio.gather(*shown) == [shown_as(stream), shown_as(live), NOT_SHOWN]
    assert await turn.show(append(stream, "u")) == shown_as(stream)
    assert called(setup) == ["post", "open_stream", "append_stream", "edit", "append_stream"]
    assert [(message.text, message.tasks) for message in setup.platform.history("here")][1] == ("stu", (read,))


@in_virtual_time
async def test_a_durable_operation_drops_pending_interim_ones(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation, SLOW)
    turn, live = await turn_with_message(setup)
    waiting = [turn.show(edit(live, "b")), turn.show(Typing(target=HERE)), turn.show(draft("c"))]
    await asyncio.sleep(5)
    ending = asyncio.create_task(turn.end(edit(live, "final")))
    await asyncio.sleep(0)
    assert [each.result() for each in waiting] == [NOT_SHOWN] * 3
    assert await turn.show(edit(live, "after the end")) == NOT_SHOWN
    assert await setup.courier.show(edit(live, "while it is under way")) == NOT_SHOWN
    await ending
    assert setup.platform.calls[-1].at == pytest.approx(10.05), "a dropped operation used no capacity"
    assert setup.texts() == ["final"]


@in_virtual_time
async def test_a_pending_operation_can_be_replaced_and_overtaken(
    simulation: Simulation,
) -> None:
    setup = DeliverySetup(simulation, SLOW)
    turn, live = await turn_with_message(setup)
    typing = turn.show(Typing(target=HERE))
    await asyncio.sleep(5)
    early = turn.show(edit(live, "early"))
    await asyncio.sleep(4)
    late = turn.show(edit(live, "late"))
    assert await asyncio.gather(*[typing, early, late]) == [shown_as(""), NOT_SHOWN, shown_as(live)]
    assert called(setup) == ["post", "edit", "typing"]
    assert setup.texts() == ["late"]


@in_virtual_time
async def test_an_operation_that_cannot_be_shown_is_dropped_at_once(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation, connected=False)
    nowhere = setup.courier.show(Typing(target=HERE))
    assert await finished_within(nowhere, 0.1) == NOT_SHOWN
    setup.courier.connect(setup.channel)
    _, live = await turn_with_message(setup)
    await setup.crash()
    again = await setup.courier.begin("t", HERE)
    assert again.show(edit(live, "said before")).result() == NOT_SHOWN
    await again.end()
    over = await setup.courier.begin("t", HERE)
    assert over.show(edit(live, "over")).result() == NOT_SHOWN
    await setup.courier.drain()
    assert setup.courier.show(Typing(target=HERE)).result() == NOT_SHOWN
    assert setup.platform.counts["edit"] == 0


@in_virtual_time
async def test_nothing_interim_is_sent_to_a_platform_that_does_not_answer(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation, "unkeyed")
    turn, live = await turn_with_message(setup)
    setup.fail(Rule(fault=ServerError(), times=5, kind="edit"))
    for _ in range(5):
        assert await turn.show(edit(live, "b")) == NotNow("the platform has a problem")
    assert await turn.show(edit(live, "c")) == NOT_SHOWN
    assert setup.platform.counts["edit"] == 5


class MuteChannel(OnlySends):
    """A channel that can only post."""


@pytest.mark.parametrize("operation", [Typing(target=HERE), edit("m1", "b"), draft("c"), append("m1", "d")])
@in_virtual_time
async def test_an_interim_operation_the_channel_cannot_do_is_refused(
    simulation: Simulation, operation: Interim
) -> None:
    setup = DeliverySetup(simulation)
    setup.courier.connect(MuteChannel())
    name = type(operation).__struct_config__.tag
    assert await setup.courier.show(operation) == Refused(f"the channel simulated cannot do this: {name}")


@pytest.mark.parametrize("within_s", [0.0, 30.0])
@pytest.mark.parametrize("fault", [Delayed(3.0), NoAnswer()])
@in_virtual_time
async def test_draining_resolves_all_futures(simulation: Simulation, fault: Fault, within_s: float) -> None:
    setup = DeliverySetup(simulation, SLOW)
    setup.fail(Rule(fault=fault, kind="typing"))
    in_flight = setup.courier.show(Typing(target=THERE))
    turn, live = await turn_with_message(setup)
    waiting = turn.show(edit(live, "b"))
    await asyncio.sleep(1)
    just_now = setup.courier.show(Typing(target=replace(HERE, chat="other")))
    await setup.courier.drain(within_s)
    assert (waiting.result(), just_now.result()) == (NOT_SHOWN, NOT_SHOWN)
    assert in_flight.result() == Ambiguous("the call was cancelled")
    assert len(asyncio.all_tasks()) == 1


@in_virtual_time
async def test_a_caller_that_stops_waiting_harms_nobody(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation, SLOW)
    turn, live = await turn_with_message(setup)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(turn.show(edit(live, "b")), 1.0)
    assert await turn.show(draft("c")) == shown_as("1")
    assert setup.texts() == ["b"]


@pytest.mark.parametrize("seed", range(20))
def test_every_future_is_resolved_without_an_exception(seed: int) -> None:
    async def scene(simulation: Simulation) -> None:
        source = simulation.source
        setup = DeliverySetup(simulation, replace(SLOW, per_chat=Rate(calls=2, per_s=1.0)))
        for fault in (TooMany(2.0), ServerError(), Cut(), NoAnswer(), Refuse(), Delayed(1.0)):
            setup.fail(Rule(fault=fault, chance=0.05, times=None))
        shown: list[asyncio.Future[Outcome]] = []

        async def use_turns(number: int) -> None:
            target = Target(channel="simulated", chat=f"chat {number % 2}", thread=str(number))
            for turn_number in range(3):
                turn = await setup.courier.begin(f"turn {number} {turn_number}", target)
                for part in range(3):
                    await turn.send(post(f"part {part}", target))
                    for _ in range(source.randrange(6)):
                        operations: tuple[Interim, ...] = (
                            edit("m1", str(source.random()), target),
                            Typing(target=target),
                            Draft(target=target, draft_id=source.randrange(2), body=Body(text="d")),
                            AppendStream(target=target, stream_id="m2", text="s"),
                        )
                        shown.append(turn.show(source.choice(operations)))
                        await asyncio.sleep(source.random())
                await turn.end()

        tasks = [asyncio.create_task(use_turns(number)) for number in range(4)]
        await asyncio.sleep(source.random() * 60)
        setup.courier.disconnect("simulated")
        await asyncio.sleep(source.random() * 5)
        setup.courier.connect(setup.channel)
        await asyncio.wait(tasks, timeout=source.random() * 60)
        await setup.courier.drain(source.choice((0.0, 10.0)))
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert len(shown) > 10
        assert all(each.done() and not each.cancelled() and each.exception() is None for each in shown)

    run(scene, seed=seed)


@in_virtual_time
async def test_the_latest_interim_edit_is_shown_and_none_is_recorded(simulation: Simulation) -> None:
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
async def test_a_resumed_turn_shows_no_older_text(simulation: Simulation) -> None:
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
async def test_a_retry_after_of_an_interim_edit_delays_the_final_too(simulation: Simulation) -> None:
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
async def test_a_stream_ends_with_the_whole_text_even_if_it_was_deleted(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation)
    for name, gone in (("t", False), ("u", True)):
        target = Target(channel="simulated", chat=name)
        turn = await setup.courier.begin(name, target)
        [row] = await turn.send(OpenStream(target=target, body=Body(text="a")))
        assert row.receipt is not None
        stream = row.receipt.message_id
        turn.show(AppendStream(target=target, stream_id=stream, text="b"))
        await asyncio.sleep(1)
        assert setup.texts(target) == ["ab"]
        if gone:
            setup.delete_message(stream, target)
        [row] = await turn.end(CloseStream(target=target, stream_id=stream, body=Body(text="whole")))
        assert row.state is State.DELIVERED
        assert setup.texts(target) == ["whole"]


@in_virtual_time
async def test_a_failed_deletion_is_not_reported_as_a_missing_part(
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
async def test_the_final_of_a_deleted_live_message_is_one_new_message(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation, "unkeyed")
    turn = await setup.courier.begin("t", HERE)
    await turn.send(post("live"))
    live = setup.message_id()
    setup.delete_message(live)
    ended = await turn.end(edit(live, "final"), post("more"))
    assert setup.texts() == ["final", "more"]
    assert [(row.ordinal, row.state) for row in ended] == [(-2, State.DELIVERED), (3, State.DELIVERED)]
    assert ended[0].receipt == Receipt(message_id=setup.platform.history("here")[1].message_id)
    assert await setup.states() == {
        1: State.DELIVERED,
        2: State.SUPERSEDED,
        -2: State.DELIVERED,
        3: State.DELIVERED,
    }
