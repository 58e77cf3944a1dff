"""What the events of AG-UI become. Recordings are in `test_recordings`."""

from __future__ import annotations

from typing import Any

import pytest
from agui_events import FINISHED, STARTED, arguments, call, result, text
from turns import CUT_OFF, Case, case, table, turn_of

from tailrace.events import (
    BlockFinal,
    Error,
    Event,
    ReasoningDelta,
    ReasoningEnd,
    Status,
    TextDelta,
    ToolFinished,
    ToolInput,
    ToolStarted,
    TurnCancelled,
    TurnCompleted,
    TurnFailed,
)
from tailrace.runtimes.agui import AguiTranslator
from tailrace.runtimes.endpoint import frame_value

DONE = TurnCompleted()
Native = dict[str, Any]


def translated(*natives: Any) -> list[Event]:
    """The events of a stream that ends after these."""
    translator = AguiTranslator()
    events = [event for native in natives for event in translator.feed(native)]
    return [*events, *translator.close()]


def message(role: str, content: Any, **more: Any) -> Native:
    return {"id": f"{role}-{content}", "role": role, "content": content, **more}


def snapshot(*messages: Native) -> Native:
    return {"type": "MESSAGES_SNAPSHOT", "messages": [message("user", "q"), *messages]}


def answer(content: Any, **more: Any) -> Native:
    return message("assistant", content, **more)


def thought(name: str, *deltas: str) -> list[Native]:
    pieces = [{"type": "REASONING_MESSAGE_CONTENT", "messageId": name, "delta": delta} for delta in deltas]
    start, end = ({"type": kind, "messageId": name} for kind in ("REASONING_START", "REASONING_END"))
    return [start, *pieces, end]


def seal(entity: str, subtype: str) -> Native:
    return {"type": "REASONING_ENCRYPTED_VALUE", "subtype": subtype, "entityId": entity, "encryptedValue": "x"}


def chunk(kind: str, **fields: Any) -> Native:
    return {"type": f"{kind}_CHUNK", **fields}


def tool_chunk(run: str, delta: str, **fields: Any) -> Native:
    return {"type": "TOOL_CALL_CHUNK", "subagentRunId": run, "delta": delta, **fields}


def subagent(event: str, run: str, **more: Any) -> Native:
    return {"type": f"SUBAGENT_{event}", "subagentRunId": run, **more}


def error(message: Any, **more: Any) -> Native:
    return {"type": "RUN_ERROR", "message": message, **more}


START, ONE, TWO, END = text("m", "before", "after")
ARGUMENTS, ARGUMENTS_END = arguments("c", '{"q": 1}')
ADK_START, ADK_DELTA, ADK_END = thought("b", "I should look.")
*LET_ME, LET_ME_END = text("m", "Let me.")
*THERE, THERE_END = text("n", "There.")
PARTS = [{"type": "text", "text": "It is "}, {"type": "image"}, {"type": "text", "text": "there."}]
WHERE = "Which Springfield?"
ASKS = {"type": "CUSTOM", "name": "on_interrupt", "value": WHERE}


def interrupted(*interrupts: Native) -> Native:
    return FINISHED | {"outcome": {"type": "interrupt", "interrupts": list(interrupts)}}


@table(
    case("another role is not the answer", *text("u", "asked", role="user"), *text("m", "yes"), answer=["yes"]),
    case("null fields are dropped", *text("m", "hi", role=None, subagentRunId=None, timestamp=None), answer=["hi"]),
    case(
        "a chunk without a speaker continues the only open message",
        chunk("TEXT_MESSAGE", messageId="m", subagentRunId="s", delta="one "),
        chunk("TEXT_MESSAGE", delta="stream"),
        answer=["one stream"],
    ),
    # What only a snapshot holds
    case(
        "streamed in part",
        *[*text("m", "Let me ", "look."), call("c"), result("c")],
        snapshot(answer("Let me look."), answer("", toolCalls=[{"id": "c"}]), message("tool", "found"), answer(PARTS)),
        answer=["Let me look.", "It is there."],
    ),
    case(
        "a subagent's text in a snapshot",
        *text("m", "under it", subagentRunId="s"),
        snapshot(answer("under it", subagentRunId="s"), answer("answer")),
        answer=["under it", "answer"],
    ),
    case("edited", *text("m", "As streamed."), snapshot(answer("Edited."), answer("+")), answer=["As streamed."]),
    case(
        "a paragraph twice",
        *[*text("m1", "again"), *text("m2", "again")],
        snapshot(answer("again"), answer("again")),
        answer=["again", "again"],
    ),
)
def test_text(case: Case) -> None:
    case.check(translated(*case.natives, FINISHED))


