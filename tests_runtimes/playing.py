"""Plays turns of a runtime, leaves or cancels them, and says what their events show."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from tailrace.contract import checked
from tailrace.events import (
    BlockFinal,
    Event,
    ReasoningDelta,
    TextDelta,
    TextRetracted,
    ToolFinished,
    ToolInput,
    ToolStarted,
    TurnCancelled,
    TurnCompleted,
    TurnFailed,
)
from tailrace.ports import Prompt

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from tailrace.ports import Runtime
    from tailrace.runtimes.permissions import Choice, Question
    from tailrace.testing.scripted_model import ScriptedModel

ALONE = "the test itself"
# A test that hangs fails after this. The slowest agent takes seconds to start.
LIMIT_S = 90


def openai_options(model: ScriptedModel) -> dict[str, Any]:
    """The options of a client of OpenAI's API that asks the scripted model."""
    closing = {"Connection": "close"}
    return {
        "base_url": f"{model.url}/v1",
        "api_key": "nobody-checks-it",
        "max_retries": 0,
        "default_headers": closing,
    }


class Person:
    """Answers questions and records them. An answer allows, denies, or is the index of a choice."""

    def __init__(self, *answers: bool | int) -> None:
        self._answers = list(answers)
        self.asked: list[Question] = []

    async def ask(self, question: Question) -> Choice | None:
        """Answer the question."""
        self.asked.append(question)
        answer = self._answers.pop(0)
        if not isinstance(answer, bool):
            return question.choices[answer]
        return question.allowing() if answer else question.denying()


class Work:
    """A tool or a model that works until it is stopped."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.was_stopped = False

    async def do(self) -> None:
        """Work."""
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.was_stopped = True


def play(
    runtime: Runtime, text: str = "go", session: str = "", *, at_event: Callable[[Event], None] = lambda _: None
) -> list[Event]:
    """The events of one turn. The contract must accept all of them. `at_event` is called with each event."""
    (events,) = play_turns(runtime, text, session=session, at_event=at_event)
    return events


def play_turns(
    runtime: Runtime, *texts: str, session: str = "s", at_event: Callable[[Event], None] = lambda _: None
) -> list[list[Event]]:
    """The events of several turns of one session. Then the runtime is closed."""
    diagnostics: list[object] = []
    turns: list[list[Event]] = []

    async def collect() -> None:
        for text in texts:
            turns.append([])
            prompt = Prompt(text=text, session_id=session)
            async for event in checked(runtime.run(prompt), turn_id="t", on_diagnostic=diagnostics.append):
                turns[-1].append(event)
                at_event(event)
        if (close := getattr(runtime, "aclose", None)) is not None:
            await close()

    asyncio.run(in_time(collect()))
    assert diagnostics == []
    return turns


def said(events: list[Event], parent: str | None = None) -> str:
    """The text of the agent, or of a subagent under that call, also if it was retracted."""
    return "".join(event.text for event in events if isinstance(event, TextDelta) and event.parent_tool_id == parent)


def shown(events: list[Event]) -> list[str]:
    """The texts as a person sees them at the end, without retracted ones."""
    texts: list[str] = [""]
    for event in events:
        match event:
            case TextDelta(parent_tool_id=None):
                texts[-1] += event.text
            case TextRetracted(parent_tool_id=None):
                texts[-1] = ""
            case BlockFinal(parent_tool_id=None):
                texts[-1] = texts[-1] if event.text is None else event.text
                texts.append("")
            case ToolStarted(parent_tool_id=None):
                texts.append("")
    return [text for text in texts if text]


def thoughts(events: list[Event]) -> str:
    """The reasoning of the agent."""
    return "".join(event.text for event in events if isinstance(event, ReasoningDelta))


def tools(events: list[Event], parent: str | None = None) -> dict[str, tuple[str, str, bool]]:
    """By call id: the name, the result as text and whether it failed. `parent` selects the calls of a subagent."""
    ended = {event.id: event for event in events if isinstance(event, ToolFinished)}
    begun = [event for event in events if isinstance(event, ToolStarted) and event.parent_tool_id == parent]
    return {
        call.id: (call.name, str(ended[call.id].result).strip(), ended[call.id].is_error)
        for call in begun
        if call.id in ended
    }


def commands(events: list[Event]) -> list[str]:
    """The commands that the calls run, in the order of their arguments."""
    given: dict[str, Any] = {}
    for event in events:
        if isinstance(event, ToolStarted | ToolInput) and isinstance(event.arguments, dict):
            given[event.id] = event.arguments.get("command")
    return [command for command in given.values() if command]


def terminal(events: list[Event]) -> TurnCompleted | TurnFailed | TurnCancelled:
    """The terminal event of the turn."""
    (end,) = [event for event in events if isinstance(event, TurnCompleted | TurnFailed | TurnCancelled)]
    return end


def leave(runtime: Runtime, until: type[Event], *, at_work: asyncio.Event | None = None, text: str = "go") -> None:
    """Start a turn and leave it at such an event, or once `at_work` is set after it. No task may be left."""

    async def begin_and_leave() -> None:
        async with aclosing(runtime.run(Prompt(text=text, session_id="s"))) as events:
            async for event in events:
                if isinstance(event, until):
                    break
            if at_work is not None:
                await at_work.wait()
        assert {task.get_name() for task in asyncio.all_tasks()} == {ALONE}

    asyncio.run(in_time(begin_and_leave()))


def cancel(runtime: Runtime, at_work: asyncio.Event) -> None:
    """Cancel the reader of a turn while the agent works. No task may be left."""

    async def read() -> None:
        async with aclosing(runtime.run(Prompt(text="go", session_id="s"))) as events:
            async for _ in events:
                pass

    async def begin_and_cancel() -> None:
        reader = asyncio.create_task(read())
        await at_work.wait()
        reader.cancel()
        await asyncio.wait({reader})
        assert reader.cancelled()
        assert {task.get_name() for task in asyncio.all_tasks()} == {ALONE}

    asyncio.run(in_time(begin_and_cancel()))


async def in_time(work: Coroutine[Any, Any, None]) -> None:
    """Await it within the limit. The current task gets a name, so that other tasks are found."""
    task = asyncio.current_task()
    assert task is not None
    task.set_name(ALONE)
    async with asyncio.timeout(LIMIT_S):
        await work
