"""The recorded runs of agents of the Agent Client Protocol, and what each of them comes to."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sdk_streams import CUT_OFF, RECORDINGS, Expected, Turn, lines_of, turn_of

from tailrace.events import (
    BlockFinal,
    Event,
    Media,
    Notice,
    PlanItem,
    PlanUpdated,
    ReasoningDelta,
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
        notes="the call is left open, and nobody makes up its end",
    ),
    Expected(
        "acp_claude_errmid",
        ["This will break"],
        terminal=TurnFailed,
        errors=["API Error: Overloaded (fake)"],
        code="internal_error",
        notes="the error is said as text first, which is taken back",
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
        notes="said twice and told once; the stop reason is end_turn",
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
    """A recording as the translator hears it: what came in after the prompt."""

    def __init__(self, recording: str) -> None:
        lines = lines_of(recording)
        sent = [line["ev"] for line in lines if line.get("dir") == "out"]
        self.prompt = next(ev["id"] for ev in sent if ev.get("method") == "session/prompt")
        begun = next(i for i, line in enumerate(lines) if line["ev"].get("method") == "session/prompt")
        self.heard = [line["ev"] for line in lines[begun:] if line.get("dir") == "in"]
        hellos = [line["ev"]["result"] for line in lines if "protocolVersion" in line["ev"].get("result", {})]
        self.agent = hellos[0]["agentInfo"]["name"]
        self.answer_at = next(i for i, message in enumerate(self.heard) if self.is_answer(message))

    def is_answer(self, message: Any) -> bool:
        return "method" not in message and message["id"] == self.prompt

    def tell(self, translator: AcpTranslator, message: Any) -> list[Event]:
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

    def events(self, heard: list[Any] | None = None) -> list[Event]:
        translator = AcpTranslator(agent=self.agent)
        events = [event for message in heard or self.heard for event in self.tell(translator, message)]
        return [*events, *translator.close()]


def turn(recording: str) -> Turn:
    return turn_of(Played(recording).events())


def told(*updates: Any, agent: str = "", result: Any = None) -> list[Event]:
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


def content(*said: str) -> Any:
    return [{"type": "content", "content": {"type": "text", "text": one}} for one in said]


def codex(**meta: Any) -> Any:
    return {"sessionUpdate": "session_info_update", "_meta": {"codex": meta}}


DONE = {"stopReason": "end_turn"}


@pytest.mark.parametrize("expected", EXPECTED, ids=NAMES)
def test_a_recording_comes_to_what_its_reader_expects(expected: Expected) -> None:
    found = turn(expected.recording)
    assert found.answer == list(expected.answer)
    assert found.tools == list(expected.tools)
    assert found.thoughts == list(expected.thoughts)
    assert found.errors == list(expected.errors)
    assert found.status == list(expected.status)
    assert found.notices == NOTICES.get(expected.recording, [])
    assert type(found.terminal) is expected.terminal
    assert (found.terminal.code if isinstance(found.terminal, TurnFailed) else None) == expected.code


def test_every_recording_is_expected() -> None:
    assert {path.stem for path in RECORDINGS.glob("acp_*.ndjson")} == set(NAMES)


@pytest.mark.parametrize("expected", EXPECTED, ids=NAMES)
def test_a_recording_cut_off_at_any_line_is_a_failed_turn_with_one_end(expected: Expected) -> None:
    played = Played(expected.recording)
    for length in range(1, played.answer_at + 1):
        cut = turn_of(played.events(played.heard[:length]))
        assert isinstance(cut.terminal, TurnFailed)
        assert cut.terminal.code == CUT_OFF


@pytest.mark.parametrize("expected", EXPECTED, ids=NAMES)
def test_garbage_between_the_lines_changes_nothing_of_what_is_said(expected: Expected) -> None:
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
    for message in played.heard:
        for thing in garbage:
            events += translator.update(thing)
        events += translator.invalid_line(b"npm warn \xff")
        events += played.tell(translator, message)
    found = turn_of([*events, *translator.close()])
    assert "".join(found.answer) == "".join(expected.answer)
    assert found.tools == list(expected.tools)
    assert type(found.terminal) is expected.terminal
    unknown = [notice for notice in found.notices if notice.startswith("acp sent an unknown event: ")]
    assert len(unknown) == len({"no kind", "a list for a kind", "a chunk of the wrong shape", "noise"})


json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
FIELDS = ["content", "toolCallId", "rawInput", "rawOutput", "status", "title", "entries", "plan", "_meta", "messageId"]
KINDS = ["agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update", "plan", "plan_update"]
KINDS += ["current_mode_update", "session_info_update", "notice", "plan_removed", "from_the_future"]
malformed = st.builds(
    lambda kind, fields: {"update": {"sessionUpdate": kind, **fields}},
    st.sampled_from(KINDS),
    st.dictionaries(st.sampled_from(FIELDS), json_values, max_size=4),
)


@settings(max_examples=150)
@given(st.lists(malformed | json_values, max_size=6), json_values, json_values)
def test_whatever_it_is_told_it_tells_lawful_events_and_one_end(updates: list[Any], asked: Any, result: Any) -> None:
    translator = AcpTranslator()
    events = [event for update in updates for event in translator.update(update)]
    events += translator.permission_request(asked)[0]
    events += translator.prompt_result(result)
    events += [event for update in updates for event in translator.update(update)]
    events += [*translator.prompt_error(asked), *translator.close()]
    for event in events:
        validate_event(event)
    assert isinstance(turn_of(events).terminal, TurnFailed)


def test_ten_thousand_updates_are_told_one_by_one() -> None:
    events = told(*[text("x") for _ in range(10_000)], result=DONE)
    assert events == [TextDelta(text="x")] * 10_000 + [TurnCompleted(stop_reason="end_turn")]


# Rule 1 and 2: blocks


def test_a_block_ends_where_the_id_of_the_message_changes() -> None:
    assert told(text("a", messageId="1"), text("b", messageId="1"), text("c", messageId="2"), result=DONE)[:4] == [
        TextDelta(text="a"),
        TextDelta(text="b"),
        BlockFinal(),
        TextDelta(text="c"),
    ]


def test_a_block_goes_on_behind_a_tool_without_repeating_anything() -> None:
    found = turn_of(told(text("a", messageId="1"), call(), text("b", messageId="1"), result=DONE))
    assert found.answer == ["a", "b"]


def test_thoughts_of_different_messages_are_kept_apart() -> None:
    found = turn_of(told(thought("\n\na", messageId="1"), thought("b", messageId="2"), text("c"), result=DONE))
    assert found.thoughts == ["a\n\nb"]
    assert sum(isinstance(event, ReasoningEnd) for event in found.events) == 2


def test_what_is_no_text_is_shown_as_what_it_is() -> None:
    events = told(
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


def test_a_tool_is_known_by_its_call_also_where_only_its_update_or_its_permission_is_told() -> None:
    assert told(more(title="late", status="completed", rawOutput="x"))[:2] == [
        ToolStarted(id="t", name="late"),
        ToolFinished(id="t", result="x"),
    ]
    events, question = AcpTranslator().permission_request(
        {"toolCall": {"toolCallId": "t", "title": "rm"}, "options": []}
    )
    assert events == [ToolStarted(id="t", name="rm")]
    assert question is not None
    assert question.title == "rm"


def test_a_call_that_is_complete_when_it_is_told_begins_and_ends() -> None:
    assert told(call(status="failed", content=content("no such file"), rawInput={"path": "/x"}))[:2] == [
        ToolStarted(id="t", name="Run it", arguments={"path": "/x"}),
        ToolFinished(id="t", result="no such file", is_error=True),
    ]


def test_an_id_that_is_used_again_is_another_call() -> None:
    found = turn_of(told(call(status="completed", rawOutput="1"), call(status="completed", rawOutput="2"), result=DONE))
    assert [(each.id, each.result) for each in found.calls] == [("t", "1"), ("t", "2")]


def test_an_input_that_was_told_is_not_told_again() -> None:
    events = told(call(rawInput={}), more(rawInput={"a": 1}), more(rawInput={"a": 1}), more(rawInput={"a": 2}))
    assert events[:3] == [
        ToolStarted(id="t", name="Run it"),
        ToolInput(id="t", arguments={"a": 1}),
        ToolInput(id="t", arguments={"a": 2}),
    ]


def test_a_prompt_that_is_answered_twice_is_answered_once() -> None:
    translator = AcpTranslator()
    translator.update({"update": call()})
    spent = {"stopReason": "end_turn", "usage": {"inputTokens": 1, "outputTokens": 1}}
    assert isinstance(translator.prompt_result(spent)[-1], TurnCompleted)
    assert translator.prompt_result(spent) == []
    assert translator.prompt_error({"code": -32603, "message": "no"}) == []


def test_after_the_end_only_tools_are_heard_and_only_what_they_print_and_give_back() -> None:
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


def test_a_recorded_tool_prints_on_after_its_turn_was_cancelled() -> None:
    found = turn("acp_codex_cancel_stalltool")
    assert isinstance(found.events[-3], TurnCancelled)
    assert found.calls[0].shell_output.stdout == "".join(f"tick {n}\n" for n in range(2, 12))


# Rule 4: snapshots


def test_content_that_grows_is_printed_once() -> None:
    found = turn("acp_opencode_longtool")
    lines = [f"line {n}\n" for n in range(1, 6)]
    assert [event.data for event in found.events if isinstance(event, ToolOutput)] == lines
    assert found.calls[0].result == "".join(lines)


def test_content_before_a_tool_runs_describes_the_call_and_is_not_printed() -> None:
    events = told(call(content=content("why")), more(content=content("where")), more(status="completed", rawOutput="x"))
    assert [event for event in events if isinstance(event, ToolOutput)] == []


def test_what_a_tool_gives_back_is_not_also_printed() -> None:
    events = told(call(status="in_progress"), more(status="completed", content=content("all of it")))
    assert events[1] == ToolFinished(id="t", result="all of it")


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
def test_a_result_is_the_plainest_thing_that_the_tool_gave(recording: str, results: list[str]) -> None:
    assert [each.result for each in turn(recording).calls] == results


def test_a_result_that_is_no_text_is_given_as_it_is() -> None:
    assert told(call(), more(status="completed", rawOutput={"exit": 0}))[1] == ToolFinished(id="t", result={"exit": 0})


def test_an_edit_is_told_by_its_file() -> None:
    diff = [{"type": "diff", "path": "/a.py", "oldText": "x", "newText": "y"}]
    assert told(call(), more(status="completed", content=diff))[1] == ToolFinished(id="t", result="Edited /a.py")


# Rule 5: retries


def test_text_of_a_try_that_failed_is_taken_back_before_it_is_said_again() -> None:
    again = codex(error={"message": "Reconnecting... 1/1", "willRetry": True})
    stands = [text("Before.", messageId="1")]
    found = turn_of(told(*stands, text("Half", messageId="2"), again, text("Half.", messageId="3"), result=DONE))
    assert found.answer == ["Before.", "Half."]


# Rule 6: the end


def test_the_status_of_the_thread_that_counts_is_the_last_one() -> None:
    failed, active = (codex(threadStatus={"type": status}) for status in ("systemError", "active"))
    assert isinstance(told(failed, active, text("fine"), result=DONE)[-1], TurnCompleted)
    assert told(text("no", messageId="1"), failed, text("why"), result=DONE)[-1] == TurnFailed(
        message="why", code="system_error"
    )
    assert told(failed, result=DONE)[-1] == TurnFailed(message="no reason was given", code="system_error")
    assert isinstance(told(failed, text("why"), result={"stopReason": "cancelled"})[-1], TurnCancelled)


@pytest.mark.parametrize("reason", ["max_tokens", "max_turn_requests", "refusal"])
def test_an_answer_that_was_cut_short_says_so(reason: str) -> None:
    found = turn_of(told(text("Half"), result={"stopReason": reason}))
    assert found.answer == ["Half"]
    assert len(found.notices) == 1
    assert found.terminal == TurnCompleted(stop_reason=reason)


def test_a_stop_reason_of_the_future_is_an_end() -> None:
    assert told(result={"stopReason": "tired"}) == [TurnCompleted(stop_reason="tired")]


@pytest.mark.parametrize("result", [{}, [], "end_turn", 7, {"stopReason": None}])
def test_an_end_that_says_nothing_is_a_failure(result: Any) -> None:
    assert told(result=result) == [
        TurnFailed(message="the agent ended the turn in a way that cannot be read", code="malformed")
    ]


@pytest.mark.parametrize(
    ("error", "message", "code"),
    [
        ({"code": -32000, "message": "Log in"}, "Log in", "auth_required"),
        ({"code": -32603, "message": "Oh", "data": {"details": "no disk"}}, "Oh: no disk", "internal_error"),
        ({"code": 5, "message": ""}, "the agent refused and gave no reason", "agent_error"),
        ({"code": "x"}, "the agent refused: {'code': 'x'}", "agent_error"),
        ("no", "the agent refused: no", "agent_error"),
    ],
)
def test_a_refused_prompt_is_a_failed_turn(error: Any, message: str, code: str) -> None:
    assert AcpTranslator().prompt_error(error) == [TurnFailed(message=message, code=code)]


def test_a_prompt_that_is_refused_for_want_of_a_login_is_told_with_what_helps() -> None:
    refusals = [{"code": -32000, "message": "Who are you."}, {"code": -32603, "message": "Who are you"}]
    ends = [AcpTranslator().prompt_error(refusal, login_hint="Log in first.")[-1] for refusal in refusals]
    assert ends == [
        TurnFailed(message="Who are you. Log in first.", code="auth_required"),
        TurnFailed(message="Who are you", code="internal_error"),
    ]


def test_a_log_that_an_agent_prints_while_it_speaks_is_not_held_in_memory() -> None:
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


def test_only_text_that_tells_the_very_error_is_taken_back() -> None:
    translator = AcpTranslator()
    events = translator.update({"update": text("An error, I think", messageId="1")})
    found = turn_of([*events, *translator.prompt_error({"code": -32603, "message": "Internal error"})])
    assert found.answer == ["An error, I think"]


def test_an_agent_that_is_lost_is_told_with_what_is_known_of_it() -> None:
    assert AcpTranslator().agent_lost("it exited with code 3") == [
        TurnFailed(message="it exited with code 3", code=CUT_OFF)
    ]


# Rule 7: usage


@pytest.mark.parametrize(
    ("recording", "spent"),
    [
        ("acp_claude_tool", Usage(input_tokens=314, output_tokens=66, scope="turn")),
        ("acp_codex_tool", Usage(input_tokens=200, output_tokens=66, scope="turn")),
        ("acp_gemini_tool", Usage(input_tokens=200, output_tokens=66, scope="turn")),
        ("acp_opencode_tool", Usage(input_tokens=100, output_tokens=33, scope="request")),
    ],
)
def test_what_was_spent_counts_what_was_cached_and_thought(recording: str, spent: Usage) -> None:
    assert [event for event in turn(recording).events if isinstance(event, Usage)] == [spent]


def test_how_full_the_context_is_is_not_what_was_spent() -> None:
    usage = {"sessionUpdate": "usage_update", "used": 5, "size": 9}
    assert told(usage, result={**DONE, "usage": {"inputTokens": "many"}}) == [TurnCompleted(stop_reason="end_turn")]


# Rule 8: subagents


def test_what_a_subagent_does_stands_under_its_call() -> None:
    parents = {
        event.id: event.parent_tool_id
        for event in turn("acp_claude_subagent").events
        if isinstance(event, ToolStarted | ToolFinished)
    }
    assert parents == {"toolu_fake0329": None, "toolu_fake0331": "toolu_fake0329"}
    under = {"claudeCode": {"parentToolUseId": "p"}}
    assert told(text("hi", _meta=under), thought("hm", _meta=under))[:2] == [
        TextDelta(text="hi", parent_tool_id="p"),
        ReasoningDelta(text="hm", parent_tool_id="p"),
    ]


def test_what_a_subagent_says_does_not_run_into_what_the_agent_says() -> None:
    under = {"claudeCode": {"parentToolUseId": "p"}}
    child, done = text("Child result.", messageId="c", _meta=under), more("p", status="completed")
    found = turn_of(told(text("Go."), call("p"), child, done, text("Parent "), child, text("done."), result=DONE))
    assert found.answer == ["Go.", "Child result.", "Parent ", "Child result.", "done."]


# Rule 10: what is unknown


def test_what_is_unknown_is_a_notice_that_does_not_break_into_a_sentence() -> None:
    unknown = {"sessionUpdate": "from_the_future", "x": 1}
    raw = json.dumps({"sessionId": "s", "update": unknown})
    assert told(text("Hel"), unknown, text("lo"), unknown, call(), unknown, result=DONE) == [
        TextDelta(text="Hel"),
        TextDelta(text="lo"),
        Notice(text=f"acp sent an unknown event: {raw}"),
        ToolStarted(id="t", name="Run it"),
        TurnCompleted(stop_reason="end_turn"),
    ]


# Plans, modes, notices, permissions


def test_a_plan_is_told_whole_each_time() -> None:
    entries = [{"content": "look", "priority": "high", "status": "completed"}, {"content": "leap"}]
    items = (PlanItem(title="look", status="completed"), PlanItem(title="leap", status="pending"))
    assert told(
        {"sessionUpdate": "plan", "entries": entries},
        {"sessionUpdate": "plan_update", "plan": {"type": "items", "planId": "1", "entries": entries}},
        {
            "sessionUpdate": "plan_update",
            "plan": {"type": "markdown", "planId": "1", "content": "\n# Look\nand leap"},
        },
        {"sessionUpdate": "plan_removed", "planId": "1"},
        result=DONE,
    )[:4] == [
        PlanUpdated(items=items),
        PlanUpdated(items=items),
        Status(text="Plan: # Look"),
        PlanUpdated(items=()),
    ]


def test_a_notice_of_the_agent_is_a_notice() -> None:
    full = {"sessionUpdate": "notice", "severity": "warning", "title": "Old model", "description": "choose another"}
    short = {"sessionUpdate": "notice", "severity": "info", "title": "Compacted"}
    assert told(full, short)[:2] == [Notice(text="Old model: choose another"), Notice(text="Compacted")]


def test_a_warning_is_no_part_of_the_answer_only_where_it_is_known_to_be_one() -> None:
    warning = text("Warning: the tide is high\n\n")
    assert told(warning, agent=CODEX)[0] == Notice(text="Warning: the tide is high")
    assert told(warning, agent="gemini-cli")[0] == TextDelta(text="Warning: the tide is high\n\n")
    assert told(text("Warning: says the model", messageId="1"), agent=CODEX)[0] == TextDelta(
        text="Warning: says the model"
    )
    assert told(text("Available skills: none"), agent=CODEX)[0] == TextDelta(text="Available skills: none")


def test_a_question_has_what_is_known_of_the_call_and_the_choices_that_reach_least_far() -> None:
    played = Played("acp_claude_cancel_stalltool")
    translator = AcpTranslator()
    request = next(message for message in played.heard if message.get("method") == "session/request_permission")
    for message in played.heard[: played.heard.index(request)]:
        played.tell(translator, message)
    events, question = translator.permission_request(request["params"])
    assert events == []
    assert question is not None
    assert question.arguments["description"] == "block"
    assert question.title.startswith("for i in")
    assert question.allowing() == Choice(id="allow", name="Allow", kind="allow_once")
    assert question.denying() == Choice(id="reject", name="Reject", kind="reject_once")


def test_an_answer_that_is_begun_again_after_a_pause_is_said_once() -> None:
    translator = AcpTranslator(agent="OpenCode")
    events: list[Event] = []
    for at_s in (0.0, 2.0, 6.0):
        for piece in ("This is going ", "to break"):
            said = {
                "sessionUpdate": "agent_message_chunk",
                "messageId": "m",
                "content": {"type": "text", "text": piece},
            }
            events += translator.update({"update": said}, at_s)
    events += translator.prompt_result({"stopReason": "end_turn"})
    assert [type(event) for event in events].count(TextRetracted) == 2
    last = max(number for number, event in enumerate(events) if isinstance(event, TextRetracted))
    assert "".join(event.text for event in events[last:] if isinstance(event, TextDelta)) == "This is going to break"


def test_words_that_only_resemble_the_beginning_are_all_said() -> None:
    translator = AcpTranslator()
    events: list[Event] = []
    for at_s, piece in ((0.0, "This is one thing. "), (2.0, "This is "), (2.1, "another.")):
        said = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": piece}}
        events += translator.update({"update": said}, at_s)
    events += translator.prompt_result({"stopReason": "end_turn"})
    text = "".join(event.text for event in events if isinstance(event, TextDelta))
    assert text == "This is one thing. This is another."
    assert not any(isinstance(event, TextRetracted) for event in events)


def test_much_that_comes_again_and_goes_on_otherwise_stands_apart_and_is_told_of() -> None:
    translator = AcpTranslator()
    events: list[Event] = []
    for at_s, piece in (
        (0.0, "This is going to break"),
        (2.0, "This is going to "),
        (2.1, "be whole."),
        (2.2, " Yes."),
    ):
        said = {"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": {"type": "text", "text": piece}}
        events += translator.update({"update": said}, at_s)
    assert events == [
        TextDelta(text="This is going to break"),
        BlockFinal(),
        Notice(text=MAY_BE_RESTARTED),
        TextDelta(text="This is going to be whole."),
        TextDelta(text=" Yes."),
    ]


def test_an_answer_of_gemini_that_broke_off_each_time_has_failed() -> None:
    translator = AcpTranslator(agent="gemini-cli")
    for at_s in (0.0, 1.2):
        said = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "This is going to break"}}
        translator.update({"update": said}, at_s)
    nothing = {"quota": {"token_count": {"input_tokens": 0, "output_tokens": 0}, "model_usage": []}}
    end = translator.prompt_result({"stopReason": "end_turn", "_meta": nothing})[-1]
    assert end == TurnFailed(message="the model's answer broke off", code="cut_off")


def test_a_subagent_that_works_on_does_not_show_what_is_for_the_model_alone() -> None:
    translator = AcpTranslator()
    launched = {"claudeCode": {"toolName": "Agent", "toolResponse": {"isAsync": True, "status": "async_launched"}}}
    for update in (
        {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "Task", "status": "pending"},
        {"sessionUpdate": "tool_call_update", "toolCallId": "c", "_meta": launched},
    ):
        translator.update({"update": update})
    done = {
        "sessionUpdate": "tool_call_update",
        "toolCallId": "c",
        "status": "completed",
        "rawOutput": [{"text": "id 7"}],
    }
    assert translator.update({"update": done}) == [ToolFinished(id="c", result="Started in the background.")]