@table(
    case(
        "a result before the input is complete",
        *[call("c"), ARGUMENTS, result("c"), ARGUMENTS_END],
        calls=[("look", {"q": 1}, "found")],
    ),
    case(
        "a call that starts again continues",
        *[call("c"), *arguments("c", '{"a":'), call("c"), *arguments("c", " 1}"), result("c")],
        calls=[("look", {"a": 1}, "found")],
    ),
    case(
        "the next event of the speaker ends a call in chunks",
        chunk("TOOL_CALL", toolCallId="c", toolCallName="look", delta='{"q":'),
        {"type": "RAW", "event": {}},
        {"type": "ACTIVITY_DELTA", "messageId": "a", "activityType": "PLAN", "patch": []},
        chunk("TOOL_CALL", delta=" 1}"),
        chunk("TOOL_CALL", toolCallId="d", toolCallName="look"),
        chunk("TOOL_CALL", toolCallId="d", delta="[2]"),
        events=[
            *(ToolStarted(id="c", name="look"), ToolInput(id="c", arguments={"q": 1})),
            *(ToolStarted(id="d", name="look"), ToolInput(id="d", arguments=[2]), DONE),
        ],
    ),
    case(
        "chunks of two subagents that nobody announced",
        tool_chunk("s1", '{"a":', toolCallId="c1", toolCallName="look"),
        tool_chunk("s2", '{"b":', toolCallId="c2", toolCallName="look"),
        *(tool_chunk("s1", " 1}"), tool_chunk("s2", " 2}")),
        events=[
            *(ToolStarted(id="s1", name="subagent"), ToolStarted(id="c1", name="look", parent_tool_id="s1")),
            *(ToolStarted(id="s2", name="subagent"), ToolStarted(id="c2", name="look", parent_tool_id="s2")),
            ToolInput(id="c1", arguments={"a": 1}, parent_tool_id="s1"),
            ToolInput(id="c2", arguments={"b": 2}, parent_tool_id="s2"),
            DONE,
        ],
    ),
    case(
        "a subagent speaks under the call that started it",
        call("c", "research"),
        subagent("STARTED", "s", name="child", parentToolCallId="c"),
        *text("m", "under it", subagentRunId="s"),
        *[call("g", "grep", subagentRunId="s"), result("g")],
        {"type": "STEP_STARTED", "stepName": "reading", "subagentRunId": "s"},
        *[subagent("FINISHED", "s"), result("c")],
        events=[
            ToolStarted(id="c", name="research"),
            TextDelta(text="under it", parent_tool_id="c"),
            BlockFinal(parent_tool_id="c"),
            ToolStarted(id="g", name="grep", parent_tool_id="c"),
            ToolFinished(id="g", result="found", parent_tool_id="c"),
            Status(text="reading", parent_tool_id="c"),
            ToolFinished(id="c", result="found"),
            DONE,
        ],
    ),
    case(
        "subagents start subagents and fail",
        subagent("STARTED", "a", name="lead"),
        subagent("STARTED", "b", name="worker", parentSubagentRunId="a"),
        subagent("ERROR", "b", message="lost the thread"),
        subagent("FINISHED", "a", result="did without"),
        *[call("c"), subagent("STARTED", "d", parentToolCallId="c"), subagent("ERROR", "d", message="again")],
        events=[
            ToolStarted(id="a", name="lead"),
            ToolStarted(id="b", name="worker", parent_tool_id="a"),
            ToolFinished(id="b", result="lost the thread", is_error=True, parent_tool_id="a"),
            ToolFinished(id="a", result="did without"),
            ToolStarted(id="c", name="look"),
            Error(message="again", parent_tool_id="c"),
            DONE,
        ],
    ),
)
def test_tools_and_subagents(case: Case) -> None:
    case.check(translated(*case.natives, FINISHED))


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        ('"in quotes"', "in quotes"),
        ('"half', '"half'),
        ('{"a": 1}', '{"a": 1}'),
        ('{"result": "wrapped"}', "wrapped"),
        ('{"result": "one", "of": "two"}', '{"result": "one", "of": "two"}'),
        ('{"result": 1}', '{"result": 1}'),
        (PARTS, "It is there."),
        ([{"type": "image"}], [{"type": "image"}]),
    ],
)
def test_a_result_is_its_text_if_it_has_one(content: Any, shown: Any) -> None:
    assert ToolFinished(id="c", result=shown) in translated(call("c"), result("c", content))


