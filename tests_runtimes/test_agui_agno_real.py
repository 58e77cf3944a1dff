"""Real AG-UI servers of Agno, with the scripted model. Needs: agno[agui]==3.1.10 uvicorn"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agno.agent import Agent
from agno.db.in_memory import InMemoryDb
from agno.models.openai import OpenAIChat
from agno.os.interfaces.agui import AGUI
from agno.tools import tool
from agui_serving import Tool
from agui_turns import COMPLETED, Turns, of_kind, turns_of, wiping
from fastapi import FastAPI
from playing import openai_options, said, shown, terminal, tools

from tailrace.events import ToolStarted, TurnFailed

if TYPE_CHECKING:
    from tailrace.testing.scripted_model import ScriptedModel


def agent_of(model: ScriptedModel, *functions: Any, **more: Any) -> Agent:
    chat = OpenAIChat(id="scripted", **openai_options(model))
    return Agent(model=chat, tools=[*functions], telemetry=False, **more)


def serving(agent: Agent) -> FastAPI:
    application = FastAPI()
    application.include_router(AGUI(agent=agent).get_router())
    return application


class TestAgno(Turns):
    path = "/agui"
    thoughts = ""  # its interface sends none
    seals = ()
    usage = None
    failed_tool = "went wrong"
    # The reason without the status.
    refused = TurnFailed(message="the scripted model refuses this request", code="model_provider_error")
    broken = TurnFailed(message="the scripted model fails here", code="model_provider_error")

    def serving(self, model: ScriptedModel, tool: Tool) -> Any:
        return serving(agent_of(model, tool.bash, db=InMemoryDb(), add_history_to_context=True))


def test_an_agent_without_a_database_remembers_nothing(model: ScriptedModel) -> None:
    # Of the history it reads only the newest message.
    _, second = turns_of(serving(agent_of(model)), "[[scenario:hello]]", "[[scenario:recall]]", path="/agui")
    assert said(second) == "Before this: nothing."


def test_the_next_message_drops_a_waiting_call(model: ScriptedModel) -> None:
    wipe, wiped = wiping(model)
    agent = agent_of(model, tool(requires_confirmation=True)(wipe), db=InMemoryDb())
    first, second = turns_of(serving(agent), "[[scenario:wipe]]", "yes", path="/agui")
    # It repeats its text as another message, and does not report the question.
    assert shown(first) == ["I wipe it.", "I wipe it."]
    assert [event.name for event in of_kind(ToolStarted, first)] == ["wipe"]
    assert tools(first) == {}
    assert terminal(first) == terminal(second) == COMPLETED
    assert wiped == []
