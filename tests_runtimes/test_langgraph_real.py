"""Real runs of LangGraph, with scripted models. Needs: langgraph==1.2.20 langchain==1.3.14 langchain-openai==1.3.5"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import PIIMiddleware
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_stream_writer
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import RetryPolicy, interrupt
from pages import example
from playing import Work, cancel, leave, play, said, terminal
from pydantic import Field
from talking import MADE, THAT_IS_THAT, is_stopped_and_fails, talk_to_forecaster

from tailrace.events import (
    Status,
    TextDelta,
    TextRetracted,
    ToolFinished,
    ToolInput,
    ToolStarted,
    TurnCompleted,
    TurnFailed,
)
from tailrace.ports import Runtime
from tailrace.runtimes.langgraph import LangGraphRuntime
from tailrace.testing.scripted_model import ScriptedModel

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


class Scripted(BaseChatModel):
    """Sends these responses, one after the other. An exception is raised, and `Work` is awaited."""

    script: list[Any]
    received: list[int] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, *_: Any, **__: Any) -> Any:
        return self

    def _generate(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    async def _astream(self, messages: list[Any], *_: Any, **__: Any) -> AsyncIterator[ChatGenerationChunk]:
        self.received.append(len(messages))
        for piece in self.script.pop(0):
            if isinstance(piece, Exception):
                raise piece
            if isinstance(piece, Work):
                await piece.do()
            elif isinstance(piece, str):
                yield ChatGenerationChunk(message=AIMessageChunk(content=piece))
            else:
                yield ChatGenerationChunk(message=AIMessageChunk(content="", tool_call_chunks=[piece]))


def call(name: str, arguments: str, *, call_id: str = "c") -> Any:
    return {"id": call_id, "name": name, "args": arguments, "index": 0, "type": "tool_call_chunk"}


def more(arguments: str) -> Any:
    return {"id": None, "name": None, "args": arguments, "index": 0, "type": "tool_call_chunk"}


def one_node(node: Any, **options: Any) -> Any:
    graph = StateGraph(MessagesState)
    graph.add_node("node", node, **options)
    graph.add_edge(START, "node")
    graph.add_edge("node", END)
    return graph.compile(checkpointer=InMemorySaver())


@tool
async def weather(city: str) -> str:
    """Say what the weather is."""
    get_stream_writer()({"progress": f"looking up {city}"})
    return f"sunny in {city}"


def test_text_tools_and_an_answer() -> None:
    model = Scripted(script=[["Let me ", "look.", call("weather", '{"city":'), more('"Oslo"}')], ["Sunny", "."]])
    runtime: Runtime = LangGraphRuntime(create_agent(model, tools=[weather]))
    events = play(runtime)
    assert [event.text for event in events if isinstance(event, TextDelta)] == ["Let me ", "look.", "Sunny", "."]
    assert [event for event in events if isinstance(event, ToolStarted | ToolInput | ToolFinished)] == [
        ToolStarted(id="c", name="weather"),
        ToolInput(id="c", arguments={"city": "Oslo"}),
        ToolFinished(id="c", result="sunny in Oslo"),
    ]
    assert [event.text for event in events if isinstance(event, Status)] == ["looking up Oslo"]
    assert terminal(events) == TurnCompleted()


def test_a_session_is_a_thread_without_repeated_messages() -> None:
    model = Scripted(script=[["one"], ["two"], ["three"]])
    inner = create_agent(model, tools=[])
    runtime = LangGraphRuntime(one_node(inner))
    assert [said(play(runtime, session=session)) for session in ("a", "a", "b")] == ["one", "two", "three"]
    assert model.received == [1, 3, 1]


def test_an_agent_within_a_tool_speaks_under_its_call() -> None:
    inner = create_agent(
        Scripted(script=[["I ask. ", call("weather", '{"city":"Oslo"}', call_id="c2")], ["It says sunny."]]),
        tools=[weather],
    )

    @tool
    async def ask(question: str) -> str:
        """Ask the other one."""
        answered = await inner.ainvoke({"messages": [{"role": "user", "content": question}]})
        return str(answered["messages"][-1].content)

    outer = Scripted(script=[[call("ask", '{"question":"q"}', call_id="c1")], ["Sunny."]])
    events = play(LangGraphRuntime(create_agent(outer, tools=[ask])))
    assert said(events) == "Sunny."
    assert said(events, parent="c1") == "I ask. It says sunny."
    assert [(event.id, event.parent_tool_id) for event in events if isinstance(event, ToolFinished)] == [
        ("c2", "c1"),
        ("c1", None),
    ]


def test_a_node_that_is_tried_again_retracts_its_text() -> None:
    model = Scripted(script=[["one ", ConnectionError("broken")], ["one ", "two"]])

    async def node(state: Any) -> Any:
        return {"messages": [await model.ainvoke(state["messages"])]}

    events = play(LangGraphRuntime(one_node(node, retry_policy=RetryPolicy(initial_interval=0.0, jitter=False))))
    spoken = [event for event in events if isinstance(event, TextDelta | TextRetracted)]
    assert [type(event) for event in spoken] == [TextDelta, TextRetracted, TextDelta, TextDelta]


def test_an_answer_that_is_redacted_later_is_replaced() -> None:
    model = Scripted(script=[["write to me@", "x.example"]])
    agent = create_agent(model, tools=[], middleware=[PIIMiddleware("email", apply_to_output=True)])
    spoken = [event for event in play(LangGraphRuntime(agent)) if isinstance(event, TextDelta | TextRetracted)]
    assert isinstance(spoken[-2], TextRetracted)
    assert isinstance(spoken[-1], TextDelta)
    assert "me@" not in spoken[-1].text


def test_an_interrupt_ends_the_turn_with_its_question() -> None:
    events = play(LangGraphRuntime(one_node(lambda _: {"messages": [interrupt({"question": "really?"})]})))
    assert Status(text="Waiting for an answer: really?") in events
    assert terminal(events) == TurnCompleted(text="Waiting for an answer: really?", stop_reason="interrupted")


def test_an_exception_fails_the_turn() -> None:
    events = play(LangGraphRuntime(create_agent(Scripted(script=[["partial ", RuntimeError("kaboom")]]), tools=[])))
    assert said(events) == "partial "
    assert terminal(events) == TurnFailed(message="kaboom", code="runtime_raised")


def at_a_tool(work: Work) -> Runtime:
    @tool
    async def long_work() -> str:
        """Never end."""
        await work.do()
        return ""

    return LangGraphRuntime(create_agent(Scripted(script=[[call("long_work", "{}")]]), tools=[long_work]))


def at_a_model(work: Work) -> Runtime:
    return LangGraphRuntime(create_agent(Scripted(script=[["I wi", work]]), tools=[]))


@pytest.mark.parametrize(("runtime", "event"), [(at_a_tool, ToolInput), (at_a_model, TextDelta)])
def test_leaving_a_turn_stops_the_run(runtime: Any, event: Any) -> None:
    work = Work()
    leave(runtime(work), event)
    assert work.was_stopped == work.begun.is_set()  # the graph starts a tool only when the next event is read


@pytest.mark.parametrize("runtime", [at_a_tool, at_a_model])
def test_cancelling_the_reader_stops_the_run(runtime: Any) -> None:
    work = Work()
    cancel(runtime(work), work.begun)
    assert work.was_stopped


# At a terminal, and the example of the page
MY_APP = """
from pathlib import Path

