"""Agents behind a URL, and functions that speak AG-UI: from the prompt to the end of the turn."""

from __future__ import annotations

import asyncio
import stat
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import agui_events as agui
import pytest
import vercel_chunks as vercel
from loopback import STALL, Answer, Asked, Loopback, frames, head, loopback, streamed
from turns import Turn, turn_of

from tailrace.errors import UsageError
from tailrace.events import Event, Notice, TextDelta, TurnCompleted, TurnFailed, TurnStarted
from tailrace.ports import Prompt, Runtime
from tailrace.runtimes.agui import AguiRuntime
from tailrace.runtimes.vercel import VercelRuntime

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence
    from pathlib import Path

PROMPT = Prompt(text="hello")
AGUI_TEXT = [agui.STARTED, *agui.text("m", "so ", "far")]
VERCEL_TEXT = [vercel.STEP, *vercel.text("0", "so ", "far")]
Kind = type[AguiRuntime] | type[VercelRuntime]


@dataclass(frozen=True)
class Agent:
    """A runtime, its agents' name in texts, and the events with which they send `so far` and end."""

    kind: Kind
    name: str
    text: list[Any]
    end: list[Any]

    @property
    def answer(self) -> list[bytes]:
        return streamed([*self.text, *self.end])


BOTH = pytest.mark.parametrize(
    "agent",
    [
        Agent(AguiRuntime, "the AG-UI agent", AGUI_TEXT, [agui.FINISHED]),
        Agent(VercelRuntime, "the chat route", VERCEL_TEXT, [{"type": "finish"}, "[DONE]"]),
    ],
    ids=lambda agent: agent.kind.name,
)


@pytest.fixture(autouse=True)
def data_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for this user's data."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    return tmp_path


async def run_turn(runtime: Runtime, prompt: Prompt = PROMPT) -> list[Event]:
    """The events of a turn after `turn_started`."""
    started, *events = [event async for event in runtime.run(prompt)]
    assert started == TurnStarted(runtime=runtime.name, session_id=prompt.session_id or None)
    return events


def play(
    kind: Kind, *answers: Answer, prompts: Sequence[Prompt] = (PROMPT,), read_timeout_s: float = 30
) -> tuple[list[Turn], Loopback]:
    """The turns of an agent that gives these answers, and its server."""

    async def run() -> tuple[list[list[Event]], Loopback]:
        async with loopback(*answers) as server:
            runtime = kind(server.url, read_timeout_s=read_timeout_s)
            return [await run_turn(runtime, prompt) for prompt in prompts], server

    turns, server = asyncio.run(run())
    return [turn_of(events) for events in turns], server


@pytest.mark.parametrize("size", [1, 64])
@BOTH
def test_an_answer_in_pieces_of_any_size_is_complete(agent: Agent, size: int) -> None:
    answer = b"".join(agent.answer)
    (turn,), server = play(agent.kind, [answer[place : place + size] for place in range(0, len(answer), size)])
    assert turn.answer == ["so far"]
    assert isinstance(turn.terminal, TurnCompleted)
    assert server.asked[0].line == "POST /agent HTTP/1.1"
    assert server.asked[0].headers["Accept"] == "text/event-stream"
    assert server.asked[0].headers["Content-Type"] == "application/json"


@BOTH
def test_a_silent_answer_fails_and_the_session_continues(agent: Agent) -> None:
    silent: Answer = [head(), *frames(agent.text), STALL]
    (turn, next_turn), server = play(agent.kind, silent, agent.answer, prompts=[PROMPT, PROMPT], read_timeout_s=0.2)
    message = f"{server.url.removesuffix('/agent')}: the agent sent nothing for 0.2 seconds."
    assert (turn.answer, turn.terminal) == (["so far"], TurnFailed(message=message, code="stalled"))
    assert isinstance(next_turn.terminal, TurnCompleted)


@BOTH
def test_a_cut_after_the_end_of_the_answer_changes_nothing(agent: Agent) -> None:
    (turn,), _ = play(agent.kind, agent.answer[:-1])
    assert isinstance(turn.terminal, TurnCompleted)


@BOTH
def test_a_refused_request_is_a_failed_turn(agent: Agent) -> None:
    (turn,), server = play(agent.kind, [head(401, kind="application/json"), b'{"detail": "no"}'])
    assert isinstance(turn.terminal, TurnFailed)
    assert (turn.terminal.code, turn.terminal.status_code) == ("refused", 401)
    assert (turn.answer, len(server.asked)) == ([], 1)


def test_nothing_is_read_after_the_end_of_the_answer() -> None:
    def mine(question: Asked) -> list[Any]:
        finished = agui.FINISHED | {"runId": question.json["runId"]}
        begun = agui.STARTED | {"runId": question.json["runId"]}
        return [head(), *frames([begun, finished, *agui.text("m", "too late")]), STALL]

    late: Answer = [head(), *frames(["[DONE]", *vercel.text("0", "too late")]), STALL]
    for kind, answer in ((AguiRuntime, mine), (VercelRuntime, late)):
        (turn,), _ = play(kind, answer)
        assert (turn.answer, turn.terminal) == ([], TurnCompleted())


# What a session remembers

FIRST, SECOND = (Prompt(text=text, session_id="s") for text in ("first", "second"))


