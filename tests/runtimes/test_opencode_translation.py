"""What the translators of opencode make of single events."""

from __future__ import annotations

import json
from typing import Any

import pytest
from cli_streams import OpencodeBus, lines_of, own, translated
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
SIGNATURES = [
    {"anthropic": {"signature": "c2lnLTE="}},
    {"anthropic": {"redactedData": "ZW5jcnlwdGVk"}},
    {"anthropic": {"signature": "c2lnLTI="}},
    {"anthropic": {"signature": "c2lnLTM="}},
]


@pytest.mark.parametrize("recording", ["opencode_serve_think2", "opencode_run_think2_anthropic"])
def test_metadata_of_reasoning_is_passed_on(recording: str) -> None:
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


def events_of(*events: dict[str, Any]) -> list[Event]:
    translator = OpencodeTranslator("own")
    return [events_of for native in (BUSY, *events) for events_of in translator.feed(native)]


def test_delta_of_an_unknown_part_waits_for_the_part() -> None:
    done = part("text", text="one two", time={"start": 1, "end": 2})
    assert events_of(delta("one "), delta("two"), done) == [BlockFinal(text="one two")]


def test_prompts_are_no_part_of_the_answer() -> None:
    mine = event("message.updated", info={"id": "m", "role": "user"})
    assert events_of(mine, part("text", text="my own words")) == []
    assert events_of(part("text", text="put in by the program", synthetic=True)) == []


def test_other_sessions_are_ignored() -> None:
    others = [part("text", "other", text="not for us"), event("session.idle", "other"), event("unheard.of", "other")]
    assert events_of(*others, {"type": "lsp.updated", "properties": {}}) == []


def tool(status: str, **state: Any) -> dict[str, Any]:
    return part("tool", tool="bash", callID="c", state={"status": status, **state})


def test_call_is_streamed_without_repeating_anything() -> None:
    given_input = {"input": {"command": "ls"}}
    printed = [{"metadata": {"output": output}} for output in ("", "a\n", "a\nb\n", "a\nb\n")]
    events = events_of(
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


def test_tool_fails_by_its_exit_code_or_its_state() -> None:
    assert events_of(tool("completed", output="", metadata={"exit": 3}))[-1] == ToolFinished(id="c", is_error=True)
    assert events_of(tool("error", error="rejected"))[-1] == ToolFinished(id="c", result="rejected", is_error=True)


def test_aborted_tool_sends_its_result_after_the_end() -> None:
    events = translated("opencode_serve_abort")
    over = events.index(TurnCancelled())
    (late,) = events[over + 1 :]
    assert isinstance(late, ToolFinished)
    assert "tick 6" in late.result


def test_retry_retracts_the_failed_try_but_not_the_step_before() -> None:
    events = events_of(
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


def test_step_that_starts_again_is_a_retry() -> None:
    step = part("step-start")
    events = events_of(step, part("text", id="a", text="fir"), step, part("text", id="b", text="first"))
    assert turn_of([*events, TurnCompleted()]).answer == ["first"]


def test_turn_ends_once_when_its_session_is_idle() -> None:
    translator = OpencodeTranslator("own")
    assert translator.feed(IDLE) == []
    finished = part("step-finish", reason="length")
    assert events_of(part("step-start"), finished, IDLE, IDLE)[-1] == TurnCompleted(stop_reason="length")


def test_session_that_is_idle_within_a_step_was_cut_off() -> None:
    assert events_of(part("step-start"), IDLE) == [TurnFailed(message=CUT_OFF, code="cut_off")]


def test_reported_error_fails_the_turn_despite_a_finished_step() -> None:
    failure = {"name": "APIError", "data": {"message": "no credit", "statusCode": 402}}
    finished = part("step-finish", reason="stop")
    expected = TurnFailed(message="no credit", code="APIError", status_code=402)
    assert events_of(finished, event("session.error", error=failure), IDLE) == [expected]
    assert events_of(finished, event("message.updated", info={"id": "m", "error": failure}), IDLE) == [expected]
    assert events_of(finished, {"type": "session.error", "properties": {"error": failure}}, IDLE) == [expected]


def test_usage_counts_cached_and_reasoning_tokens() -> None:
    for recording, taken_in in {"opencode_serve_tool": 100, "opencode_serve_think2": 157}.items():
        spent = [event for event in translated(recording) if isinstance(event, Usage)]
        assert spent == [Usage(input_tokens=taken_in, output_tokens=33, scope="request")] * 2


def test_subagent_may_speak_before_its_call_is_known() -> None:
    events = translated("opencode_serve_subagent")
    (call,) = [event.id for event in events if isinstance(event, ToolStarted) and event.name == "task"]
    children = [event for event in events if event not in own(events)]
    assert {getattr(event, "parent_tool_id", None) for event in children} == {call}
    child = event("session.created", "child", info={"id": "child", "parentID": "own"})
    early = events_of(
        child,
        part("text", "child", text="early"),
        event("session.error", "child", error={"name": "APIError"}),
        event("session.idle", "child"),
    )
    assert early == [
        TextDelta(text="early", parent_tool_id="child"),
        Error(message="APIError", code="APIError", parent_tool_id="child"),
    ]


def test_only_unknown_events_of_the_session_are_reported() -> None:
    unheard = event("session.unheard", of="x")
    (notice,) = events_of(unheard, unheard, event("session.diff"), part("snapshot"))
    assert isinstance(notice, Notice)
    assert "session.unheard" in notice.text
    (notice,) = events_of(part("hologram"))
    assert isinstance(notice, Notice)


def test_plan_is_emitted() -> None:
    todos = [{"content": "look", "status": "in_progress", "priority": "high"}]
    assert events_of(event("todo.updated", todos=todos)) == [
        PlanUpdated(items=(PlanItem(title="look", status="in_progress"),))
    ]


def test_requests_wait_for_an_answer() -> None:
    bus = OpencodeBus(lines_of("opencode_serve_permission"))
    asked: list[OpencodeRequest] = []
    for line in lines_of("opencode_serve_permission"):
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


def test_run_is_complete_if_its_last_step_is() -> None:
    def ended(*reasons: str) -> Event:
        translator = OpencodeRunTranslator()
        for reason in reasons:
            finish = {"id": "p", "type": "step-finish", "messageID": "m", "reason": reason}
            translator.feed(json.dumps({"type": "step_finish", "part": finish}).encode())
        (end,) = translator.close()
        return end

    assert ended("tool-calls", "stop") == TurnCompleted(stop_reason="stop")
    assert ended("stop", "tool-calls") == TurnFailed(message=CUT_OFF, code="cut_off")
