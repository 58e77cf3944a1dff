"""The recorded runs of Pydantic AI, and what each of them comes to."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from sdk_streams import CUT_OFF, Expected, Turn, hold, hold_among_garbage, lines_of, littered, turn_of

from tailrace.events import (
    BlockFinal,
    Event,
    Notice,
    ReasoningEnd,
    Status,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnCancelled,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
    Usage,
)
from tailrace.ports import Prompt, Runtime
from tailrace.runtimes.pydantic_ai import PydanticAIRuntime, PydanticAITranslator
from tailrace.runtimes.sdk import SdkFailure

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

WEATHER = ("get_weather", False)

EXPECTED = [
    Expected(
        "pydantic_ai_tool",
        ["Let me check.", "It is sunny."],
        [WEATHER],
        ["I should run a tool.", "Now I know."],
    ),
    Expected("pydantic_ai_parallel", ["Two.", "Both done."], [WEATHER, WEATHER]),
    Expected(
        "pydantic_ai_errmid",
        ["partial text"],
        terminal=TurnFailed,
        errors=["provider died mid-stream"],
        code="runtime_raised",
    ),
    Expected("pydantic_ai_break", ["w0 w1 w2 w3 w4 "], terminal=TurnCancelled),
    Expected("pydantic_ai_testmodel", ['{"get_weather":"sunny in a"}'], [WEATHER]),
]
GARBAGE: list[Any] = [
    None,
    7,
    "event",
    [],
    {},
    {"event_kind": None},
    {"event_kind": []},
    {"event_kind": "part_delta", "index": 0, "delta": {"part_delta_kind": "text", "content_delta": 7}},
    {"event_kind": "part_start", "index": "first", "part": {"part_kind": "text"}},
    {"event_kind": "function_tool_result", "part": None},
    {"event_kind": "never_heard_of"},
]


def translated(lines: list[Any]) -> list[Event]:
    """The run as the runtime would tell it; the recorder's own lines say how it ended."""
    translator = PydanticAITranslator()
    events: list[Event] = []
    cancelled = False
    for line in lines:
        match line["ev"]:
            case {"_raised": {"__exception__": kind, "message": message}}:
                events += translator.raised(SdkFailure(kind=kind, message=message))
            case {"_client": _}:
                cancelled = True
            case said:
                events += translator.feed(said)
    return [*events, *translator.close(cancelled=cancelled)]


def turn(*events: dict[str, Any]) -> Turn:
    """A run of these events alone, which ends with its result."""
    return turn_of(translated([{"ev": event} for event in (*events, result("over"))]))


def part(kind: str, *, index: int = 0, part_kind: str = "text", previous: str | None = None, **of: Any) -> Any:
    return {
        "event_kind": f"part_{kind}",
        "index": index,
        "part": {"part_kind": part_kind, **of},
        "previous_part_kind": previous,
    }


def delta(text: str, *, index: int = 0) -> Any:
    return {
        "event_kind": "part_delta",
        "index": index,
        "delta": {"part_delta_kind": "text", "content_delta": text},
    }


def tool(event: str, **of: Any) -> Any:
    kind = "tool-call" if event == "call" else "tool-return"
    return {
        "event_kind": f"function_tool_{event}",
        "part": {"part_kind": kind, "tool_name": "look", "tool_call_id": "c", **of},
    }


def result(output: Any) -> Any:
    return {"event_kind": "agent_run_result", "output": output}


@pytest.mark.parametrize("expected", EXPECTED, ids=lambda expected: expected.recording)
def test_a_recording_comes_to_what_its_reader_expects(expected: Expected) -> None:
    hold(turn_of(translated(lines_of(expected.recording))), expected)


@pytest.mark.parametrize("expected", EXPECTED, ids=lambda expected: expected.recording)
def test_a_stream_that_breaks_off_anywhere_is_a_failed_turn_with_what_was_said(expected: Expected) -> None:
    ends = {"_raised", "_client", "output"}
    lines = [line for line in lines_of(expected.recording) if not ends & {*line["ev"]}]
    whole = "".join(expected.answer)
    for cut in range(len(lines) + 1):
        broken = turn_of(translated(lines[:cut]))
        assert isinstance(broken.terminal, TurnFailed)
        assert broken.terminal.code == CUT_OFF
        assert whole.startswith("".join(broken.answer))


@pytest.mark.parametrize("expected", EXPECTED, ids=lambda expected: expected.recording)
def test_garbage_in_between_is_noticed_and_changes_nothing_else(expected: Expected) -> None:
    hold_among_garbage(turn_of(translated(littered(lines_of(expected.recording), GARBAGE))), expected)


def test_the_first_piece_of_a_part_is_in_its_start_and_its_end_says_nothing_twice() -> None:
    events = translated(lines_of("pydantic_ai_tool"))
    assert [event.text for event in events if isinstance(event, TextDelta)] == ["Let me ", "check.", "It is ", "sunny."]
    assert [event.text for event in events if isinstance(event, BlockFinal)] == [None, None]


