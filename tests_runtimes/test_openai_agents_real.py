"""Real runs of the OpenAI Agents SDK, with its own scripted model. Needs: openai-agents==0.24.0"""

from __future__ import annotations

import asyncio
import stat
from typing import TYPE_CHECKING, Any

import pytest
from agents.testing import ModelStep, ScriptedModel, assistant_message, function_call
from openai import AsyncOpenAI
from openai.types.responses import ResponseTextDeltaEvent
from pages import example
from playing import Person, Work, cancel, leave, openai_options, play, said, terminal, thoughts, tools
from talking import asks_before_it_calls, is_stopped_and_fails, talk_to_forecaster

from agents import (
    Agent,
    GuardrailFunctionOutput,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    function_tool,
    output_guardrail,
)
from tailrace.events import (
    Status,
    TextDelta,
    TextRetracted,
    ToolFinished,
    ToolInput,
    ToolStarted,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
)
from tailrace.ports import Runtime
from tailrace.runtimes.openai_agents import OpenAIAgentsRuntime, show_subagent
from tailrace.testing.scripted_model import ScriptedModel as ScriptedServer
from tailrace.testing.scripted_scenarios import Call, say, think

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tailrace.events import Event
    from tailrace.runtimes.permissions import Policy


def agent(*steps: Any, name: str = "agent", **options: Any) -> Agent[Any]:
    return Agent(name=name, model=ScriptedModel(list(steps)), **options)


@function_tool
async def weather(city: str) -> str:
    """Say what the weather is."""
    return f"sunny in {city}"


OSLO = {"city": "Oslo"}


@function_tool
async def boom(city: str) -> str:
    """Fail."""
    raise ValueError(city)


@function_tool(needs_approval=True)
async def wipe(disk: str) -> str:
    """Wipe a disk."""
    return f"wiped {disk}"


def test_a_session_remembers_only_its_own_turns(home: Path) -> None:
    asked = agent(*([assistant_message(f"answer {number}")] for number in range(3)))
    runtime = OpenAIAgentsRuntime(asked)
    play(runtime, "first", session="a")
    play(runtime, "second", session="a")
    assert [item.get("content") for item in asked.model.last_call.input if item.get("role") == "user"] == [
        "first",
        "second",
    ]
    play(runtime, "third", session="b")
    assert [item.get("content") for item in asked.model.last_call.input] == ["third"]
    assert stat.S_IMODE((home / "openai-agents.db").stat().st_mode) == 0o600


def test_without_a_session_nothing_is_saved(home: Path) -> None:
    play(OpenAIAgentsRuntime(agent([assistant_message("hello")])))
    play(OpenAIAgentsRuntime(agent([assistant_message("hello")]), session=lambda _: None), session="s")
    assert not home.exists()


def test_a_session_that_cannot_be_opened_fails_the_turn(home: Path) -> None:
    home.parent.mkdir(parents=True, exist_ok=True)
    home.write_text("a file, where a folder is needed", encoding="utf-8")
    *_, failed = play(OpenAIAgentsRuntime(agent([assistant_message("hello")])), session="s")
    assert isinstance(failed, TurnFailed)
    assert str(home) in failed.message


def test_an_agent_that_is_a_tool_speaks_under_its_call() -> None:
    writer = agent([assistant_message("sub answer")], name="writer")
    tool = writer.as_tool(tool_name="ask_writer", tool_description="Ask.", on_stream=show_subagent)
    events = play(
        OpenAIAgentsRuntime(
            agent(
                [function_call("ask_writer", '{"input":"q"}', call_id="c")],
                [assistant_message("parent answer")],
                tools=[tool],
            )
        )
    )
    assert said(events, parent="c") == "sub answer"
    assert said(events) == "parent answer"
    order = [event for event in events if isinstance(event, ToolStarted | TextDelta | ToolFinished)]
    assert [type(event) for event in order] == [ToolStarted, TextDelta, ToolFinished, TextDelta]


def test_a_handoff_is_a_status_and_no_tool() -> None:
    spanish = agent([assistant_message("hola")], name="spanish")
    events = play(
        OpenAIAgentsRuntime(
            agent([function_call("transfer_to_spanish", "{}", call_id="h")], name="triage", handoffs=[spanish])
        )
    )
    assert [event.text for event in events if isinstance(event, Status)] == ["Handed over to spanish"]
    assert not any(isinstance(event, ToolStarted) for event in events)
    assert terminal(events) == TurnCompleted(text="hola")


