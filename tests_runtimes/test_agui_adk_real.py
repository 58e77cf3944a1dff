"""Real AG-UI servers of Google's ADK, with the scripted model. Needs: ag-ui-adk==0.11.0 google-adk==2.13.0"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from ag_ui_adk import ADKAgent, add_adk_fastapi_endpoint
from agui_serving import Tool
from agui_turns import Turns, turns_of, wiping
from fastapi import FastAPI
from google.adk.agents import LlmAgent
from google.adk.apps import App, ResumabilityConfig
from google.adk.models import Gemini
from google.adk.sessions import InMemorySessionService
from google.adk.tools import FunctionTool
from google.genai import Client
from google.genai.types import HttpOptions
from playing import shown, terminal

from tailrace.events import TurnCompleted, TurnFailed

if TYPE_CHECKING:
    from tailrace.testing.scripted_model import ScriptedModel

# Parts of ADK are marked as experimental, and Google's client uses deprecated parts of aiohttp.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.EXPERIMENTAL.:UserWarning"),
    pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning"),
]


def agent_of(model: ScriptedModel, *functions: Any) -> ADKAgent:
    options = HttpOptions(base_url=model.url, headers={"Connection": "close"})
    gemini = Gemini(model="gemini-scripted", client=Client(api_key="nobody-checks-it", http_options=options))
    app = App(
        name="agent",
        root_agent=LlmAgent(name="agent", model=gemini, tools=[*functions]),
        resumability_config=ResumabilityConfig(is_resumable=True),
    )
    # Without its own service it shares the conversations of all agents in the process. Without the outcome nothing
    # reports a question.
    return ADKAgent.from_app(
        app, user_id="somebody", session_service=InMemorySessionService(), emit_interrupt_outcome=True
    )


def serving(agent: ADKAgent) -> FastAPI:
    application = FastAPI()
    add_adk_fastapi_endpoint(application, agent, "/")
    return application


class TestADK(Turns):
    thoughts = "**Thinking** I should run something.**Thinking** Now I know."
    usage = None
    refused = TurnFailed(
        message="the scripted model refuses this request", status_code=400, code="BACKGROUND_EXECUTION_ERROR"
    )
    broken = TurnFailed(message="the scripted model fails here", status_code=503, code="BACKGROUND_EXECUTION_ERROR")
    keeps_threads = True
    stops = False
    asked_after_leaving = 2  # the run continues to its end

    def serving(self, model: ScriptedModel, tool: Tool) -> Any:
        return serving(agent_of(model, tool.bash))


def test_a_tool_that_waits_for_approval_is_not_run(model: ScriptedModel) -> None:
    wipe, wiped = wiping(model)
    tool = FunctionTool(wipe, require_confirmation=True)
    first, second = turns_of(serving(agent_of(model, tool)), "[[scenario:wipe]]", "yes")
    assert shown(first) == ["I wipe it.", "Waiting for approval: wipe"]
    assert terminal(first) == TurnCompleted(stop_reason="interrupt")
    assert shown(second) == ["Then not."]
    assert wiped == []
