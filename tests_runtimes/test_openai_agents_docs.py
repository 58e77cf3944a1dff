"""The example of the page, with the SDK's own scripted model. Needs: openai-agents==0.24.0"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from agents.testing import ScriptedModel, assistant_message, function_call
from pages import example

if TYPE_CHECKING:
    import pytest


def test_the_example_calls_its_tool_and_answers(capsys: pytest.CaptureFixture[str]) -> None:
    module = example("openai-agents", "my_agent")
    asking = function_call("weather", '{"city": "Oslo"}', call_id="c")
    module.agent.model = ScriptedModel([[asking], [assistant_message("It is sunny.")]])
    asyncio.run(module.main())
    assert capsys.readouterr().out == "It is sunny.\n"
    (answered,) = [item for item in module.agent.model.last_call.input if item.get("type") == "function_call_output"]
    assert answered["output"] == "sunny in Oslo"
