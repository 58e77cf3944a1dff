"""What the translators and the client of codex make of single messages. Recordings are in `test_recordings`."""

from __future__ import annotations

import json
from typing import Any

import pytest
from recorded_turns import NAMES, Codex, lines_of, recorded
from turns import Case, case, table

from tailrace.events import (
    BlockFinal,
    Error,
    Event,
    Notice,
    PlanItem,
    PlanUpdated,
    Status,
    TextDelta,
    TextRetracted,
    ToolFinished,
    ToolOutput,
    ToolStarted,
    TurnCancelled,
    TurnCompleted,
    TurnFailed,
    Usage,
)
from tailrace.runtimes.codex.client import CodexClient
from tailrace.runtimes.codex.translator import CodexExecTranslator, CodexTranslator

# The client


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("codex_app") and "interrupt" not in name])
def test_client_sends_what_was_sent_when_it_was_recorded(name: str) -> None:
    codex = Codex()
    for line in lines_of(name):
        codex.feed(line)
    ours = [json.loads(line) for line in codex.sent]
    theirs = [line["ev"] for line in recorded(name) if line.get("dir") == "out"]
    assert [(message.get("id"), message.get("method")) for message in ours] == [
        (message.get("id"), message.get("method")) for message in theirs
    ]
    thread = next(message["params"]["threadId"] for message in theirs if message.get("method") == "turn/start")
    assert ours[3]["params"] == {"threadId": thread, "input": [{"type": "text", "text": "[[scenario]] go"}]}


def in_turn(client: CodexClient) -> CodexClient:
    """The client in the middle of its turn."""
    for line in lines_of("codex_app_tool")[:12]:
        client.feed(line)
    client.take_outgoing()
    return client


def sent(client: CodexClient) -> list[dict[str, Any]]:
    return [json.loads(line) for line in client.take_outgoing()]


def test_interrupt_names_the_turn_and_needs_one() -> None:
    client = CodexClient("hello")
    client.take_outgoing()
    client.interrupt()
    assert sent(client) == []
    in_turn(client).interrupt()
    (interruption,) = sent(client)
    assert interruption["method"] == "turn/interrupt"
    assert interruption["params"] == {
        "threadId": "01a1e052-d8ce-75c1-b680-4b4a59737ef9",
        "turnId": "01a1e052-d8e5-7af2-8d83-7ef1b28c8663",
    }


def test_lost_thread_is_replaced_by_a_new_one() -> None:
    client = CodexClient("hello", thread_id="earlier")
    client.take_outgoing()
    client.feed(b'{"id": 1, "result": {}}')
    assert sent(client)[1]["params"] == {"threadId": "earlier"}
    events = client.feed(b'{"id": 2, "error": {"code": -32600, "message": "no rollout found"}}')
    assert events == [Notice(text="codex starts a new conversation: no rollout found")]
    assert [message["method"] for message in sent(client)] == ["thread/start"]
    client.feed(b'{"id": 3, "result": {"thread": {"id": "later"}}}')
    assert client.thread_id == "later"


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ([b'{"id": 1, "error": {"message": "no"}}'], "no"),
        ([b'{"id": 1, "result": {}}', b'{"id": 2, "error": {"message": "not here"}}'], "not here"),
        ([b'{"id": 1, "result": {}}', b'{"id": 2, "result": 5}'], "codex sent a response that cannot be read"),
        (
            [
                b'{"id": 1, "result": {}}',
                b'{"id": 2, "result": {"thread": {"id": "t"}}}',
                b'{"id": 3, "error": {"message": "busy"}}',
            ],
            "busy",
        ),
    ],
)
def test_error_response_ends_the_turn_with_its_reason(answers: list[bytes], message: str) -> None:
    client = CodexClient("hello")
    events = [event for answer in answers for event in client.feed(answer)]
    (failed,) = events
    assert isinstance(failed, TurnFailed)
    assert failed.message.startswith(message)
    assert client.translator.turn.is_finished


def requested(method: str, **params: Any) -> CodexClient:
    """A client in its turn that received a request; they are numbered from 0."""
    client = in_turn(CodexClient("hello"))
    assert client.feed(json.dumps({"method": method, "id": 0, "params": params}).encode()) == []
    return client