def test_an_end_that_differs_from_its_deltas_corrects_them_and_one_without_any_is_said() -> None:
    assert turn(part("start", content="teh "), delta("end"), part("end", content="the end")).answer == ["the end"]
    assert turn(part("start", content=""), part("end", content="all at once")).answer == ["all at once"]


def test_a_part_that_is_started_again_replaces_what_it_was() -> None:
    found = turn(part("start", content="<thi"), part("start", content="This", previous="text"), delta(" is it"))
    assert found.answer == ["This is it"]


def test_indexes_begin_anew_with_each_response() -> None:
    found = turn(
        part("start", content="one"),
        part("start", index=1, content="two", previous="text"),
        tool("call"),
        tool("result", content="seen"),
        part("start", content="three"),
    )
    assert found.answer == ["one", "two", "three"]


def test_an_answer_that_a_validator_refuses_is_taken_back() -> None:
    found = turn(
        part("start", content="first"),
        delta(" try"),
        part("end", content="first try"),
        part("start", content="second"),
        part("end", content="second"),
    )
    assert found.answer == ["second"]


def test_an_answer_stands_when_somebody_said_more_after_it() -> None:
    found = turn(
        part("start", content="to the first"),
        part("end", content="to the first"),
        {"event_kind": "enqueued_messages", "enqueue_id": "e", "messages": []},
        part("start", content="to the second"),
    )
    assert found.answer == ["to the first", "to the second"]


def test_tools_answer_in_the_order_in_which_they_finish() -> None:
    events = translated(lines_of("pydantic_ai_parallel"))
    assert [event.id for event in events if isinstance(event, ToolStarted)] == ["call_a", "call_b"]
    assert [event.id for event in events if isinstance(event, ToolFinished)] == ["call_b", "call_a"]


@pytest.mark.parametrize(
    ("outcome", "is_error"), [("success", False), ("failed", True), ("retried", True), ("denied", True)]
)
def test_a_tool_has_failed_if_it_did_not_succeed(outcome: str, is_error: bool) -> None:
    found = turn(tool("call", args='{"at": 1}'), tool("result", content="so", outcome=outcome))
    assert found.tools == [("look", is_error)]
    assert (found.calls[0].arguments, found.calls[0].result) == ({"at": 1}, "so")


def test_the_same_id_again_is_another_call() -> None:
    call, answer = tool("call", args={}), tool("result", content="so")
    assert turn(call, answer, call, answer).tools == [("look", False), ("look", False)]


def test_a_result_without_a_call_begins_it() -> None:
    assert turn(tool("result", content="so")).tools == [("look", False)]


def test_tools_of_the_provider_are_parts_of_its_response() -> None:
    made: dict[str, Any] = {"tool_name": "web_search", "tool_call_id": "w"}
    found = turn(
        part("start", part_kind="builtin-tool-call", args="", **made),
        part("end", part_kind="builtin-tool-call", args='{"query": "tides"}', **made),
        part("start", index=1, part_kind="builtin-tool-return", content="", previous="builtin-tool-call", **made),
        part("end", index=1, part_kind="builtin-tool-return", content=["a", "b"], **made),
    )
    assert found.tools == [("web_search", False)]
    assert (found.calls[0].arguments, found.calls[0].result) == ({"query": "tides"}, ["a", "b"])


def test_the_tool_that_carries_the_output_is_the_answer_and_no_tool() -> None:
    made = {"part_kind": "tool-call", "tool_name": "final_result", "tool_call_id": "f", "args": {"city": "Oslo"}}
    translator = PydanticAITranslator()
    events = [
        *translator.feed({"event_kind": "part_start", "index": 0, "part": made}),
        *translator.feed({"event_kind": "final_result", "tool_name": "final_result"}),
        *translator.feed({"event_kind": "part_end", "index": 0, "part": made}),
        *translator.feed({"event_kind": "output_tool_call", "part": made}),
        *translator.feed({"event_kind": "output_tool_result", "part": made}),
        *translator.feed(result({"city": "Oslo"})),
        *translator.close(),
    ]
    assert events == [TurnCompleted(text='{"city":"Oslo"}')]


def test_calls_that_wait_for_approval_end_the_turn_with_a_status() -> None:
    asked = {"approvals": [{"part_kind": "tool-call", "tool_name": "wipe", "tool_call_id": "c"}], "calls": []}
    requests = {"event_kind": "deferred_tool_requests", "requests": asked}
    found = turn(tool("call", tool_name="wipe"), requests)
    assert found.status == ["Waiting for approval: wipe"]
    assert found.answer == ["Waiting for approval: wipe"]
    assert found.terminal == TurnCompleted(text="Waiting for approval: wipe", stop_reason="approval")
    resolved = turn(tool("call", tool_name="wipe"), requests, {"event_kind": "deferred_tool_results", "results": {}})
    assert (resolved.status, resolved.answer) == ([], ["over"])


def test_the_end_is_the_cancellation_before_the_failure_before_the_result() -> None:
    def ended(*, cancelled: bool, failed: bool) -> Event:
        translator = PydanticAITranslator()
        translator.feed(result("yes"))
        if failed:
            translator.raised(SdkFailure(kind="RuntimeError", message="no", status_code=503))
        (terminal,) = translator.close(cancelled=cancelled)
        return terminal

    assert ended(cancelled=True, failed=True) == TurnCancelled()
    assert ended(cancelled=False, failed=True) == TurnFailed(message="no", code="runtime_raised", status_code=503)
    assert ended(cancelled=False, failed=False) == TurnCompleted(text="yes")


