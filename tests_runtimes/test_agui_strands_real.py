"""Real AG-UI servers of Strands, with the scripted model. Needs: ag-ui-strands==1.0.2 strands-agents[openai]==1.62.0"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import strands
from ag_ui_strands import StrandsAgent, add_strands_fastapi_endpoint
from agui_serving import Tool
from agui_turns import Turns, turns_of
from fastapi import FastAPI
from playing import openai_options, said, shown, terminal, tools
from strands.models.openai import OpenAIModel

from tailrace.events import TurnCompleted, TurnFailed
from tailrace.testing.scripted_scenarios import Call, say

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.testing.scripted_model import ScriptedModel


def agent_of(model: ScriptedModel, *functions: Callable[..., Any]) -> StrandsAgent:
    chat = OpenAIModel(client_args=openai_options(model), model_id="scripted")
    # Without `callback_handler=None` it prints its text.
    return StrandsAgent(strands.Agent(model=chat, tools=[*functions], callback_handler=None), name="agent")


def serving(agent: StrandsAgent) -> FastAPI:
    application = FastAPI()
    add_strands_fastapi_endpoint(application, agent, "/")
    return application


class TestStrands(Turns):
    failed_tool = "Error: RuntimeError - went wrong"
    refused = TurnFailed(message="the scripted model refuses this request", status_code=400, code="STRANDS_FORCE_STOP")
    broken = TurnFailed(message="the scripted model fails here", code="STRANDS_FORCE_STOP")

    def serving(self, model: ScriptedModel, tool: Tool) -> Any:
        return serving(agent_of(model, strands.tool(tool.bash)))


def test_the_next_message_answers_an_interrupt(
    model: ScriptedModel,
) -> None:
    model.scenarios["send"] = ((say("I send it."), Call("send")), (say("It is done."),))

    @strands.tool(context=True)
    def send(tool_context: strands.ToolContext) -> str:
        """Send it to somebody."""
        return f"sent to {tool_context.interrupt('whom', reason='To whom?')}"

    first, second, third = turns_of(
        serving(agent_of(model, send)), "[[scenario:send]]", "to Ada", "[[scenario:recall]]"
    )
    assert shown(first) == ["I send it.", "To whom?"]
    assert terminal(first) == TurnCompleted(stop_reason="interrupt")
    # The name of the call is known from the run before; Strands passes the answer to tools in this form.
    assert list(tools(second).values()) == [("send", "sent to {'response': 'to Ada'}", False)]
    assert shown(second) == ["It is done."]
    assert said(third) == "Before this: send."