COMMAND = {"command": "/bin/bash -lc 'rm -r everything'"}
FORM = {"message": "Your name?", "requestedSchema": {"properties": {"name": {"type": "string"}}}}
AGREEMENT = {"message": "Go on?", "requestedSchema": {"properties": {}}}


@pytest.mark.parametrize(
    ("method", "params", "title", "allowed", "denied"),
    [
        (
            "item/commandExecution/requestApproval",
            COMMAND,
            "Run rm -r everything",
            {"decision": "accept"},
            {"decision": "decline"},
        ),
        (
            "item/fileChange/requestApproval",
            {"reason": "outside"},
            "outside",
            {"decision": "accept"},
            {"decision": "decline"},
        ),
        (
            "execCommandApproval",
            {"command": ["rm", "-r"]},
            "Run rm -r",
            {"decision": "approved"},
            {"decision": "denied"},
        ),
        ("applyPatchApproval", {}, "Change files", {"decision": "approved"}, {"decision": "denied"}),
        (
            "item/permissions/requestApproval",
            {"permissions": {"network": {"enabled": True}}},
            "Have further permissions",
            {"permissions": {"network": {"enabled": True}}},
            {"permissions": {}},
        ),
        (
            "mcpServer/elicitation/request",
            AGREEMENT,
            "Go on?",
            {"action": "accept", "content": {}},
            {"action": "decline"},
        ),
        ("mcpServer/elicitation/request", FORM, "Your name?", {"action": "decline"}, {"action": "decline"}),
    ],
)
def test_approval_request_becomes_a_question_and_is_answered(
    method: str, params: dict[str, Any], title: str, allowed: dict[str, Any], denied: dict[str, Any]
) -> None:
    for result in (allowed, denied):
        client = requested(method, **params)
        (request,) = client.take_approval_requests()
        assert request.question.title == title
        choice = request.question.allowing() if result is allowed else None
        client.answer(request, choice)
        assert sent(client) == [{"jsonrpc": "2.0", "id": 0, "result": result}]


def test_unsupported_request_is_answered_at_once() -> None:
    answers: dict[str, dict[str, Any]] = {
        "item/tool/requestUserInput": {"result": {"answers": {}}},
        "item/tool/call": {"result": {"contentItems": [], "success": False}},
        "attestation/generate": {"error": {"code": -32601, "message": "attestation/generate is not supported"}},
    }
    for method, answer in answers.items():
        client = requested(method)
        assert client.take_approval_requests() == []
        assert sent(client) == [{"jsonrpc": "2.0", "id": 0, **answer}]


# The translators


def translated(*notifications: tuple[str, dict[str, Any]]) -> list[Event]:
    """What comes of a turn of these notifications, which completes if none of them ends it."""
    translator = CodexTranslator()
    translator.thread_id = "own"
    natives = [("turn/started", {"turn": {"status": "inProgress"}}), *notifications, ended("completed")]
    return [event for method, params in natives for event in translator.feed(method, {"threadId": "own", **params})]


def ended(status: str, **turn: Any) -> tuple[str, dict[str, Any]]:
    return "turn/completed", {"turn": {"status": status, **turn}}


def message(item_id: str, text: str) -> tuple[str, dict[str, Any]]:
    return "item/completed", {"item": {"type": "agentMessage", "id": item_id, "text": text}}


def piece(item_id: str, text: str, thread: str = "own") -> tuple[str, dict[str, Any]]:
    return "item/agentMessage/delta", {"threadId": thread, "itemId": item_id, "delta": text}


def summary(text: str) -> tuple[str, dict[str, Any]]:
    return "item/reasoning/summaryTextDelta", {"itemId": "r", "delta": text}


def spent(taken_in: int, given_out: int) -> tuple[str, dict[str, Any]]:
    last = {"inputTokens": taken_in, "outputTokens": given_out}
    return "thread/tokenUsage/updated", {"tokenUsage": {"last": last}}


def error(**fields: Any) -> tuple[str, dict[str, Any]]:
    return "error", fields


