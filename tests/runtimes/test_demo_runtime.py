"""The demo agent: what its script contains, how fast it runs, and that its example works."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from tailrace.contract import checked
from tailrace.events import (
    Error,
    Event,
    ReasoningDelta,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnCompleted,
    TurnStarted,
)
from tailrace.plugins import find_agent
from tailrace.ports import Prompt, Runtime
from tailrace.runtimes.demo import EXAMPLE, DemoRuntime
from tailrace.testing.runtime_scenarios import PROMPT, open_tools, receive, replayed

if TYPE_CHECKING:
    from pathlib import Path


def play(runtime: Runtime, text: str) -> list[Event]:
    async def collect() -> list[Event]:
        prompt = Prompt(text=text, session_id="s")
        return [event async for event in checked(runtime.run(prompt), turn_id="t")]

    return asyncio.run(collect())


def demo(text: str) -> tuple[list[Event], list[float]]:
    """A turn of the demo, and the pauses it made."""
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    return play(DemoRuntime(pause=pause), text), pauses


def text_of(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def test_the_script_has_reasoning_an_error_code_and_a_table() -> None:
    events, _ = demo("hello")
    assert events[0] == TurnStarted(turn_id="t", runtime="demo", session_id="s")
    assert isinstance(events[-1], TurnCompleted)
    assert any(isinstance(event, ReasoningDelta) for event in events)
    assert any(isinstance(event, Error) for event in events)
    text = text_of(events)
    assert "“hello”" in text
    assert f"```python\n{EXAMPLE}```\n" in text
    assert "|---" in text


def test_two_tools_run_at_once_and_one_fails() -> None:
    events, _ = demo("hello")
    kinds = [(type(event), event.id) for event in events if isinstance(event, ToolStarted | ToolFinished)]
    assert kinds.index((ToolStarted, "fetch")) < kinds.index((ToolFinished, "read"))
    assert [event.is_error for event in events if isinstance(event, ToolFinished)] == [False, True, False]


def test_text_comes_in_tokens_at_reading_speed() -> None:
    events, pauses = demo("hello")
    assert max(len(event.text.strip()) for event in events if isinstance(event, TextDelta)) <= 12
    assert 5 < sum(pauses) < 20
    assert max(pauses) < 1


def test_demo_can_be_left_at_any_event() -> None:
    count = len(demo("hello")[0])

    async def at_once(_: float) -> None:
        await asyncio.sleep(0)

    async def leave_everywhere() -> None:
        for length in range(0, count, 23):
            events = DemoRuntime(pause=at_once).run(PROMPT)
            turn = [event for _ in range(length) if (event := await anext(events, None)) is not None]
            await events.aclose()
            left = await receive(replayed(turn), max_events=2000, turn_timeout_s=30.0, cancelled=True)
            assert open_tools(left.events)[-1:] in ([], [[]])

    asyncio.run(leave_everywhere())


@pytest.mark.parametrize("text", ["", "{braces} `ticks`\n```", "x" * 10_000, "日本語" * 200, "\ud800"])
def test_any_prompt_is_answered(text: str) -> None:
    events, _ = demo(text)
    assert isinstance(events[-1], TurnCompleted)
    assert len(text_of(events)) < 5_000


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("What is the capital of Kenya?", "The capital of Kenya is **Nairobi**. "),
        ("hello", "Ask me for the capital of France, Japan or Kenya."),
    ],
)
def test_the_example_it_shows_works(
    question: str, answer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_agent.py").write_text(EXAMPLE)
    monkeypatch.chdir(tmp_path)
    events = play(find_agent("my_agent:answer").runtime, question)
    assert text_of(events) == answer
    assert isinstance(events[-1], TurnCompleted)
