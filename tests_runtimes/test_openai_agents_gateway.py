"""The example of this framework behind `tailrace run`, with the real SDK."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from on_telegram import talk_to_example

if TYPE_CHECKING:
    from pathlib import Path

    from tailrace.testing.scripted_model import ScriptedModel


def test_the_example_answers_on_telegram(tmp_path: Path, model: ScriptedModel) -> None:
    asyncio.run(talk_to_example("openai_agents", model, tmp_path))