def test_text_that_an_output_guardrail_refuses_is_retracted() -> None:
    @output_guardrail
    async def never(*_: Any) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput(output_info=None, tripwire_triggered=True)

    events = play(OpenAIAgentsRuntime(agent([assistant_message("a secret")], output_guardrails=[never])))
    assert said(events) == "a secret"
    assert any(isinstance(event, TextRetracted) and event.scope == "turn" for event in events)
    end = terminal(events)
    assert isinstance(end, TurnFailed)
    assert end.code == "guardrail"


def test_too_many_turns_fail_the_turn() -> None:
    again = [function_call("weather", '{"city":"Oslo"}', call_id="c")]
    end = terminal(play(OpenAIAgentsRuntime(agent(again, again, tools=[weather]), max_turns=1)))
    assert isinstance(end, TurnFailed)
    assert (end.code, end.message) == ("max_turns", "Max turns (1) exceeded")


def test_a_call_that_waits_for_approval_ends_the_turn() -> None:
    runtime = OpenAIAgentsRuntime(
        agent(
            [function_call("wipe", '{"disk":"a"}', call_id="c")],
            [assistant_message("then not")],
            tools=[wipe],
        )
    )
    events = play(runtime, session="s")
    assert Status(text="Waiting for approval: wipe") in events
    assert terminal(events) == TurnCompleted(text="Waiting for approval: wipe", stop_reason="approval")
    assert terminal(play(runtime, session="s")) == TurnCompleted(text="then not")


def wiping() -> Agent[Any]:
    calls = [function_call("wipe", f'{{"disk":"{disk}"}}', call_id=disk) for disk in "ab"]
    return agent(calls, [assistant_message("done")], tools=[wipe], name="helper")


def wiped(events: list[Event]) -> list[Any]:
    return [event.result for event in events if isinstance(event, ToolFinished)]


def test_a_person_approves_one_call_and_denies_the_other() -> None:
    person = Person(True, False)
    events = play(OpenAIAgentsRuntime(wiping(), approver=person), session="s")
    asked = [(question.title, question.arguments) for question in person.asked]
    assert asked == [("helper wants to call wipe", {"disk": "a"}), ("helper wants to call wipe", {"disk": "b"})]
    results = {event.id: (event.result, event.is_error) for event in events if isinstance(event, ToolFinished)}
    assert results["a"] == ("wiped a", False)
    assert results["b"][1], "a denied call has failed, though the SDK does not say so"
    assert (said(events), terminal(events)) == ("done", TurnCompleted(text="done"))
    assert len([event for event in events if isinstance(event, ToolStarted)]) == 2


@pytest.mark.parametrize(("permissions", "done"), [("allow", True), ("deny", False)])
def test_calls_that_need_approval_are_decided_by_the_policy(permissions: Policy, done: bool) -> None:
    events = play(OpenAIAgentsRuntime(wiping(), permissions=permissions))
    assert ("wiped a" in wiped(events), "wiped b" in wiped(events)) == (done, done)
    assert terminal(events) == TurnCompleted(text="done")


@pytest.mark.parametrize("wrong", [Agent, 42, "an agent"])
def test_an_object_of_the_wrong_type_is_a_failed_turn(wrong: Any) -> None:
    failed = terminal(play(OpenAIAgentsRuntime(wrong)))
    assert isinstance(failed, TurnFailed)
    assert failed.message.startswith("openai-agents runs an agent of the OpenAI Agents SDK, but it was given")


def at_a_tool(work: Work) -> Runtime:
    @function_tool
    async def long_work() -> str:
        """Never end."""
        await work.do()
        return ""

    return OpenAIAgentsRuntime(agent([function_call("long_work", "{}", call_id="c")], tools=[long_work]))


def at_a_model(work: Work) -> Runtime:
    async def stream(_: Any) -> AsyncIterator[Any]:
        yield ResponseTextDeltaEvent(
            content_index=0,
            delta="I wi",
            item_id="m",
            logprobs=[],
            output_index=0,
            sequence_number=0,
            type="response.output_text.delta",
        )
        await work.do()

    return OpenAIAgentsRuntime(agent(ModelStep.stream(stream), model_settings=ModelSettings()))


