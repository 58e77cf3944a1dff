"""What the translators and the client of codex make of single messages."""

from __future__ import annotations

import json
from typing import Any

import pytest
from cli_streams import Codex, lines_of, raw_lines, translated
from sdk_streams import RECORDINGS, turn_of

from tailrace.events import (
    BlockFinal,
    Event,
    Notice,
    PlanItem,
    PlanUpdated,
    ReasoningDelta,
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

APP_RECORDINGS = sorted(path.stem for path in RECORDINGS.glob("codex_app_*.ndjson") if "interrupt" not in path.stem)


def sent_in(recording: str) -> list[dict[str, Any]]:
    return [line["ev"] for line in map(json.loads, raw_lines(recording)) if line.get("dir") == "out"]


@pytest.mark.parametrize("recording", APP_RECORDINGS)
def test_client_sends_what_was_sent_when_it_was_recorded(recording: str) -> None:
    codex = Codex()
    for line in lines_of(recording):
        codex.feed(line)
    ours = [json.loads(line) for line in codex.sent]
    theirs = sent_in(recording)
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


# The rules


def events_of(*notifications: tuple[str, dict[str, Any]]) -> list[Event]:
    """What a turn of these notifications comes to, before its end."""
    translator = CodexTranslator()
    translator.thread_id = "own"
    translator.feed("turn/started", {"threadId": "own", "turn": {"status": "inProgress"}})
    return [event for method, params in notifications for event in translator.feed(method, params)]


def message(item_id: str, text: str) -> dict[str, Any]:
    return {"threadId": "own", "item": {"type": "agentMessage", "id": item_id, "text": text}}


def piece(item_id: str, text: str, thread: str = "own") -> dict[str, Any]:
    return {"threadId": thread, "itemId": item_id, "delta": text}


def answer_of(events: list[Event]) -> list[str]:
    return turn_of([*events, TurnCompleted()]).answer


def test_repeated_final_emits_nothing() -> None:
    done = ("item/completed", message("m", "once"))
    assert events_of(done, done) == [BlockFinal(text="once")]
    assert events_of(("item/agentMessage/delta", piece("m", "once")), done, done) == [
        TextDelta(text="once"),
        BlockFinal(),
    ]


def test_tool_may_report_output_and_result_after_the_end() -> None:
    command = {"type": "commandExecution", "id": "c", "command": "sleep 9"}
    done = {**command, "status": "completed", "aggregatedOutput": "late\n", "exitCode": 0}
    ended = ("turn/completed", {"threadId": "own", "turn": {"status": "interrupted"}})
    events = events_of(
        ("item/started", {"threadId": "own", "item": command}),
        ended,
        ("item/commandExecution/outputDelta", piece("c", "late\n")),
        ("item/agentMessage/delta", piece("m", "nobody hears this")),
        ("item/completed", {"threadId": "own", "item": done}),
        ended,
    )
    assert events == [
        ToolStarted(id="c", name="shell", arguments={"command": "sleep 9"}),
        TurnCancelled(),
        ToolOutput(id="c", data="late\n"),
        ToolFinished(id="c", result="late\n"),
    ]
    turn_of(events)


def test_output_before_the_start_of_a_call_is_in_its_result() -> None:
    events = translated("codex_app_longtool")
    printed = "".join(event.data for event in events if isinstance(event, ToolOutput))
    (result,) = [event.result for event in events if isinstance(event, ToolFinished)]
    assert result == f"line 1\n{printed}"


def test_retry_retracts_the_failed_try_but_not_the_call_before() -> None:
    failure = {"message": "Reconnecting... 1/5", "additionalDetails": "it broke"}
    spent = {"last": {"inputTokens": 1, "outputTokens": 1}}
    events = events_of(
        ("item/agentMessage/delta", piece("a", "first call")),
        ("item/completed", message("a", "first call")),
        ("thread/tokenUsage/updated", {"threadId": "own", "tokenUsage": spent}),
        ("item/agentMessage/delta", piece("b", "sec")),
        ("error", {"threadId": "own", "error": failure, "willRetry": True}),
        ("item/agentMessage/delta", piece("c", "second call")),
    )
    assert TextRetracted(reason="it broke") in events
    assert Status(text="Reconnecting... 1/5") in events
    assert answer_of(events) == ["first call", "second call"]


def test_reported_error_fails_the_turn_whatever_its_status() -> None:
    error = {"message": "it is over", "codexErrorInfo": {"httpConnectionFailed": {"httpStatusCode": 502}}}
    *_, end = events_of(
        ("error", {"threadId": "own", "error": error, "willRetry": False}),
        ("turn/completed", {"threadId": "own", "turn": {"status": "completed"}}),
    )
    assert end == TurnFailed(message="it is over", code="httpConnectionFailed", status_code=502)


def test_unknown_status_of_a_turn_is_a_failure() -> None:
    failed = {"status": "failed", "error": {"message": "no more", "codexErrorInfo": "usageLimitExceeded"}}
    assert events_of(("turn/completed", {"threadId": "own", "turn": failed})) == [
        TurnFailed(message="no more", code="usageLimitExceeded")
    ]
    assert events_of(("turn/completed", {"threadId": "own", "turn": {"status": "unheardOf"}})) == [
        TurnFailed(message="the turn ended as unheardOf")
    ]


def test_answer_that_comes_only_with_the_end_is_used() -> None:
    items = [{"type": "agentMessage", "id": "m", "text": "all of it"}]
    assert events_of(("turn/completed", {"threadId": "own", "turn": {"status": "completed", "items": items}})) == [
        TurnCompleted(text="all of it")
    ]


def test_usage_of_an_earlier_turn_is_ignored() -> None:
    spent = ("thread/tokenUsage/updated", {"tokenUsage": {"last": {"inputTokens": 7, "outputTokens": 3}}})
    assert events_of(spent) == [Usage(input_tokens=7, output_tokens=3, scope="request")]
    assert CodexTranslator().feed(*spent) == []
    (total,) = [event for event in translated("codex_exec_tool") if isinstance(event, Usage)]
    assert total == Usage(input_tokens=200, output_tokens=66, scope="session")


def test_subagent_speaks_under_the_call_that_started_it() -> None:
    call = {"type": "collabAgentToolCall", "id": "c", "tool": "spawnAgent", "receiverThreadIds": ["child"]}
    events = events_of(
        ("item/started", {"threadId": "own", "item": {**call, "prompt": "do it"}}),
        ("item/agentMessage/delta", piece("m", "I am the child", "child")),
        ("error", {"threadId": "child", "error": {"message": "child fails"}, "willRetry": False}),
        ("turn/completed", {"threadId": "child", "turn": {"status": "failed"}}),
        ("item/agentMessage/delta", piece("n", "I am a stranger", "stranger")),
    )
    assert events[0] == ToolStarted(id="c", name="spawnAgent", arguments={"prompt": "do it"})
    assert [getattr(event, "parent_tool_id", None) for event in events[1:]] == ["c", "c", "c", "stranger"]
    assert events[3] == BlockFinal(parent_tool_id="c"), "one does not run into the other"
    assert not any(isinstance(event, TurnFailed) for event in events)


def test_subagent_that_speaks_before_it_is_named_is_assigned_too() -> None:
    call = {"type": "collabAgentToolCall", "id": "c", "tool": "spawnAgent", "prompt": "do it"}
    events = events_of(
        ("item/started", {"threadId": "own", "item": {**call, "receiverThreadIds": []}}),
        ("warning", {"threadId": "child", "message": "a warning"}),
        ("item/completed", {"threadId": "own", "item": {**call, "receiverThreadIds": ["child"]}}),
        ("item/agentMessage/delta", piece("m", "I am the child", "child")),
    )
    assert {event.parent_tool_id for event in events if isinstance(event, Notice | TextDelta)} == {"c"}


def test_only_unknown_parts_of_the_turn_are_reported() -> None:
    unheard = ("item/unheardOf/delta", {"threadId": "own", "delta": "x"})
    (notice,) = events_of(unheard, unheard, ("account/unheardOf", {}), ("turn/diff/updated", {"diff": "x"}))
    assert isinstance(notice, Notice)
    assert "item/unheardOf/delta" in notice.text
    (notice,) = events_of(("item/completed", {"threadId": "own", "item": {"type": "unheardOf", "id": "1"}}))
    assert isinstance(notice, Notice)


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
    events = events_of(("item/completed", {"threadId": "own", "item": {"id": "1", **item}}))
    assert events == [
        ToolStarted(id="1", name=name, arguments=arguments),
        ToolFinished(id="1", result=result, is_error=is_error),
    ]


def test_plan_is_emitted_from_both_streams() -> None:
    plan = {"threadId": "own", "plan": [{"step": "look", "status": "completed"}]}
    looked = PlanUpdated(items=(PlanItem(title="look", status="completed"),))
    assert events_of(("turn/plan/updated", plan)) == [looked]
    item = {"id": "1", "type": "todo_list", "items": [{"text": "look", "completed": True}]}
    line = json.dumps({"type": "item.updated", "item": item}).encode()
    assert CodexExecTranslator().feed(line) == [looked]


def test_warning_is_shown_once_over_all_processes() -> None:
    warned: set[str] = set()
    given = {"threadId": "own", "message": "old settings"}
    first, second = CodexTranslator(warned), CodexTranslator(warned)
    events = [*first.feed("warning", given), *first.feed("configWarning", given), *second.feed("warning", given)]
    assert events == [Notice(text="old settings")]


def test_parts_of_reasoning_are_paragraphs() -> None:
    part = ("item/reasoning/summaryPartAdded", {"threadId": "own", "itemId": "r"})
    events = events_of(
        part,
        ("item/reasoning/summaryTextDelta", piece("r", "one")),
        part,
        ("item/reasoning/summaryTextDelta", piece("r", "two")),
        ("item/completed", {"threadId": "own", "item": {"type": "reasoning", "id": "r", "summary": ["one", "two"]}}),
    )
    assert "".join(event.text for event in events if isinstance(event, ReasoningDelta)) == "one\n\ntwo"
