"""Turns of a runtime as a reader has them, and leaving one in the middle."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from tailrace.contract import checked
from tailrace.events import Event, TextDelta, TurnCancelled, TurnCompleted, TurnFailed
from tailrace.ports import Prompt

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from tailrace.ports import Runtime

ALONE = "the test itself"


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


def play(runtime: Runtime, text: str = "go", session: str = "") -> list[Event]:
    """One turn, as the contract lets it pass; it may refuse nothing."""
    diagnostics: list[object] = []

    async def collect() -> list[Event]:
        turn = checked(
            runtime.run(Prompt(text=text, session_id=session)), turn_id="t", on_diagnostic=diagnostics.append
        )
        return [event async for event in turn]

    events = asyncio.run(collect())
    assert diagnostics == []
    return events


def said(events: list[Event], parent: str | None = None) -> str:
    """What the agent says, or a subagent under that call."""
    return "".join(event.text for event in events if isinstance(event, TextDelta) and event.parent_tool_id == parent)


def terminal(events: list[Event]) -> TurnCompleted | TurnFailed | TurnCancelled:
    """How the turn ended."""
    (end,) = [event for event in events if isinstance(event, TurnCompleted | TurnFailed | TurnCancelled)]
    return end


def leave(runtime: Runtime, until: type[Event], *, at_work: asyncio.Event | None = None) -> None:
    """Begin a turn and leave it at such an event, or when somebody is at work after it: nothing of it may be left."""

    async def begin_and_leave() -> None:
        async with aclosing(runtime.run(Prompt(text="go", session_id="s"))) as events:
            async for event in events:
                if isinstance(event, until):
                    break
            if at_work is not None:
                await at_work.wait()
        assert {task.get_name() for task in asyncio.all_tasks()} == {ALONE}

    asyncio.run(_in_time(begin_and_leave()))


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

    asyncio.run(_in_time(begin_and_cancel()))


async def _in_time(work: Coroutine[Any, Any, None]) -> None:
    task = asyncio.current_task()
    assert task is not None
    task.set_name(ALONE)
    async with asyncio.timeout(30):
        await work
