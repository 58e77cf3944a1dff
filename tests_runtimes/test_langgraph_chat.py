"""`tailrace chat` with a graph of LangGraph, at a terminal, and the example of the page.

Needs: langgraph==1.2.20 langchain==1.3.14 langchain-openai==1.3.5
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pages import example
from talking import MADE, THAT_IS_THAT, is_stopped_and_fails, talk_to_forecaster

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

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


def test_a_conversation_with_a_stop_and_a_failure(tmp_path: Path, model: ScriptedModel) -> None:
    with talk_to_forecaster(MY_APP, tmp_path, model) as forecaster:
        assert "my_app:agent · a compiled graph of LangGraph" in forecaster.person.lines()[0]
        assert forecaster.answer("[[scenario:weather]]") == ["Let me look.", "", MADE, *THAT_IS_THAT]
        assert (tmp_path / "asked").read_text() == "Oslo"
        assert is_stopped_and_fails(forecaster) == []
        assert forecaster.answer("[[scenario:recall]]") == ["Before this: hello, weather, stall, http400."]


def test_the_example_answers_and_its_thread_remembers(capsys: pytest.CaptureFixture[str]) -> None:
    module = example("langgraph", "my_graph")
    asyncio.run(module.main())
    asyncio.run(module.main())
    assert capsys.readouterr().out == "There are 1.\nThere are 3.\n"
