"""The contract suite itself: each wrong runtime fails it with a message that says what is wrong."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from contract_streams import FunctionPlayer, Turns

from tailrace.events import (
    BlockFinal,
    Event,
    Notice,
    TextDelta,
    TextRetracted,
    ToolFinished,
    ToolStarted,
    TurnCancelled,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
)
from tailrace.testing.line_count import LineCount
from tailrace.testing.runtime_contract import RuntimeContract
from tailrace.testing.runtime_scenarios import open_tools, running_processes, scenario

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence
    from pathlib import Path
    from typing import TypeAlias

    from tailrace.ports import Prompt, Runtime
    from tailrace.testing.runtime_scenarios import Player

    Translate: TypeAlias = Callable[[Any], list[Any]]


class Wrong:
    """A runtime that yields what it is given, after `translate` has changed it. Its subclasses run it wrongly."""

    name = "wrong"

    def __init__(self, player: WrongPlayer, turns: Turns, translate: Translate) -> None:
        self.player, self.turns, self.translate = player, turns, translate

    async def run(self, _: Prompt) -> AsyncGenerator[Event, None]:
        yield TurnStarted(runtime=self.name)
        stream = self.player.stream(self.turns.next())
        try:
            async for event in stream:
                for out in self.translate(event):
                    yield out
        finally:
            await stream.aclose()


class WrongPlayer(FunctionPlayer):
    turn_timeout_s = 0.5
    left: asyncio.Task[None] | None = None

    def __init__(self, kind: type[Wrong], translate: Translate) -> None:
        super().__init__()
        self.kind, self.translate = kind, translate

    async def runtime(self, *turns: Sequence[Any]) -> Runtime:
        return self.kind(self, Turns(turns), self.translate)


class SuiteOf(RuntimeContract):
    """The suite for one of these runtimes."""

    def __init__(self, kind: type[Wrong], translate: Translate) -> None:
        self.kind, self.translate = kind, translate

    def player(self, _: Path) -> Player:
        return WrongPlayer(self.kind, self.translate)


class NeverEnds(Wrong):
    """There is always more text."""

    async def run(self, _: Prompt) -> AsyncGenerator[Event, None]:
        while True:
            yield TextDelta(text="and ")


class Hangs(Wrong):
    """It waits for something that does not come."""

    async def run(self, _: Prompt) -> AsyncGenerator[Event, None]:
        yield TextDelta(text="wait")
        await asyncio.Event().wait()


class HidesCuts(Wrong):
    """Reports every end of the stream as a complete turn."""

    async def run(self, prompt: Prompt) -> AsyncGenerator[Event, None]:
        with suppress(ConnectionError):
            async for event in super().run(prompt):
                yield event
                if isinstance(event, TurnCompleted | TurnFailed):
                    return
        yield TurnCompleted()


class LeavesProcess(Wrong):
    """Starts a command in a session of its own, and leaves it."""

    async def run(self, prompt: Prompt) -> AsyncGenerator[Event, None]:
        command = subprocess.Popen(["sleep", "600"], start_new_session=True)  # noqa: ASYNC220  # it is started at once
        STARTED.append(command)
        async for event in super().run(prompt):
            yield event


class StartsEarly(Wrong):
    """Starts its work when `run` is called, not when the turn is read."""

    def run(self, prompt: Prompt) -> AsyncGenerator[Event, None]:
        STARTED.append(subprocess.Popen(["sleep", "600"]))
        return super().run(prompt)


class IgnoresCancellation(Wrong):
    async def run(self, prompt: Prompt) -> AsyncGenerator[Event, None]:
        try:
            async for event in super().run(prompt):
                yield event
        except (GeneratorExit, asyncio.CancelledError):
            for _ in range(8):
                with suppress(asyncio.CancelledError):
                    await asyncio.sleep(0.1)
            raise


class LeavesAgentRunning(Wrong):
    """Lets its agent run on when the turn is not read any more."""

    async def run(self, _: Prompt) -> AsyncGenerator[Event, None]:
        turn: asyncio.Queue[Any] = asyncio.Queue()

        async def read() -> None:
            async for event in self.player.stream(self.turns.next()):
                turn.put_nowait(event)

        self.player.left = asyncio.create_task(read())
        while not isinstance(event := await turn.get(), TurnCompleted):
            yield event
        yield event


class Quadratic(Wrong):
    """Scans all earlier events with each event."""

    async def run(self, prompt: Prompt) -> AsyncGenerator[Event, None]:
        earlier: list[int] = []
        async for event in super().run(prompt):
            earlier.append(0)
            for at, _ in enumerate(earlier[::10]):
                assert at >= 0
            yield event


def right(event: Any) -> list[Any]:
    return [event]


def ends_twice(event: Any) -> list[Any]:
    return [event, event] if isinstance(event, TurnCompleted) else [event]


def repeats_finals(event: Any) -> list[Any]:
    return [BlockFinal(), BlockFinal(text="It is **sunny**.")] if event == BlockFinal() else [event]


def drops_blanks(event: Any) -> list[Any]:
    return [] if isinstance(event, TextDelta) and not event.text.strip() else [event]


def loses_results(event: Any) -> list[Any]:
    return [] if isinstance(event, ToolFinished) else [event]


def retracts_at_errors(event: Any) -> list[Any]:
    return [TextRetracted(scope="turn"), event] if isinstance(event, TurnFailed) else [event]


def ignores_malformed(event: Any) -> list[Any]:
    return [event] if isinstance(event, Event) else []


def retracts_at_malformed(event: Any) -> list[Any]:
    return [event] if isinstance(event, Event) else [Notice(text="wrong: 7"), TextRetracted(scope="turn")]


STARTED: list[subprocess.Popen[bytes]] = []
ENDS = "test_a_turn_has_one_start_and_one_end"
CLOSING = "test_closing_the_turn_at_any_event_leaves_nothing"
CANCELLING = "test_cancelling_the_reader_at_any_event_leaves_nothing"
MALFORMED = "test_a_malformed_event_fails_the_turn"
MALFORMED_IN_THE_MIDDLE = "test_a_malformed_event_in_the_middle_is_reported"
LINEAR = "test_the_work_grows_linearly_with_the_events"


@pytest.mark.parametrize(
    ("kind", "translate", "test", "why"),
    [
        (NeverEnds, right, ENDS, "the turn does not end: after 200 events"),
        (Hangs, right, ENDS, "the turn does not end: nothing comes after TextDelta"),
        (Wrong, ends_twice, ENDS, "breaks the grammar: `turn_completed` is out of order"),
        (Wrong, repeats_finals, "test_the_text_is_what_the_agent_said", "the text is not what the agent said"),
        (Wrong, drops_blanks, "test_messages_do_not_depend_on_the_deltas", "in [0-9]+ pieces"),
        (Wrong, loses_results, "test_tools_start_and_finish_once", r"got the result of \['call-1'\]"),
        (Wrong, retracts_at_errors, "test_an_error_keeps_the_text_before_it", r"but the turn has \[\]"),
        (HidesCuts, right, "test_a_stream_that_breaks_off_is_a_failure", "the turn ended with TurnCompleted"),
        (Wrong, ignores_malformed, MALFORMED, "is not reported"),
        (Wrong, retracts_at_malformed, MALFORMED, r"but the turn has \[\]"),
        (Wrong, ignores_malformed, MALFORMED_IN_THE_MIDDLE, r"is not reported with a name of \('wrong',\)"),
        (LeavesProcess, right, CLOSING, "has left processes: .*sleep 600"),
        (LeavesProcess, right, CANCELLING, "has left processes: .*sleep 600"),
        (StartsEarly, right, "test_run_does_nothing_before_it_is_iterated", "has started a process"),
        (IgnoresCancellation, right, CLOSING, "does not end"),
        (IgnoresCancellation, right, CANCELLING, "does not end"),
        (LeavesAgentRunning, right, CLOSING, "the agent still works"),
        (Quadratic, right, LINEAR, r"four times the events cost 1[0-9]\.[0-9] times the work"),
    ],
)
def test_wrong_runtime_fails_with_the_reason(
    kind: type[Wrong], translate: Translate, test: str, why: str, tmp_path: Path
) -> None:
    try:
        with pytest.raises(AssertionError, match=why):
            getattr(SuiteOf(kind, translate), test)(tmp_path)
    finally:
        while STARTED:
            command = STARTED.pop()
            command.kill()
            command.wait()


def test_orphan_in_a_session_of_its_own_is_found(tmp_path: Path) -> None:
    """The process that started it has ended."""

    async def leave_one(_: Any, __: Player) -> None:
        script = f"setsid sleep 600 & echo $! > {tmp_path}/pid"
        subprocess.run(["sh", "-c", script], check=True)  # noqa: ASYNC221  # it takes a moment
        async with asyncio.timeout(20):
            while not any("sleep 600" in process for process in running_processes()):  # noqa: ASYNC110  # it has no event
                await asyncio.sleep(0.01)

    with pytest.raises(AssertionError, match=r"left processes: .*sleep 600"):
        scenario(leave_one)(SuiteOf(Wrong, right), tmp_path)
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)


def test_open_tool_is_shown_until_the_turn_ends() -> None:
    """The suite looks for it when a turn was left."""
    open_call: list[Event] = [
        TurnStarted(turn_id="t"),
        TextDelta(text="Let me look at that for you now."),
        ToolStarted(id="1", name="look"),
    ]
    shown = open_tools([*open_call, TextDelta(text=" "), TurnCancelled()])
    assert ["🔧 look"] in shown
    assert shown[-1] == []


def test_work_is_counted_the_same_every_time() -> None:
    def count(times: int) -> int:
        with LineCount() as work:
            _loop(times)
        return work.lines

    assert count(100) == count(100)
    assert count(200) - count(100) == count(300) - count(200) > 0


def _loop(times: int) -> None:
    for _ in range(times):
        time.monotonic()
