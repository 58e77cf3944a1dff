"""The recorded runs of agents of the Agent Client Protocol, and what single updates come to."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sdk_streams import CUT_OFF, Expected, Turn, hold, lines_of, turn_of

from event_strategies import json_values
from example_counts import examples
from tailrace.events import (
    BlockFinal,
    Event,
    Media,
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
    validate_event,
)
from tailrace.runtimes.acp import AcpTranslator
from tailrace.runtimes.permissions import Choice
from tailrace.runtimes.restart_detector import MAY_BE_RESTARTED

CHECK, SAID_HI = "Let me check.", "The tool said hi."
RUN_IT, KNOW = "I should run a command.", "Now I know."
WARNING = (
    "Warning: Model metadata for `gpt-5.1-codex` not found. "
    "Defaulting to fallback metadata; this can degrade performance and cause issues."
)
CODEX = "@agentclientprotocol/codex-acp"

# Each was read line by line by a person; the translator is held to it.
EXPECTED = [
    Expected("acp_claude_tool", [CHECK, SAID_HI], [("Bash", False)], [RUN_IT, KNOW]),
    Expected(
        "acp_claude_cancel_stalltool",
        ["Blocking tool."],
        [("Bash", None)],
        terminal=TurnCancelled,
        notes="the call is left open; no end is made up",
    ),
    Expected(
        "acp_claude_errmid",
        ["This will break"],
        terminal=TurnFailed,
        errors=["API Error: Overloaded (fake)"],
        code="internal_error",
        notes="the error is sent as text first, which is retracted",
    ),
    Expected("acp_claude_subagent", ["Delegating.", "Parent done."], [("Agent", False), ("Bash", False)]),
    Expected("acp_codex_tool", [CHECK, SAID_HI], [("exec_command", False)], [RUN_IT, KNOW]),
    Expected("acp_codex_parallel", ["Running two.", "Both done."], [("exec_command", False)] * 2),
    Expected(
        "acp_codex_cancel_stalltool",
        ["Blocking tool."],
        [("exec_command", None)],
        terminal=TurnCancelled,
        notes="the tool prints on after the end",
    ),
    Expected(
        "acp_codex_errmid",
        ["This will break"],
        terminal=TurnFailed,
        errors=["stream disconnected before completion: fake failure mid-stream"],
        code="system_error",
        status=["Reconnecting... 1/1"],
        notes="sent twice and emitted once; the stop reason is end_turn",
    ),
    Expected(
        "acp_gemini_tool",
        [CHECK, SAID_HI],
        [("echo tool-says-hi", False)],
        ["**Subject**\nI should\n\n**Subject**\nrun a command.", "**Subject**\nNow I\n\n**Subject**\nknow."],
        notes="the tool has no name but its title",
    ),
    Expected("acp_opencode_longtool", ["Long tool.", "Long done."], [("bash", False)]),
    Expected("acp_opencode_tool", [CHECK, SAID_HI], [("bash", False)], [RUN_IT, KNOW]),
    Expected(
        "acp_scripted_full",
        [CHECK, " (text while tools run) Done."],
        [("Run echo", False), ("Read file", True)],
        ["I should run a tool."],
        status=["Mode: code"],
    ),
    Expected(
        "acp_scripted_perm",
        [CHECK, " (text while tools run) Done."],
        [("Run echo", False), ("Read file", True)],
        ["I should run a tool."],
        status=["Mode: code"],
    ),
    Expected(
        "acp_scripted_cancel_me",
        [CHECK],
        [("Run echo", True), ("Read file", None)],
        ["I should run a tool."],
        terminal=TurnCancelled,
    ),
]
NOTICES = {recording: [WARNING] for recording in (e.recording for e in EXPECTED) if "codex" in recording}
NAMES = [expected.recording for expected in EXPECTED]


class Played:
    """A recording from the prompt on, as the translator receives it."""

    def __init__(self, recording: str) -> None:
        lines = lines_of(recording)
        sent = [line["ev"] for line in lines if line.get("dir") == "out"]
        self.prompt = next(ev["id"] for ev in sent if ev.get("method") == "session/prompt")
        start = next(i for i, line in enumerate(lines) if line["ev"].get("method") == "session/prompt")
        self.received = [line["ev"] for line in lines[start:] if line.get("dir") == "in"]
        infos = [line["ev"]["result"] for line in lines if "protocolVersion" in line["ev"].get("result", {})]
        self.agent = infos[0]["agentInfo"]["name"]
        self.answer_at = next(i for i, message in enumerate(self.received) if self.is_answer(message))

    def is_answer(self, message: Any) -> bool:
        return "method" not in message and message["id"] == self.prompt

    def feed(self, translator: AcpTranslator, message: Any) -> list[Event]:
        if message.get("method") == "session/update":
            return translator.update(message["params"])
        if message.get("method") == "session/request_permission":
            return translator.permission_request(message["params"])[0]
        assert self.is_answer(message), message
        return (
            translator.prompt_error(message["error"])
            if "error" in message
            else translator.prompt_result(message["result"])
        )

    def events(self, received: list[Any] | None = None) -> list[Event]:
        translator = AcpTranslator(agent=self.agent)
        events = [event for message in received or self.received for event in self.feed(translator, message)]
        return [*events, *translator.close()]


def turn(recording: str) -> Turn:
    return turn_of(Played(recording).events())


def events_of(*updates: Any, agent: str = "", result: Any = None) -> list[Event]:
    """What comes of these updates, and of the answer where there is one."""
    translator = AcpTranslator(agent=agent)
    events = [event for update in updates for event in translator.update({"sessionId": "s", "update": update})]
    return [*events, *(translator.prompt_result(result) if result is not None else translator.close())]


def text(piece: str, **fields: Any) -> Any:
    return {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": piece}, **fields}


def thought(piece: str, **fields: Any) -> Any:
    return {**text(piece, **fields), "sessionUpdate": "agent_thought_chunk"}


def call(name: str = "t", **fields: Any) -> Any:
    return {"sessionUpdate": "tool_call", "toolCallId": name, "title": "Run it", **fields}


def more(name: str = "t", **fields: Any) -> Any:
    return {"sessionUpdate": "tool_call_update", "toolCallId": name, **fields}


def content(*texts: str) -> Any:
    return [{"type": "content", "content": {"type": "text", "text": one}} for one in texts]


def codex(**meta: Any) -> Any:
    return {"sessionUpdate": "session_info_update", "_meta": {"codex": meta}}


DONE = {"stopReason": "end_turn"}


@pytest.mark.parametrize("expected", EXPECTED, ids=NAMES)
def test_recording_comes_to_what_its_reader_expects(expected: Expected) -> None:
    notices = NOTICES.get(expected.recording, [])
    hold(turn(expected.recording), Expected(**{**vars(expected), "notices": notices}))


@pytest.mark.parametrize("expected", EXPECTED, ids=NAMES)
def test_recording_that_is_cut_anywhere_is_a_failed_turn(expected: Expected) -> None:
    played = Played(expected.recording)
    for length in range(1, played.answer_at + 1):
        cut = turn_of(played.events(played.received[:length]))
        assert isinstance(cut.terminal, TurnFailed)
        assert cut.terminal.code == CUT_OFF


@pytest.mark.parametrize("expected", EXPECTED, ids=NAMES)
def test_garbage_between_the_lines_only_adds_notices(expected: Expected) -> None:
    garbage: list[Any] = [
        None,
        7,
        [],
        {},
        {"update": []},
        {"update": {"sessionUpdate": ["plan"]}},
        {"update": text("x", messageId=3)},
    ]
    played = Played(expected.recording)
    translator = AcpTranslator(agent=played.agent)
    events: list[Event] = []
    for message in played.received:
        for thing in garbage:
            events += translator.update(thing)
        events += translator.invalid_line(b"npm warn \xff")
        events += played.feed(translator, message)
    found = turn_of([*events, *translator.close()])
    assert "".join(found.answer) == "".join(expected.answer)
    assert found.tools == list(expected.tools)
    assert type(found.terminal) is expected.terminal
    unknown = [notice for notice in found.notices if notice.startswith("acp sent an unknown event: ")]
    assert len(unknown) == len({"no kind", "a list for a kind", "a chunk of the wrong shape", "noise"})


FIELDS = ["content", "toolCallId", "rawInput", "rawOutput", "status", "title", "entries", "plan", "_meta", "messageId"]
KINDS = ["agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update", "plan", "plan_update"]
KINDS += ["current_mode_update", "session_info_update", "notice", "plan_removed", "from_the_future"]
malformed = st.builds(
    lambda kind, fields: {"update": {"sessionUpdate": kind, **fields}},
    st.sampled_from(KINDS),
    st.dictionaries(st.sampled_from(FIELDS), json_values, max_size=4),
)


@settings(max_examples=examples(50, search=2000))
@given(st.lists(malformed | json_values, max_size=6), json_values, json_values)
def test_any_input_gives_valid_events_and_one_end(updates: list[Any], asked: Any, result: Any) -> None:
    translator = AcpTranslator()
    events = [event for update in updates for event in translator.update(update)]
    events += translator.permission_request(asked)[0]
    events += translator.prompt_result(result)
    events += [event for update in updates for event in translator.update(update)]
    events += [*translator.prompt_error(asked), *translator.close()]
    for event in events:
        validate_event(event)
    assert isinstance(turn_of(events).terminal, TurnFailed)


# Rule 1 and 2: blocks


def test_block_ends_where_the_message_id_changes() -> None:
    assert events_of(text("a", messageId="1"), text("b", messageId="1"), text("c", messageId="2"), result=DONE)[:4] == [
        TextDelta(text="a"),
        TextDelta(text="b"),
        BlockFinal(),
        TextDelta(text="c"),
    ]


def test_reasoning_of_different_messages_stays_apart() -> None:
    found = turn_of(events_of(thought("\n\na", messageId="1"), thought("b", messageId="2"), text("c"), result=DONE))
    assert found.thoughts == ["a\n\nb"]
    assert sum(isinstance(event, ReasoningEnd) for event in found.events) == 2


def test_content_that_is_not_text_is_emitted_as_what_it_is() -> None:
    events = events_of(
        text("see "),
        {"sessionUpdate": "agent_message_chunk", "content": {"type": "resource_link", "uri": "file:///a", "name": "A"}},
        {"sessionUpdate": "agent_message_chunk", "content": {"type": "image", "data": "aGk=", "mimeType": "image/png"}},
        {
            "sessionUpdate": "agent_message_chunk",
            "content": {"type": "image", "uri": "https://a.example/b", "data": ""},
        },
        {"sessionUpdate": "agent_message_chunk", "content": {"type": "resource", "resource": {"text": "inside"}}},
        {"sessionUpdate": "agent_message_chunk", "content": {"type": "hologram"}},
        result=DONE,
    )
    assert events == [
        TextDelta(text="see "),
        TextDelta(text="[A](file:///a)"),
        Media(url="data:image/png;base64,aGk=", mime="image/png"),
        Media(url="https://a.example/b"),
        TextDelta(text="inside"),
        Notice(text='acp sent an unknown event: {"type": "hologram"}'),
        TurnCompleted(stop_reason="end_turn"),
    ]


# Rule 3: tools


def test_call_may_first_appear_in_an_update_or_a_request() -> None:
    assert events_of(more(title="late", status="completed", rawOutput="x"))[:2] == [
        ToolStarted(id="t", name="late"),
        ToolFinished(id="t", result="x"),
    ]
    events, question = AcpTranslator().permission_request(
        {"toolCall": {"toolCallId": "t", "title": "rm"}, "options": []}
    )
    assert events == [ToolStarted(id="t", name="rm")]
    assert question is not None
    assert question.title == "rm"


def test_second_result_of_a_prompt_is_ignored() -> None:
    translator = AcpTranslator()
    translator.update({"update": call()})
    usage = {"stopReason": "end_turn", "usage": {"inputTokens": 1, "outputTokens": 1}}
    assert isinstance(translator.prompt_result(usage)[-1], TurnCompleted)
    assert translator.prompt_result(usage) == []
    assert translator.prompt_error({"code": -32603, "message": "no"}) == []


def test_after_the_end_only_output_and_results_are_emitted() -> None:
    translator = AcpTranslator()
    events = [event for update in (call(), call("u")) for event in translator.update({"update": update})]
    assert translator.turn.has_open_calls()
    events += translator.prompt_result(DONE)
    late = [
        text("late"),
        thought("late"),
        call("v"),
        more("w", status="completed"),
        more(rawInput={"a": 1}, _meta={"terminal_output_delta": {"data": "tick\n"}}),
        more(status="completed", rawOutput="x"),
        more(status="completed", rawOutput="again"),
        more("u", status="failed"),
        {"sessionUpdate": "from_the_future"},
    ]
    events += [event for update in late for event in translator.update({"update": update})]
    events += (
        translator.invalid_line(b"late")
        + translator.notice("late")
        + translator.prompt_result(DONE)
        + translator.close()
    )
    assert turn_of(events).events[3:] == [
        TurnCompleted(stop_reason="end_turn"),
        ToolOutput(id="t", data="tick\n"),
        ToolFinished(id="t", result="x"),
        ToolFinished(id="u", is_error=True),
    ]
    assert not translator.turn.has_open_calls()


PENDING, RUNNING, DONE_X = (
    call(content=content("why")),
    call(status="in_progress"),
    more(status="completed", rawOutput="x"),
)
DIFF = [{"type": "diff", "path": "/a.py", "oldText": "x", "newText": "y"}]
LAUNCHED = {"claudeCode": {"toolName": "Agent", "toolResponse": {"isAsync": True, "status": "async_launched"}}}


@pytest.mark.parametrize(
    ("updates", "events"),
    [
        ([PENDING, DONE_X], [ToolFinished(id="t", result="x")]),
        ([RUNNING, more(status="completed", content=content("all"))], [ToolFinished(id="t", result="all")]),
        ([call(), more(status="completed", rawOutput={"exit": 0})], [ToolFinished(id="t", result={"exit": 0})]),
        ([call(), more(status="completed", content=DIFF)], [ToolFinished(id="t", result="Edited /a.py")]),
        ([call(status="failed", content=content("none"))], [ToolFinished(id="t", result="none", is_error=True)]),
        (
            [call(rawInput={}), more(rawInput={"a": 1}), more(rawInput={"a": 1}), more(rawInput={"a": 2})],
            [ToolInput(id="t", arguments={"a": 1}), ToolInput(id="t", arguments={"a": 2})],
        ),
        (
            [call(), more(_meta=LAUNCHED), more(status="completed", rawOutput=[{"text": "id 7"}])],
            [ToolFinished(id="t", result="Started in the background.")],
        ),
    ],
    ids=["described", "content", "raw output", "diff", "failed at once", "changed input", "in the background"],
)
def test_call_comes_to_its_input_and_result(updates: list[Any], events: list[Event]) -> None:
    assert events_of(*updates)[:-1] == [ToolStarted(id="t", name="Run it"), *events]


@pytest.mark.parametrize(
    ("recording", "results"),
    [
        ("acp_claude_tool", ["tool-says-hi"]),
        ("acp_codex_tool", ["tool-says-hi\n"]),
        ("acp_codex_parallel", ["one\n", "two\n"]),
        ("acp_gemini_tool", [""]),
        ("acp_opencode_tool", ["tool-says-hi\n"]),
        ("acp_scripted_full", ["line 1\nline 2\n", "no such file"]),
    ],
)
def test_result_is_the_plainest_form_that_the_tool_gave(recording: str, results: list[str]) -> None:
    assert [each.result for each in turn(recording).calls] == results


# Rule 6: the end


def test_last_status_of_the_thread_counts() -> None:
    failed, active = (codex(threadStatus={"type": status}) for status in ("systemError", "active"))
    assert isinstance(events_of(failed, active, text("fine"), result=DONE)[-1], TurnCompleted)
    assert events_of(text("no", messageId="1"), failed, text("why"), result=DONE)[-1] == TurnFailed(
        message="why", code="system_error"
    )
    assert events_of(failed, result=DONE)[-1] == TurnFailed(message="no reason was given", code="system_error")
    assert isinstance(events_of(failed, text("why"), result={"stopReason": "cancelled"})[-1], TurnCancelled)


PAUSED = [(0.0, "This is going "), (0.1, "to break"), (2.0, "This is going "), (2.1, "to break")]


@pytest.mark.parametrize(
    ("pieces", "answer", "retractions", "notices"),
    [
        ([*PAUSED, (6.0, "This is going "), (6.1, "to break")], ["This is going to break"], 2, []),
        (
            [(0.0, "This is one thing. "), (2.0, "This is "), (2.1, "another.")],
            ["This is one thing. This is another."],
            0,
            [],
        ),
        (
            [(0.0, "This is going to break"), (2.0, "This is going to "), (2.1, "be whole."), (2.2, " Yes.")],
            ["This is going to break", "This is going to be whole. Yes."],
            0,
            [MAY_BE_RESTARTED],
        ),
    ],
    ids=["restarts", "differs soon", "differs late"],
)
def test_text_that_starts_again_after_a_pause_is_retracted(
    pieces: list[tuple[float, str]], answer: list[str], retractions: int, notices: list[str]
) -> None:
    translator = AcpTranslator(agent="OpenCode")
    updates = [(at_s, {"update": text(piece, messageId="m")}) for at_s, piece in pieces]
    events = [event for at_s, update in updates for event in translator.update(update, at_s)]
    found = turn_of([*events, *translator.prompt_result(DONE)])
    assert (found.answer, found.notices) == (answer, notices)
    assert [type(event) for event in events].count(TextRetracted) == retractions


def test_answer_of_gemini_that_broke_off_in_every_try_has_failed() -> None:
    translator = AcpTranslator(agent="gemini-cli")
    for at_s in (0.0, 1.2):
        translator.update({"update": text("This is going to break")}, at_s)
    nothing = {"quota": {"token_count": {"input_tokens": 0, "output_tokens": 0}, "model_usage": []}}
    end = translator.prompt_result({"stopReason": "end_turn", "_meta": nothing})[-1]
    assert end == TurnFailed(message="the model's answer broke off", code="cut_off")


@pytest.mark.parametrize("reason", ["max_tokens", "max_turn_requests", "refusal"])
def test_answer_that_was_cut_short_has_a_notice(reason: str) -> None:
    found = turn_of(events_of(text("Half"), result={"stopReason": reason}))
    assert found.answer == ["Half"]
    assert len(found.notices) == 1
    assert found.terminal == TurnCompleted(stop_reason=reason)


@pytest.mark.parametrize("result", [{}, [], "end_turn", 7, {"stopReason": None}])
def test_unreadable_end_is_a_failure(result: Any) -> None:
    assert events_of(result=result) == [
        TurnFailed(message="the agent ended the turn in a way that cannot be read", code="malformed")
    ]


@pytest.mark.parametrize(
    ("error", "message", "code"),
    [
        ({"code": -32000, "message": "Who are you."}, "Who are you. Log in first.", "auth_required"),
        ({"code": -32603, "message": "Oh", "data": {"details": "no disk"}}, "Oh: no disk", "internal_error"),
        ({"code": 5, "message": ""}, "the agent refused and gave no reason", "agent_error"),
        ({"code": "x"}, "the agent refused: {'code': 'x'}", "agent_error"),
        ("no", "the agent refused: no", "agent_error"),
    ],
)
def test_refused_prompt_is_a_failed_turn(error: Any, message: str, code: str) -> None:
    assert AcpTranslator().prompt_error(error, login_hint="Log in first.") == [TurnFailed(message=message, code=code)]


def test_log_printed_during_a_text_is_not_held_in_memory() -> None:
    translator = AcpTranslator()
    events = translator.update({"update": text("So ", messageId="1")})
    tracemalloc.start()
    for _ in range(1000):
        events += translator.invalid_line(b"x" * 100_000)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 1_000_000
    events += translator.update({"update": text("be it.", messageId="1")})
    found = turn_of([*events, *translator.prompt_result(DONE)])
    assert found.answer == ["So be it."]
    assert len(found.notices) == 1


def test_only_text_that_repeats_the_error_is_retracted() -> None:
    translator = AcpTranslator()
    events = translator.update({"update": text("An error, I think", messageId="1")})
    found = turn_of([*events, *translator.prompt_error({"code": -32603, "message": "Internal error"})])
    assert found.answer == ["An error, I think"]


# Rule 7: usage


@pytest.mark.parametrize(
    ("recording", "usage"),
    [
        ("acp_claude_tool", Usage(input_tokens=314, output_tokens=66, scope="turn")),
        ("acp_codex_tool", Usage(input_tokens=200, output_tokens=66, scope="turn")),
        ("acp_gemini_tool", Usage(input_tokens=200, output_tokens=66, scope="turn")),
        ("acp_opencode_tool", Usage(input_tokens=100, output_tokens=33, scope="request")),
    ],
)
def test_usage_counts_cached_and_reasoning_tokens(recording: str, usage: Usage) -> None:
    assert [event for event in turn(recording).events if isinstance(event, Usage)] == [usage]


# Rule 8: subagents


def test_subagent_speaks_and_works_under_its_call() -> None:
    parents = {
        event.id: event.parent_tool_id
        for event in turn("acp_claude_subagent").events
        if isinstance(event, ToolStarted | ToolFinished)
    }
    assert parents == {"toolu_fake0329": None, "toolu_fake0331": "toolu_fake0329"}


def test_text_of_a_subagent_stays_apart_from_the_agents() -> None:
    under = {"claudeCode": {"parentToolUseId": "p"}}
    child, done = text("Child result.", messageId="c", _meta=under), more("p", status="completed")
    found = turn_of(events_of(text("Go."), call("p"), child, done, text("Parent "), child, text("done."), result=DONE))
    assert found.answer == ["Go.", "Child result.", "Parent ", "Child result.", "done."]


# Rule 10: what is unknown


def test_unknown_update_does_not_interrupt_a_sentence() -> None:
    unknown = {"sessionUpdate": "from_the_future", "x": 1}
    raw = json.dumps({"sessionId": "s", "update": unknown})
    assert events_of(text("Hel"), unknown, text("lo"), unknown, call(), unknown, result=DONE) == [
        TextDelta(text="Hel"),
        TextDelta(text="lo"),
        Notice(text=f"acp sent an unknown event: {raw}"),
        ToolStarted(id="t", name="Run it"),
        TurnCompleted(stop_reason="end_turn"),
    ]


# Plans, modes, notices, permissions


def test_plans_and_notices_are_emitted() -> None:
    entries = [{"content": "look", "priority": "high", "status": "completed"}, {"content": "leap"}]
    items = (PlanItem(title="look", status="completed"), PlanItem(title="leap", status="pending"))
    assert events_of(
        {"sessionUpdate": "plan", "entries": entries},
        {"sessionUpdate": "plan_update", "plan": {"type": "items", "planId": "1", "entries": entries}},
        {"sessionUpdate": "plan_update", "plan": {"type": "markdown", "planId": "1", "content": "\n# Look\nand leap"}},
        {"sessionUpdate": "plan_removed", "planId": "1"},
        {"sessionUpdate": "notice", "severity": "warning", "title": "Old model", "description": "choose another"},
        {"sessionUpdate": "notice", "severity": "info", "title": "Compacted"},
        result=DONE,
    )[:6] == [
        PlanUpdated(items=items),
        PlanUpdated(items=items),
        Status(text="Plan: # Look"),
        PlanUpdated(items=()),
        Notice(text="Old model: choose another"),
        Notice(text="Compacted"),
    ]


def test_only_known_warnings_become_notices() -> None:
    warning = text("Warning: the tide is high\n\n")
    assert events_of(warning, agent=CODEX)[0] == Notice(text="Warning: the tide is high")
    assert events_of(warning, agent="gemini-cli")[0] == TextDelta(text="Warning: the tide is high\n\n")
    assert events_of(text("Warning: says the model", messageId="1"), agent=CODEX)[0] == TextDelta(
        text="Warning: says the model"
    )
    assert events_of(text("Available skills: none"), agent=CODEX)[0] == TextDelta(text="Available skills: none")


def test_question_has_the_arguments_of_the_call_and_its_choices() -> None:
    played = Played("acp_claude_cancel_stalltool")
    translator = AcpTranslator()
    request = next(message for message in played.received if message.get("method") == "session/request_permission")
    for message in played.received[: played.received.index(request)]:
        played.feed(translator, message)
    events, question = translator.permission_request(request["params"])
    assert events == []
    assert question is not None
    assert question.arguments["description"] == "block"
    assert question.title.startswith("for i in")
    assert question.allowing() == Choice(id="allow", name="Allow", kind="allow_once")
    assert question.denying() == Choice(id="reject", name="Reject", kind="reject_once")
