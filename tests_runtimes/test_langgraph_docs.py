"""The example of the page, as it stands. Needs: langgraph==1.2.20 langchain==1.3.14"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pages import example

if TYPE_CHECKING:
    import pytest


def test_the_example_answers_and_its_thread_remembers(capsys: pytest.CaptureFixture[str]) -> None:
    module = example("langgraph", "my_graph")
    asyncio.run(module.main())
    asyncio.run(module.main())
    assert capsys.readouterr().out == "I have heard 1.\nI have heard 3.\n"
