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
from tailrace.runtimes.demo import DemoRuntime
from tailrace.testing.line_count import LineCount
from tailrace.testing.runtime_contract import RuntimeContract
from tailrace.testing.runtime_scenarios import PROMPT, open_tools, receive, replayed, running_processes, scenario

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence
    from pathlib import Path

    from tailrace.ports import Prompt, Runtime
    from tailrace.testing.runtime_scenarios import Player


class Right:
    """Yields what it is given; its subclasses do one thing wrong."""

    name = "wrong"

    def __init__(self, player: WrongPlayer, turns: Turns) -> None:
        self.player = player
        self.turns = turns

    async def run(self, _: Prompt) -> AsyncGenerator[Event, None]:
        yield TurnStarted(runtime=self.name)
        stream = self.player.stream(self.turns.next())
        try:
            async for event in stream:
                for out in self.translate(event):
                    yield out
        finally:
            await stream.aclose()

    def translate(self, event: Any) -> list[Any]:
        return [event]


class WrongPlayer(FunctionPlayer):
    turn_timeout_s = 0.5
    left: asyncio.Task[None] | None = None

    def __init__(self, kind: type[Right]) -> None:
        super().__init__()
        self.kind = kind

    async def runtime(self, *turns: Sequence[Any]) -> Runtime:
        return self.kind(self, Turns(turns))


class SuiteOf(RuntimeContract):
    """The suite for one of these runtimes."""

    def __init__(self, kind: type[Right]) -> None:
        self.kind = kind

    def player(self, _: Path) -> Player:
        return WrongPlayer(self.kind)


class NeverEnds(Right):
    """Never ends: there is always more text."""

    async def run(self, _: Prompt) -> AsyncGenerator[Event, None]:
        while True:
            yield TextDelta(text="and ")


class HangsForEver(Right):
    """Never ends: it waits for something that does not come."""

    async def run(self, _: Prompt) -> AsyncGenerator[Event, None]:
        yield TextDelta(text="wait")
        await asyncio.Event().wait()


class EndsTwice(Right):
    def translate(self, event: Any) -> list[Any]:
        return [event, event] if isinstance(event, TurnCompleted) else [event]


class RepeatsFinals(Right):
    """Emits the final of a streamed block as a new block."""

    def translate(self, event: Any) -> list[Any]:
        return [BlockFinal(), BlockFinal(text="It is **sunny**.")] if event == BlockFinal() else [event]


class DropsBlanks(Right):
    """Drops a piece of nothing but blanks."""

    def translate(self, event: Any) -> list[Any]:
        return [] if isinstance(event, TextDelta) and not event.text.strip() else [event]


class LosesAtErrors(Right):
    def translate(self, event: Any) -> list[Any]:
        return [TextRetracted(scope="turn"), event] if isinstance(event, TurnFailed) else [event]


class HidesCuts(Right):
    """Reports every end of the stream as a complete turn."""

    async def run(self, prompt: Prompt) -> AsyncGenerator[Event, None]:
        with suppress(ConnectionError):
            async for event in super().run(prompt):
                yield event
                if isinstance(event, TurnCompleted | TurnFailed):
                    return
        yield TurnCompleted()


class IgnoresMalformed(Right):
    """Ignores what it does not understand, without a notice."""

    def translate(self, event: Any) -> list[Any]:
        return [event] if isinstance(event, Event) else []


class RetractsAtMalformed(Right):
    """Retracts the text before a malformed event."""

    def translate(self, event: Any) -> list[Any]:
        if isinstance(event, Event):
            return [event]
        return [Notice(text="wrong: what is this?"), TextRetracted(scope="turn")]


class LosesResults(Right):
    def translate(self, event: Any) -> list[Any]:
        return [] if isinstance(event, ToolFinished) else [event]


class LeavesProcess(Right):
    """Starts a command in a session of its own, and leaves it."""

    async def run(self, prompt: Prompt) -> AsyncGenerator[Event, None]:
        command = subprocess.Popen(["sleep", "600"], start_new_session=True)  # noqa: ASYNC220  # it is started at once
        STARTED.append(command)
        async for event in super().run(prompt):
            yield event


class StartsEarly(Right):
    """Starts its work when `run` is called, not when the turn is read."""

    def run(self, prompt: Prompt) -> AsyncGenerator[Event, None]:
        STARTED.append(subprocess.Popen(["sleep", "600"]))
        return super().run(prompt)


class IgnoresCancellation(Right):
    """Ignores that it is to stop."""

    async def run(self, prompt: Prompt) -> AsyncGenerator[Event, None]:
        try:
            async for event in super().run(prompt):
                yield event
        except (GeneratorExit, asyncio.CancelledError):
            for _ in range(8):
                with suppress(asyncio.CancelledError):
                    await asyncio.sleep(0.1)
            raise


class LeavesAgentRunning(Right):
    """Lets its agent run on when nobody reads any more."""

    async def run(self, _: Prompt) -> AsyncGenerator[Event, None]:
        turn: asyncio.Queue[Any] = asyncio.Queue()

        async def read() -> None:
            async for event in self.player.stream(self.turns.next()):
                turn.put_nowait(event)

        self.player.left = asyncio.create_task(read())
        while not isinstance(event := await turn.get(), TurnCompleted):
            yield event
        yield event


