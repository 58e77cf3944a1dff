"""Real AG-UI servers of LangGraph, with the scripted model. Needs: ag-ui-langgraph==0.0.47 fastapi uvicorn"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from ag_ui_langgraph import LangGraphAgent, add_langgraph_fastapi_endpoint
from agui_serving import LIMIT_S, Served, Tool
from agui_turns import COMPLETED, THOUGHTS, Turns, of_kind
from fastapi import FastAPI
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.tools import StructuredTool, ToolException
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import interrupt
from playing import play, play_turns, shown, terminal, thoughts, tools

from tailrace.events import ReasoningEnd, Status, TurnCompleted
from tailrace.runtimes.agui import AguiRuntime

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.testing.scripted_model import ScriptedModel

# ag-ui-langgraph uses what LangGraph would rather not have used any more.
pytestmark = pytest.mark.filterwarnings("ignore::langgraph.warnings.LangGraphDeprecatedSinceV10")


def chat(model: ScriptedModel, **more: Any) -> ChatOpenAI:
    return ChatOpenAI(
        model="scripted",
        base_url=f"{model.url}/v1",
        api_key="nobody-checks-it",
        max_retries=0,
        default_headers={"Connection": "close"},
        **more,
    )


def tool_of(function: Callable[..., Any], **more: Any) -> StructuredTool:
    return StructuredTool.from_function(coroutine=function, **more)


def serving(graph: Any, **options: Any) -> FastAPI:
    application = FastAPI()
    add_langgraph_fastapi_endpoint(application, LangGraphAgent(name="agent", graph=graph, **options))
    return application


def agent_of(served: Served) -> AguiRuntime:
    return AguiRuntime(served.url, read_timeout_s=LIMIT_S)


class TestLangGraph(Turns):
    thoughts = ""  # ChatOpenAI drops them where a model speaks Chat Completions: see below
    seals = ()
    keeps_threads = True
    # A tool that is at work comes to its end, and nothing follows.
    stops = False

    def serving(self, model: ScriptedModel, tool: Tool) -> Any:
        return serving(create_agent(chat(model), tools=[tool_of(tool.bash)], checkpointer=InMemorySaver()))

    def test_what_it_is_at_is_a_status(self, agent: AguiRuntime) -> None:
        events = play(agent, "[[scenario:tool]]")
        assert [event.text for event in of_kind(Status, events)] == ["model", "tools", "model"]


def test_thoughts_are_told_once_with_their_end(model: ScriptedModel) -> None:
    speaking = chat(model, use_responses_api=True, include=["reasoning.encrypted_content"])
    graph = create_agent(speaking, tools=[tool_of(Tool().bash)], checkpointer=InMemorySaver())
    with Served(serving(graph)) as served:
        events = play(agent_of(served), "[[scenario:tool]]")
    assert thoughts(events) == THOUGHTS
    assert [event.metadata for event in of_kind(ReasoningEnd, events)] == [None, None]
    assert shown(events) == ["Let me look.", "The tool has spoken."]
    assert terminal(events) == COMPLETED


def test_a_stream_of_the_responses_api_that_fails_is_complete_since_langchain_does_not_notice(
    model: ScriptedModel,
) -> None:
    graph = create_agent(chat(model, use_responses_api=True), tools=[], checkpointer=InMemorySaver())
    with Served(serving(graph)) as served:
        events = play(agent_of(served), "[[scenario:errmid]]")
    assert shown(events) == ["This is going to break"]
    assert terminal(events) == COMPLETED


def test_a_tool_that_fails_as_langchain_has_it_is_told_to_the_model(model: ScriptedModel) -> None:
    async def bash(command: str, description: str = "") -> str:
        """Run a command."""
        raise ToolException(f"{description}: {command[:4]} went wrong")

    graph = create_agent(chat(model), tools=[tool_of(bash, handle_tool_error=True)], checkpointer=InMemorySaver())
    with Served(serving(graph)) as served:
        events = play(agent_of(served), "[[scenario:toolfail]]", "s")
    assert list(tools(events).values()) == [("bash", "a command: echo went wrong", False)]
    assert shown(events) == ["Trying it.", "It went wrong."]


# A graph says what it has stopped to ask in an event of its own, and in the outcome of the run if it is told to.
OUTCOMES = pytest.mark.parametrize("outcome", [False, True], ids=["event", "outcome"])


@OUTCOMES
def test_a_graph_that_asks_somebody_ends_the_turn_with_its_question_and_the_next_message_answers(outcome: bool) -> None:
    def ask(_: Any) -> Any:
        return {"messages": [{"role": "assistant", "content": f"You said {interrupt('Really?')}."}]}

    builder = StateGraph(MessagesState)
    builder.add_node("ask", ask)
    builder.add_edge(START, "ask")
    builder.add_edge("ask", END)
    graph = builder.compile(checkpointer=InMemorySaver())
    with Served(serving(graph, emit_interrupt_outcome=outcome)) as served:
        first, second, third = play_turns(agent_of(served), "go", "yes, really", "again")
    assert shown(first) == ["Really?"]
    assert terminal(first) == TurnCompleted(stop_reason="interrupt")
    assert shown(second) == ["You said yes, really."]
    assert terminal(second) == COMPLETED
    assert shown(third) == ["Really?"]


@OUTCOMES
def test_a_call_that_wants_leave_is_refused_with_what_the_person_says_next(model: ScriptedModel, outcome: bool) -> None:
    tool = tool_of(Tool().bash)
    approval = HumanInTheLoopMiddleware(interrupt_on={"bash": True})
    graph = create_agent(chat(model), tools=[tool], middleware=[approval], checkpointer=InMemorySaver())
    with Served(serving(graph, emit_interrupt_outcome=outcome)) as served:
        first, second, third = play_turns(
            agent_of(served), "[[scenario:tool]]", "rather not, it is late", "[[scenario:recall]]"
        )
    assert shown(first) == ["Let me look.", "Waiting for approval: bash"]
    assert terminal(first) == TurnCompleted(stop_reason="interrupt")
    assert shown(second) == ["The tool has spoken."]
    refusals = [message for message in model.requests[1].body["messages"] if message["role"] == "tool"]
    assert ["rather not, it is late" in refusal["content"] for refusal in refusals] == [True]
    assert shown(third) == ["Before this: tool."]
