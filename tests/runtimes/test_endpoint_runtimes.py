"""Agents that are web addresses, or functions that speak AG-UI: from a prompt to the end of its turn."""

from __future__ import annotations

import asyncio
import stat
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import agui_streams as agui
import pytest
import vercel_streams as vercel
from loopback import STALL, Answer, Asked, Loopback, frames, head, loopback, streamed
from sdk_streams import Expected, Turn, hold, turn_of

from tailrace.errors import UsageError
from tailrace.events import Event, Notice, TextDelta, TurnCompleted, TurnFailed, TurnStarted
from tailrace.ports import Prompt, Runtime
from tailrace.runtimes.agui import AguiRuntime
from tailrace.runtimes.vercel import VercelRuntime

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence
    from pathlib import Path

PROMPT = Prompt(text="hello")
RECORDED = [
    *((AguiRuntime, expected, agui.natives_of(expected.recording)) for expected in agui.EXPECTED),
    *((VercelRuntime, expected, vercel.natives_of(expected.recording)) for expected in vercel.EXPECTED),
]
AGUI_TEXT = [agui.STARTED, *agui.text("m", "so ", "far")]
VERCEL_TEXT = [vercel.STEP, *vercel.text("0", "so ", "far")]
Kind = type[AguiRuntime] | type[VercelRuntime]


@dataclass(frozen=True)
class Agent:
    """A runtime, what people read of its agents, and how these say `so far` and that they are done."""

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
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where this user's data are while a test runs."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    return tmp_path


async def heard(runtime: Runtime, prompt: Prompt = PROMPT) -> list[Event]:
    """What a turn says after its beginning."""
    begun, *events = [event async for event in runtime.run(prompt)]
    assert begun == TurnStarted(runtime=runtime.name, session_id=prompt.session_id or None)
    return events


def asked(
    kind: Kind, *answers: Answer, prompts: Sequence[Prompt] = (PROMPT,), read_timeout_s: float = 30
) -> tuple[list[Turn], Loopback]:
    """The turns of an agent that answers like this, and the server behind it."""

    async def run() -> tuple[list[list[Event]], Loopback]:
        async with loopback(*answers) as server:
            runtime = kind(server.url, read_timeout_s=read_timeout_s)
            return [await heard(runtime, prompt) for prompt in prompts], server

    turns, server = asyncio.run(run())
    return [turn_of(events) for events in turns], server


@pytest.mark.parametrize(("kind", "expected", "natives"), RECORDED, ids=lambda value: getattr(value, "recording", ""))
def test_a_recording_that_is_replayed_comes_to_what_its_reader_expects(
    kind: Kind, expected: Expected, natives: list[Any]
) -> None:
    (turn,), server = asked(kind, streamed(natives))
    hold(turn, expected)
    assert server.asked[0].line == "POST /agent HTTP/1.1"
    assert server.asked[0].headers["Accept"] == "text/event-stream"
    assert server.asked[0].headers["Content-Type"] == "application/json"


@pytest.mark.parametrize("size", [1, 7, 64])
@BOTH
def test_an_answer_is_the_same_in_any_pieces(agent: Agent, size: int) -> None:
    answer = b"".join(agent.answer)
    (turn,), _ = asked(agent.kind, [answer[place : place + size] for place in range(0, len(answer), size)])
    assert turn.answer == ["so far"]
    assert isinstance(turn.terminal, TurnCompleted)


@BOTH
def test_a_frame_that_is_no_json_is_noted(agent: Agent) -> None:
    (turn,), _ = asked(agent.kind, streamed([*agent.text, "not json", *agent.end]))
    assert turn.notices == [f'{agent.name} sent an unknown event: "not json"']
    assert isinstance(turn.terminal, TurnCompleted)