SLEEP = {"type": "commandExecution", "id": "c", "command": "sleep 9"}
SLEPT = {**SLEEP, "status": "completed", "aggregatedOutput": "late\n", "exitCode": 0}
SPAWN = {"type": "collabAgentToolCall", "id": "c", "tool": "spawnAgent", "prompt": "do it"}
SPAWN_CHILD = {**SPAWN, "receiverThreadIds": ["child"]}
SPAWNED = ToolStarted(id="c", name="spawnAgent", arguments={"prompt": "do it"})
PART = ("item/reasoning/summaryPartAdded", {"itemId": "r"})
THOUGHT = {"type": "reasoning", "id": "r", "summary": ["one", "two"]}
RECONNECTING = {"message": "Reconnecting... 1/5", "additionalDetails": "it broke"}
GATEWAY = {"message": "it is over", "codexErrorInfo": {"httpConnectionFailed": {"httpStatusCode": 502}}}
NO_MORE = {"message": "no more", "codexErrorInfo": "usageLimitExceeded"}
DONE = TurnCompleted()


@table(
    case("a repeated whole", message("m", "once"), message("m", "once"), events=[BlockFinal(text="once"), DONE]),
    case(
        "output and result of a tool after the end",
        *(("item/started", {"item": SLEEP}), ended("interrupted")),
        ("item/commandExecution/outputDelta", {"itemId": "c", "delta": "late\n"}),
        *(piece("m", "this is not shown"), ("item/completed", {"item": SLEPT})),
        events=[
            *(ToolStarted(id="c", name="shell", arguments={"command": "sleep 9"}), TurnCancelled()),
            *(ToolOutput(id="c", data="late\n"), ToolFinished(id="c", result="late\n")),
        ],
    ),
    case(
        "a retry keeps the model call before it",
        *(piece("a", "first call"), message("a", "first call"), spent(1, 1), piece("b", "sec")),
        *(error(error=RECONNECTING, willRetry=True), piece("c", "second call")),
        events=[
            *(TextDelta(text="first call"), BlockFinal(), Usage(input_tokens=1, output_tokens=1, scope="request")),
            *(TextDelta(text="sec"), TextRetracted(reason="it broke"), BlockFinal(text="first call")),
            *(Status(text="Reconnecting... 1/5"), TextDelta(text="second call"), DONE),
        ],
    ),
    case(
        "an error before a completed turn",
        error(error=GATEWAY, willRetry=False),
        events=[TurnFailed(message="it is over", code="httpConnectionFailed", status_code=502)],
    ),
    case(
        "a failed turn",
        ended("failed", error=NO_MORE),
        events=[TurnFailed(message="no more", code="usageLimitExceeded")],
    ),
    case("an unknown status", ended("unheardOf"), events=[TurnFailed(message="the turn ended as unheardOf")]),
    case(
        "the answer in the end alone",
        ended("completed", items=[{"type": "agentMessage", "id": "m", "text": "all of it"}]),
        events=[TurnCompleted(text="all of it")],
    ),
    case(
        "a subagent, also if it fails, and a thread that nothing has started",
        ("item/started", {"item": SPAWN_CHILD}),
        piece("m", "I am the child", "child"),
        error(threadId="child", error={"message": "child fails"}, willRetry=False),
        ("turn/completed", {"threadId": "child", "turn": {"status": "failed"}}),
        piece("n", "I am a stranger", "stranger"),
        events=[
            *(SPAWNED, TextDelta(text="I am the child", parent_tool_id="c")),
            *(Error(message="child fails", parent_tool_id="c"), BlockFinal(parent_tool_id="c")),
            *(TextDelta(text="I am a stranger", parent_tool_id="stranger"), DONE),
        ],
    ),
    case(
        "a subagent that speaks before it is named",
        ("item/started", {"item": {**SPAWN, "receiverThreadIds": []}}),
        ("warning", {"threadId": "child", "message": "a warning"}),
        *(("item/completed", {"item": SPAWN_CHILD}), piece("m", "I am the child", "child")),
        events=[
            *(SPAWNED, Notice(text="a warning", parent_tool_id="c"), ToolFinished(id="c")),
            *(TextDelta(text="I am the child", parent_tool_id="c"), DONE),
        ],
    ),
    case(
        "unknown parts of the turn, but not of the account",
        *[("item/unheardOf/delta", {"delta": "x"})] * 2,
        *(("account/unheardOf", {}), ("turn/diff/updated", {"diff": "x"})),
        ("item/completed", {"item": {"type": "unheardOf"}}),
        notices=[
            'codex sent an unknown event: {"item/unheardOf/delta": {"threadId": "own", "delta": "x"}}',
            'codex sent an unknown event: {"item/completed": {"threadId": "own", "item": {"type": "unheardOf"}}}',
        ],
    ),
    case(
        "a plan",
        ("turn/plan/updated", {"plan": [{"step": "look", "status": "completed"}]}),
        events=[PlanUpdated(items=(PlanItem(title="look", status="completed"),)), DONE],
    ),
    case(
        "parts of reasoning",
        *(PART, summary("one"), PART, summary("two"), ("item/completed", {"item": THOUGHT})),
        thoughts=["one\n\ntwo"],
    ),
)
def test_notifications(case: Case) -> None:
    case.check(translated(*case.natives))