class Quadratic(Right):
    """Scans all earlier events with each event."""

    def __init__(self, player: WrongPlayer, turns: Turns) -> None:
        super().__init__(player, turns)
        self.all: list[str] = []

    def translate(self, event: Any) -> list[Any]:
        self.all.append("")
        for at, _ in enumerate(self.all[::10]):
            if at < 0:
                raise AssertionError
        return [event]


STARTED: list[subprocess.Popen[bytes]] = []
ENDS = "test_a_turn_has_one_start_and_one_end"
TEXT = "test_the_text_is_what_the_agent_said"
CUTS = "test_messages_do_not_depend_on_the_deltas"
CLOSING = "test_closing_the_turn_at_any_event_leaves_nothing"
CANCELLING = "test_cancelling_the_reader_at_any_event_leaves_nothing"


@pytest.mark.parametrize(
    ("kind", "test", "why"),
    [
        (NeverEnds, ENDS, "the turn does not end: after 200 events"),
        (HangsForEver, ENDS, "the turn does not end: nothing comes after TextDelta"),
        (EndsTwice, ENDS, "breaks the grammar: `turn_completed` is out of order"),
        (RepeatsFinals, TEXT, "the text is not what the agent said"),
        (DropsBlanks, CUTS, "in [0-9]+ pieces"),
        (LosesResults, "test_tools_start_and_finish_once", r"got the result of \['call-1'\]"),
        (LosesAtErrors, "test_an_error_keeps_the_text_before_it", r"but the turn has \[\]"),
        (HidesCuts, "test_a_stream_that_breaks_off_is_a_failure", "the turn ended with TurnCompleted"),
        (IgnoresMalformed, "test_a_malformed_event_fails_the_turn", "is not reported"),
        (RetractsAtMalformed, "test_a_malformed_event_fails_the_turn", r"but the turn has \[\]"),
        (
            IgnoresMalformed,
            "test_a_malformed_event_in_the_middle_is_reported",
            r"is not reported with a name of \('wrong',\)",
        ),
        (LeavesProcess, CLOSING, "has left processes: .*sleep 600"),
        (LeavesProcess, CANCELLING, "has left processes: .*sleep 600"),
        (StartsEarly, "test_run_does_nothing_before_it_is_iterated", "has started a process"),
        (IgnoresCancellation, CLOSING, "does not end"),
        (IgnoresCancellation, CANCELLING, "does not end"),
        (LeavesAgentRunning, CLOSING, "the agent still works"),
        (
            Quadratic,
            "test_the_work_grows_linearly_with_the_events",
            r"four times the events cost 1[0-9]\.[0-9] times the work",
        ),
    ],
)
def test_wrong_runtime_fails_with_the_reason(kind: type[Right], test: str, why: str, tmp_path: Path) -> None:
    try:
        with pytest.raises(AssertionError, match=why):
            getattr(SuiteOf(kind), test)(tmp_path)
    finally:
        while STARTED:
            command = STARTED.pop()
            command.kill()
            command.wait()


@pytest.mark.parametrize("test", [name for name in vars(RuntimeContract) if name.startswith("test_")])
def test_right_runtime_passes(test: str, tmp_path: Path) -> None:
    getattr(SuiteOf(Right), test)(tmp_path)


def test_orphan_in_a_session_of_its_own_is_found(tmp_path: Path) -> None:
    """The first process is gone, and what it started is nobody's child."""

    class Orphan(RuntimeContract):
        def player(self, _: Path) -> Player:
            return WrongPlayer(Right)

    async def leave_one(_: Any, __: Player) -> None:
        script = f"setsid sleep 600 & echo $! > {tmp_path}/pid"
        subprocess.run(["sh", "-c", script], check=True)  # noqa: ASYNC221  # it takes a moment
        async with asyncio.timeout(20):
            while not any("sleep 600" in process for process in running_processes()):  # noqa: ASYNC110  # nobody tells when
                await asyncio.sleep(0.01)

    with pytest.raises(AssertionError, match=r"left processes: .*sleep 600"):
        scenario(leave_one)(Orphan(), tmp_path)
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


# The demo has a script of its own, so only what does not depend on the script can be tested.


def demo() -> DemoRuntime:
    async def at_once(_: float) -> None:
        await asyncio.sleep(0)

    return DemoRuntime(pause=at_once)


def test_demo_has_one_end_and_can_be_left_anywhere() -> None:
    async def through() -> None:
        whole = await receive(demo().run(PROMPT), max_events=2000, turn_timeout_s=30.0)
        assert whole.diagnostics == []
        assert isinstance(whole.terminal, TurnCompleted)
        assert "".join(whole.texts).startswith("Hello! You wrote “Go on.”.")
        for count in range(0, len(whole.events), 7):
            events = demo().run(PROMPT)
            turn = [event for _ in range(count) if (event := await anext(events, None)) is not None]
            await events.aclose()
            left = await receive(replayed(turn), max_events=2000, turn_timeout_s=30.0, cancelled=True)
            assert open_tools(left.events)[-1:] in ([], [[]])

    asyncio.run(through())