@pytest.mark.parametrize(
    ("rest", "code", "message"),
    [
        ([], "cut_off", "NAME stopped before the turn was complete"),
        ([b"data: {"], "cut_off", "SERVER: the stream ended in the middle of an event."),
        ([STALL], "stalled", "SERVER: the agent sent nothing for 0.2 seconds."),
    ],
    ids=["cut between frames", "cut in a frame", "stalled"],
)
@BOTH
def test_an_answer_that_does_not_end_fails_and_keeps_what_was_said(
    agent: Agent, rest: list[Any], code: str, message: str
) -> None:
    prompts = [PROMPT, PROMPT]
    broken = [head(), *frames(agent.text), *rest]
    (turn, next_turn), server = asked(agent.kind, broken, agent.answer, prompts=prompts, read_timeout_s=0.2)
    assert turn.answer == ["so far"]
    message = message.replace("SERVER", server.url.removesuffix("/agent")).replace("NAME", agent.name)
    assert turn.terminal == TurnFailed(message=message, code=code)
    assert isinstance(next_turn.terminal, TurnCompleted), "the session goes on"


@BOTH
def test_an_answer_whose_coding_is_cut_fails(agent: Agent) -> None:
    (turn,), server = asked(agent.kind, streamed(agent.text)[:-1])
    message = f"{server.url.removesuffix('/agent')}: the connection was lost in the middle of the response."
    assert turn.terminal == TurnFailed(message=message, code="cut_off")
    (turn,), _ = asked(agent.kind, agent.answer[:-1])
    assert isinstance(turn.terminal, TurnCompleted), "what is cut after the end is nothing"


@pytest.mark.parametrize(
    ("answer", "code", "status"),
    [
        ([head(401, kind="application/json"), b'{"detail": "no"}'], "refused", 401),
        ([head(500, kind="text/html"), b"<html>"], "refused", 500),
        ([head(307, "Location: https://elsewhere.example/")], "redirected", 307),
        ([head(200, kind="text/html"), b"<html>"], "malformed", None),
        ([b"220 mail.example ESMTP\r\n\r\n"], "malformed", None),
    ],
)
@BOTH
def test_an_address_that_does_not_answer_as_an_agent_is_a_failed_turn(
    agent: Agent, answer: Answer, code: str, status: int | None
) -> None:
    (turn,), server = asked(agent.kind, answer)
    assert isinstance(turn.terminal, TurnFailed)
    assert (turn.terminal.code, turn.terminal.status_code) == (code, status)
    assert (turn.answer, len(server.asked)) == ([], 1)


def test_once_the_answer_is_over_nothing_more_is_heard() -> None:
    def mine(question: Asked) -> list[Any]:
        finished = agui.FINISHED | {"runId": question.json["runId"]}
        begun = agui.STARTED | {"runId": question.json["runId"]}
        return [head(), *frames([begun, finished, *agui.text("m", "too late")]), STALL]

    late: Answer = [head(), *frames(["[DONE]", *vercel.text("0", "too late")]), STALL]
    for kind, answer in ((AguiRuntime, mine), (VercelRuntime, late)):
        (turn,), _ = asked(kind, answer)
        assert (turn.answer, turn.terminal) == ([], TurnCompleted())


@pytest.mark.parametrize("how", ["closed", "cancelled"])
@BOTH
def test_leaving_a_turn_closes_the_connection(agent: Agent, how: str) -> None:
    async def leave() -> None:
        far = asyncio.Event()
        async with loopback([head(), *frames(agent.text), STALL]) as server:

            async def read() -> None:
                async with aclosing(agent.kind(server.url).run(PROMPT)) as turn:
                    async for event in turn:
                        if event == TextDelta(text="far"):
                            far.set()
                            if how == "closed":
                                break

            reading = asyncio.create_task(read())
            await far.wait()
            if how == "cancelled":
                reading.cancel()
            await asyncio.wait({reading})
            await server.gone.wait()
            assert reading.cancelled() == (how == "cancelled")

    asyncio.run(leave())


# What a conversation remembers

FIRST, SECOND = (Prompt(text=text, session_id="s") for text in ("first", "second"))


