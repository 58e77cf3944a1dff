"""Real runs of Pydantic AI, with its own models for tests. Needs: pydantic-ai-slim[openai]==2.62.0"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from pages import example
from playing import Person, Work, cancel, leave, play, said, terminal
from pydantic import BaseModel
from pydantic_ai import Agent, DeferredToolRequests, ModelRetry
from pydantic_ai.models.function import DeltaThinkingPart, DeltaToolCall, FunctionModel
from pydantic_ai.models.test import TestModel
from talking import asks_before_it_calls, is_stopped_and_fails, talk_to_forecaster

from tailrace.events import (
    ReasoningDelta,
    ReasoningEnd,
    Status,
    TextDelta,
    TextRetracted,
    ToolFinished,
    ToolStarted,
    TurnCompleted,
    TurnFailed,
    Usage,
)
from tailrace.ports import Runtime
from tailrace.runtimes.pydantic_ai import PydanticAIRuntime
from tailrace.testing.scripted_model import ScriptedModel

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tailrace.runtimes.permissions import Policy


def scripted(*responses: list[Any]) -> FunctionModel:
    """A model that sends these responses, one after the other. A piece that is an exception is raised."""
    left = list(responses)

    async def stream(_messages: Any, _info: Any) -> AsyncIterator[Any]:
        for piece in left.pop(0):
            if isinstance(piece, Exception):
                raise piece
            yield piece

    return FunctionModel(stream_function=stream)


def call(name: str, arguments: str, *, index: int = 0) -> Any:
    return {index: DeltaToolCall(name=name, json_args=arguments, tool_call_id=f"c{index}")}


def test_thoughts_text_tools_and_an_answer() -> None:
    thought = {0: DeltaThinkingPart(content="I should look.", signature="s1")}
    agent = Agent(scripted([thought, "Let me ", "look.", call("weather", '{"city": "Oslo"}', index=1)], ["Sunny."]))

    @agent.tool_plain
    def weather(city: str) -> str:
        return f"sunny in {city}"

    runtime: Runtime = PydanticAIRuntime(agent)
    events = play(runtime, session="s")
    assert said(events) == "Let me look.Sunny."
    assert [event.text for event in events if isinstance(event, ReasoningDelta)] == ["I should look."]
    assert [event.metadata for event in events if isinstance(event, ReasoningEnd)] == ["s1"]
    assert [event for event in events if isinstance(event, ToolStarted | ToolFinished)] == [
        ToolStarted(id="c1", name="weather", arguments={"city": "Oslo"}),
        ToolFinished(id="c1", result="sunny in Oslo"),
    ]
    assert [event.scope for event in events if isinstance(event, Usage)] == ["turn"]
    assert terminal(events) == TurnCompleted(text="Sunny.")


def test_a_session_remembers_only_its_own_turns(home: Path) -> None:
    async def count(messages: list[Any], _: Any) -> AsyncIterator[str]:
        yield f"{len(messages)} messages"

    runtime = PydanticAIRuntime(Agent(FunctionModel(stream_function=count)))
    assert [said(play(runtime, session=session)) for session in ("a", "a", "b", "")] == [
        "1 messages",
        "3 messages",
        "1 messages",
        "1 messages",
    ]
    assert len(list((home / "pydantic-ai").iterdir())) == 2


def test_a_tool_that_asks_for_another_try_has_failed() -> None:
    agent = Agent(TestModel())
    tries: list[str] = []

    @agent.tool_plain
    def flaky(x: str) -> str:
        tries.append(x)
        if len(tries) == 1:
            raise ModelRetry("not like this")
        return "ok"

    events = play(PydanticAIRuntime(agent))
    assert [(event.result, event.is_error) for event in events if isinstance(event, ToolFinished)] == [
        ("not like this", True),
        ("ok", False),
    ]


def test_an_answer_that_a_validator_refuses_is_retracted() -> None:
    agent = Agent(scripted(["first ", "try"], ["second ", "try"]))

    @agent.output_validator
    def refuse(output: str) -> str:
        if output.startswith("first"):
            raise ModelRetry("no")
        return output

    events = play(PydanticAIRuntime(agent))
    spoken = [event for event in events if isinstance(event, TextDelta | TextRetracted)]
    assert [type(event) for event in spoken] == [TextDelta, TextDelta, TextRetracted, TextDelta, TextDelta]
    assert terminal(events) == TurnCompleted(text="second try")


def test_an_output_of_another_type_is_the_answer() -> None:
    class Place(BaseModel):
        city: str

    events = play(PydanticAIRuntime(Agent(TestModel(), output_type=Place)))
    assert not any(isinstance(event, ToolStarted) for event in events)
    assert terminal(events) == TurnCompleted(text='{"city":"a"}')


def test_a_call_that_waits_for_approval_ends_the_turn() -> None:
    agent = Agent(scripted([call("wipe", "{}")], ["then not"]), output_type=[str, DeferredToolRequests])

    @agent.tool_plain(requires_approval=True)
    def wipe() -> str:
        return "wiped"

    runtime = PydanticAIRuntime(agent)
    events = play(runtime, session="s")
    assert Status(text="Waiting for approval: wipe") in events
    assert terminal(events) == TurnCompleted(text="Waiting for approval: wipe", stop_reason="approval")
    assert terminal(play(runtime, session="s")) == TurnCompleted(text="then not")


def wiping(done: list[str]) -> Agent[None, Any]:
    calls = [call("wipe", f'{{"disk":"{disk}"}}', index=index) for index, disk in enumerate("ab")]
    agent = Agent(scripted(calls, ["done"]), output_type=[str, DeferredToolRequests])

    @agent.tool_plain(requires_approval=True)
    def wipe(disk: str) -> str:
        done.append(disk)
        return "wiped"

    return agent


def test_a_person_approves_one_call_and_denies_the_other() -> None:
    done: list[str] = []
    person = Person(True, False)
    runtime = PydanticAIRuntime(wiping(done), approver=person)
    events = play(runtime, session="s")
    assert [question.title for question in person.asked] == ["The agent wants to call wipe"] * 2
    assert done == ["a"]
    assert (said(events), terminal(events)) == ("done", TurnCompleted(text="done"))
    assert len([event for event in events if isinstance(event, ToolStarted)]) == 2


@pytest.mark.parametrize(("permissions", "wiped"), [("allow", ["a", "b"]), ("deny", [])])
def test_calls_that_need_approval_are_decided_by_the_policy(permissions: Policy, wiped: list[str]) -> None:
    done: list[str] = []
    events = play(PydanticAIRuntime(wiping(done), permissions=permissions))
    assert (sorted(done), terminal(events)) == (wiped, TurnCompleted(text="done"))


@pytest.mark.parametrize("broken", ["the model", "a tool"])
def test_an_exception_fails_the_turn(broken: str) -> None:
    raising = ["partial ", RuntimeError("kaboom")] if broken == "the model" else ["partial ", call("boom", "{}")]
    agent = Agent(scripted(raising))

    @agent.tool_plain
    def boom() -> str:
        raise RuntimeError("kaboom")

    events = play(PydanticAIRuntime(agent))
    assert said(events) == "partial "
    assert terminal(events) == TurnFailed(message="kaboom", code="runtime_raised")


def at_a_tool(work: Work) -> Runtime:
    agent = Agent(scripted([call("long_work", "{}")]))

    @agent.tool_plain
    async def long_work() -> str:
        await work.do()
        return ""

    return PydanticAIRuntime(agent)


def at_a_model(work: Work) -> Runtime:
    async def stream(_messages: Any, _info: Any) -> AsyncIterator[str]:
        yield "I wi"
        await work.do()

    return PydanticAIRuntime(Agent(FunctionModel(stream_function=stream)))


@pytest.mark.parametrize(("runtime", "event"), [(at_a_tool, ToolStarted), (at_a_model, TextDelta)])
def test_leaving_a_turn_stops_the_run(runtime: Any, event: Any) -> None:
    work = Work()
    leave(runtime(work), event)
    assert work.was_stopped == work.begun.is_set()  # the SDK starts a tool only when the next event is read


@pytest.mark.parametrize("runtime", [at_a_tool, at_a_model])
def test_cancelling_the_reader_stops_the_run(runtime: Any) -> None:
    work = Work()
    cancel(runtime(work), work.begun)
    assert work.was_stopped


# At a terminal, and the example of the page
MY_APP = """
from pathlib import Path

from pydantic_ai import Agent, DeferredToolRequests
from pydantic_ai.models.openai import OpenAIChatModel

agent = Agent(OpenAIChatModel("scripted"), output_type=[str, DeferredToolRequests])


@agent.tool_plain(requires_approval=True)
def weather(city: str) -> str:
    Path("asked").write_text(city)
    return f"sunny in {city}"
"""


def test_a_conversation_with_questions_a_stop_and_a_failure(tmp_path: Path, model: ScriptedModel) -> None:
    with talk_to_forecaster(MY_APP, tmp_path, model) as forecaster:
        assert "my_app:agent · an agent of Pydantic AI" in forecaster.person.lines()[0]
        asks_before_it_calls(forecaster, tmp_path, name="The agent", denied="The tool call was denied.")
        assert is_stopped_and_fails(forecaster) == []
        assert forecaster.answer("[[scenario:recall]]") == ["Before this: hello, weather, weather."]


def test_the_example_calls_its_tool_and_answers(capsys: pytest.CaptureFixture[str]) -> None:
    asyncio.run(example("pydantic-ai", "my_agent").main())
    assert capsys.readouterr().out == '{"weather":"sunny in a"}\n'