@pytest.mark.parametrize(("runtime", "event"), [(at_a_tool, ToolInput), (at_a_model, TextDelta)])
def test_leaving_a_turn_stops_the_run(runtime: Any, event: Any) -> None:
    work = Work()
    leave(runtime(work), event, at_work=work.begun)
    assert work.was_stopped


@pytest.mark.parametrize("runtime", [at_a_tool, at_a_model])
def test_cancelling_the_reader_stops_the_run(runtime: Any) -> None:
    work = Work()
    cancel(runtime(work), work.begun)
    assert work.was_stopped


def over_the_wire(model: ScriptedServer, api: str, **options: Any) -> OpenAIAgentsRuntime:
    """An agent whose model is asked over HTTP, through one of the two APIs."""
    client = AsyncOpenAI(**openai_options(model))
    kind = OpenAIResponsesModel if api == "responses" else OpenAIChatCompletionsModel
    return OpenAIAgentsRuntime(Agent(name="agent", model=kind("scripted", client), **options))


LOOK = (think("I should ", "look."), say("Let me ", "look."), Call("weather", OSLO), Call("boom", OSLO))
WEATHER = (LOOK, (say("It is ", "sunny."),))
RAISED = "An error occurred while running the tool. Please try again."
both_apis = pytest.mark.parametrize("api", ["responses", "chat"])


@both_apis
def test_a_turn_over_the_wire(model: ScriptedServer, api: str) -> None:
    model.scenarios["weather"] = WEATHER
    runtime: Runtime = over_the_wire(model, api, tools=[weather, boom])
    events = play(runtime, "[[scenario:weather]]", session="s")
    assert events[0] == TurnStarted(turn_id="t", runtime="openai-agents", session_id="s")
    assert [event.text for event in events if isinstance(event, TextDelta)] == ["Let me ", "look.", "It is ", "sunny."]
    assert thoughts(events) == "I should look."
    given = [event for event in events if isinstance(event, ToolInput)]
    assert [event.arguments for event in given] == [{"city": "Oslo"}] * 2
    assert list(tools(events).values()) == [("weather", "sunny in Oslo", False), ("boom", RAISED, True)]
    assert terminal(events) == TurnCompleted(text="It is sunny.")
    assert [(asked.api, asked.turn) for asked in model.requests] == [(api, 0), (api, 1)]


@both_apis
@pytest.mark.parametrize("scenario", ["errmid", "cut"])
def test_a_failure_in_the_middle_keeps_the_text(model: ScriptedServer, api: str, scenario: str) -> None:
    events = play(over_the_wire(model, api), f"[[scenario:{scenario}]]")
    assert said(events).startswith("This is going to b")
    assert isinstance(terminal(events), TurnFailed)


# At a terminal, and the example of the page
MY_APP = """
from pathlib import Path

from agents import Agent, function_tool


@function_tool(needs_approval=True)
async def weather(city: str) -> str:
    Path("asked").write_text(city)
    return f"sunny in {city}"


agent = Agent(name="forecaster", model="scripted", tools=[weather])
"""


def test_a_conversation_with_questions_a_stop_and_a_failure(tmp_path: Path, model: ScriptedServer) -> None:
    with talk_to_forecaster(MY_APP, tmp_path, model) as forecaster:
        assert "my_app:agent · an agent of the OpenAI Agents SDK" in forecaster.person.lines()[0]
        asks_before_it_calls(forecaster, tmp_path, name="forecaster", denied="Tool execution was not approved.")
        logged = is_stopped_and_fails(forecaster)
        assert logged == ["Error streaming response"], "what the SDK logs is on a line of its own"
        assert forecaster.answer("[[scenario:recall]]") == ["Before this: hello, weather, weather, stall, http400."]


def test_the_example_calls_its_tool_and_answers(capsys: pytest.CaptureFixture[str]) -> None:
    module = example("openai-agents", "my_agent")
    asking = function_call("weather", '{"city": "Oslo"}', call_id="c")
    module.agent.model = ScriptedModel([[asking], [assistant_message("It is sunny.")]])
    asyncio.run(module.main())
    assert capsys.readouterr().out == "It is sunny.\n"
    (answered,) = [item for item in module.agent.model.last_call.input if item.get("type") == "function_call_output"]
    assert answered["output"] == "sunny in Oslo"
