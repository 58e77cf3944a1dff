"""Real AG-UI servers of Agno, with the scripted model. Needs: agno[agui]==3.1.10 uvicorn"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agno.agent import Agent
from agno.db.in_memory import InMemoryDb
from agno.models.openai import OpenAIChat
from agno.os.interfaces.agui import AGUI
from agno.tools import tool
from agui_serving import LIMIT_S, Served, Tool
from agui_turns import COMPLETED, Turns, of_kind
from fastapi import FastAPI
from playing import play_turns, said, shown, terminal, tools

from tailrace.events import ToolStarted, TurnFailed
from tailrace.runtimes.agui import AguiRuntime
from tailrace.testing.scripted_scenarios import Call, say

if TYPE_CHECKING:
    from tailrace.testing.scripted_model import ScriptedModel


def agent_of(model: ScriptedModel, *functions: Any, **more: Any) -> Agent:
    chat = OpenAIChat(
        id="scripted",
        base_url=f"{model.url}/v1",
        api_key="nobody-checks-it",
        max_retries=0,
        default_headers={"Connection": "close"},
    )
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
    with Served(serving(agent_of(model)), "/agui") as served:
        agent = AguiRuntime(served.url, read_timeout_s=LIMIT_S)
        _, second = play_turns(agent, "[[scenario:hello]]", "[[scenario:recall]]")
    assert said(second) == "Before this: nothing."


def test_the_next_message_drops_a_waiting_call(model: ScriptedModel) -> None:
    model.scenarios["wipe"] = ((say("I wipe it."), Call("wipe", {"disk": "a"})), (say("Wiped."),))
    wiped: list[str] = []

    @tool(requires_confirmation=True)
    def wipe(disk: str) -> str:
        """Wipe a disk."""
        wiped.append(disk)
        return "wiped"

    with Served(serving(agent_of(model, wipe, db=InMemoryDb())), "/agui") as served:
        first, second = play_turns(AguiRuntime(served.url, read_timeout_s=LIMIT_S), "[[scenario:wipe]]", "yes")
    # It repeats its text as another message, and does not report the question.
    assert shown(first) == ["I wipe it.", "I wipe it."]
    assert [event.name for event in of_kind(ToolStarted, first)] == ["wipe"]
    assert tools(first) == {}
    assert terminal(first) == terminal(second) == COMPLETED
    assert wiped == []