def test_usage_is_of_the_turn() -> None:
    spent = [event for event in translated(lines_of("pydantic_ai_tool")) if isinstance(event, Usage)]
    assert spent == [Usage(input_tokens=100, output_tokens=24, scope="turn")]


def test_a_signature_is_kept_as_it_is_wherever_it_came() -> None:
    ends = [event for event in translated(lines_of("pydantic_ai_tool")) if isinstance(event, ReasoningEnd)]
    assert [end.metadata for end in ends] == ["c2lnLTE=", "c2lnLTI="]


def test_what_the_agents_author_sends_along_is_a_status() -> None:
    translator = PydanticAITranslator()
    sent = {"event_kind": "custom", "name": "progress", "tool_call_id": "c", "tool_name": "look"}
    assert translator.feed(sent) == [Status(text="progress")]
    assert translator.feed(sent | {"step": "reading"}) == [Status(text="reading")]
    assert translator.feed(sent | {"done": 1, "total": 2}) == [Status(text='{"done":1,"total":2}')]


def test_what_is_unknown_is_noticed() -> None:
    assert turn({"event_kind": "new"}).notices == ['pydantic-ai sent an unknown event: {"event_kind": "new"}']
    assert len(turn(part("end", part_kind="hologram")).notices) == 1


def test_ten_thousand_pieces_come_to_as_many_events() -> None:
    pieces = [f"{number} " for number in range(10_000)]
    lines = [{"ev": part("start", content="")}, *({"ev": delta(piece)} for piece in pieces), {"ev": result("")}]
    events = translated(lines)
    assert len(events) == 10_001
    assert turn_of(events).answer == ["".join(pieces)]


# The runtime, with an agent that is none of the SDK's but behaves like one


@dataclass
class Said:
    """An event such as the SDK's: an object with fields."""

    event_kind: str
    index: int = 0
    part: Any = None


@dataclass
class Output:
    output: Any
    usage: Any = None

    def all_messages_json(self) -> bytes:
        return b"[]"


@dataclass
class Over:
    result: Output
    event_kind: str = "agent_run_result"


class Agent:
    """Says a word and then its end, or waits for ever."""

    def __init__(self, *, waits: bool = False) -> None:
        self.waits = waits
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.left = 0

    @asynccontextmanager
    async def run_stream_events(self, text: str, **options: Any) -> AsyncIterator[AsyncIterator[Any]]:
        self.asked.append((text, options))
        try:
            yield self._events()
        finally:
            self.left += 1

    async def _events(self) -> AsyncIterator[Any]:
        yield Said("part_start", part={"part_kind": "text", "content": "hello"})
        if self.waits:
            await asyncio.Event().wait()
        yield Over(Output("hello"))


@pytest.fixture(autouse=True)
def in_a_home_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))


def test_a_turn_is_one_run_of_the_agent() -> None:
    agent = Agent()
    runtime: Runtime = PydanticAIRuntime(agent, deps="mine")

    async def run() -> list[Event]:
        return [event async for event in runtime.run(Prompt(text="hi"))]

    assert asyncio.run(run()) == [
        TurnStarted(runtime="pydantic-ai"),
        TextDelta(text="hello"),
        TurnCompleted(text="hello"),
    ]
    assert agent.asked == [("hi", {"deps": "mine"})]
    assert agent.left == 1


def test_leaving_a_turn_leaves_the_run() -> None:
    agent = Agent(waits=True)

    async def leave() -> None:
        async with aclosing(PydanticAIRuntime(agent).run(Prompt(text="hi"))) as events:
            assert [await anext(events), await anext(events)] == [
                TurnStarted(runtime="pydantic-ai"),
                TextDelta(text="hello"),
            ]
        assert agent.left == 1

    asyncio.run(leave())


def test_a_run_that_cannot_be_remembered_has_answered_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "tailrace").write_text("a file, where a folder is wanted", encoding="utf-8")

    async def run() -> list[Event]:
        return [event async for event in PydanticAIRuntime(Agent()).run(Prompt(text="hi", session_id="s"))]

    *_, told, end = asyncio.run(run())
    assert isinstance(told, Notice)
    assert told.text.startswith("This will not be remembered: ")
    assert end == TurnCompleted(text="hello")


def test_a_session_keeps_a_completed_run_and_nothing_is_kept_unasked(tmp_path: Path) -> None:
    async def run(runtime: Runtime) -> None:
        async for _ in runtime.run(Prompt(text="hi", session_id="s")):
            pass

    kept = tmp_path / "tailrace" / "sessions" / "pydantic-ai"
    asyncio.run(run(PydanticAIRuntime(Agent(), remembers=False)))
    assert not kept.exists()
    asyncio.run(run(PydanticAIRuntime(Agent())))
    (file,) = kept.iterdir()
    assert file.read_bytes() == b"[]"