@table(
    case(
        "the encrypted value of a call is not shown",
        *[call("c"), seal("c", "tool-call"), result("c")],
        events=[ToolStarted(id="c", name="look"), ToolFinished(id="c", result="found"), DONE],
    ),
    case(
        "consecutive messages are paragraphs",
        chunk("REASONING_MESSAGE", messageId="a", delta="first"),
        chunk("REASONING_MESSAGE", messageId="a", delta=" one"),
        chunk("REASONING_MESSAGE", messageId="b", delta="second"),
        {"type": "REASONING_END", "messageId": "b"},
        chunk("REASONING_MESSAGE", messageId="c", delta="third"),
        call("x"),
        chunk("REASONING_MESSAGE", messageId="d", delta="fourth"),
        thoughts=["first one\n\nsecond\n\nthird", "fourth"],
    ),
    case(
        "ADK repeats it inside an open message, and ends that much later",
        *thought("a", "I should ", "look."),
        *[*LET_ME, ADK_START, ADK_DELTA, LET_ME_END],
        *[call("c"), result("c"), ADK_DELTA, ADK_END],
        *[*THERE, *thought("d", "I should look."), THERE_END],
        thoughts=["I should look.", "I should look."],
        answer=["Let me.", "There."],
    ),
    case(
        "what comes twice is shown twice",
        *[*thought("a", "Hm."), *thought("b", "Hm."), *text("l", "Well."), *thought("c", "Hm.")],
        *[*LET_ME, *thought("d", "Hm", "."), LET_ME_END],
        *[call("e"), *thought("f", "Hm."), result("e"), *thought("g", "Hm.")],
        thoughts=["Hm.\n\nHm.", "Hm.", "Hm.", "Hm.\n\nHm."],
    ),
    case(
        "names before version 1",
        *({"type": "THINKING_START", "title": "hm"}, {"type": "THINKING_TEXT_MESSAGE_START"}),
        {"type": "THINKING_TEXT_MESSAGE_CONTENT", "delta": "I think."},
        *({"type": "THINKING_TEXT_MESSAGE_END"}, {"type": "THINKING_END"}),
        events=[ReasoningDelta(text="I think."), ReasoningEnd(), DONE],
    ),
)
def test_reasoning(case: Case) -> None:
    case.check(translated(*case.natives, FINISHED))


