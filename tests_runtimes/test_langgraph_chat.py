"""`tailrace chat` with a graph of LangGraph, at a terminal.

Needs: langgraph==1.2.20 langchain==1.3.14 langchain-openai==1.3.5
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from talking import talk

from tailrace.testing.scripted_scenarios import Call, say

if TYPE_CHECKING:
    from pathlib import Path

    from tailrace.testing.scripted_model import ScriptedModel

MY_APP = """
from pathlib import Path

from langchain.agents import create_agent
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver


def weather(city: str) -> str:
    \"\"\"Say what the weather is.\"\"\"
    Path("asked").write_text(city)
    return f"sunny in {city}"


agent = create_agent(ChatOpenAI(model="scripted", max_retries=0), tools=[weather], checkpointer=InMemorySaver())
"""


def test_an_agent_is_talked_to_asks_is_stopped_and_goes_on(tmp_path: Path, model: ScriptedModel) -> None:
    (tmp_path / "my_app.py").write_text(MY_APP)
    model.scenarios["weather"] = ((say("Let me look."), Call("weather", {"city": "Oslo"})), (say("That is that."),))
    env = {"OPENAI_BASE_URL": f"{model.url}/v1", "OPENAI_API_KEY": "nobody-checks-it"}
    with talk("my_app:agent", cwd=tmp_path, env=env) as forecaster:
        assert forecaster.answer("[[scenario:hello]]") == ["Hello from the scripted model."]
        assert "my_app:agent · a compiled graph of LangGraph" in forecaster.person.lines()[0]
        assert forecaster.answer("[[scenario:weather]]") == [
            "Let me look.",
            "",
            '✓ weather: {"city":"Oslo"} (T)',
            "",
            "That is that.",
        ]
        assert (tmp_path / "asked").read_text() == "Oslo"
        forecaster.begin("[[scenario:stall]]")
        forecaster.person.sees("Before the silence")
        assert forecaster.stops() == ["Before the silence", "", "cancelled"]
        failed = forecaster.answer("[[scenario:http400]]")[-1]
        assert failed.startswith("failed: ")
        assert "the scripted model refuses this request" in failed
        assert forecaster.colours("failed: ") == {"red"}
        assert forecaster.answer("[[scenario:recall]]") == ["Before this: hello, weather, stall, http400."]
