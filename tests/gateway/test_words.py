"""The words in a chat: /stop, /new, /retry, /resend, /status, /help, and the buttons for them."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from delivery_setup import in_virtual_time
from msgspec.structs import replace

from gateway.gateway_setup import LIMITS, PERSON, GatewaySetup
from tailrace.capabilities import Unkeyed
from tailrace.gateway.words import WORDS
from tailrace.inbound import ButtonPress, Sender
from tailrace.operations import Target
from tailrace.testing.faults import Cut, Rule

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tailrace.testing.virtual_time import Simulation

BEGUN = "I begin with this answer now."


@in_virtual_time
async def test_stop_ends_the_turn_and_nothing_new_comes_after_its_acknowledgement(simulation: Simulation) -> None:
    setup = GatewaySetup(simulation)
    async with setup.running():
        setup.say("slow")
        await setup.until(lambda: setup.texts() == [BEGUN])
        setup.say("two")
        setup.say("", command="stop")
        await setup.read(BEGUN, "Stopped. 1 message waits.", "ok: two")
        setup.agent.go_on.set()
        await asyncio.sleep(30)
        assert setup.texts() == [BEGUN, "Stopped. 1 message waits.", "ok: two"]
        setup.say("/stop")
        await setup.until(lambda: setup.texts()[-1] == "Nothing is running.")


@in_virtual_time
async def test_stop_does_not_wait_for_an_agent_that_ignores_it(simulation: Simulation) -> None:
    setup = GatewaySetup(simulation)

    is_over = False

    async def stubborn(_: object) -> AsyncIterator[str]:
        yield "I begin with this answer now. "
        while not is_over:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(1000)

    setup.runtime = type(setup.runtime)(stubborn, name="stubborn")
    async with setup.running():
        setup.say("slow")
        await setup.until(lambda: setup.texts() == [BEGUN])
        setup.say("/stop")
        await setup.until(lambda: setup.texts() == [BEGUN, "Stopped."], within_s=2)
        setup.say("next")
        await setup.until(lambda: setup.texts() == [BEGUN, "Stopped.", BEGUN], within_s=10)
        is_over = True


@in_virtual_time
async def test_new_begins_a_session_after_the_messages_before_it(simulation: Simulation) -> None:
    setup = GatewaySetup(simulation)
    async with setup.running():
        for text in ("slow", "two", "/new", "three", "/new four"):
            setup.say(text)
        await setup.until(lambda: setup.texts() == [BEGUN])
        setup.agent.go_on.set()
        await setup.until(lambda: setup.texts()[-1] == "ok: four")
    assert setup.texts()[1:] == ["ok: two", "A new conversation begins.", "ok: three", "ok: four"]
    sessions = [prompt.session_id for prompt in setup.agent.prompts]
    assert sessions[0] == sessions[1]
    assert len(set(sessions)) == 3


@in_virtual_time
async def test_a_session_goes_on_after_a_restart(simulation: Simulation) -> None:
    setup = GatewaySetup(simulation)
    for text in ("one", "two"):
        async with setup.running():
            setup.say(text)
            await setup.until(lambda: len(setup.agent.prompts) > 0 and setup.texts()[-1:] == [f"ok: {text}"])  # noqa: B023
        await asyncio.sleep(60)
    await asyncio.sleep(3600)
    async with setup.running():
        setup.say("three")
        await setup.until(lambda: setup.texts()[-1:] == ["ok: three"])
    one, two, three = (prompt.session_id for prompt in setup.agent.prompts)
    assert one == two != three


@in_virtual_time
async def test_retry_answers_the_last_message_again(simulation: Simulation) -> None:
    setup = GatewaySetup(simulation)
    async with setup.running():
        setup.say("/retry")
        await setup.read("There is no message to answer again.")
        setup.say("one")
        await setup.until(lambda: setup.texts()[-1:] == ["ok: one"])
        setup.say("/retry")
        await setup.until(lambda: setup.texts()[1:] == ["ok: one", "ok: one"])
        setup.say("/retry")
        await setup.until(lambda: setup.texts()[1:] == ["ok: one", "ok: one", "ok: one"])


@in_virtual_time
async def test_retry_runs_an_interrupted_turn_again(simulation: Simulation) -> None:
    setup = GatewaySetup(simulation)
    async with setup.running():
        setup.say("slow")
        await setup.until(lambda: setup.texts() == [BEGUN])
        await asyncio.sleep(1)
        await setup.crash()
    setup.agent.go_on.set()
    async with setup.running():
        setup.say("/retry")
        await setup.until(lambda: setup.texts()[-1] == f"{BEGUN} ok: slow")
    assert setup.texts()[1] == "⚠️ The answer was interrupted here."


@in_virtual_time
async def test_resend_sends_what_is_on_hold_once(simulation: Simulation) -> None:
    setup = GatewaySetup(simulation, replace(LIMITS, idempotency=Unkeyed(), presentation="final"))
    held = "⚠️ Part 1 of this answer may be missing: it is not known whether it arrived."
    async with setup.running():
        setup.say("/resend")
        await setup.read("Nothing is on hold.")
        setup.platform.script.add(Rule(fault=Cut(), kind="post"))
        setup.say("one")
        await setup.until(lambda: setup.texts()[-1] == held)
        assert [button.value for button in setup.platform.history(PERSON)[-1].body.buttons] == ["/resend"]
        setup.say("/status")
        await setup.until(lambda: "1 part may be missing; /resend sends them." in setup.texts()[-1])
        setup.say("/resend")
        await setup.until(lambda: setup.texts()[-1] == "1 part was sent again.")
        assert setup.texts()[-2] == "ok: one"
        setup.say("/resend")
        await setup.until(lambda: setup.texts()[-1] == "Nothing is on hold.")


@in_virtual_time
async def test_status_says_what_runs_and_waits(simulation: Simulation) -> None:
    setup = GatewaySetup(simulation)
    async with setup.running():
        setup.say("slow")
        setup.say("two")
        await setup.until(lambda: setup.texts() == [BEGUN])
        await asyncio.sleep(8)
        setup.say("/status")
        await setup.until(lambda: len(setup.texts()) == 2)
    assert setup.texts()[1].startswith("An answer has been running for ")
    assert setup.texts()[1].endswith(" s. 1 message waits.")


@in_virtual_time
async def test_help_names_every_word_and_start_is_help(simulation: Simulation) -> None:
    setup = GatewaySetup(simulation)
    async with setup.running():
        setup.say("/help")
        setup.say("", command="start")
        await setup.until(lambda: len(setup.texts()) == 2)
    assert all(f"/{word}" in setup.texts()[0] for word in WORDS)
    assert setup.texts()[0] == setup.texts()[1]
    buttons = [button.value for button in setup.platform.history(PERSON)[0].body.buttons]
    assert buttons == [f"/{word}" for word in WORDS if word != "help"]


@in_virtual_time
async def test_text_behind_a_word_is_not_lost_silently(simulation: Simulation) -> None:
    setup = GatewaySetup(simulation)
    async with setup.running():
        setup.say("/status and what is the weather?")
        await setup.until(lambda: len(setup.texts()) == 1)
    assert "What you wrote behind /status was not read: and what is the weather?" in setup.texts()[0]


@pytest.mark.parametrize(
    ("command", "text", "prompt"),
    [("deploy", "now", "/deploy now"), ("", "/deploy now", "/deploy now"), ("", "/", "/")],
)
def test_a_word_of_the_agent_is_passed_on(command: str, text: str, prompt: str) -> None:
    @in_virtual_time
    async def scene(simulation: Simulation) -> None:
        setup = GatewaySetup(simulation)
        async with setup.running():
            setup.say(text, command=command)
            await setup.read(f"ok: {prompt}")

    scene()


@in_virtual_time
async def test_a_button_is_the_word_that_it_has(simulation: Simulation) -> None:
    setup = GatewaySetup(simulation, allow=(PERSON,))
    target = Target(channel="simulated", chat=PERSON)
    async with setup.running():
        setup.say("slow")
        await setup.until(lambda: setup.texts() == [BEGUN])
        stranger = ButtonPress(channel="simulated", event_id="b1", target=target, value="/stop", sender=Sender(id="9"))
        setup.platform.add_inbound(stranger)
        await asyncio.sleep(5)
        assert setup.texts() == [BEGUN]
        press = ButtonPress(channel="simulated", event_id="b2", target=target, value="/stop", sender=Sender(id=PERSON))
        setup.platform.add_inbound(press)
        await setup.read(BEGUN, "Stopped.")
        setup.platform.add_inbound(replace(press, event_id="b3", value="something else"))
        await asyncio.sleep(5)
        assert setup.texts() == [BEGUN, "Stopped."]


@in_virtual_time
async def test_a_message_that_is_being_written_has_a_stop_button(simulation: Simulation) -> None:
    setup = GatewaySetup(simulation)
    async with setup.running():
        setup.say("slow")
        await setup.until(lambda: setup.texts() == [BEGUN])
        [message] = setup.platform.history(PERSON)
        assert [button.label for button in message.body.buttons] == ["Stop"]
        setup.agent.go_on.set()
        await setup.read(f"{BEGUN} ok: slow")
        [message] = setup.platform.history(PERSON)
        assert message.body.buttons == ()
        setup.say("short")
        await setup.until(lambda: setup.texts()[-1] == "ok: short")
        assert setup.platform.history(PERSON)[1].body.buttons == ()
