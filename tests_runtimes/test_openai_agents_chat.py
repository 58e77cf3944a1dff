"""`tailrace chat` with an agent of the OpenAI Agents SDK, at a terminal. Needs: openai-agents==0.24.0"""

from __future__ import annotations

from typing import TYPE_CHECKING

from talking import asks_before_it_calls, is_stopped_and_fails, talk_to_forecaster

if TYPE_CHECKING:
    from pathlib import Path

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


def test_an_agent_is_talked_to_asks_is_stopped_and_goes_on(tmp_path: Path, model: ScriptedModel) -> None:
    with talk_to_forecaster(MY_APP, tmp_path, model) as forecaster:
        assert "my_app:agent · an agent of the OpenAI Agents SDK" in forecaster.person.lines()[0]
        asks_before_it_calls(forecaster, tmp_path, name="forecaster", denied="Tool execution was not approved.")
        logged = is_stopped_and_fails(forecaster)
        assert logged == ["Error streaming response"], "what the SDK logs stands on a line of its own"
        assert forecaster.answer("[[scenario:recall]]") == ["Before this: hello, weather, weather, stall, http400."]
