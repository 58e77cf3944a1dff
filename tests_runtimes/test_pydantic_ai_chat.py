"""`tailrace chat` with an agent of Pydantic AI, at a terminal, and the example of the page.

Needs: pydantic-ai-slim[openai]==2.62.0
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pages import example
from talking import asks_before_it_calls, is_stopped_and_fails, talk_to_forecaster

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

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


def test_a_conversation_with_questions_a_stop_and_a_failure(tmp_path: Path, model: ScriptedModel) -> None:
    with talk_to_forecaster(MY_APP, tmp_path, model) as forecaster:
        assert "my_app:agent · an agent of Pydantic AI" in forecaster.person.lines()[0]
        asks_before_it_calls(forecaster, tmp_path, name="The agent", denied="The tool call was denied.")
        assert is_stopped_and_fails(forecaster) == []
        assert forecaster.answer("[[scenario:recall]]") == ["Before this: hello, weather, weather."]


def test_the_example_calls_its_tool_and_answers(capsys: pytest.CaptureFixture[str]) -> None:
    asyncio.run(example("pydantic-ai", "my_agent").main())
    assert capsys.readouterr().out == '{"weather":"sunny in a"}\n'
