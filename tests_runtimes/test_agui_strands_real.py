"""Real AG-UI servers of Strands, with the scripted model. Needs: ag-ui-strands==1.0.2 strands-agents[openai]==1.62.0"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import strands
from ag_ui.core import RunAgentInput
from ag_ui_strands import StrandsAgent, add_strands_fastapi_endpoint
from agui_serving import LIMIT_S, Served, Tool
from agui_turns import COMPLETED, Turns
from fastapi import FastAPI
from playing import play_turns, said, shown, terminal, tools
from strands.models.openai import OpenAIModel

from tailrace.events import TurnCompleted, TurnFailed
from tailrace.runtimes.agui import AguiRuntime
from tailrace.testing.scripted_scenarios import Call, say

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tailrace.testing.scripted_model import ScriptedModel


def agent_of(model: ScriptedModel, *functions: Callable[..., Any]) -> StrandsAgent:
    arguments = {
        "base_url": f"{model.url}/v1",
        "api_key": "nobody-checks-it",
        "max_retries": 0,
        "default_headers": {"Connection": "close"},
    }
    chat = OpenAIModel(client_args=arguments, model_id="scripted")
    # Without a handler of its own it prints what it says.
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


def test_a_tool_that_asks_somebody_ends_the_turn_with_its_question_and_the_next_message_answers(
    model: ScriptedModel,
) -> None:
    model.scenarios["send"] = ((say("I send it."), Call("send")), (say("It is done."),))

    @strands.tool(context=True)
    def send(tool_context: strands.ToolContext) -> str:
        """Send it to somebody."""
        return f"sent to {tool_context.interrupt('whom', reason='To whom?')}"

    with Served(serving(agent_of(model, send))) as served:
        first, second, third = play_turns(
            AguiRuntime(served.url, read_timeout_s=LIMIT_S), "[[scenario:send]]", "to Ada", "[[scenario:recall]]"
        )
    assert shown(first) == ["I send it.", "To whom?"]
    assert terminal(first) == TurnCompleted(stop_reason="interrupt")
    # The call has its name from the run before; the answer comes as Strands hands it to tools.
    assert list(tools(second).values()) == [("send", "sent to {'response': 'to Ada'}", False)]
    assert shown(second) == ["It is done."]
    assert said(third) == "Before this: send."


def test_a_function_that_yields_what_the_agent_yields(model: ScriptedModel) -> None:
    agent = agent_of(model, strands.tool(Tool().bash))

    async def run(question: dict[str, Any]) -> AsyncIterator[Any]:
        async for event in agent.run(RunAgentInput.model_validate(question)):
            yield event

    first, second = play_turns(AguiRuntime(run), "[[scenario:tool]]", "[[scenario:recall]]")
    assert shown(first) == ["Let me look.", "The tool has spoken."]
    assert list(tools(first).values()) == [("bash", "the tool speaks", False)]
    assert terminal(first) == COMPLETED
    assert said(second) == "Before this: tool."
