"""Questions of agents in the chat."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from delivery_setup import in_virtual_time

from gateway.gateway_setup import PERSON, GatewaySetup
from tailrace.gateway.questions import BUTTON
from tailrace.inbound import ButtonPress, Sender
from tailrace.operations import Target
from tailrace.runtimes.function import FunctionRuntime
from tailrace.runtimes.permissions import approval_question

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tailrace.ports import Prompt
    from tailrace.testing.virtual_time import Simulation
    from tailrace.testing.wire import PlatformMessage

QUESTION = approval_question("claude", "bash", {"command": "rm -rf build --token=sk-0123456789abcdefghij"})
CHAT = Target(channel="simulated", chat=PERSON)


class AskingSetup(GatewaySetup):
    """Its agent asks before it answers, and answers what was chosen."""

    def __init__(self, simulation: Simulation, **settings: object) -> None:
        super().__init__(simulation, **settings)  # type: ignore[arg-type]  # the settings of the setup

        async def answer(prompt: Prompt) -> AsyncIterator[str]:
            if prompt.text != "ask":
                yield f"ok: {prompt.text}"
                return
            choice = await self.questions.ask(QUESTION)
            yield f"chosen: {choice.name if choice else 'nothing'}"

        self.runtime = FunctionRuntime(answer, name="asking")  # type: ignore[arg-type]  # an async generator function

    def press(self, index: int, *, who: str = PERSON, event_id: str = "p") -> None:
        [asked] = open_questions(self)
        value = asked.body.buttons[index].value
        press = ButtonPress(channel="simulated", event_id=event_id, target=CHAT, value=value, sender=Sender(id=who))
        self.platform.add_inbound(press)

    async def asked(self) -> None:
        await self.until(lambda: bool(open_questions(self)))


def open_questions(setup: GatewaySetup) -> list[PlatformMessage]:
    """The messages in the chat that have the buttons of a question."""
    shown = setup.platform.history(PERSON)
    return [message for message in shown if any(button.value.startswith(BUTTON) for button in message.body.buttons)]


@pytest.mark.parametrize(("index", "name"), [(0, "Allow"), (1, "Deny")])
def test_a_button_answers_once(index: int, name: str) -> None:
    @in_virtual_time
    async def scene(simulation: Simulation) -> None:
        setup = AskingSetup(simulation)
        async with setup.running():
            setup.say("ask")
            await setup.asked()
            setup.press(index)
            setup.press(1 - index, event_id="second")
            await setup.until(lambda: len(setup.texts()) == 2)
            await asyncio.sleep(5)
            question, answer = setup.texts()
            assert answer == f"chosen: {name}"
            assert question.startswith("❓ claude wants to call bash\n")
            assert question.endswith(f"✓ {name}")
            assert "rm -rf build" in question
            assert "sk-0123" not in question
            assert not open_questions(setup)
            assert not await setup.ledger.stored("question")

    scene()


@pytest.mark.parametrize(("word", "name"), [("1", "Allow"), ("2", "Deny"), ("Yes!", "Allow"), ("deny", "Deny")])
def test_a_word_answers_and_is_no_prompt(word: str, name: str) -> None:
    @in_virtual_time
    async def scene(simulation: Simulation) -> None:
        setup = AskingSetup(simulation)
        async with setup.running():
            setup.say("ask")
            await setup.asked()
            setup.say("3")
            setup.say(word)
            await setup.until(lambda: setup.texts()[-1] == "ok: 3")
            assert setup.texts()[1] == f"chosen: {name}"
            assert len(setup.texts()) == 3
            assert not await setup.ledger.accepted_turns()

    scene()


@in_virtual_time
async def test_only_a_person_who_may_use_the_agent_answers(simulation: Simulation) -> None:
    setup = AskingSetup(simulation, allow=(PERSON,))
    async with setup.running():
        setup.say("ask")
        await setup.asked()
        setup.press(0, who="9")
        await asyncio.sleep(5)
        assert len(setup.texts()) == 1
        setup.press(1, event_id="mine")
        await setup.until(lambda: setup.texts()[-1] == "chosen: Deny")


@in_virtual_time
async def test_without_an_answer_it_is_refused_with_one_line(simulation: Simulation) -> None:
    setup = AskingSetup(simulation)
    async with setup.running():
        setup.say("ask")
        await setup.asked()
        await asyncio.sleep(920)
        assert setup.texts()[-1] == "chosen: nothing"
        assert "⚠️ Nobody answered within 15 minutes, so it was not allowed." in setup.texts()[0]
        assert not open_questions(setup)


@in_virtual_time
async def test_a_question_survives_a_restart_as_one_that_was_interrupted(simulation: Simulation) -> None:
    setup = AskingSetup(simulation)
    async with setup.running():
        setup.say("ask")
        await setup.asked()
        await asyncio.sleep(1)
        await setup.crash()
    async with setup.running():
        await setup.until(lambda: setup.texts()[-1] == "⚠️ The answer was interrupted here.")
        setup.press(0)
        await asyncio.sleep(5)
        assert setup.platform.counts["acknowledge"] == 1
        setup.say("hello")
        await setup.until(lambda: setup.texts()[-1] == "ok: hello")


@in_virtual_time
async def test_a_stopped_turn_closes_its_question(simulation: Simulation) -> None:
    setup = AskingSetup(simulation)
    async with setup.running():
        setup.say("ask")
        await setup.asked()
        setup.say("/stop")
        await setup.until(lambda: setup.texts()[-1] == "Stopped.")
        await setup.until(lambda: "not needed any more" in setup.texts()[0])
        assert not open_questions(setup)


@pytest.mark.parametrize(
    "value", [BUTTON, f"{BUTTON}x", f"{BUTTON}x:y", f"{BUTTON}{'1' * 50}:0", f"{BUTTON}a:99999999999"]
)
def test_a_wrong_button_disturbs_nothing(value: str) -> None:
    @in_virtual_time
    async def scene(simulation: Simulation) -> None:
        setup = AskingSetup(simulation)
        async with setup.running():
            press = ButtonPress(channel="simulated", event_id="p", target=CHAT, value=value, sender=Sender(id=PERSON))
            setup.platform.add_inbound(press)
            setup.say("hello")
            await setup.read("ok: hello")

    scene()
