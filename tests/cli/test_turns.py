"""How Ctrl-C escalates, with agents that press it themselves at the worst moment."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING

import pytest

from tailrace.cli.turns import Terminal, Turns
from tailrace.events import Event, TextDelta, TurnCancelled, TurnCompleted, TurnStarted
from tailrace.ports import Prompt
from tailrace.runtimes.function import FunctionRuntime

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator

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
    # Whoever runs the tests in the background has Ctrl-C ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def start(agent: Callable[[Prompt], AsyncGenerator[Event | str, None]], *, grace_s: float = FOREVER_S) -> Session:
        sessions.append(Session(agent, grace_s))
        return sessions[-1]

    yield start
    for opened in sessions:
        opened.close()
    assert signal.signal(signal.SIGINT, before) is signal.default_int_handler


async def presses_once(_: Prompt) -> AsyncGenerator[Event | str, None]:
    yield "begun"
    ctrl_c()
    await asyncio.sleep(FOREVER_S)


def test_the_first_press_cancels_the_turn(session: Callable[..., Session]) -> None:
    running = session(presses_once)
    assert running.ask() == TurnCancelled()
    assert running.shown == [TurnStarted(turn_id="t"), TextDelta(text="begun"), TurnCancelled()]
    assert running.ask() == TurnCancelled()
    assert running.complaints == []


async def presses_and_talks_on(_: Prompt) -> AsyncGenerator[Event | str, None]:
    ctrl_c()
    while True:
        yield "word"


def test_a_press_is_heeded_at_the_next_event(session: Callable[..., Session]) -> None:
    running = session(presses_and_talks_on)
    assert running.ask() == TurnCancelled()
    assert running.shown == [TurnStarted(turn_id="t"), TurnCancelled()]


async def insists(prompt: Prompt) -> AsyncGenerator[Event | str, None]:
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


def test_the_second_press_leaves_the_agent_behind_at_once(session: Callable[..., Session]) -> None:
    running = session(insists)
    assert running.ask() == TurnCancelled()
    assert running.complaints == ["the agent did not stop when asked and was left behind; the session goes on"]
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


def test_what_an_agent_left_behind_says_is_not_shown(session: Callable[..., Session]) -> None:
    running = session(comes_back, grace_s=0.01)
    assert running.ask() == TurnCancelled()
    assert running.ask("echo") == TurnCompleted()
    assert running.shown.count(TurnCancelled()) == 1
    assert TextDelta(text="too late") not in running.shown


async def blocks(_: Prompt) -> AsyncGenerator[Event | str, None]:
    yield "begun"
    ctrl_c()
    ctrl_c()
    yield "never shown"


def test_a_press_the_loop_could_not_hear_is_raised_in_the_agent(session: Callable[..., Session]) -> None:
    running = session(blocks)
    assert running.ask() == TurnCancelled()
    assert running.shown == [TurnStarted(turn_id="t"), TextDelta(text="begun"), TurnCancelled()]
    assert running.ask() == TurnCancelled()


async def fails_when_stopped(_: Prompt) -> AsyncGenerator[Event | str, None]:
    ctrl_c()
    try:
        await asyncio.sleep(FOREVER_S)
    finally:
        raise ValueError("while stopping")
    yield "never"


def test_failing_while_being_stopped_is_having_stopped(session: Callable[..., Session]) -> None:
    assert session(fails_when_stopped).ask() == TurnCancelled()


async def finishes_late(_: Prompt) -> AsyncGenerator[Event | str, None]:
    yield TurnCompleted(text="done")
    ctrl_c()
    await asyncio.sleep(FOREVER_S)


def test_a_turn_that_was_over_stays_completed(session: Callable[..., Session]) -> None:
    running = session(finishes_late)
    assert running.ask() == TurnCompleted(text="done")
    assert running.shown[1:] == [TurnCompleted(text="done")]


def test_what_cannot_be_shown_comes_out_as_it_is() -> None:
    async def agent(_: Prompt) -> AsyncGenerator[Event | str, None]:
        yield "text"

    async def show(_: Event) -> None:
        raise BrokenPipeError

    turns = Turns(FunctionRuntime(agent, name="agent"), show, complain=print)
    with pytest.raises(BrokenPipeError):
        turns.run(Prompt(text=""), turn_id="t")
    turns._runner.close()
