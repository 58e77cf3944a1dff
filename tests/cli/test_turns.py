"""What each Ctrl-C does, with agents that send it themselves at the worst moment."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tailrace.cli.turns import Terminal, Turns
from tailrace.events import Event, TextDelta, TurnCancelled, TurnCompleted, TurnStarted
from tailrace.ports import Prompt
from tailrace.runtimes.function import FunctionRuntime

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator

AGENTS = Path(__file__).parent.parent / "agents"
FOREVER_S = 3600.0


def ctrl_c() -> None:
    os.kill(os.getpid(), signal.SIGINT)


class Session:
    """Turns of one agent, and all that was shown of them."""

    def __init__(self, agent: Callable[[Prompt], AsyncGenerator[Event | str, None]], grace_s: float) -> None:
        self.shown: list[Event] = []
        self.complaints: list[str] = []
        runtime = FunctionRuntime(agent, name="agent")
        self._turns = Turns(runtime, self._show, complain=self.complaints.append, grace_s=grace_s)

    async def _show(self, event: Event) -> None:
        self.shown.append(event)

    def ask(self, text: str = "") -> Terminal:
        return self._turns.run(Prompt(text=text), turn_id="t")

    def close(self) -> None:
        self._turns._runner.close()


@pytest.fixture
def session() -> Iterator[Callable[..., Session]]:
    sessions: list[Session] = []
    # Tests that run in the background are started with SIGINT ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def start(agent: Callable[[Prompt], AsyncGenerator[Event | str, None]], *, grace_s: float = FOREVER_S) -> Session:
        sessions.append(Session(agent, grace_s))
        return sessions[-1]

    yield start
    for opened in sessions:
        opened.close()
    assert signal.signal(signal.SIGINT, before) is signal.default_int_handler


async def waits(_: Prompt) -> AsyncGenerator[Event | str, None]:
    yield "begun"
    ctrl_c()
    await asyncio.sleep(FOREVER_S)


async def talks_on(_: Prompt) -> AsyncGenerator[Event | str, None]:
    yield "begun"
    ctrl_c()
    while True:
        yield "word"


async def blocks_the_loop(_: Prompt) -> AsyncGenerator[Event | str, None]:
    yield "begun"
    ctrl_c()
    ctrl_c()  # raised here, because nothing else reaches an agent that blocks the loop
    yield "never shown"


async def fails_when_stopped(_: Prompt) -> AsyncGenerator[Event | str, None]:
    yield "begun"
    ctrl_c()
    try:
        await asyncio.sleep(FOREVER_S)
    finally:
        raise ValueError("while stopping")


@pytest.mark.parametrize("agent", [waits, talks_on, blocks_the_loop, fails_when_stopped])
def test_the_first_ctrl_c_ends_the_turn_and_the_session_goes_on(
    session: Callable[..., Session], agent: Callable[[Prompt], AsyncGenerator[Event | str, None]]
) -> None:
    running = session(agent)
    for _ in range(2):
        assert running.ask() == TurnCancelled()
    turn = [TurnStarted(turn_id="t", runtime="agent"), TextDelta(text="begun"), TurnCancelled()]
    assert (running.shown, running.complaints) == ([*turn, *turn], [])


async def is_done(_: Prompt) -> AsyncGenerator[Event | str, None]:
    yield TurnCompleted(text="done")
    ctrl_c()
    await asyncio.sleep(FOREVER_S)


def test_ctrl_c_after_the_turn_completed_changes_nothing(session: Callable[..., Session]) -> None:
    running = session(is_done)
    assert running.ask() == TurnCompleted(text="done")
    assert running.shown[1:] == [TurnCompleted(text="done")]


async def ignores_one_press(prompt: Prompt) -> AsyncGenerator[Event | str, None]:
    if prompt.text == "echo":
        yield "echoed"
        return
    ctrl_c()
    try:
        await asyncio.sleep(FOREVER_S)
    except asyncio.CancelledError:
        ctrl_c()
    await asyncio.sleep(FOREVER_S)
    yield "never shown"


def test_the_second_ctrl_c_leaves_the_agent_running(session: Callable[..., Session]) -> None:
    running = session(ignores_one_press)
    assert running.ask() == TurnCancelled()
    assert running.complaints == ["the agent did not stop and was left running; the session goes on"]
    assert running.ask("echo") == TurnCompleted()


async def comes_back(prompt: Prompt) -> AsyncGenerator[Event | str, None]:
    if prompt.text == "echo":
        waiting.set()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        yield "echoed"
        return
    ctrl_c()
    try:
        await asyncio.sleep(FOREVER_S)
    except asyncio.CancelledError:
        await waiting.wait()
        yield "too late"


waiting = asyncio.Event()


def test_events_of_an_agent_left_running_are_not_shown(session: Callable[..., Session]) -> None:
    running = session(comes_back, grace_s=0.01)
    assert running.ask() == TurnCancelled()
    assert running.ask("echo") == TurnCompleted()
    assert running.shown.count(TurnCancelled()) == 1
    assert TextDelta(text="too late") not in running.shown


def test_error_of_show_is_raised() -> None:
    async def agent(_: Prompt) -> AsyncGenerator[Event | str, None]:
        yield "text"

    async def show(_: Event) -> None:
        raise BrokenPipeError

    turns = Turns(FunctionRuntime(agent, name="agent"), show, complain=print)
    with pytest.raises(BrokenPipeError):
        turns.run(Prompt(text=""), turn_id="t")
    turns._runner.close()


LEAVES_IT_RUNNING = """
import os, signal
import agents
from tailrace.cli.turns import Turns
from tailrace.ports import Prompt
from tailrace.runtimes.function import FunctionRuntime

async def show(event):
    if event.__class__.__name__ == "TextDelta":
        os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
turns = Turns(FunctionRuntime(agents.{agent}, name="agent"), show, complain=print, grace_s=0.05)
turns.run(Prompt(text="go"), turn_id="t")
turns.close(5)
"""


@pytest.mark.parametrize("agent", ["deaf", "in_thread"])
def test_close_exits_although_a_task_or_thread_does_not_end(agent: str) -> None:
    command = [sys.executable, "-c", LEAVES_IT_RUNNING.format(agent=agent)]
    done = subprocess.run(command, cwd=AGENTS, capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (5, b"")
