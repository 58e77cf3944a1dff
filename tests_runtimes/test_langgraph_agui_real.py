"""Real AG-UI servers of LangGraph, with the scripted model. Needs: ag-ui-langgraph==0.0.47 fastapi uvicorn"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from ag_ui_langgraph import LangGraphAgent, add_langgraph_fastapi_endpoint
from agui_serving import Tool
from agui_turns import COMPLETED, THOUGHTS, Turns, of_kind, turns_of
from fastapi import FastAPI
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.tools import StructuredTool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import interrupt
from playing import openai_options, play, shown, terminal, thoughts

from tailrace.events import ReasoningEnd, Status, TurnCompleted
from tailrace.runtimes.agui import AguiRuntime

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.testing.scripted_model import ScriptedModel

# ag-ui-langgraph uses deprecated parts of LangGraph.
pytestmark = pytest.mark.filterwarnings("ignore::langgraph.warnings.LangGraphDeprecatedSinceV10")


def chat(model: ScriptedModel, **more: Any) -> ChatOpenAI:
    return ChatOpenAI(model="scripted", **openai_options(model), **more)


def tool_of(function: Callable[..., Any], **more: Any) -> StructuredTool:
    return StructuredTool.from_function(coroutine=function, **more)


def serving(graph: Any, **options: Any) -> FastAPI:
    application = FastAPI()
    add_langgraph_fastapi_endpoint(application, LangGraphAgent(name="agent", graph=graph, **options))
    return application


class TestLangGraph(Turns):
    thoughts = ""  # ChatOpenAI drops reasoning of the Chat Completions API: see below
    seals = ()
    keeps_threads = True
    # A running tool ends by itself, and nothing follows.
    stops = False

    def serving(self, model: ScriptedModel, tool: Tool) -> Any:
        return serving(create_agent(chat(model), tools=[tool_of(tool.bash)], checkpointer=InMemorySaver()))

    def test_a_step_is_a_status(self, agent: AguiRuntime) -> None:
        events = play(agent, "[[scenario:tool]]")
        assert [event.text for event in of_kind(Status, events)] == ["model", "tools", "model"]


def test_reasoning_of_the_responses_api_is_shown_once(model: ScriptedModel) -> None:
    speaking = chat(model, use_responses_api=True, include=["reasoning.encrypted_content"])
    graph = create_agent(speaking, tools=[tool_of(Tool().bash)], checkpointer=InMemorySaver())
    (events,) = turns_of(serving(graph), "[[scenario:tool]]")
    assert thoughts(events) == THOUGHTS
    assert [event.metadata for event in of_kind(ReasoningEnd, events)] == [None, None]
    assert shown(events) == ["Let me look.", "The tool has spoken."]
    assert terminal(events) == COMPLETED


def test_a_failed_responses_stream_counts_as_complete(
    model: ScriptedModel,
) -> None:
    # LangChain does not notice the failure.
    graph = create_agent(chat(model, use_responses_api=True), tools=[], checkpointer=InMemorySaver())
    (events,) = turns_of(serving(graph), "[[scenario:errmid]]")
    assert shown(events) == ["This is going to break"]
    assert terminal(events) == COMPLETED


# A graph reports an interrupt in a custom event, and with this option in the outcome of the run.
OUTCOMES = pytest.mark.parametrize("outcome", [False, True], ids=["event", "outcome"])


@OUTCOMES
def test_the_next_message_answers_an_interrupt(outcome: bool) -> None:
    def ask(_: Any) -> Any:
        return {"messages": [{"role": "assistant", "content": f"You said {interrupt('Really?')}."}]}

    builder = StateGraph(MessagesState)
    builder.add_node("ask", ask)
    builder.add_edge(START, "ask")
    builder.add_edge("ask", END)
    graph = builder.compile(checkpointer=InMemorySaver())
    application = serving(graph, emit_interrupt_outcome=outcome)
    first, second, third = turns_of(application, "go", "yes, really", "again")
    assert shown(first) == ["Really?"]
    assert terminal(first) == TurnCompleted(stop_reason="interrupt")
    assert shown(second) == ["You said yes, really."]
    assert terminal(second) == COMPLETED
    assert shown(third) == ["Really?"]


@OUTCOMES
def test_the_next_message_rejects_a_waiting_call(model: ScriptedModel, outcome: bool) -> None:
    tool = tool_of(Tool().bash)
    approval = HumanInTheLoopMiddleware(interrupt_on={"bash": True})
    graph = create_agent(chat(model), tools=[tool], middleware=[approval], checkpointer=InMemorySaver())
    application = serving(graph, emit_interrupt_outcome=outcome)
    first, second, third = turns_of(application, "[[scenario:tool]]", "rather not, it is late", "[[scenario:recall]]")
    assert shown(first) == ["Let me look.", "Waiting for approval: bash"]
    assert terminal(first) == TurnCompleted(stop_reason="interrupt")
    assert shown(second) == ["The tool has spoken."]
    refusals = [message for message in model.requests[1].body["messages"] if message["role"] == "tool"]
    assert ["rather not, it is late" in refusal["content"] for refusal in refusals] == [True]
    assert shown(third) == ["Before this: tool."]