def test_usage_before_the_turn_is_of_an_earlier_one() -> None:
    assert Usage(input_tokens=7, output_tokens=3, scope="request") in translated(spent(7, 3))
    assert CodexTranslator().feed(*spent(7, 3)) == []


@pytest.mark.parametrize(
    ("item", "name", "arguments", "result", "is_error"),
    [
        (
            {"type": "fileChange", "changes": [{"path": "a.py", "kind": {"type": "add"}, "diff": "+1"}]},
            "apply_patch",
            {"path": "a.py", "changes": [{"path": "a.py", "kind": {"type": "add"}, "diff": "+1"}]},
            "",
            False,
        ),
        (
            {"type": "fileChange", "changes": [], "status": "declined"},
            "apply_patch",
            {"path": "", "changes": []},
            "declined",
            True,
        ),
        (
            {"type": "mcpToolCall", "server": "s", "tool": "t", "arguments": {"a": 1}, "result": {"content": ["x"]}},
            "s.t",
            {"a": 1},
            {"content": ["x"]},
            False,
        ),
        (
            {"type": "mcpToolCall", "server": "s", "tool": "t", "error": {"message": "no"}, "status": "failed"},
            "s.t",
            None,
            "no",
            True,
        ),
        ({"type": "dynamicToolCall", "tool": "t", "contentItems": ["x"], "success": False}, "t", None, ["x"], True),
        ({"type": "webSearch", "query": "tides"}, "web_search", {"query": "tides"}, "", False),
        ({"type": "imageView", "path": "a.png"}, "view_image", {"path": "a.png"}, "", False),
        ({"type": "imageGeneration", "result": "…"}, "image_generation", None, "", False),
        (
            {"type": "commandExecution", "command": "false", "status": "completed", "exitCode": 1},
            "shell",
            {"command": "false"},
            "",
            True,
        ),
        (
            {"type": "commandExecution", "command": "bash -lc 'unfinished"},
            "shell",
            {"command": "bash -lc 'unfinished"},
            "",
            False,
        ),
    ],
)
def test_each_kind_of_call_has_a_name_and_a_result(
    item: dict[str, Any], name: str, arguments: Any, result: Any, is_error: bool
) -> None:
    assert translated(("item/completed", {"item": {"id": "1", **item}})) == [
        ToolStarted(id="1", name=name, arguments=arguments),
        ToolFinished(id="1", result=result, is_error=is_error),
        DONE,
    ]


def test_plan_of_codex_exec_is_emitted() -> None:
    item = {"id": "1", "type": "todo_list", "items": [{"text": "look", "completed": True}]}
    line = json.dumps({"type": "item.updated", "item": item}).encode()
    plan = PlanUpdated(items=(PlanItem(title="look", status="completed"),))
    assert CodexExecTranslator().feed(line) == [plan]


def test_warning_is_shown_once_over_all_processes() -> None:
    warned: set[str] = set()
    given = {"threadId": "own", "message": "old settings"}
    first, second = CodexTranslator(warned), CodexTranslator(warned)
    events = [*first.feed("warning", given), *first.feed("configWarning", given), *second.feed("warning", given)]
    assert events == [Notice(text="old settings")]
