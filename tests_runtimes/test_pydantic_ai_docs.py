"""The example of the page, with the model that it names. Needs: pydantic-ai-slim==2.62.0"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pages import example

if TYPE_CHECKING:
    import pytest


def test_the_example_calls_its_tool_and_says_what_it_gave_back(capsys: pytest.CaptureFixture[str]) -> None:
    asyncio.run(example("pydantic-ai", "my_agent").main())
    assert capsys.readouterr().out == '{"weather":"sunny in a"}\n'
