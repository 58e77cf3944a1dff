"""Real AG-UI servers of Pydantic AI, with the scripted model. Needs: pydantic-ai-slim[ag-ui,openai]==2.62.0 uvicorn"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ag_ui.core import RunAgentInput
from agui_serving import Tool
from agui_turns import COMPLETED, Turns, turns_of, wiping
from openai import AsyncOpenAI
from playing import openai_options, play_turns, said, shown, terminal, tools
from pydantic_ai import Agent, DeferredToolRequests, ModelRetry
from pydantic_ai.models.openai import OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.ui.ag_ui import AGUIAdapter
from starlette.applications import Starlette
from starlette.routing import Route

from tailrace.events import TurnCompleted, TurnFailed
from tailrace.runtimes.agui import AguiRuntime
from tailrace.testing.scripted_scenarios import SIGNATURE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from starlette.requests import Request
    from starlette.responses import Response

    from tailrace.testing.scripted_model import ScriptedModel


def agent_of(model: ScriptedModel, tools: Sequence[Any] = (), **more: Any) -> Agent[None, Any]:
    client = AsyncOpenAI(**openai_options(model))
    # For models with such a name Pydantic AI requests encrypted reasoning.
    known = OpenAIResponsesModel("gpt-5", provider=OpenAIProvider(openai_client=client))
    return Agent(known, tools=tools, **more)


def serving(agent: Agent[None, Any]) -> Starlette:
    async def answer(request: Request) -> Response:
        return await AGUIAdapter.dispatch_request(request, agent=agent)

    return Starlette(routes=[Route("/", answer, methods=["POST"])])


def seal(thought: str) -> str:
    """The encrypted reasoning as Pydantic AI sends it: as text, with the fields that it needs again."""
    return json.dumps({"id": thought, "signature": SIGNATURE, "provider_name": "openai"})


class TestPydanticAI(Turns):
    seals = (seal("rs_1_0"), seal("rs_2_0"))
    usage = None
    broken = TurnFailed(message="the scripted model fails here", status_code=500)

    def serving(self, model: ScriptedModel, tool: Tool) -> Any:
        return serving(agent_of(model, [tool.bash]))

    def test_the_model_gets_its_encrypted_reasoning_again(self, agent: AguiRuntime, model: ScriptedModel) -> None:
        play_turns(agent, "[[scenario:tool]]", "[[scenario:recall]]")
        given = [part for part in model.requests[-1].body["input"] if part.get("type") == "reasoning"]
        assert [(part["id"], part["encrypted_content"]) for part in given] == [
            ("rs_1_0", SIGNATURE),
            ("rs_2_0", SIGNATURE),
        ]


def test_a_tool_that_asks_for_another_try_has_a_result(model: ScriptedModel) -> None:
    def bash(command: str, description: str = "") -> str:
        raise ModelRetry(f"{description}: not {command[:4]}")

    (events,) = turns_of(serving(agent_of(model, [bash])), "[[scenario:toolfail]]")
    ((_, result, is_error),) = tools(events).values()
    assert "a command: not echo" in result
    assert not is_error, "AG-UI does not mark failed results"
    assert shown(events) == ["Trying it.", "It went wrong."]


def test_a_tool_that_needs_approval_is_not_run(
    model: ScriptedModel,
) -> None:
    wipe, wiped = wiping(model)
    agent = agent_of(model, output_type=[str, DeferredToolRequests])
    agent.tool_plain(requires_approval=True)(wipe)
    first, second, third = turns_of(serving(agent), "[[scenario:wipe]]", "yes", "[[scenario:recall]]")
    assert shown(first) == ["I wipe it.", 'Approve wipe({"disk":"a"})?']
    assert terminal(first) == TurnCompleted(stop_reason="interrupt")
    assert shown(second) == ["Then not."]
    assert terminal(second) == COMPLETED
    assert wiped == []
    assert said(third) == "Before this: wipe."


def test_a_function_that_yields_the_events_of_the_adapter(model: ScriptedModel) -> None:
    agent = agent_of(model, [Tool().bash])

    async def run(question: dict[str, Any]) -> AsyncIterator[Any]:
        adapter = AGUIAdapter(agent=agent, run_input=RunAgentInput.model_validate(question))
        async for event in adapter.run_stream():
            yield event

    first, second = play_turns(AguiRuntime(run), "[[scenario:tool]]", "[[scenario:recall]]")
    assert shown(first) == ["Let me look.", "The tool has spoken."]
    assert list(tools(first).values()) == [("bash", "the tool speaks", False)]
    assert terminal(first) == COMPLETED
    assert said(second) == "Before this: tool."
