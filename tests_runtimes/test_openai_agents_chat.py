"""`tailrace chat` with an agent of the OpenAI Agents SDK, at a terminal. Needs: openai-agents==0.24.0"""

from __future__ import annotations

from typing import TYPE_CHECKING

from talking import talk

from tailrace.testing.scripted_scenarios import Call, say

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

ASKED = [
    "Let me look.",
    "",
    '◌ weather: {"city":"Oslo"}',
    "",
    "? forecaster wants to call weather",
    '    {"city":"Oslo"}',
    "  1  Allow",
    "  2  Deny",
]

ENDED = {
    "n": '✗ weather: {"city":"Oslo"} (T) · Tool execution was not approved.',
    "y": '✓ weather: {"city":"Oslo"} (T)',
}


def test_an_agent_is_talked_to_asks_is_stopped_and_goes_on(tmp_path: Path, model: ScriptedModel) -> None:
    (tmp_path / "my_app.py").write_text(MY_APP)
    model.scenarios["weather"] = ((say("Let me look."), Call("weather", {"city": "Oslo"})), (say("That is that."),))
    env = {"OPENAI_BASE_URL": f"{model.url}/v1", "OPENAI_API_KEY": "nobody-checks-it"}
    with talk("my_app:agent", cwd=tmp_path, env=env) as forecaster:
        assert forecaster.answer("[[scenario:hello]]") == ["Hello from the scripted model."]
        assert "my_app:agent · an agent of the OpenAI Agents SDK" in forecaster.person.lines()[0]
        for key in ("n", "y"):
            forecaster.begin("[[scenario:weather]]")
            forecaster.chooses(key)
            shown = forecaster.ended()
            assert shown[:9] == [*ASKED, f"  1-2, y, n: {key}"]
            assert shown[-3:] == [ENDED[key], "", "That is that."]
            assert (tmp_path / "asked").exists() == (key == "y")
        forecaster.begin("[[scenario:stall]]")
        forecaster.person.sees("Before the silence")
        assert forecaster.stops() == ["Before the silence", "", "cancelled"]
        logged, failed = forecaster.answer("[[scenario:http400]]")
        assert logged == "Error streaming response", "what the SDK logs stands on a line of its own"
        assert failed.startswith("failed: ")
        assert "the scripted model refuses this request" in failed
        assert forecaster.colours("failed: ") == {"red"}
        assert forecaster.answer("[[scenario:recall]]") == ["Before this: hello, weather, weather, stall, http400."]
