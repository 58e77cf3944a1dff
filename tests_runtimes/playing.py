"""Turns of a runtime as a reader has them, and leaving one in the middle."""

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

ALONE = "the test itself"
# A hang is a failure, not a build that never ends. The slowest agent takes seconds to start.
LIMIT_S = 90


class Work:
    """A tool, or a model, that works until it is stopped."""

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
    """One turn, as the contract lets it pass; it may refuse nothing. `at_event` is called with each event."""
    (events,) = play_turns(runtime, text, session=session, at_event=at_event)
    return events


def play_turns(
    runtime: Runtime, *texts: str, session: str = "s", at_event: Callable[[Event], None] = lambda _: None
) -> list[list[Event]]:
    """Turns of one conversation, one after the other, as the contract lets them pass; then all is put away."""
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
    """What the agent says, or a subagent under that call."""
    return "".join(event.text for event in events if isinstance(event, TextDelta) and event.parent_tool_id == parent)


def shown(events: list[Event]) -> list[str]:
    """The texts that stand at the end, as a person sees them: those taken back are gone."""
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
    """What the agent thinks."""
    return "".join(event.text for event in events if isinstance(event, ReasoningDelta))


def tools(events: list[Event], parent: str | None = None) -> dict[str, tuple[str, str, bool]]:
    """The calls of the agent, or of a subagent: by id the name, the result as text and whether it failed."""
    ended = {event.id: event for event in events if isinstance(event, ToolFinished)}
    begun = [event for event in events if isinstance(event, ToolStarted) and event.parent_tool_id == parent]
    return {
        call.id: (call.name, str(ended[call.id].result).strip(), ended[call.id].is_error)
        for call in begun
        if call.id in ended
    }


def commands(events: list[Event]) -> list[str]:
    """What the calls run, in the order in which that was known."""
    given: dict[str, Any] = {}
    for event in events:
        if isinstance(event, ToolStarted | ToolInput) and isinstance(event.arguments, dict):
            given[event.id] = event.arguments.get("command")
    return [command for command in given.values() if command]


def terminal(events: list[Event]) -> TurnCompleted | TurnFailed | TurnCancelled:
    """How the turn ended."""
    (end,) = [event for event in events if isinstance(event, TurnCompleted | TurnFailed | TurnCancelled)]
    return end


def leave(runtime: Runtime, until: type[Event], *, at_work: asyncio.Event | None = None, text: str = "go") -> None:
    """Begin a turn and leave it at such an event, or when somebody is at work after it: nothing of it may be left."""

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
    """Cancel whoever reads a turn while the agent is at work: nothing of it may be left."""

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
    """Do it, alone and within the limit."""
    task = asyncio.current_task()
    assert task is not None
    task.set_name(ALONE)
    async with asyncio.timeout(LIMIT_S):
        await work
