"""`tailrace chat` with an agent of Pydantic AI, at a terminal. Needs: pydantic-ai-slim[openai]==2.62.0"""

from __future__ import annotations

from typing import TYPE_CHECKING

from talking import talk

from tailrace.testing.scripted_scenarios import Call, say

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

ASKED = [
    "Let me look.",
    "",
    '◌ weather: {"city":"Oslo"}',
    "",
    "? The agent wants to call weather",
    '    {"city":"Oslo"}',
    "  1  Allow",
    "  2  Deny",
]


def test_an_agent_is_talked_to_asks_is_stopped_and_goes_on(tmp_path: Path, model: ScriptedModel) -> None:
    (tmp_path / "my_app.py").write_text(MY_APP)
    model.scenarios["weather"] = ((say("Let me look."), Call("weather", {"city": "Oslo"})), (say("That is that."),))
    env = {"OPENAI_BASE_URL": f"{model.url}/v1", "OPENAI_API_KEY": "nobody-checks-it"}
    with talk("my_app:agent", cwd=tmp_path, env=env) as forecaster:
        assert forecaster.answer("[[scenario:hello]]") == ["Hello from the scripted model."]
        assert "my_app:agent · an agent of Pydantic AI" in forecaster.person.lines()[0]
        for key in ("n", "y"):
            forecaster.begin("[[scenario:weather]]")
            forecaster.chooses(key)
            shown = forecaster.ended()
            assert shown[:9] == [*ASKED, f"  1-2, y, n: {key}"]
            assert shown[-2:] == ["", "That is that."]
            assert (tmp_path / "asked").exists() == (key == "y")
        assert "· The tool call was denied." in forecaster.person.all_text()
        assert shown[-3] == '✓ weather: {"city":"Oslo"} (T)'
        forecaster.begin("[[scenario:stall]]")
        forecaster.person.sees("Before the silence")
        assert forecaster.stops() == ["Before the silence", "", "cancelled"]
        failed = forecaster.answer("[[scenario:http400]]")[-1]
        assert failed.startswith("failed: ")
        assert "the scripted model refuses this request" in failed
        assert forecaster.colours("failed: ") == {"red"}
        assert forecaster.answer("[[scenario:recall]]") == ["Before this: hello, weather, weather."]
