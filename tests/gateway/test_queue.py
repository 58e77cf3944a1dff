"""The queue of a conversation: order, a full queue, edits, merging, crashes and long outages."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from delivery_setup import in_virtual_time

from gateway.gateway_setup import GatewaySetup
from tailrace.gateway.conversation import GIVEN_UP

if TYPE_CHECKING:
    from tailrace.testing.virtual_time import Simulation

INTERRUPTED = "⚠️ The answer was interrupted here."
BEGUN = "I begin with this answer now. "


@in_virtual_time
async def test_messages_are_answered_in_order(simulation: Simulation) -> None:
    setup = GatewaySetup(simulation)
    async with setup.running():
        for text in ("one", "two", "three"):
            setup.say(text)
        setup.say("other", chat="8")
        await setup.read("ok: one", "ok: two", "ok: three")
        await setup.read("ok: other", chat="8")
    assert setup.lines[0] == "ready: simulated"


@in_virtual_time
async def test_the_same_event_twice_is_answered_once(simulation: Simulation) -> None:
    setup = GatewaySetup(simulation)
    async with setup.running():
        setup.say("one", event_id="same")
        await setup.read("ok: one")
        setup.say("one", event_id="same")
        setup.say("two")
        await setup.read("ok: one", "ok: two")


@in_virtual_time
async def test_what_was_accepted_is_answered_after_a_crash(simulation: Simulation) -> None:
    setup = GatewaySetup(simulation)
    async with setup.running():
        setup.say("slow")
        setup.say("two")
        setup.say("three")
        await setup.until(lambda: setup.texts() == [BEGUN.strip()])
        await setup.crash()
    async with setup.running():
        await setup.read(BEGUN.strip(), INTERRUPTED, "ok: two", "ok: three")
    assert [prompt.text for prompt in setup.agent.prompts] == ["slow", "two", "three"]


@in_virtual_time
async def test_a_message_that_waits_is_replaced_by_its_edit(simulation: Simulation) -> None:
    setup = GatewaySetup(simulation)
    async with setup.running():
        setup.say("slow")
        second = setup.say("seccond")
        setup.say("third")
        await setup.until(lambda: setup.texts() == [BEGUN.strip()])
        setup.say("second", edited=True, message_id=second.message_id)
        await asyncio.sleep(1)
        setup.agent.go_on.set()
        await setup.read(f"{BEGUN}ok: slow", "ok: second", "ok: third")
        setup.say("too late", edited=True, message_id=second.message_id)
        setup.say("fourth")
        await setup.read(f"{BEGUN}ok: slow", "ok: second", "ok: third", "ok: fourth")


@in_virtual_time
async def test_an_edit_has_its_place_in_the_queue_after_a_crash(simulation: Simulation) -> None:
    setup = GatewaySetup(simulation)
    async with setup.running():
        setup.say("slow")
        second = setup.say("seccond")
        setup.say("third")
        await setup.until(lambda: setup.texts() == [BEGUN.strip()])
        setup.say("second", edited=True, message_id=second.message_id)
        await asyncio.sleep(1)
        await setup.crash()
    async with setup.running():
        await setup.read(BEGUN.strip(), INTERRUPTED, "ok: second", "ok: third")
        await asyncio.sleep(1)
        assert not await setup.ledger.accepted_turns()


@in_virtual_time
async def test_messages_that_wait_are_merged_by_setting(simulation: Simulation) -> None:
    setup = GatewaySetup(simulation, busy="merge")
    async with setup.running():
        for text in ("slow", "two", "three"):
            setup.say(text)
        await setup.until(lambda: setup.texts() == [BEGUN.strip()])
        setup.agent.go_on.set()
        await setup.read(f"{BEGUN}ok: slow", "ok: two\n\nthree")
        await setup.crash()
    async with setup.running():
        setup.say("four")
        await setup.read(f"{BEGUN}ok: slow", "ok: two\n\nthree", "ok: four")


@in_virtual_time
async def test_retry_repeats_all_messages_of_a_merged_prompt(simulation: Simulation) -> None:
    setup = GatewaySetup(simulation, busy="merge")
    async with setup.running():
        for text in ("slow", "two", "three"):
            setup.say(text)
        await setup.until(lambda: setup.texts() == [BEGUN.strip()])
        setup.agent.go_on.set()
        await setup.until(lambda: setup.texts()[-1] == "ok: two\n\nthree")
        setup.say("/retry")
        await setup.until(lambda: setup.texts()[1:] == ["ok: two\n\nthree"] * 2)


@in_virtual_time
async def test_a_message_interrupts_the_turn_by_setting(simulation: Simulation) -> None:
    setup = GatewaySetup(simulation, busy="interrupt")
    async with setup.running():
        setup.say("slow")
        await setup.until(lambda: setup.texts() == [BEGUN.strip()])
        setup.say("two")
        await setup.read(BEGUN.strip(), "ok: two")


@in_virtual_time
async def test_a_full_queue_tells_the_person_and_loses_nothing_silently(simulation: Simulation) -> None:
    setup = GatewaySetup(simulation, max_queue_size=2)
    async with setup.running():
        setup.say("slow")
        await setup.until(lambda: setup.texts() == [BEGUN.strip()])
        for text in ("two", "three", "four", "five"):
            setup.say(text)
        await setup.until(lambda: len(setup.texts()) == 3)
        assert all("did not take this message" in text for text in setup.texts()[1:])
        setup.agent.go_on.set()
        await setup.until(lambda: setup.texts()[-2:] == ["ok: two", "ok: three"])
    assert [prompt.text for prompt in setup.agent.prompts] == ["slow", "two", "three"]


@in_virtual_time
async def test_a_flood_of_one_person_gets_few_lines_and_others_are_served(simulation: Simulation) -> None:
    setup = GatewaySetup(simulation, max_queue_size=5)
    async with setup.running():
        setup.say("slow")
        await setup.until(lambda: setup.texts() == [BEGUN.strip()])
        for number in range(1000):
            setup.say(str(number))
        setup.say("hello", chat="8")
        await setup.read("ok: hello", chat="8")
        setup.agent.go_on.set()
        await setup.until(lambda: setup.texts()[-5:] == [f"ok: {number}" for number in range(5)])
    refusals = [text for text in setup.texts() if "did not take" in text]
    assert 1 <= len(refusals) <= 30
    assert not await setup.ledger.accepted_turns()


@in_virtual_time
async def test_after_a_long_outage_there_is_one_line(simulation: Simulation) -> None:
    setup = GatewaySetup(simulation, max_age_s=3600)
    async with setup.running():
        setup.say("slow")
        for text in ("two", "three"):
            setup.say(text)
        await setup.until(lambda: setup.texts() == [BEGUN.strip()])
        await asyncio.sleep(1)
        await setup.crash()
    await asyncio.sleep(7200)
    setup.say("four")
    async with setup.running():
        await setup.until(lambda: setup.texts()[-1:] == ["ok: four"])
    assert setup.texts() == [
        BEGUN.strip(),
        "⚠️ 2 messages of yours were not answered, because I was away for too long. Send again what you still need.",
        "ok: four",
    ]


@in_virtual_time
async def test_an_agent_that_fails_does_not_block_the_next_message(simulation: Simulation) -> None:
    setup = GatewaySetup(simulation)
    async with setup.running():
        setup.say("fail")
        setup.say("two")
        await setup.until(lambda: setup.texts()[-1:] == ["ok: two"])
    assert len(setup.texts()) == 2
    assert setup.texts()[0].startswith("⚠️ ")


@in_virtual_time
async def test_a_message_that_cannot_be_started_is_given_up(simulation: Simulation) -> None:
    setup = GatewaySetup(simulation)
    setup.agent_id = "missing"
    async with setup.running():
        setup.say("one")
        setup.say("two")
        await setup.read(GIVEN_UP, GIVEN_UP)
    assert not await setup.ledger.accepted_turns()
    assert not setup.agent.prompts


@pytest.mark.parametrize("text", ["x" * 1_000_000, "\ud800", "\u202e", "\x00", "", " \n"])
def test_strange_messages_are_answered(text: str) -> None:
    @in_virtual_time
    async def scene(simulation: Simulation) -> None:
        setup = GatewaySetup(simulation)
        async with setup.running():
            setup.say(text)
            await setup.until(lambda: bool(setup.texts()))
            setup.say("next", chat="8")
            await setup.read("ok: next", chat="8")

    scene()
