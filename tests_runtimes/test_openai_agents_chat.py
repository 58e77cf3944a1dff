"""`tailrace chat` with an agent of the OpenAI Agents SDK, at a terminal, and the example of the page.

Needs: openai-agents==0.24.0
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from agents.testing import ScriptedModel as SdkModel
from agents.testing import assistant_message, function_call
from pages import example
from talking import asks_before_it_calls, is_stopped_and_fails, talk_to_forecaster

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from tailrace.testing.scripted_model import ScriptedModel

MY_APP = """
from pathlib import Path

from agents import Agent, function_tool


@function_tool(needs_approval=True)
async def weather(city: str) -> str:
    Path("asked").write_text(city)
    return f"sunny in {city}"


agent = Agent(name="forecaster", model="scripted", tools=[weather])
"""


def test_a_conversation_with_questions_a_stop_and_a_failure(tmp_path: Path, model: ScriptedModel) -> None:
    with talk_to_forecaster(MY_APP, tmp_path, model) as forecaster:
        assert "my_app:agent · an agent of the OpenAI Agents SDK" in forecaster.person.lines()[0]
        asks_before_it_calls(forecaster, tmp_path, name="forecaster", denied="Tool execution was not approved.")
        logged = is_stopped_and_fails(forecaster)
        assert logged == ["Error streaming response"], "what the SDK logs stands on a line of its own"
        assert forecaster.answer("[[scenario:recall]]") == ["Before this: hello, weather, weather, stall, http400."]


def test_the_example_calls_its_tool_and_answers(capsys: pytest.CaptureFixture[str]) -> None:
    module = example("openai-agents", "my_agent")
    asking = function_call("weather", '{"city": "Oslo"}', call_id="c")
    module.agent.model = SdkModel([[asking], [assistant_message("It is sunny.")]])
    asyncio.run(module.main())
    assert capsys.readouterr().out == "It is sunny.\n"
    (answered,) = [item for item in module.agent.model.last_call.input if item.get("type") == "function_call_output"]
    assert answered["output"] == "sunny in Oslo"