@table(
    case("failed by objects", error({"why": "no"}, code=429), terminal=TurnFailed(message='{"why":"no"}', code="429")),
    case("failed without a reason", {"type": "RUN_ERROR"}, terminal=TurnFailed(message="no reason was given")),
    case(
        "failed at the provider",
        error("Error code: 400 - {'error': {'message': 'not this'}}", code="STOP"),
        terminal=TurnFailed(message="not this", code="STOP", status_code=400),
    ),
    case("failed after the end", FINISHED, error("late"), terminal=TurnFailed(message="late")),
    case("cancelled", FINISHED | {"outcome": {"type": "cancelled"}}, terminal=TurnCancelled()),
    *(
        case(f"outcome {outcome}", FINISHED | {"outcome": outcome}, terminal=DONE)
        for outcome in (None, {"type": "unheard of"}, "success", 7)
    ),
    *(
        case(f"usage {usage}", FINISHED | {"usage": usage}, events=[DONE])
        for usage in ([], None, "much", [{"inputTokens": "many"}])
    ),
    case("answered by the result", FINISHED | {"result": {"answer": 42}}, answer=['{"answer":42}']),
    case(
        "a second run that is cut off",
        *[FINISHED, STARTED, *text("m", "so")],
        terminal=TurnFailed(message="the AG-UI agent stopped before the turn was complete", code=CUT_OFF),
    ),
    case(
        "interrupted",
        *[*text("m", "One moment."), call("c", "transfer"), *arguments("c", "{}")],
        interrupted(
            {"id": "i1", "reason": "tool_call", "toolCallId": "c"},
            {"id": "i2", "reason": "input", "message": WHERE},
            {"id": "i3", "reason": "a signature"},
        ),
        answer=["One moment.", "Waiting for approval: transfer", WHERE, "Waiting for a signature"],
        terminal=TurnCompleted(stop_reason="interrupt"),
    ),
    case("interrupted twice the same", ASKS, interrupted({"id": "i", "message": WHERE}), answer=[WHERE]),
)
def test_end_of_a_run(case: Case) -> None:
    case.check(translated(STARTED, *case.natives))


def test_a_broken_stream_fails_the_turn_unless_the_run_has_ended() -> None:
    for natives, terminal in (([], TurnFailed(message="lost", code="cut_off", status_code=502)), ([FINISHED], DONE)):
        translator = AguiTranslator()
        for native in natives:
            translator.feed(native)
        translator.fail("lost", code="cut_off", status_code=502)
        assert translator.close() == [terminal]
        assert translator.close() == []


def test_an_older_run_in_the_stream_does_not_end_the_turn() -> None:
    translator = AguiTranslator("mine")
    for native in (STARTED | {"runId": "old"}, error("long ago"), STARTED | {"runId": "mine"}, *text("m", "now")):
        translator.feed(native)
        assert not translator.is_done
    translator.feed(FINISHED | {"runId": "mine"})
    assert translator.is_done
    assert translator.close() == [DONE]


def test_a_status_is_cut_at_200_characters() -> None:
    customs = [{"type": "CUSTOM", "name": "progress"}, {"type": "CUSTOM", "name": "state", "value": {"x": "y" * 999}}]
    assert [len(event.text) for event in translated(*customs) if isinstance(event, Status)] == [8, 200]


def test_characters_that_were_cut_between_two_pieces_are_joined() -> None:
    deltas = ['"a\\ud83d"', '"\\udc4b"', '"\\ud83c\\udff3 \\ud83d"', '"no other half"']
    pieces = [
        frame_value(f'{{"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": {delta}}}') for delta in deltas
    ]
    assert "".join(turn_of(translated(*pieces, FINISHED)).answer) == "a👋🏳 �no other half"
    halves = [frame_value(f'{{"type": "TOOL_CALL_ARGS", "toolCallId": "c", "delta": {delta}}}') for delta in deltas[:2]]
    assert [c.arguments for c in turn_of(translated(call("c"), *halves, *arguments("c"), FINISHED)).calls] == ["a👋"]
    assert frame_value('{"content": ["\\ud83d"], "\\ud83d": 1}') == {"content": ["�"], "�": 1}


def test_ten_thousand_events_of_each_kind_are_translated() -> None:
    many = 10_000
    chunks = [chunk("TOOL_CALL", toolCallId="k", toolCallName="look", delta="1")] * many
    natives = [*text("m", *["x"] * many), call("c"), *arguments("c", *["1"] * many), *chunks]
    natives += [native for n in range(many) for native in thought(f"t{n}", "z")]
    natives += [native for n in range(many) for native in text(f"m{n}", "y")]
    long = turn_of(translated(*natives, FINISHED))
    assert "".join(long.thoughts).count("z") == many
    assert (long.answer[0], len(long.answer)) == ("x" * many, many + 1)
    assert [c.arguments for c in long.calls] == ["1" * many] * 2