@BOTH
def test_the_next_question_of_a_session_goes_with_what_was_said_before(agent: Agent, memory: Path) -> None:
    _, server = asked(agent.kind, agent.answer, prompts=[FIRST, SECOND])
    first, second = (question.json for question in server.asked)
    place = "threadId" if agent.kind is AguiRuntime else "id"
    assert first[place] == second[place] == "s"
    assert [message["role"] for message in second["messages"]] == ["user", "assistant", "user"]
    assert second["messages"][0] == first["messages"][0]
    assert "so far" in str(second["messages"][1])
    kept = [path for path in memory.rglob("*") if path.is_file()]
    assert [stat.S_IMODE(path.stat().st_mode) for path in kept] == [0o600]


@BOTH
def test_sessions_and_agents_do_not_share_what_they_remember(agent: Agent) -> None:
    async def run() -> list[int]:
        async with loopback(agent.answer) as server:
            here, there = agent.kind(server.url), agent.kind(f"{server.url}/there")
            await heard(here, FIRST)
            await heard(here, Prompt(text="second", session_id="t"))
            await heard(there, SECOND)
            await heard(here, Prompt(text="third", conversation="s"))
            return [len(question.json["messages"]) for question in server.asked]

    assert asyncio.run(run()) == [1, 1, 1, 3]


@BOTH
def test_a_turn_without_a_session_or_without_an_end_is_not_remembered(agent: Agent, memory: Path) -> None:
    asked(agent.kind, agent.answer)
    asked(agent.kind, streamed(agent.text), prompts=[FIRST])
    assert list(memory.iterdir()) == []


@BOTH
def test_an_answer_that_cannot_be_kept_is_given_all_the_same(agent: Agent, memory: Path) -> None:
    memory.joinpath("tailrace").symlink_to(memory / "nowhere")
    (turn,), _ = asked(agent.kind, agent.answer, prompts=[FIRST])
    assert isinstance(turn.terminal, TurnCompleted)
    assert turn.answer == ["so far"]
    assert turn.notices[0].startswith("This will not be remembered: ")
    assert isinstance(turn.events[-2], Notice)


def test_what_is_asked_of_an_agui_agent_is_a_run_input() -> None:
    _, server = asked(AguiRuntime, streamed([*AGUI_TEXT, agui.FINISHED]))
    question = server.asked[0].json
    assert question.keys() == {"threadId", "runId", "state", "messages", "tools", "context", "forwardedProps"}
    assert [(message["role"], message["content"]) for message in question["messages"]] == [("user", "hello")]
    assert len({question["threadId"], question["runId"], question["messages"][0]["id"]}) == 3


def test_what_is_asked_of_a_chat_route_is_what_a_browser_would_ask() -> None:
    _, server = asked(VercelRuntime, streamed(["[DONE]"]))
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
    turn = turn_of(asyncio.run(heard(runtime)))
    assert (turn.answer, turn.terminal) == (["so far"], TurnCompleted())
    assert questions[0]["messages"][0]["content"] == "hello"


def test_a_function_that_raises_fails_its_turn() -> None:
    async def agent(_: dict[str, Any]) -> AsyncGenerator[Any, None]:
        for event in AGUI_TEXT:
            yield event
        raise ValueError("no luck")

    turn = turn_of(asyncio.run(heard(AguiRuntime(agent))))
    assert (turn.answer, turn.terminal) == (["so far"], TurnFailed(message="no luck", code="runtime_raised"))


def test_what_a_function_says_that_cannot_be_kept_is_said_all_the_same() -> None:
    async def agent(_: dict[str, Any]) -> AsyncGenerator[Any, None]:
        yield agui.call("c")
        yield agui.result("c", object())
        yield agui.FINISHED

    events = asyncio.run(heard(AguiRuntime(agent), FIRST))
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
def test_an_address_that_is_none_is_told_at_once(agent: Agent) -> None:
    with pytest.raises(UsageError, match="no web address"):
        agent.kind("agents:answer")
    assert isinstance(agent.kind("https://agent.example"), Runtime)
