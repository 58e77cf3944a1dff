"""Bugs that random turns and kills found, each as its smallest case."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from delivery_setup import HERE, DeliverySetup, FullDisk, edit, finished_within, in_virtual_time, post

from tailrace.capabilities import Capabilities, EditRules, Keyed, Rate, Unkeyed
from tailrace.deliveries import State, TurnState
from tailrace.delivery.call import outcome_of
from tailrace.delivery.presenting import present
from tailrace.errors import Fenced
from tailrace.events import BlockFinal, Event, TextDelta, TextRetracted, ToolStarted
from tailrace.operations import Ambiguous, Body, PostMedia
from tailrace.projector import ProjectorSettings
from tailrace.projector.message import TurnMessage, body_hash
from tailrace.projector.messages import TurnMessages
from tailrace.testing.faults import NoAnswer, TooMany

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tailrace.testing.virtual_time import Simulation


@in_virtual_time
async def test_a_turn_ends_without_deliveries_while_another_one_waits(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation)
    setup.fail(TooMany(3.0))
    waiting, silent = await setup.courier.begin("waiting", HERE), await setup.courier.begin("silent", HERE)
    sent = asyncio.create_task(waiting.send(post("one")))
    await asyncio.sleep(1.0)
    assert await silent.end() == []
    assert [row.state for row in await finished_within(sent, 10.0)] == [State.DELIVERED]


@in_virtual_time
async def test_a_turn_begins_when_the_ledger_is_available_again(simulation: Simulation) -> None:
    setup, disk = DeliverySetup(simulation), FullDisk()
    setup.courier = setup.courier_of(disk.around(setup))
    await setup.courier.begin("open", HERE)
    given_up = await setup.courier.begin("given up", HERE)
    given_up.close()
    disk.is_full = True
    beginning = asyncio.create_task(setup.courier.begin("new", HERE))
    await asyncio.sleep(1.0)
    disk.is_full = False
    await finished_within(beginning, 10.0)
    turn = await setup.memory.turn("given up")
    assert turn is not None
    assert turn.state is TurnState.INTERRUPTED


@in_virtual_time
async def test_a_turn_that_another_owner_has_ended_sends_nothing_more(simulation: Simulation) -> None:
    setup = DeliverySetup(simulation)
    first = await setup.courier.begin("t", HERE)
    await first.send(post("one"))
    await asyncio.sleep(60.0)
    other = setup.courier_of(setup.memory.another_owner())
    await (await other.begin("t", HERE)).end(post("one"))
    for _ in range(2):  # the first refusal ends the lease, and the sender could take a new one
        with pytest.raises(Fenced):
            await first.send(post("two"))
    assert setup.texts() == ["one"]


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("a secret")


def test_an_exception_that_cannot_be_shown_is_ambiguous() -> None:
    assert outcome_of(Unprintable()) == Ambiguous("the channel raised Unprintable")


async def hanging(*texts: str) -> AsyncIterator[Event]:
    for text in texts:
        yield TextDelta(text=text)
        await asyncio.sleep(0.01)
    await asyncio.Event().wait()


@in_virtual_time
async def test_a_crash_while_a_turn_is_repeated_repeats_no_text(simulation: Simulation) -> None:
    capabilities = Capabilities(idempotency=Keyed(window_s=300.0), limit=40, edits=EditRules(every_s=1.0))
    setup = DeliverySetup(simulation, capabilities)
    text = " ".join(f"word{number}" for number in range(10, 30))
    for length in (len(text), 60):  # the second process hangs within text that the first one has sent
        turn = await setup.courier.begin("t", HERE)
        showing = present(
            hanging(text[:length]), turn, capabilities, ProjectorSettings(presentation="live"), clock=setup.clock
        )
        task = asyncio.create_task(showing)
        await asyncio.sleep(20.0)
        await setup.crash()
        assert task.cancelled()
    await setup.recovery().sweep()
    *answer, line = setup.texts()
    assert "interrupted" in line
    assert " ".join(answer).split() == text.split()


@in_virtual_time
async def test_a_process_that_lost_its_conversation_while_it_was_paused_shows_nothing_more(
    simulation: Simulation,
) -> None:
    capabilities = Capabilities(idempotency=Keyed(window_s=300.0), per_chat=Rate(calls=1, per_s=10.0))
    setup = DeliverySetup(simulation, capabilities)
    paused = await setup.courier.begin("t", HERE)
    await paused.send(post("one"))
    message_id = setup.message_id()
    paused.show(edit(message_id, "decided before the pause"))
    await asyncio.sleep(1.0)
    setup.clock.suspend(60.0)
    await asyncio.sleep(0.06)
    shown = paused.show(edit(message_id, "preview"))
    other = setup.courier_of(setup.memory.another_owner())
    await (await other.begin("t", HERE)).end(post("one"), edit(message_id, "final"))
    await finished_within(shown, 30.0)
    assert setup.texts() == ["final"]


@in_virtual_time
async def test_what_a_resumed_turn_shows_first_is_not_sent_again_after_a_crash(simulation: Simulation) -> None:
    capabilities = Capabilities(idempotency=Keyed(window_s=300.0), limit=400, edits=EditRules(every_s=1.0))
    setup = DeliverySetup(simulation, capabilities)
    setup.fail(NoAnswer())
    text = " ".join(f"word{number}" for number in range(10, 30))
    settings = ProjectorSettings(presentation="live")
    for at in (40, len(text)):  # the first process waits for the receipt of its post, with the rest in a snapshot
        turn = await setup.courier.begin("t", HERE)
        events = hanging(text[:40], text[40:]) if at == 40 else hanging(text)
        task = asyncio.create_task(present(events, turn, capabilities, settings, clock=setup.clock))
        await asyncio.sleep(5.0)
        await setup.crash()
        assert task.cancelled()
    await setup.recovery().sweep()
    assert setup.texts() == [text, "⚠️ The answer was interrupted here."]


@in_virtual_time
async def test_a_post_that_may_have_arrived_is_not_repeated_when_its_resumed_turn_is_closed(
    simulation: Simulation,
) -> None:
    capabilities = Capabilities(idempotency=Unkeyed(), edits=EditRules(every_s=1.0))
    setup = DeliverySetup(simulation, capabilities)
    setup.fail(NoAnswer())
    for more in ("", " and the rest"):
        turn = await setup.courier.begin("t", HERE)
        events = hanging("This may have arrived", more)
        showing = present(events, turn, capabilities, ProjectorSettings(presentation="live"), clock=setup.clock)
        task = asyncio.create_task(showing)
        await asyncio.sleep(60.0)
        await setup.crash()
        assert task.cancelled()
    await setup.recovery().sweep()
    first, notice, *closing = setup.texts()
    assert (first, "may be missing" in notice) == ("This may have arrived", True)
    assert closing == [" and the rest", "⚠️ The answer was interrupted here."]


@in_virtual_time
async def test_paragraphs_of_an_interrupted_turn_stay_apart(simulation: Simulation) -> None:
    capabilities = Capabilities(idempotency=Unkeyed())
    setup = DeliverySetup(simulation, capabilities)
    setup.fail(NoAnswer())
    settings = ProjectorSettings(presentation="blocks", block_characters=0)
    turn = await setup.courier.begin("t", HERE)
    showing = present(hanging("one\n\n", "two\n\nthree\n\n"), turn, capabilities, settings, clock=setup.clock)
    task = asyncio.create_task(showing)
    await asyncio.sleep(5.0)  # two and three wait for the answer to the post of one
    await setup.crash()
    assert task.cancelled()
    await setup.recovery().sweep()
    assert setup.texts()[2:] == ["two\n\nthree", "⚠️ The answer was interrupted here."]


@in_virtual_time
async def test_a_part_that_is_being_posted_is_not_repeated_after_text_behind_it_was_taken_back(
    simulation: Simulation,
) -> None:
    capabilities = Capabilities(
        idempotency=Keyed(window_s=300.0), limit=40, dialect="plain", edits=EditRules(every_s=1.0)
    )
    setup = DeliverySetup(simulation, capabilities)
    setup.fail(NoAnswer())
    turn = await setup.courier.begin("t", HERE)

    async def events() -> AsyncIterator[Event]:
        yield BlockFinal(text="The **first** part of this answer")
        yield ToolStarted(id="t", name="search")
        yield TextDelta(text="and a second part that does not fit into it")
        await asyncio.sleep(1.0)
        yield TextRetracted(scope="block")
        await asyncio.Event().wait()

    settings = ProjectorSettings(presentation="live")
    task = asyncio.create_task(present(events(), turn, capabilities, settings, clock=setup.clock))
    await asyncio.sleep(10.0)
    await setup.crash()
    assert task.cancelled()
    await setup.recovery().sweep()
    assert setup.texts() == ["The first part of this answer", "⚠️ The answer was interrupted here."]


def test_a_lost_message_behind_a_lost_medium_is_not_posted_again() -> None:
    line = Body(text="⚠️ an error")
    medium = TurnMessage(media=PostMedia(target=HERE, url="http://a.b/c"), lost=True)
    messages = TurnMessages(
        Capabilities(idempotency=Keyed(window_s=300.0)), [medium, TurnMessage(sent=body_hash(line), lost=True)]
    )
    messages.add(line)
    assert [message.lost for message in messages.all] == [True]
