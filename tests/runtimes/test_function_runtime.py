"""Async generator functions as agents: how they are found, and what comes of what they yield."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from tailrace.errors import AgentNotFound
from tailrace.events import Event, Status, TextDelta, TurnCancelled, TurnCompleted, TurnFailed, TurnStarted
from tailrace.plugins import find_agent
from tailrace.ports import Prompt, Runtime
from tailrace.runtimes.function import FunctionRuntime

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

AGENTS = Path(__file__).parent.parent / "agents"


@pytest.fixture(autouse=True)
def in_agents_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(AGENTS)


def play(runtime: Runtime, *, session_id: str = "") -> list[Event]:
    """All events of a turn."""

    async def collect() -> list[Event]:
        return [event async for event in runtime.run(Prompt(text="hello", session_id=session_id))]

    return asyncio.run(collect())


def play_function(function: Any, *, session_id: str = "") -> list[Event]:
    """The events of a turn of this function, without `turn_started`."""
    started, *events = play(FunctionRuntime(function, name="mine:run"), session_id=session_id)
    assert started == TurnStarted(runtime="mine:run", session_id=session_id or None)
    return events


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("agents:echo", "you said 'hello'"),
        ("agents:bot.answer", "the bot heard hello"),
        ("agents:bot", "the bot was called with hello"),
        ("agents:ready", "ready for hello"),
    ],
)
def test_an_agent_is_found_by_its_path(path: str, text: str) -> None:
    assert play(find_agent(path).runtime)[-2:] == [TextDelta(text=text), TurnCompleted()]


def test_a_module_may_be_inside_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "crew").mkdir()
    (tmp_path / "crew" / "__init__.py").touch()
    (tmp_path / "crew" / "cook.py").write_text("async def answer(prompt):\n    yield 'soup'\n")
    monkeypatch.chdir(tmp_path)
    runtime = find_agent("crew.cook:answer").runtime
    assert play(runtime) == [TurnStarted(runtime="crew.cook:answer"), TextDelta(text="soup"), TurnCompleted()]


@pytest.mark.parametrize(
    ("own", "started"),
    [
        (None, TurnStarted(runtime="mine:run", session_id="s")),
        (TurnStarted(), TurnStarted(runtime="mine:run", session_id="s")),
        (
            TurnStarted(turn_id="t", runtime="mine", session_id="own", parent_turn_id="p"),
            TurnStarted(turn_id="t", runtime="mine", session_id="own", parent_turn_id="p"),
        ),
    ],
    ids=["left-out", "empty", "filled"],
)
def test_turn_started_has_the_runtime_and_the_session(own: TurnStarted | None, started: TurnStarted) -> None:
    async def agent(_: Prompt) -> AsyncGenerator[Event | str, None]:
        if own is not None:
            yield own
        yield Status(text="on it")

    events = play(FunctionRuntime(agent, name="mine:run"), session_id="s")
    assert events == [started, Status(text="on it"), TurnCompleted()]


def test_turn_started_comes_before_an_exception() -> None:
    async def agent(_: Prompt) -> AsyncGenerator[Event | str, None]:
        raise ValueError("no luck")
        yield ""

    async def run() -> None:
        events = FunctionRuntime(agent, name="mine:run").run(Prompt(text="hello", session_id="s"))
        assert await anext(events) == TurnStarted(runtime="mine:run", session_id="s")
        with pytest.raises(ValueError, match="no luck"):
            await anext(events)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (
            "nowhere_at_all:echo",
            "there is no module 'nowhere_at_all'. Run tailrace in the directory that holds it",
        ),
        ("agnets:echo", "there is no module 'agnets'. Did you mean agents:echo?"),
        ("./agents:echo", "there is no module './agents'. Did you mean agents:echo?"),
        ("./agents.py:echo", "named by its module, not by its file. Try agents:echo"),
        ("agents.py:echo", "named by its module, not by its file. Try agents:echo"),
        ("some/agents.py:echo", "Try some.agents:echo"),
        ("agents:ecko", "agents has no 'ecko'. Did you mean 'echo'?"),
        ("agents:qqqq", "agents has no 'qqqq'. Its agents are: .*echo"),
        ("agents:bot.answr", "Did you mean 'answer'?"),
        ("agents:", "'agents:' does not name an agent. Write module:function"),
        (":echo", "':echo' does not name an agent"),
        ("..agents:echo", "there is no module '..agents'. Did you mean agents:echo?"),
        ("agents:number", "is an object of type int. An agent is an async generator function"),
        ("agents:asyncio", "is a module"),
        ("agents:Bot", "is a class, not an object of it"),
        ("agents:returns", "is a coroutine function: it returns where it should yield"),
        ("agents:plain", "is a plain function"),
        ("agents:not_async", "is a generator function that is not async"),
        ("agents:no_argument", "cannot be called with a prompt alone"),
    ],
)
def test_an_object_that_is_no_agent_is_refused_with_the_reason(path: str, message: str) -> None:
    with pytest.raises(AgentNotFound, match=message.replace("?", r"\?")):
        find_agent(path)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("import a_module_nobody_has", "needs the module 'a_module_nobody_has', which is not installed"),
        ("raise ValueError('no\\ntide')", r"failed: broken\w+.py:1: ValueError: no tide"),
        ("raise SystemExit(3)", "failed: .*SystemExit: 3"),
        ("def (", r"failed: SyntaxError: invalid syntax \(broken\w+.py, line 1\)"),
        ("\0", "failed: "),
    ],
)
def test_a_module_that_cannot_be_imported_is_refused(
    source: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    name = f"broken{request.node.callspec.indices['source']}"
    (tmp_path / f"{name}.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(AgentNotFound, match=message) as caught:
        find_agent(f"{name}:answer")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("terminal", [TurnCompleted(text="x"), TurnFailed(message="x"), TurnCancelled()])
def test_a_function_may_end_its_turn_itself(terminal: Event) -> None:
    async def agent(_: Prompt) -> AsyncGenerator[Event | str, None]:
        yield terminal

    assert play_function(agent) == [terminal]


def test_an_object_that_is_no_event_is_passed_on() -> None:
    assert play(find_agent("agents:garbage").runtime)[2] == cast("Any", 42)


def test_closing_the_run_closes_the_function() -> None:
    closed: list[str] = []

    async def agent(_: Prompt) -> AsyncGenerator[Event | str, None]:
        try:
            yield "one"
            yield "two"
        finally:
            closed.append("agent")

    async def leave_early() -> None:
        async with aclosing(FunctionRuntime(agent, name="agent").run(Prompt(text=""))) as events:
            await anext(events)
            await anext(events)

    asyncio.run(leave_early())
    assert closed == ["agent"]


START = {"type": "RUN_STARTED", "threadId": "t", "runId": "r"}


@pytest.mark.parametrize(
    "first",
    [
        START,
        type("RunStartedEvent", (), {"__module__": "ag_ui.core.events"})(),
        'data: {"type":"RUN_STARTED","threadId":"t"}\n\n',
    ],
    ids=["dictionary", "object", "encoded"],
)
def test_a_function_that_yields_agui_events_gets_advice(first: Any) -> None:
    closed: list[bool] = []

    async def run(_: Any) -> AsyncGenerator[Any, None]:
        try:
            yield first
        finally:
            closed.append(True)

    (end,) = play_function(run)
    assert isinstance(end, TurnFailed)
    assert end.message.startswith("mine:run yields events of AG-UI. ")
    assert "write `agent = AguiRuntime(run)` and name mine:agent" in end.message
    assert closed == [True]


def test_a_function_that_expects_agui_input_gets_advice() -> None:
    async def run(question: Any) -> AsyncGenerator[Any, None]:
        yield question["messages"]

    (end,) = play_function(run)
    assert isinstance(end, TurnFailed)
    assert end.message.startswith("mine:run raised TypeError: 'Prompt' object is not subscriptable. ")
    assert "AguiRuntime(run)" in end.message


def test_other_values_and_exceptions_are_not_mistaken_for_agui() -> None:
    async def run(_: Any) -> AsyncGenerator[Any, None]:
        for item in ('data: {"type":"x"}', {"type": "text_delta"}, {"kind": 1}, {"type": 7}):
            yield item
        raise TypeError("of its own")

    async def collect() -> None:
        events = FunctionRuntime(run, name="mine:run").run(Prompt(text="hello"))
        assert [type(await anext(events)) for _ in range(5)] == [TurnStarted, TextDelta, dict, dict, dict]
        with pytest.raises(TypeError, match="of its own"):
            await anext(events)

    asyncio.run(collect())
