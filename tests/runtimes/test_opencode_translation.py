"""opencode as it was recorded, and what a reader of the recordings expects of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from cli_streams import Expected, OpencodeBus, changed, heard, hold, own, said, translated, with_junk
from hypothesis import given, settings
from hypothesis import strategies as st
from sdk_streams import turn_of

from tailrace.events import (
    BlockFinal,
    Error,
    Event,
    Notice,
    PlanItem,
    PlanUpdated,
    ReasoningEnd,
    Status,
    TextDelta,
    TextRetracted,
    ToolFinished,
    ToolInput,
    ToolOutput,
    ToolStarted,
    TurnCancelled,
    TurnCompleted,
    TurnFailed,
    Usage,
)
from tailrace.runtimes.opencode.translator import OpencodeRequest, OpencodeRunTranslator, OpencodeTranslator

CUT_OFF = "opencode stopped before the turn was complete"
REFUSED = "invalid request from fake"
BROKEN = "fake failure mid-stream"
EXPECTED = [
    Expected(
        "opencode_serve_tool",
        ["Let me check.", "The tool said hi."],
        [("bash", False)],
        ["I should run a command.", "Now I know."],
    ),
    Expected("opencode_serve_longtool", ["Long tool.", "Long done."], [("bash", False)]),
    Expected(
        "opencode_serve_think2",
        ["Answer after two thoughts.", "Final."],
        [("bash", False)],
        ["First thought block.", "", "Second thought block.", "Third thought."],
        notes="the second thought is readable by its provider alone",
    ),
    Expected(
        "opencode_serve_subagent",
        ["Delegating.", "Parent done."],
        [("task", False), ("bash", False)],
        children="Child speaking.Child result.",
    ),
    Expected("opencode_serve_http400", terminal=TurnFailed, message=REFUSED, code="APIError"),
    Expected(
        "opencode_serve_errmid",
        terminal=TurnFailed,
        message=CUT_OFF,
        code="cut_off",
        status=[f"Asking the model again: {BROKEN}"] * 3,
        notes="three tries failed and the fourth had not begun: nothing stands",
    ),
    Expected("opencode_serve_abort", ["Blocking tool."], [("bash", False)], terminal=TurnCancelled),
    Expected(
        "opencode_serve_permission",
        ["Let me check."],
        [("bash", True)],
        ["I should run a command."],
        notes="a rejection without a word ends the turn",
    ),
    Expected(
        "opencode_run_tool",
        ["Let me check.", "The tool said hi."],
        [("bash", False)],
        ["I should run a command.", "Now I know."],
    ),
    Expected("opencode_run_toolfail", ["Trying.", "It failed as expected."], [("bash", True)], notes="exit code 3"),
    Expected("opencode_run_empty", ["Héllo wörld 👋🏽"], [("bash", False)]),
    Expected(
        "opencode_run_subagent", ["Delegating.", "Parent done."], [("task", False)], notes="the child is not told of"
    ),
    Expected(
        "opencode_run_think2_anthropic",
        ["Answer after two thoughts.", "Final."],
        [("bash", False)],
        ["First thought block.", "", "Second thought block.", "Third thought."],
    ),
    Expected("opencode_run_http400", terminal=TurnFailed, message=REFUSED, code="APIError"),
    Expected(
        "opencode_run_errmid",
        terminal=TurnFailed,
        message=CUT_OFF,
        code="cut_off",
        status=["Asking the model again"] * 4,
        notes="killed in its tries",
    ),
    Expected("opencode_run_int", terminal=TurnFailed, message=CUT_OFF, code="cut_off"),
]
NAMES = [expected.recording for expected in EXPECTED]
SIGNATURES = [
    {"anthropic": {"signature": "c2lnLTE="}},
    {"anthropic": {"redactedData": "ZW5jcnlwdGVk"}},
    {"anthropic": {"signature": "c2lnLTI="}},
    {"anthropic": {"signature": "c2lnLTM="}},
]


@pytest.mark.parametrize("expected", EXPECTED, ids=NAMES)
def test_a_recording_comes_to_what_its_reader_expects(expected: Expected) -> None:
    hold(expected.recording, expected)


@pytest.mark.parametrize("expected", EXPECTED, ids=NAMES)
def test_a_recording_that_is_cut_anywhere_is_a_turn_with_one_end(expected: Expected) -> None:
    lines = heard(expected.recording)
    session = OpencodeBus(lines).translator.session_id
    for length in range(len(lines)):
        end = turn_of(translated(expected.recording, lines[:length])).terminal
        if any(_is_idle(line, session) for line in lines[:length]):
            assert type(end) is expected.terminal
        elif isinstance(end, TurnFailed):
            assert end.code == "cut_off" or end.message == expected.message
        else:
            assert isinstance(end, TurnCancelled)
            assert any(b"MessageAbortedError" in line for line in lines[:length])


def _is_idle(line: bytes, session: str) -> bool:
    event = json.loads(line)
    properties = event.get("properties", {})
    told = event["type"] == "session.idle" or properties.get("status") == {"type": "idle"}
    return bool(told and properties.get("sessionID") == session)


@pytest.mark.parametrize("expected", EXPECTED, ids=NAMES)
def test_what_nobody_can_read_changes_nothing_but_a_remark(expected: Expected) -> None:
    events = translated(expected.recording, with_junk(heard(expected.recording)))
    turn = turn_of(events)
    assert type(turn.terminal) is expected.terminal
    if not expected.status:  # behind a remark a failed try cannot be taken back
        assert said(events) == "".join(expected.answer)
    assert turn.tools == list(expected.tools)
    assert any("opencode sent an unknown event" in notice for notice in turn.notices)


@pytest.mark.parametrize("recording", ["opencode_serve_think2", "opencode_run_think2_anthropic"])
def test_what_a_provider_keeps_of_a_thought_is_kept_as_it_is(recording: str) -> None:
    events = translated(recording)
    assert [event.metadata for event in events if isinstance(event, ReasoningEnd)] == SIGNATURES


# The rules


def event(kind: str, session: str = "own", **properties: Any) -> dict[str, Any]:
    return {"type": kind, "properties": {"sessionID": session, **properties}}


def part(kind: str, session: str = "own", **fields: Any) -> dict[str, Any]:
    return event("message.part.updated", session, part={"id": "p", "type": kind, "messageID": "m", **fields})


def delta(text: str, session: str = "own", **fields: Any) -> dict[str, Any]:
    return event("message.part.delta", session, **{"partID": "p", "field": "text", "delta": text, **fields})


BUSY = event("session.status", status={"type": "busy"})
IDLE = event("session.idle")


def told(*events: dict[str, Any]) -> list[Event]:
    translator = OpencodeTranslator("own")
    return [told for native in (BUSY, *events) for told in translator.feed(native)]


def test_deltas_win_and_what_a_part_is_after_all_only_corrects_them() -> None:
    text = part("text", text="")
    done = part("text", text="one two", time={"start": 1, "end": 2})
    assert told(text, delta("one "), delta("two"), done) == [
        TextDelta(text="one "),
        TextDelta(text="two"),
        BlockFinal(),
    ]
    assert told(text, delta("one "), done)[-1] == BlockFinal(text="one two")
    assert told(done) == [BlockFinal(text="one two")]


def test_snapshots_of_a_part_become_what_is_new_of_it() -> None:
    grown = told(part("text", text="one "), part("text", text="one two"), part("text", text="uno due"))
    assert grown[:2] == [TextDelta(text="one "), TextDelta(text="two")]
    assert turn_of([*grown, TurnCompleted()]).answer == ["uno due"]


def test_a_piece_of_a_part_that_nobody_has_told_of_waits_for_the_part() -> None:
    done = part("text", text="one two", time={"start": 1, "end": 2})
    assert told(delta("one "), delta("two"), done) == [BlockFinal(text="one two")]


def test_what_is_said_to_the_agent_is_not_what_it_says() -> None:
    mine = event("message.updated", info={"id": "m", "role": "user"})
    assert told(mine, part("text", text="my own words")) == []
    assert told(part("text", text="put in by the program", synthetic=True)) == []


def test_what_others_do_on_the_same_server_is_not_heard() -> None:
    others = [part("text", "other", text="not for us"), event("session.idle", "other"), event("unheard.of", "other")]
    assert told(*others, {"type": "lsp.updated", "properties": {}}) == []


def tool(status: str, **state: Any) -> dict[str, Any]:
    return part("tool", tool="bash", callID="c", state={"status": status, **state})


def test_a_call_is_told_as_it_goes_on_and_nothing_twice() -> None:
    given_input = {"input": {"command": "ls"}}
    printed = [{"metadata": {"output": output}} for output in ("", "a\n", "a\nb\n", "a\nb\n")]
    events = told(
        tool("pending", input={}),
        *(tool("running", **given_input, **output) for output in printed),
        tool("completed", **given_input, output="a\nb\n", metadata={"exit": 0}),
        tool("completed", **given_input, output="a\nb\n", metadata={"exit": 0}),
    )
    assert events == [
        ToolStarted(id="c", name="bash"),
        ToolInput(id="c", arguments={"command": "ls"}),
        ToolOutput(id="c", data="a\n"),
        ToolOutput(id="c", data="b\n"),
        ToolFinished(id="c", result="a\nb\n"),
    ]


def test_a_tool_fails_by_its_exit_code_or_by_its_state() -> None:
    assert told(tool("completed", output="", metadata={"exit": 3}))[-1] == ToolFinished(id="c", is_error=True)
    assert told(tool("error", error="rejected"))[-1] == ToolFinished(id="c", result="rejected", is_error=True)


def test_tools_that_were_aborted_answer_after_the_end() -> None:
    events = translated("opencode_serve_abort")
    over = events.index(TurnCancelled())
    (late,) = events[over + 1 :]
    assert isinstance(late, ToolFinished)
    assert "tick 6" in late.result


def test_a_try_that_failed_is_taken_back_and_the_step_before_stands() -> None:
    events = told(
        part("step-start", messageID="m1"),
        part("text", id="a", text="first step", messageID="m1", time={"start": 1, "end": 2}),
        part("step-finish", messageID="m1", reason="tool-calls"),
        part("step-start", messageID="m2"),
        part("text", id="b", text="second", messageID="m2"),
        event("session.status", status={"type": "retry", "attempt": 1, "message": "overloaded"}),
        part("step-start", messageID="m2"),
        part("text", id="d", text="second step", messageID="m2"),
    )
    assert TextRetracted(reason="overloaded") in events
    assert Status(text="Asking the model again: overloaded") in events
    assert turn_of([*events, TurnCompleted()]).answer == ["first step", "second step"]


def test_a_step_that_begins_again_is_another_try_though_nobody_says_so() -> None:
    step = part("step-start")
    events = told(step, part("text", id="a", text="fir"), step, part("text", id="b", text="first"))
    assert turn_of([*events, TurnCompleted()]).answer == ["first"]


def test_the_turn_ends_once_when_its_session_is_idle_and_not_before_it_began() -> None:
    translator = OpencodeTranslator("own")
    assert translator.feed(IDLE) == []
    finished = part("step-finish", reason="length")
    assert told(part("step-start"), finished, IDLE, IDLE)[-1] == TurnCompleted(stop_reason="length")


def test_a_session_that_is_idle_in_the_middle_of_a_step_was_cut_off() -> None:
    assert told(part("step-start"), IDLE) == [TurnFailed(message=CUT_OFF, code="cut_off")]


def test_a_failure_counts_more_than_a_finished_step() -> None:
    failure = {"name": "APIError", "data": {"message": "no credit", "statusCode": 402}}
    finished = part("step-finish", reason="stop")
    expected = TurnFailed(message="no credit", code="APIError", status_code=402)
    assert told(finished, event("session.error", error=failure), IDLE) == [expected]
    assert told(finished, event("message.updated", info={"id": "m", "error": failure}), IDLE) == [expected]
    assert told(finished, {"type": "session.error", "properties": {"error": failure}}, IDLE) == [expected]


def test_usage_is_told_per_request_with_what_was_cached_and_thought() -> None:
    for recording, taken_in in {"opencode_serve_tool": 100, "opencode_serve_think2": 157}.items():
        spent = [event for event in translated(recording) if isinstance(event, Usage)]
        assert spent == [Usage(input_tokens=taken_in, output_tokens=33, scope="request")] * 2


def test_a_subagent_speaks_under_its_call_also_before_the_call_is_told() -> None:
    events = translated("opencode_serve_subagent")
    (call,) = [event.id for event in events if isinstance(event, ToolStarted) and event.name == "task"]
    children = [event for event in events if event not in own(events)]
    assert {getattr(event, "parent_tool_id", None) for event in children} == {call}
    child = event("session.created", "child", info={"id": "child", "parentID": "own"})
    early = told(
        child,
        part("text", "child", text="early"),
        event("session.error", "child", error={"name": "APIError"}),
        event("session.idle", "child"),
    )
    assert early == [
        TextDelta(text="early", parent_tool_id="child"),
        Error(message="APIError", code="APIError", parent_tool_id="child"),
    ]


def test_what_is_unknown_is_told_once_and_is_no_error() -> None:
    unheard = event("session.unheard", of="x")
    (notice,) = told(unheard, unheard, event("session.diff"), part("snapshot"))
    assert isinstance(notice, Notice)
    assert "session.unheard" in notice.text
    (notice,) = told(part("hologram"))
    assert isinstance(notice, Notice)


def test_a_plan_is_told_as_it_stands() -> None:
    todos = [{"content": "look", "status": "in_progress", "priority": "high"}]
    assert told(event("todo.updated", todos=todos)) == [
        PlanUpdated(items=(PlanItem(title="look", status="in_progress"),))
    ]


def test_what_the_agent_asks_for_waits_for_an_answer() -> None:
    bus = OpencodeBus(heard("opencode_serve_permission"))
    asked: list[OpencodeRequest] = []
    for line in heard("opencode_serve_permission"):
        bus.feed(line)
        asked += bus.translator.take_requests()
    (permission,) = asked
    assert permission.id == "per_1ee0042f4001ZWuGQLzfVgYpuZ"
    assert permission.question is not None
    assert permission.question.title == "bash echo tool-says-hi"
    translator = OpencodeTranslator("own")
    translator.feed(event("question.asked", id="que_1", questions=[]))
    translator.feed(event("permission.asked", "other", id="per_1", permission="bash"))
    translator.feed(event("permission.asked", id="per_2", permission="edit", patterns=["a.py", "b.py"]))
    question, edit = translator.take_requests()
    assert (question.id, question.question) == ("que_1", None)
    assert edit.question is not None
    assert edit.question.title == "edit a.py, b.py"
    assert translator.take_requests() == []


def test_a_long_answer_is_told_piece_by_piece() -> None:
    pieces = [delta(f"{number} ") for number in range(10_000)]
    whole = "".join(f"{number} " for number in range(10_000))
    events = told(part("text", text=""), *pieces, part("text", text=whole, time={"start": 1, "end": 2}))
    assert len(events) == 10_001
    assert events[-1] == BlockFinal()


def test_run_is_complete_when_its_last_step_is_and_not_when_it_went_on() -> None:
    def ended(*reasons: str) -> Event:
        translator = OpencodeRunTranslator()
        for reason in reasons:
            finish = {"id": "p", "type": "step-finish", "messageID": "m", "reason": reason}
            translator.feed(json.dumps({"type": "step_finish", "part": finish}).encode())
        (end,) = translator.close()
        return end

    assert ended("tool-calls", "stop") == TurnCompleted(stop_reason="stop")
    assert ended("stop", "tool-calls") == TurnFailed(message=CUT_OFF, code="cut_off")


@settings(max_examples=150)
@given(lines=st.lists(changed(["opencode_serve_tool", "opencode_serve_abort"]), max_size=8))
def test_whatever_the_server_tells_is_a_turn_with_one_end(lines: list[bytes]) -> None:
    turn_of(translated("opencode_serve_tool", lines))


@settings(max_examples=100)
@given(lines=st.lists(changed(["opencode_run_tool", "opencode_run_http400"]), max_size=8))
def test_whatever_the_command_prints_is_a_turn_with_one_end(lines: list[bytes]) -> None:
    turn_of(translated("opencode_run_tool", lines))
