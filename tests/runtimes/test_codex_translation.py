"""codex as it was recorded, and what a reader of the recordings expects of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from cli_streams import METADATA, Codex, Expected, changed, heard, hold, raw_lines, said, translated, with_junk
from hypothesis import given, settings
from hypothesis import strategies as st
from sdk_streams import turn_of

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

CUT_OFF = "codex stopped before the turn was complete"
BROKEN = "stream disconnected before completion: fake failure mid-stream"
CUT = "stream disconnected before completion: stream closed before response.completed"
REFUSED = "invalid request from fake"
BUSY = "We’re currently experiencing high demand, which may cause temporary errors."

EXPECTED = [
    Expected(
        "codex_app_tool",
        ["Let me check.", "The tool said hi."],
        [("shell", False)],
        ["I should run a command.", "Now I know."],
    ),
    Expected("codex_app_parallel", ["Running two.", "Both done."], [("shell", False), ("shell", False)]),
    Expected("codex_app_longtool", ["Long tool.", "Long done."], [("shell", False)]),
    Expected("codex_app_toolfail", ["Trying.", "It failed as expected."], [("shell", True)]),
    Expected("codex_app_approval_accept", ["Trying.", "It failed as expected."], [("shell", True)]),
    Expected(
        "codex_app_approval_decline",
        ["Let me check.", "The tool said hi."],
        [("shell", True)],
        ["I should run a command.", "Now I know."],
        notes="declined: the command did not run, whatever the scripted model says of it",
    ),
    Expected("codex_app_two_calls", ["Delegating.", "Parent done."], notes="nothing is told between the model calls"),
    Expected(
        "codex_app_errmid",
        ["This will break"],
        terminal=TurnFailed,
        message=BROKEN,
        status=["Reconnecting... 1/1"],
        notes="said twice, the first time by a try that failed",
    ),
    Expected("codex_app_http400", terminal=TurnFailed, message=REFUSED, notes="told as an error, and as the end"),
    Expected("codex_app_interrupt_midtext", ["Before stall "], terminal=TurnCancelled),
    Expected("codex_app_interrupt_midtool", ["Blocking tool."], [("shell", None)], terminal=TurnCancelled),
    Expected("codex_exec_hello", ["Hello from the fake model."]),
    Expected(
        "codex_exec_tool",
        ["Let me check.", "The tool said hi."],
        [("shell", False)],
        ["I should run a command.", "Now I know."],
    ),
    Expected(
        "codex_exec_think2",
        ["Answer after two thoughts.", "Final."],
        [("shell", False)],
        ["First thought block.\n\nSecond thought block.", "Third thought."],
    ),
    Expected("codex_exec_longtool", ["Long tool.", "Long done."], [("shell", False)]),
    Expected("codex_exec_empty", ["Héllo wörld 👋🏽"], [("shell", False)], notes="its last message is empty"),
    Expected(
        "codex_exec_cut",
        ["This will be cut"],
        terminal=TurnFailed,
        message=CUT,
        status=[f"Reconnecting... 1/1 ({CUT})"],
    ),
    Expected(
        "codex_exec_errmid",
        ["This will break"],
        terminal=TurnFailed,
        message=BROKEN,
        status=[f"Reconnecting... 1/1 ({BROKEN})"],
    ),
    Expected("codex_exec_http400", terminal=TurnFailed, message=REFUSED),
    Expected("codex_exec_http500", terminal=TurnFailed, message=BUSY, status=[f"Reconnecting... 1/1 ({BUSY})"]),
    Expected("codex_exec_int_stall", ["Before stall "], terminal=TurnFailed, message=CUT_OFF, code="cut_off"),
    Expected(
        "codex_exec_int_stalltool",
        ["Blocking tool."],
        [("shell", None)],
        terminal=TurnFailed,
        message=CUT_OFF,
        code="cut_off",
    ),
]
ENDS = (b'"turn/completed"', b'"turn.completed"', b'"turn.failed"')
NAMES = [expected.recording for expected in EXPECTED]


@pytest.mark.parametrize("expected", EXPECTED, ids=NAMES)
def test_a_recording_comes_to_what_its_reader_expects(expected: Expected) -> None:
    hold(expected.recording, Expected(**{**vars(expected), "notices": [METADATA]}))


@pytest.mark.parametrize("expected", EXPECTED, ids=NAMES)
def test_a_recording_that_is_cut_anywhere_is_a_turn_with_one_end(expected: Expected) -> None:
    lines = heard(expected.recording)
    end = translated(expected.recording)[-1]
    for length in range(len(lines)):
        turn = turn_of(translated(expected.recording, lines[:length]))
        if any(mark in line for mark in ENDS for line in lines[:length]):
            assert turn.terminal == end
        else:
            assert isinstance(turn.terminal, TurnFailed)
            assert turn.terminal.code == "cut_off" or turn.terminal.message == expected.message


@pytest.mark.parametrize("expected", EXPECTED, ids=NAMES)
def test_what_nobody_can_read_changes_nothing_but_a_remark(expected: Expected) -> None:
    events = translated(expected.recording, with_junk(heard(expected.recording)))
    turn = turn_of(events)
    assert type(turn.terminal) is expected.terminal
    if not expected.status:  # behind a remark a failed try cannot be taken back
        assert said(events) == "".join(expected.answer)
    assert turn.tools == list(expected.tools)
    assert any("codex sent an unknown event" in notice for notice in turn.notices)


# The talk with the server


def sent_in(recording: str) -> list[dict[str, Any]]:
    return [line["ev"] for line in map(json.loads, raw_lines(recording)) if line.get("dir") == "out"]


@pytest.mark.parametrize("recording", [name for name in NAMES if name.startswith("codex_app") and "int" not in name])
def test_the_server_is_told_what_it_was_told_when_it_was_recorded(recording: str) -> None:
    codex = Codex()
    for line in heard(recording):
        codex.feed(line)
    ours = [json.loads(line) for line in codex.sent]
    theirs = sent_in(recording)
    assert [(message.get("id"), message.get("method")) for message in ours] == [
        (message.get("id"), message.get("method")) for message in theirs
    ]
    thread = next(message["params"]["threadId"] for message in theirs if message.get("method") == "turn/start")
    assert ours[3]["params"] == {"threadId": thread, "input": [{"type": "text", "text": "[[scenario]] go"}]}


def begun(dialogue: CodexClient) -> CodexClient:
    """A dialogue in the middle of its turn."""
    for line in heard("codex_app_tool")[:12]:
        dialogue.feed(line)
    dialogue.take_outgoing()
    return dialogue


def outgoing(dialogue: CodexClient) -> list[dict[str, Any]]:
    return [json.loads(line) for line in dialogue.take_outgoing()]


def test_an_interruption_names_the_turn_and_is_not_sent_where_there_is_none() -> None:
    dialogue = CodexClient("hello")
    dialogue.take_outgoing()
    dialogue.interrupt()
    assert outgoing(dialogue) == []
    begun(dialogue).interrupt()
    (interruption,) = outgoing(dialogue)
    assert interruption["method"] == "turn/interrupt"
    assert interruption["params"] == {
        "threadId": "01a1e052-d8ce-75c1-b680-4b4a59737ef9",
        "turnId": "01a1e052-d8e5-7af2-8d83-7ef1b28c8663",
    }


def test_a_thread_that_is_known_is_resumed_and_one_that_is_gone_begun_anew() -> None:
    dialogue = CodexClient("hello", thread_id="earlier")
    dialogue.take_outgoing()
    dialogue.feed(b'{"id": 1, "result": {}}')
    assert outgoing(dialogue)[1]["params"] == {"threadId": "earlier"}
    told = dialogue.feed(b'{"id": 2, "error": {"code": -32600, "message": "no rollout found"}}')
    assert told == [Notice(text="codex starts a new conversation: no rollout found")]
    assert [message["method"] for message in outgoing(dialogue)] == ["thread/start"]
    dialogue.feed(b'{"id": 3, "result": {"thread": {"id": "later"}}}')
    assert dialogue.thread_id == "later"


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
def test_a_server_that_refuses_ends_the_turn_and_says_why(answers: list[bytes], message: str) -> None:
    dialogue = CodexClient("hello")
    events = [event for answer in answers for event in dialogue.feed(answer)]
    (failed,) = events
    assert isinstance(failed, TurnFailed)
    assert failed.message.startswith(message)
    assert dialogue.translator.turn.is_finished


def asked(method: str, **params: Any) -> CodexClient:
    """A dialogue that was asked something, by a request that counts from 0."""
    dialogue = begun(CodexClient("hello"))
    assert dialogue.feed(json.dumps({"method": method, "id": 0, "params": params}).encode()) == []
    return dialogue


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
def test_what_the_server_wants_to_be_allowed_is_asked_and_answered(
    method: str, params: dict[str, Any], title: str, allowed: dict[str, Any], denied: dict[str, Any]
) -> None:
    for result in (allowed, denied):
        dialogue = asked(method, **params)
        (request,) = dialogue.take_approval_requests()
        assert request.question.title == title
        choice = request.question.allowing() if result is allowed else None
        dialogue.answer(request, choice)
        assert outgoing(dialogue) == [{"jsonrpc": "2.0", "id": 0, "result": result}]


def test_what_cannot_be_done_for_the_server_is_answered_at_once() -> None:
    answers: dict[str, dict[str, Any]] = {
        "item/tool/requestUserInput": {"result": {"answers": {}}},
        "item/tool/call": {"result": {"contentItems": [], "success": False}},
        "attestation/generate": {"error": {"code": -32601, "message": "attestation/generate is not supported"}},
    }
    for method, answer in answers.items():
        dialogue = asked(method)
        assert dialogue.take_approval_requests() == []
        assert outgoing(dialogue) == [{"jsonrpc": "2.0", "id": 0, **answer}]


# The rules


def told(*notifications: tuple[str, dict[str, Any]]) -> list[Event]:
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


def test_deltas_win_and_a_final_that_says_more_only_adds_it() -> None:
    events = told(("item/agentMessage/delta", piece("m", "one ")), ("item/completed", message("m", "one two")))
    assert events == [TextDelta(text="one "), BlockFinal(text="one two")]
    assert answer_of(events) == ["one two"]


def test_a_final_that_is_told_again_says_nothing_again() -> None:
    done = ("item/completed", message("m", "once"))
    assert told(done, done) == [BlockFinal(text="once")]
    assert told(("item/agentMessage/delta", piece("m", "once")), done, done) == [TextDelta(text="once"), BlockFinal()]


def test_a_block_is_not_known_by_the_providers_id_alone() -> None:
    again = [
        ("item/started", message("__fake_id__", "")),
        ("item/agentMessage/delta", piece("__fake_id__", "same words")),
        ("item/completed", message("__fake_id__", "same words")),
    ]
    assert answer_of(told(*again, *again)) == ["same words", "same words"]
    assert answer_of(told(*again[1:], *again[1:])) == ["same words", "same words"]


def test_a_tool_is_known_by_its_call_over_model_calls_and_may_answer_after_the_end() -> None:
    command = {"type": "commandExecution", "id": "c", "command": "sleep 9"}
    done = {**command, "status": "completed", "aggregatedOutput": "late\n", "exitCode": 0}
    ended = ("turn/completed", {"threadId": "own", "turn": {"status": "interrupted"}})
    events = told(
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


def test_what_a_command_prints_before_it_is_announced_is_in_its_result() -> None:
    events = translated("codex_app_longtool")
    printed = "".join(event.data for event in events if isinstance(event, ToolOutput))
    (result,) = [event.result for event in events if isinstance(event, ToolFinished)]
    assert result == f"line 1\n{printed}"


def test_a_retry_takes_back_what_the_failed_try_said_and_nothing_of_the_call_before() -> None:
    failure = {"message": "Reconnecting... 1/5", "additionalDetails": "it broke"}
    spent = {"last": {"inputTokens": 1, "outputTokens": 1}}
    events = told(
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


def test_the_end_is_a_failure_if_one_was_told_whatever_the_turn_claims() -> None:
    error = {"message": "it is over", "codexErrorInfo": {"httpConnectionFailed": {"httpStatusCode": 502}}}
    *_, end = told(
        ("error", {"threadId": "own", "error": error, "willRetry": False}),
        ("turn/completed", {"threadId": "own", "turn": {"status": "completed"}}),
    )
    assert end == TurnFailed(message="it is over", code="httpConnectionFailed", status_code=502)


def test_a_turn_that_ends_as_anything_but_completed_or_interrupted_has_failed() -> None:
    failed = {"status": "failed", "error": {"message": "no more", "codexErrorInfo": "usageLimitExceeded"}}
    assert told(("turn/completed", {"threadId": "own", "turn": failed})) == [
        TurnFailed(message="no more", code="usageLimitExceeded")
    ]
    assert told(("turn/completed", {"threadId": "own", "turn": {"status": "unheardOf"}})) == [
        TurnFailed(message="the turn ended as unheardOf")
    ]


def test_an_answer_that_was_only_told_at_the_end_is_told() -> None:
    items = [{"type": "agentMessage", "id": "m", "text": "all of it"}]
    assert told(("turn/completed", {"threadId": "own", "turn": {"status": "completed", "items": items}})) == [
        TurnCompleted(text="all of it")
    ]


def test_usage_is_told_per_request_and_what_an_earlier_turn_spent_is_not_told_again() -> None:
    spent = ("thread/tokenUsage/updated", {"tokenUsage": {"last": {"inputTokens": 7, "outputTokens": 3}}})
    assert told(spent) == [Usage(input_tokens=7, output_tokens=3, scope="request")]
    assert CodexTranslator().feed(*spent) == []
    (total,) = [event for event in translated("codex_exec_tool") if isinstance(event, Usage)]
    assert total == Usage(input_tokens=200, output_tokens=66, scope="session")


def test_a_subagent_speaks_under_the_call_that_began_it() -> None:
    call = {"type": "collabAgentToolCall", "id": "c", "tool": "spawnAgent", "receiverThreadIds": ["child"]}
    events = told(
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


def test_a_subagent_that_speaks_before_it_is_named_speaks_under_the_call_too() -> None:
    call = {"type": "collabAgentToolCall", "id": "c", "tool": "spawnAgent", "prompt": "do it"}
    events = told(
        ("item/started", {"threadId": "own", "item": {**call, "receiverThreadIds": []}}),
        ("warning", {"threadId": "child", "message": "a warning"}),
        ("item/completed", {"threadId": "own", "item": {**call, "receiverThreadIds": ["child"]}}),
        ("item/agentMessage/delta", piece("m", "I am the child", "child")),
    )
    assert {event.parent_tool_id for event in events if isinstance(event, Notice | TextDelta)} == {"c"}


def test_what_is_unknown_is_told_once_and_is_no_error() -> None:
    unheard = ("item/unheardOf/delta", {"threadId": "own", "delta": "x"})
    (notice,) = told(unheard, unheard, ("account/unheardOf", {}), ("turn/diff/updated", {"diff": "x"}))
    assert isinstance(notice, Notice)
    assert "item/unheardOf/delta" in notice.text
    (notice,) = told(("item/completed", {"threadId": "own", "item": {"type": "unheardOf", "id": "1"}}))
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
        (
            {"type": "dynamicToolCall", "tool": "t", "contentItems": ["x"], "success": False},
            "t",
            None,
            ["x"],
            True,
        ),
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
def test_each_kind_of_call_is_told_by_name_with_what_came_of_it(
    item: dict[str, Any], name: str, arguments: Any, result: Any, is_error: bool
) -> None:
    events = told(("item/completed", {"threadId": "own", "item": {"id": "1", **item}}))
    assert events == [
        ToolStarted(id="1", name=name, arguments=arguments),
        ToolFinished(id="1", result=result, is_error=is_error),
    ]


def test_a_plan_is_told_as_it_stands_by_both_streams() -> None:
    plan = {"threadId": "own", "plan": [{"step": "look", "status": "completed"}]}
    looked = PlanUpdated(items=(PlanItem(title="look", status="completed"),))
    assert told(("turn/plan/updated", plan)) == [looked]
    item = {"id": "1", "type": "todo_list", "items": [{"text": "look", "completed": True}]}
    line = json.dumps({"type": "item.updated", "item": item}).encode()
    assert CodexExecTranslator().feed(line) == [looked]


def test_a_warning_is_told_once_whichever_process_gives_it() -> None:
    warned: set[str] = set()
    given = {"threadId": "own", "message": "old settings"}
    first, second = CodexTranslator(warned), CodexTranslator(warned)
    told = [*first.feed("warning", given), *first.feed("configWarning", given), *second.feed("warning", given)]
    assert told == [Notice(text="old settings")]


def test_the_parts_of_a_thought_are_paragraphs() -> None:
    part = ("item/reasoning/summaryPartAdded", {"threadId": "own", "itemId": "r"})
    events = told(
        part,
        ("item/reasoning/summaryTextDelta", piece("r", "one")),
        part,
        ("item/reasoning/summaryTextDelta", piece("r", "two")),
        ("item/completed", {"threadId": "own", "item": {"type": "reasoning", "id": "r", "summary": ["one", "two"]}}),
    )
    assert "".join(event.text for event in events if isinstance(event, ReasoningDelta)) == "one\n\ntwo"


def test_a_long_answer_is_told_piece_by_piece() -> None:
    pieces = [("item/agentMessage/delta", piece("m", f"{number} ")) for number in range(10_000)]
    events = told(*pieces, ("item/completed", message("m", "".join(f"{number} " for number in range(10_000)))))
    assert len(events) == 10_001
    assert events[-1] == BlockFinal()


# Whatever comes


@settings(max_examples=150)
@given(lines=st.lists(changed(["codex_app_tool", "codex_app_errmid"]), max_size=8))
def test_whatever_the_server_writes_is_a_turn_with_one_end(lines: list[bytes]) -> None:
    codex = Codex()
    events = [event for line in lines for event in codex.feed(line)]
    turn_of([*events, *codex.close()])


@settings(max_examples=100)
@given(lines=st.lists(changed(["codex_exec_tool", "codex_exec_errmid"]), max_size=8))
def test_whatever_the_command_prints_is_a_turn_with_one_end(lines: list[bytes]) -> None:
    turn_of(translated("codex_exec_tool", lines))
