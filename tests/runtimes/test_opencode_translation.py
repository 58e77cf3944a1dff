"""What the translators of opencode make of single events. Recordings are in `test_recordings`."""

from __future__ import annotations

import json
from typing import Any

import pytest
from recorded_turns import OpencodeBus, lines_of
from turns import Case, case, table

from tailrace.events import (
    BlockFinal,
    Error,
    Event,
    PlanItem,
    PlanUpdated,
    TextDelta,
    ToolFinished,
    ToolInput,
    ToolOutput,
    ToolStarted,
    TurnCompleted,
    TurnFailed,
)
from tailrace.runtimes.opencode.translator import OpencodeRequest, OpencodeRunTranslator, OpencodeTranslator

CUT = TurnFailed(message="opencode stopped before the turn was complete", code="cut_off")


def event(kind: str, session: str = "own", **properties: Any) -> dict[str, Any]:
    return {"type": kind, "properties": {"sessionID": session, **properties}}


def part(kind: str, session: str = "own", **fields: Any) -> dict[str, Any]:
    return event("message.part.updated", session, part={"id": "p", "type": kind, "messageID": "m", **fields})


def step(kind: str, message: str = "m", **fields: Any) -> dict[str, Any]:
    return part(f"step-{kind}", messageID=message, **fields)


def text(name: str, whole: str, message: str = "m", **fields: Any) -> dict[str, Any]:
    return part("text", id=name, text=whole, messageID=message, **fields)


def delta(text: str) -> dict[str, Any]:
    return event("message.part.delta", partID="p", field="text", delta=text)


def tool(status: str, **state: Any) -> dict[str, Any]:
    return part("tool", tool="bash", callID="c", state={"status": status, **state})


def translated(*natives: dict[str, Any]) -> list[Event]:
    """The events of a turn of these events that ends when its session is idle."""
    translator = OpencodeTranslator("own")
    busy = event("session.status", status={"type": "busy"})
    return [found for native in (busy, *natives, IDLE) for found in translator.feed(native)]


IDLE = event("session.idle")
WHOLE = {"start": 1, "end": 2}
LS = {"input": {"command": "ls"}}
PRINTED = [{"metadata": {"output": output}} for output in ("", "a\n", "a\nb\n", "a\nb\n")]
FAILURE = {"name": "APIError", "data": {"message": "no credit", "statusCode": 402}}
CHILD = event("session.created", "child", info={"id": "child", "parentID": "own"})
UNKNOWN = event("session.unheard", of="x")
OVERLOADED = event("session.status", status={"type": "retry", "attempt": 1, "message": "overloaded"})
TODOS = [{"content": "look", "status": "in_progress", "priority": "high"}]
DONE = TurnCompleted()


@table(
    case(
        "deltas before their part",
        *(delta("one "), delta("two"), part("text", text="one two", time=WHOLE)),
        events=[BlockFinal(text="one two"), DONE],
    ),
    case(
        "prompts are not the answer",
        event("message.updated", info={"id": "m", "role": "user"}),
        *(part("text", text="my own words"), part("text", text="put in by the program", synthetic=True)),
        events=[DONE],
    ),
    case(
        "other sessions",
        *(part("text", "other", text="not for us"), event("session.idle", "other"), event("unheard.of", "other")),
        {"type": "lsp.updated", "properties": {}},
        events=[DONE],
    ),
    case(
        "a call whose input and output are repeated",
        *(tool("pending", input={}), *(tool("running", **LS, **output) for output in PRINTED)),
        *[tool("completed", **LS, output="a\nb\n", metadata={"exit": 0})] * 2,
        events=[
            *(ToolStarted(id="c", name="bash"), ToolInput(id="c", arguments={"command": "ls"})),
            *(ToolOutput(id="c", data="a\n"), ToolOutput(id="c", data="b\n")),
            *(ToolFinished(id="c", result="a\nb\n"), DONE),
        ],
    ),
    case("a tool that failed by its exit code", tool("completed", metadata={"exit": 3}), tools=[("bash", True)]),
    case(
        "a rejected tool", tool("error", error="rejected"), tools=[("bash", True)], calls=[("bash", None, "rejected")]
    ),
    case(
        "a retry keeps the step before it",
        *(step("start", "m1"), text("a", "first step", "m1", time=WHOLE), step("finish", "m1", reason="tool-calls")),
        *(step("start", "m2"), text("b", "second", "m2"), OVERLOADED),
        *(step("start", "m2"), text("d", "second step", "m2"), step("finish", "m2", reason="stop")),
        answer=["first step", "second step"],
        status=["Asking the model again: overloaded"],
    ),
    case(
        "a step that starts again is a retry",
        *(step("start"), text("a", "fir"), step("start"), text("b", "first"), step("finish", reason="stop")),
        answer=["first"],
    ),
    case(
        "the end comes once",
        *(step("start"), step("finish", reason="length"), IDLE),
        events=[TurnCompleted(stop_reason="length")],
    ),
    case("idle within a step", step("start"), events=[CUT]),
    *(
        case(
            f"an error after a finished step: {native['type']}",
            *(step("finish", reason="stop"), native),
            events=[TurnFailed(message="no credit", code="APIError", status_code=402)],
        )
        for native in (
            event("session.error", error=FAILURE),
            event("message.updated", info={"id": "m", "error": FAILURE}),
            {"type": "session.error", "properties": {"error": FAILURE}},
        )
    ),
    case(
        "a subagent that speaks and fails before its call is known",
        *(CHILD, part("text", "child", text="early"), event("session.error", "child", error={"name": "APIError"})),
        event("session.idle", "child"),
        events=[
            TextDelta(text="early", parent_tool_id="child"),
            *(Error(message="APIError", code="APIError", parent_tool_id="child"), DONE),
        ],
    ),
    case(
        "unknown events of the session",
        *(UNKNOWN, UNKNOWN, event("session.diff"), part("snapshot"), part("hologram")),
        notices=[
            'opencode sent an unknown event: {"session.unheard": {"sessionID": "own", "of": "x"}}',
            f'opencode sent an unknown event: {{"message.part.updated": {json.dumps(part("hologram")["properties"])}}}',
        ],
    ),
    case(
        "a plan",
        event("todo.updated", todos=TODOS),
        events=[PlanUpdated(items=(PlanItem(title="look", status="in_progress"),)), DONE],
    ),
)
def test_events_of_a_turn(case: Case) -> None:
    case.check(translated(*case.natives))


def test_idle_before_the_turn_is_not_its_end() -> None:
    assert OpencodeTranslator("own").feed(IDLE) == []


def test_requests_wait_for_an_answer() -> None:
    bus = OpencodeBus("opencode_serve_permission")
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


@pytest.mark.parametrize(
    ("reasons", "end"),
    [(("tool-calls", "stop"), TurnCompleted(stop_reason="stop")), (("stop", "tool-calls"), CUT)],
)
def test_run_is_complete_if_its_last_step_is(reasons: tuple[str, str], end: Event) -> None:
    translator = OpencodeRunTranslator()
    for reason in reasons:
        finish = {"id": "p", "type": "step-finish", "messageID": "m", "reason": reason}
        translator.feed(json.dumps({"type": "step_finish", "part": finish}).encode())
    assert translator.close() == [end]
