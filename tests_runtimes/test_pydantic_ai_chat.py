"""`tailrace chat` with an agent of Pydantic AI, at a terminal. Needs: pydantic-ai-slim[openai]==2.62.0"""

from __future__ import annotations

from typing import TYPE_CHECKING

from talking import asks_before_it_calls, is_stopped_and_fails, talk_to_forecaster

if TYPE_CHECKING:
    from pathlib import Path

    from tailrace.testing.scripted_model import ScriptedModel

MY_APP = """
from pathlib import Path

from pydantic_ai import Agent, DeferredToolRequests
from pydantic_ai.models.openai import OpenAIChatModel

agent = Agent(OpenAIChatModel("scripted"), output_type=[str, DeferredToolRequests])


@agent.tool_plain(requires_approval=True)
def weather(city: str) -> str:
    Path("asked").write_text(city)
    return f"sunny in {city}"
"""


def test_an_agent_is_talked_to_asks_is_stopped_and_goes_on(tmp_path: Path, model: ScriptedModel) -> None:
    with talk_to_forecaster(MY_APP, tmp_path, model) as forecaster:
        assert "my_app:agent · an agent of Pydantic AI" in forecaster.person.lines()[0]
        asks_before_it_calls(forecaster, tmp_path, name="The agent", denied="The tool call was denied.")
        assert is_stopped_and_fails(forecaster) == []
        assert forecaster.answer("[[scenario:recall]]") == ["Before this: hello, weather, weather."]