@BOTH
def test_the_history_is_sent_with_the_next_prompt(agent: Agent, data_home: Path) -> None:
    _, server = play(agent.kind, agent.answer, prompts=[FIRST, SECOND])
    first, second = (question.json for question in server.asked)
    field = "threadId" if agent.kind is AguiRuntime else "id"
    assert first[field] == second[field] == "s"
    assert [message["role"] for message in second["messages"]] == ["user", "assistant", "user"]
    assert second["messages"][0] == first["messages"][0]
    assert "so far" in str(second["messages"][1])
    files = [path for path in data_home.rglob("*") if path.is_file()]
    assert [stat.S_IMODE(path.stat().st_mode) for path in files] == [0o600]


@BOTH
def test_sessions_and_agents_share_no_history(agent: Agent) -> None:
    async def run() -> list[int]:
        async with loopback(agent.answer) as server:
            here, there = agent.kind(server.url), agent.kind(f"{server.url}/there")
            await run_turn(here, FIRST)
            await run_turn(here, Prompt(text="second", session_id="t"))
            await run_turn(there, SECOND)
            await run_turn(here, Prompt(text="third", conversation="s"))
            return [len(question.json["messages"]) for question in server.asked]

    assert asyncio.run(run()) == [1, 1, 1, 3]


@BOTH
def test_a_turn_without_session_or_end_is_not_saved(agent: Agent, data_home: Path) -> None:
    play(agent.kind, agent.answer)
    play(agent.kind, streamed(agent.text), prompts=[FIRST])
    assert list(data_home.iterdir()) == []


@BOTH
def test_an_answer_that_cannot_be_saved_ends_with_a_notice(agent: Agent, data_home: Path) -> None:
    data_home.joinpath("tailrace").symlink_to(data_home / "nowhere")
    (turn,), _ = play(agent.kind, agent.answer, prompts=[FIRST])
    assert isinstance(turn.terminal, TurnCompleted)
    assert turn.answer == ["so far"]
    assert turn.notices[0].startswith("This will not be remembered: ")
    assert isinstance(turn.events[-2], Notice)


def test_an_agui_agent_is_asked_by_a_run_input() -> None:
    _, server = play(AguiRuntime, streamed([*AGUI_TEXT, agui.FINISHED]))
    question = server.asked[0].json
    assert question.keys() == {"threadId", "runId", "state", "messages", "tools", "context", "forwardedProps"}
    assert [(message["role"], message["content"]) for message in question["messages"]] == [("user", "hello")]
    assert len({question["threadId"], question["runId"], question["messages"][0]["id"]}) == 3


def test_a_chat_route_is_asked_as_by_a_browser() -> None:
    _, server = play(VercelRuntime, streamed(["[DONE]"]))
    question = server.asked[0].json
    assert question.keys() == {"id", "messages", "trigger"}
    assert question["trigger"] == "submit-message"
    assert [(m["role"], m["parts"]) for m in question["messages"]] == [("user", [{"type": "text", "text": "hello"}])]


# Agents in this process


class Model:
    """An event as the types of AG-UI have it."""

    def __init__(self, event: dict[str, Any]) -> None:
        self._event = event

    def model_dump(self, **how: Any) -> dict[str, Any]:
        assert how == {"mode": "json", "by_alias": True, "exclude_none": True}
        return self._event


@pytest.mark.parametrize(
    "form", [dict, Model, lambda event: frames([event])[0], lambda event: frames([event])[0].decode()]
)
def test_a_function_may_yield_events_in_any_form(form: Any) -> None:
    questions: list[dict[str, Any]] = []

    async def agent(question: dict[str, Any]) -> AsyncGenerator[Any, None]:
        questions.append(question)
        for event in [*AGUI_TEXT, agui.FINISHED]:
            yield form(event)

    runtime = AguiRuntime(agent)
    assert isinstance(runtime, Runtime)
    turn = turn_of(asyncio.run(run_turn(runtime)))
    assert (turn.answer, turn.terminal) == (["so far"], TurnCompleted())
    assert questions[0]["messages"][0]["content"] == "hello"


def test_a_function_that_raises_fails_its_turn() -> None:
    async def agent(_: dict[str, Any]) -> AsyncGenerator[Any, None]:
        for event in AGUI_TEXT:
            yield event
        raise ValueError("no luck")

    turn = turn_of(asyncio.run(run_turn(AguiRuntime(agent))))
    assert (turn.answer, turn.terminal) == (["so far"], TurnFailed(message="no luck", code="runtime_raised"))


def test_events_that_cannot_be_saved_are_shown_with_a_notice() -> None:
    async def agent(_: dict[str, Any]) -> AsyncGenerator[Any, None]:
        yield agui.call("c")
        yield agui.result("c", object())
        yield agui.FINISHED

    events = asyncio.run(run_turn(AguiRuntime(agent), FIRST))
    assert [event.text for event in events if isinstance(event, Notice)] == [
        "This will not be remembered: Encoding objects of type object is unsupported"
    ]
    assert events[-1] == TurnCompleted()


def test_closing_the_turn_closes_the_function() -> None:
    closed: list[str] = []

    async def agent(_: dict[str, Any]) -> AsyncGenerator[Any, None]:
        try:
            for event in AGUI_TEXT:
                yield event
        finally:
            closed.append("agent")

    async def leave() -> None:
        async with aclosing(AguiRuntime(agent).run(PROMPT)) as events:
            assert [await anext(events), await anext(events)][1] == TextDelta(text="so ")

    asyncio.run(leave())
    assert closed == ["agent"]


@BOTH
def test_an_invalid_address_is_refused_at_once(agent: Agent) -> None:
    with pytest.raises(UsageError, match="no web address"):
        agent.kind("agents:answer")
    assert isinstance(agent.kind("https://agent.example"), Runtime)