from langchain.agents import create_agent
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver


def weather(city: str) -> str:
    \"\"\"Say what the weather is.\"\"\"
    Path("asked").write_text(city)
    return f"sunny in {city}"


agent = create_agent(ChatOpenAI(model="scripted", max_retries=0), tools=[weather], checkpointer=InMemorySaver())
"""


def test_a_conversation_with_a_stop_and_a_failure(tmp_path: Path, model: ScriptedModel) -> None:
    with talk_to_forecaster(MY_APP, tmp_path, model) as forecaster:
        assert "my_app:agent · a compiled graph of LangGraph" in forecaster.person.lines()[0]
        assert forecaster.answer("[[scenario:weather]]") == ["Let me look.", "", MADE, *THAT_IS_THAT]
        assert (tmp_path / "asked").read_text() == "Oslo"
        assert is_stopped_and_fails(forecaster) == []
        assert forecaster.answer("[[scenario:recall]]") == ["Before this: hello, weather, stall, http400."]


def test_the_example_answers_and_its_thread_remembers(capsys: pytest.CaptureFixture[str]) -> None:
    module = example("langgraph", "my_graph")
    asyncio.run(module.main())
    asyncio.run(module.main())
    assert capsys.readouterr().out == "There are 1.\nThere are 3.\n"
