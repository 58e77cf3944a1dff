"""Turns that were made by hand: what agents send, and the events that it becomes.

`made_turns` has a file per agent. A turn has a title, what the agent sends after `>`, and the events after `<`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from recorded_turns import Acp, Claude, SdkRun, Translator, summary
from turns import marked, turn_of

from tailrace.events import Event, validate_event
from tailrace.runtimes.agui import AguiTranslator
from tailrace.runtimes.codex.translator import CodexTranslator
from tailrace.runtimes.gemini.translator import GeminiTranslator
from tailrace.runtimes.langgraph import LangGraphTranslator
from tailrace.runtimes.openai_agents import OpenAIAgentsTranslator
from tailrace.runtimes.opencode.translator import OpencodeTranslator
from tailrace.runtimes.pydantic_ai import PydanticAITranslator
from tailrace.runtimes.vercel import VercelTranslator

if TYPE_CHECKING:
    from collections.abc import Callable

FOLDER = Path(__file__).parent / "made_turns"


class CodexThread(CodexTranslator):
    """The translator of the thread `own`."""

    def __init__(self) -> None:
        super().__init__()
        self.thread_id = "own"

    def feed(self, message: Any, _: Any = None) -> list[Event]:
        return super().feed(message["method"], message["params"])


class GeminiLines(GeminiTranslator):
    def feed(self, value: Any) -> list[Event]:
        return super().feed(json.dumps(value).encode())


TRANSLATORS: dict[str, Callable[[], Translator]] = {
    "acp": Acp,
    "agui": AguiTranslator,
    "claude": Claude,
    "codex": CodexThread,
    "gemini": GeminiLines,
    "langgraph": lambda: SdkRun(LangGraphTranslator()),
    "openai-agents": lambda: SdkRun(OpenAIAgentsTranslator()),
    "opencode": lambda: OpencodeTranslator("own"),
    "pydantic-ai": lambda: SdkRun(PydanticAITranslator()),
    "vercel": VercelTranslator,
}


TURNS = [
    pytest.param(path.stem, turn, id=f"{path.stem}: {turn.splitlines()[0].removeprefix('# ')}")
    for path in sorted(FOLDER.iterdir())
    for turn in path.read_text(encoding="utf-8").split("\n\n")
]


@pytest.mark.parametrize(("agent", "turn"), TURNS)
def test_a_made_turn_has_its_events(agent: str, turn: str) -> None:
    translator = TRANSLATORS[agent]()
    events = [event for native in marked(turn, "> ") for event in translator.feed(native)]
    events += translator.close()
    assert summary(events) == marked(turn, "< ")
    for event in events:
        validate_event(event)
    turn_of(events)
