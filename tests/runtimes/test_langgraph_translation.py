"""The recorded streams of LangGraph, in all their shapes, and what each of them comes to."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import pytest
from sdk_streams import CUT_OFF, Expected, Turn, hold, hold_among_garbage, lines_of, littered, turn_of

from tailrace.events import (
    Event,
    ReasoningEnd,
    TextDelta,
    ToolFinished,
    ToolInput,
    ToolStarted,
    TurnCancelled,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
    Usage,
)
from tailrace.ports import Prompt, Runtime
from tailrace.runtimes.langgraph import LangGraphRuntime, LangGraphTranslator
from tailrace.runtimes.sdk import SdkFailure

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

SAID = ["Let me check.", "The tool said hi."]
THOUGHT = ["I should run a command.", "Now I know."]
WEATHER = ("get_weather", False)
PROGRESS = "looking up echo tool-says-hi"

EXPECTED = [
    Expected("langgraph_tool_chat", SAID, [WEATHER], status=[PROGRESS]),
    Expected("langgraph_tool_responses", SAID, [WEATHER], THOUGHT, status=[PROGRESS]),
    Expected("langgraph_v2_tool_responses", SAID, [WEATHER], THOUGHT, status=[PROGRESS]),
    Expected("langgraph_events_v2_chat", SAID, [WEATHER]),
    Expected("langgraph_events_v3_responses", SAID, [WEATHER], THOUGHT),
    Expected("langgraph_values_chat", SAID, [WEATHER], notes="snapshots alone: each says all that was said before"),
    Expected(
        "langgraph_errmid_chat",
        ["This will break"],
        terminal=TurnFailed,
        errors=["fake failure mid-stream"],
        code="runtime_raised",
    ),
    Expected(
        "langgraph_break_chat", ["w0 w1 w2 w3 w4 "], terminal=TurnCancelled, notes="one mode, and so no name of it"
    ),
]
NOTES = ("_raised", "_client")  # of the recorder
GARBAGE: list[Any] = [
    None,
    7,
    "messages",
    [],
    {},
    ["messages", None],
    ["messages", [{"type": "AIMessageChunk", "content": 7}, {}]],
    ["messages", [{"content": "no type"}, {}]],
    ["updates", 7],
    {"type": "never_heard_of", "data": {}},
    {"method": "messages", "params": {"data": [[], []]}},
]


def translated(lines: list[Any], *, is_whole: bool = True) -> list[Event]:
    """The run as the runtime would tell it; where the recorder wrote nothing else, the stream came to its end."""
    translator = LangGraphTranslator()
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
    ended = translator.finished() if is_whole else []
    return [*events, *ended, *translator.close(cancelled=cancelled)]


def turn(*natives: Any) -> Turn:
    return turn_of(translated([{"ev": native} for native in natives]))


def chunk(content: Any, *, run: str = "lc_run--1", task: str = "model:1", **fields: Any) -> Any:
    said = {"type": "AIMessageChunk", "content": content, "id": run, "chunk_position": None, **fields}
    return ["messages", [said, {"langgraph_checkpoint_ns": task}]]


def last(*, run: str = "lc_run--1", task: str = "model:1") -> Any:
    return chunk("", run=run, task=task, chunk_position="last")


def piece(args: str, *, index: int | None = 0, name: str | None = None, call: str | None = None) -> Any:
    return chunk("", tool_call_chunks=[{"name": name, "args": args, "id": call, "index": index}])


def update(*messages: Any) -> Any:
    return ["updates", {"model": {"messages": list(messages)}}]


def ai(text: Any, *, name: str | None = "lc_run--1") -> Any:
    return {"type": "ai", "content": text, "id": name, "tool_calls": []}


@pytest.mark.parametrize("expected", EXPECTED, ids=lambda expected: expected.recording)
def test_a_recording_comes_to_what_its_reader_expects(expected: Expected) -> None:
    hold(turn_of(translated(lines_of(expected.recording))), expected)


@pytest.mark.parametrize("expected", EXPECTED, ids=lambda expected: expected.recording)
def test_a_stream_that_breaks_off_anywhere_is_a_failed_turn_with_what_was_said(expected: Expected) -> None:
    lines = [line for line in lines_of(expected.recording) if not any(note in line["ev"] for note in NOTES)]
    whole = "".join(expected.answer)
    for cut in range(len(lines) + 1):
        broken = turn_of(translated(lines[:cut], is_whole=False))
        assert isinstance(broken.terminal, TurnFailed)
        assert broken.terminal.code == CUT_OFF
        assert whole.startswith("".join(broken.answer))


@pytest.mark.parametrize("expected", EXPECTED, ids=lambda expected: expected.recording)
def test_garbage_in_between_is_noticed_and_changes_nothing_else(expected: Expected) -> None:
    hold_among_garbage(turn_of(translated(littered(lines_of(expected.recording), GARBAGE))), expected)


@pytest.mark.parametrize("shape", ["tool_chat", "tool_responses", "v2_tool_responses", "events_v2_chat"])
def test_what_was_heard_in_chunks_is_not_said_again_by_what_repeats_it(shape: str) -> None:
    events = translated(lines_of(f"langgraph_{shape}"))
    said = [event.text for event in events if isinstance(event, TextDelta)]
    assert said == ["Let me ", "check.", "The tool ", "said hi", "."]


def test_arguments_are_told_once_when_all_of_them_are_written_in_every_shape() -> None:
    for expected in EXPECTED[:5]:
        events = translated(lines_of(expected.recording))
        told = [event for event in events if isinstance(event, ToolStarted | ToolInput | ToolFinished)]
        assert [type(event) for event in told] == [ToolStarted, ToolInput, ToolFinished]
        assert isinstance(told[1], ToolInput)
        assert told[1].arguments == {"city": "echo tool-says-hi"}


def test_a_message_that_was_changed_after_it_was_heard_replaces_it() -> None:
    found = turn(
        chunk("write to me@"),
        chunk("x.example"),
        last(),
        update(ai("write to me@x.example")),
        update(ai("write to [mail]")),
    )
    assert found.answer == ["write to [mail]"]


def test_a_history_that_a_node_hands_on_is_not_said_again() -> None:
    found = turn(
        chunk("new"), last(), update({"type": "human", "content": "hi", "id": "h"}, ai("old", name="o"), ai("new"))
    )
    assert found.answer == ["new"]


def test_what_a_run_begins_with_was_said_before_it() -> None:
    old = [{"type": "human", "content": "hi", "id": "h"}, ai("old", name="o")]
    found = turn(
        {"messages": old}, {"messages": [*old, ai("new", name=None)]}, {"messages": [*old, ai("new", name=None)]}
    )
    assert found.answer == ["new"]


def test_a_message_that_no_model_streamed_is_told_whole() -> None:
    found = turn(
        ["messages", [ai([{"type": "text", "text": "all "}, "at once"], name="m"), {"langgraph_checkpoint_ns": "n:1"}]],
        update(ai("all at once", name="m")),
    )
    assert "".join(found.answer) == "all at once"


def test_a_model_call_is_known_by_its_task_because_ids_change_within_a_message() -> None:
    found = turn(chunk("", run="resp_1"), chunk("one "), chunk("two"), last(), update(ai("one two", name="resp_1")))
    assert found.answer == ["one two"]


def test_two_calls_of_a_model_in_one_task_are_two_texts() -> None:
    found = turn(chunk("one"), last(), chunk("two", run="lc_run--2"), last(run="lc_run--2"))
    assert found.answer == ["one", "two"]


def test_a_message_ends_where_it_says_so_whatever_ids_are_like() -> None:
    found = turn(chunk("one", run="m"), last(run="m"), chunk("two", run="m"), last(run="m"))
    assert found.answer == ["one", "two"]


def test_what_a_completed_model_call_said_stands_when_the_next_is_asked_again() -> None:
    found = turn(chunk("One."), last(), chunk("Tw", run="lc_run--2"), chunk("Two.", run="lc_run--3"))
    assert found.answer == ["One.", "Two."]


def test_a_tool_may_answer_before_its_arguments_are_known_to_be_complete() -> None:
    answer = {"type": "tool", "content": "seen", "tool_call_id": "c"}
    found = turn(piece("{}", name="look", call="c"), ["messages", [answer, {}]], last())
    assert found.tools == [("look", False)]


def test_a_task_that_is_tried_again_takes_back_what_it_said() -> None:
    found = turn(chunk("one "), chunk("tw"), chunk("one ", run="lc_run--2"), chunk("two", run="lc_run--2"))
    assert found.answer == ["one two"]


def test_a_call_is_put_together_from_its_pieces_whatever_they_are_known_by() -> None:
    for index in (0, None):
        found = turn(
            piece("", index=index, name="look", call="c"),
            piece('{"at": ', index=index),
            piece("1}", index=index),
            last(),
        )
        assert [(call.name, call.arguments) for call in found.calls] == [("look", {"at": 1})]


def test_a_tool_that_fails_says_so_and_one_without_a_call_begins_with_its_answer() -> None:
    answer = {"type": "tool", "content": "no", "tool_call_id": "c", "name": "look", "status": "error"}
    assert turn(["messages", [answer, {}]]).tools == [("look", True)]
    error = {"event": "tool-error", "tool_call_id": "c", "message": "no"}
    assert turn({"method": "tools", "params": {"data": error}}).tools == [("tool", True)]


def test_what_is_said_within_a_tool_is_said_under_its_call() -> None:
    outer, inner = {"type": "tool_call", "name": "ask", "id": "c1"}, {"type": "tool_call", "name": "look", "id": "c2"}
    within, deeper = "tools:t1|model:m", "tools:t1|tools:t2"
    events = [
        event
        for event in translated(
            [
                {"ev": [[], *native]}
                for native in (
                    piece("{}", name="ask", call="c1"),
                    last(),
                    ["tasks", {"id": "t1", "name": "tools", "input": [outer]}],
                    chunk("under it", run="lc_run--2", task=within),
                    ["tasks", {"id": "t2", "name": "tools", "input": [inner]}],
                    ["messages", [{"type": "tool", "tool_call_id": "c2"}, {"langgraph_checkpoint_ns": deeper}]],
                    ["messages", [{"type": "tool", "tool_call_id": "c1"}, {"langgraph_checkpoint_ns": "tools:t1"}]],
                )
            ]
        )
        if isinstance(event, TextDelta | ToolFinished)
    ]
    assert [(type(event), event.parent_tool_id) for event in events] == [
        (TextDelta, "c1"),
        (ToolFinished, "c1"),
        (ToolFinished, None),
    ]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("really?", "really?"),
        ({"question": "really?"}, "really?"),
        ({"action_requests": [{"name": "wipe", "args": {}}]}, "wipe"),
    ],
)
def test_a_graph_that_waits_for_somebody_ends_the_turn_with_a_status(value: Any, words: str) -> None:
    interrupts = [{"value": value, "id": "i"}]
    for native in (
        ["updates", {"__interrupt__": interrupts}],
        {"method": "values", "params": {"data": {"messages": []}, "interrupts": interrupts}},
    ):
        found = turn(native, native)
        assert found.status == found.answer == [f"Waiting for an answer: {words}"]
        assert isinstance(found.terminal, TurnCompleted)
        assert found.terminal.stop_reason == "interrupted"


def test_the_end_is_the_cancellation_before_the_failure_before_the_end_of_the_stream() -> None:
    def ended(*, cancelled: bool, failed: bool) -> Event:
        translator = LangGraphTranslator()
        translator.finished()
        if failed:
            translator.raised(SdkFailure(kind="GraphRecursionError", message="no"))
        (terminal,) = translator.close(cancelled=cancelled)
        return terminal

    assert ended(cancelled=True, failed=True) == TurnCancelled()
    assert ended(cancelled=False, failed=True) == TurnFailed(message="no", code="max_turns")
    assert ended(cancelled=False, failed=False) == TurnCompleted()


def test_usage_is_of_a_request() -> None:
    for expected in EXPECTED[:6]:
        spent = [event for event in translated(lines_of(expected.recording)) if isinstance(event, Usage)]
        assert spent == [Usage(input_tokens=100, output_tokens=33, scope="request")] * 2


def test_a_signature_is_kept_as_it_is_and_thoughts_have_several_names() -> None:
    events = translated(
        [
            {"ev": chunk([{"type": "thinking", "thinking": "hm", "index": 0}])},
            {"ev": chunk([{"type": "thinking", "signature": "s=", "index": 0}])},
            {"ev": chunk("", additional_kwargs={"reasoning_content": "well"})},
        ]
    )
    assert turn_of(events).thoughts == ["hm", "well"]
    assert [event.metadata for event in events if isinstance(event, ReasoningEnd)] == ["s="]


def test_what_the_graph_does_for_itself_is_passed_over_and_what_is_unknown_is_noticed() -> None:
    found = turn(["checkpoints", {"id": 1}], {"event": "on_chain_start", "run_id": "r", "data": {}}, ["new", 1])
    assert found.notices == ['langgraph sent an unknown event: ["new", 1]']


def test_ten_thousand_pieces_come_to_as_many_events() -> None:
    pieces = [f"{number} " for number in range(10_000)]
    events = translated([{"ev": chunk(piece)} for piece in pieces])
    assert len(events) == 10_001
    assert turn_of(events).answer == ["".join(pieces)]


# The runtime, with a graph that is none of the SDK's but streams like one


class Graph:
    """Says a word and then its end, or waits for ever."""

    def __init__(self, *, waits: bool = False) -> None:
        self.waits = waits
        self.asked: list[tuple[Any, Any, Any]] = []
        self.left = 0

    async def astream(self, given: Any, config: Any, **options: Any) -> AsyncIterator[Any]:
        self.asked.append((given, config, options))
        try:
            yield (), *chunk("hello")
            if self.waits:
                await asyncio.Event().wait()
        finally:
            self.left += 1


def play(runtime: Runtime, prompt: Prompt) -> list[Event]:
    async def collect() -> list[Event]:
        return [event async for event in runtime.run(prompt)]

    return asyncio.run(collect())


def test_a_turn_is_one_run_of_the_graph_and_a_session_is_a_thread() -> None:
    graph = Graph()
    config = {"recursion_limit": 7, "configurable": {"model": "m"}}
    assert play(LangGraphRuntime(graph, config=config), Prompt(text="hi", session_id="s")) == [
        TurnStarted(runtime="langgraph", session_id="s"),
        TextDelta(text="hello"),
        TurnCompleted(),
    ]
    ((given, asked, options),) = graph.asked
    assert given == {"messages": [{"role": "user", "content": "hi"}]}
    assert asked == {"recursion_limit": 7, "configurable": {"model": "m", "thread_id": "s"}}
    assert options["subgraphs"]
    assert graph.left == 1


def test_a_graph_is_asked_as_its_author_says_and_without_a_session_in_a_thread_of_its_own() -> None:
    graph = Graph()
    runtime = LangGraphRuntime(graph, ask=lambda prompt: {"question": prompt.text})
    play(runtime, Prompt(text="hi"))
    play(runtime, Prompt(text="hi"))
    assert [given for given, _, _ in graph.asked] == [{"question": "hi"}] * 2
    assert len({asked["configurable"]["thread_id"] for _, asked, _ in graph.asked}) == 2


def test_leaving_a_turn_leaves_the_run() -> None:
    graph = Graph(waits=True)

    async def leave() -> None:
        async with aclosing(LangGraphRuntime(graph).run(Prompt(text="hi"))) as events:
            assert [await anext(events), await anext(events)][1] == TextDelta(text="hello")
        assert graph.left == 1

    asyncio.run(leave())
