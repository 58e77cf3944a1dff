"""What the translators and the client of codex make of single messages. Turns are in `made_turns` and `recordings`."""

from __future__ import annotations

import json
from typing import Any

import pytest
from recorded_turns import NAMES, Codex, lines_of, recorded

from tailrace.events import Notice, PlanItem, PlanUpdated, TurnFailed, Usage
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


def test_usage_before_the_turn_is_of_an_earlier_one() -> None:
    translator = CodexTranslator()
    usage = ("thread/tokenUsage/updated", {"tokenUsage": {"last": {"inputTokens": 7, "outputTokens": 3}}})
    assert translator.feed(*usage) == []
    translator.feed("turn/started", {"turn": {"status": "inProgress"}})
    assert translator.feed(*usage) == [Usage(input_tokens=7, output_tokens=3, scope="request")]


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
