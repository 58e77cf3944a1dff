"""The recorded runs of AG-UI agents, and what each of them comes to."""

from __future__ import annotations

from typing import Any

import pytest
from agui_streams import EXPECTED, FINISHED, GARBAGE, STARTED, arguments, call, natives_of, result, text
from sdk_streams import CUT_OFF, Expected, Turn, hold, turn_of

from tailrace.events import (
    BlockFinal,
    Error,
    Event,
    Notice,
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
    Usage,
)
from tailrace.runtimes.agui import AguiTranslator
from tailrace.runtimes.endpoint import frame_value

ENDED = "the AG-UI agent stopped before the turn was complete"


def told(*natives: Any, run_id: str = "") -> list[Event]:
    """What a stream comes to that ends after these."""
    translator = AguiTranslator(run_id)
    events = [event for native in natives for event in translator.feed(native)]
    return [*events, *translator.close()]


def turn(*natives: Any) -> Turn:
    return turn_of(told(*natives))


def said(role: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"id": f"{role}-{content}", "role": role, "content": content, **more}


@pytest.mark.parametrize("expected", EXPECTED, ids=lambda expected: expected.recording)
def test_a_recording_comes_to_what_its_reader_expects(expected: Expected) -> None:
    hold(turn(*natives_of(expected.recording)), expected)


@pytest.mark.parametrize("expected", EXPECTED, ids=lambda expected: expected.recording)
def test_a_stream_that_is_cut_anywhere_is_a_failed_turn_that_keeps_what_was_said(expected: Expected) -> None:
    natives = natives_of(expected.recording)
    for length in range(len(natives)):
        cut = turn(*natives[:length])
        assert cut.terminal == TurnFailed(message=ENDED, code=CUT_OFF)
        assert "".join(expected.answer).startswith("".join(cut.answer))


@pytest.mark.parametrize("expected", EXPECTED, ids=lambda expected: expected.recording)
def test_garbage_in_between_is_noted_and_changes_nothing_else(expected: Expected) -> None:
    natives = natives_of(expected.recording)
    mixed = [part for index, native in enumerate(natives) for part in (native, GARBAGE[index % len(GARBAGE)])]
    noted = turn(*mixed)
    assert noted.notices
    assert len(noted.notices) == len(set(noted.notices)), "the same is told once"
    assert all(notice.startswith("the AG-UI agent sent an unknown event: ") for notice in noted.notices)
    assert "".join(noted.answer) == "".join(expected.answer)
    assert noted.tools == list(expected.tools)
    assert type(noted.terminal) is expected.terminal


@pytest.mark.parametrize("garbage", GARBAGE, ids=repr)
def test_garbage_is_one_notice(garbage: Any) -> None:
    events = told(garbage)
    assert [type(event) for event in events] == [Notice, TurnFailed]


def test_what_the_recorded_tools_were_asked_and_gave_back() -> None:
    strands, full = turn(*natives_of("agui_strands_tool")), turn(*natives_of("agui_types_full"))
    assert [(c.arguments, c.result) for c in strands.calls] == [
        ({"city": "echo tool-says-hi"}, "sunny in echo tool-says-hi")
    ]
    assert [(c.id, c.arguments) for c in full.calls] == [
        ("c1", {"city": "Oslo"}),
        ("c2", {}),
        ("sa1", None),
        ("c3", {}),
    ]
    assert [c.result for c in full.calls[:3]] == ["sunny", "12:00", ""]


@pytest.mark.parametrize(("recording", "tokens"), [("agui_langgraph_tool", (200, 66)), ("agui_types_full", (100, 33))])
def test_usage_is_that_of_the_turn(recording: str, tokens: tuple[int, int]) -> None:
    usage = [event for event in told(*natives_of(recording)) if isinstance(event, Usage)]
    assert usage == [Usage(input_tokens=tokens[0], output_tokens=tokens[1], scope="turn")]


# The rules


def test_rule_1_the_end_of_a_streamed_block_says_nothing_again() -> None:
    assert told(*text("m", "a", "", "b"), FINISHED) == [
        TextDelta(text="a"),
        TextDelta(text="b"),
        BlockFinal(),
        TurnCompleted(),
    ]


def test_rule_1_an_answer_that_was_not_streamed_is_said_by_the_snapshot() -> None:
    snapshot = [said("user", "old"), said("assistant", "older"), said("user", "q"), said("assistant", "whole answer")]
    assert turn({"type": "MESSAGES_SNAPSHOT", "messages": snapshot}, FINISHED).answer == ["whole answer"]


def test_rule_1_what_only_the_snapshot_holds_follows_what_was_streamed() -> None:
    snapshot = [
        said("user", "q"),
        said("assistant", "Let me look."),
        said("assistant", "", toolCalls=[{"id": "c"}]),
        said("tool", "found", toolCallId="c"),
        said("assistant", [{"type": "text", "text": "It is "}, {"type": "image"}, {"type": "text", "text": "there."}]),
    ]
    natives = [*text("m", "Let me ", "look."), call("c"), result("c")]
    assert turn(*natives, {"type": "MESSAGES_SNAPSHOT", "messages": snapshot}, FINISHED).answer == [
        "Let me look.",
        "It is there.",
    ]


def test_rule_1_what_a_subagent_has_said_is_not_what_the_snapshot_is_read_for() -> None:
    snapshot = [said("user", "q"), said("assistant", "under it", subagentRunId="s"), said("assistant", "answer")]
    natives = [*text("m", "under it", subagentRunId="s"), {"type": "MESSAGES_SNAPSHOT", "messages": snapshot}]
    assert turn(*natives, FINISHED).answer == ["under it", "answer"]


def test_rule_1_a_snapshot_that_says_it_otherwise_does_not_say_it_again() -> None:
    snapshot = [said("user", "q"), said("assistant", "Edited by the server."), said("assistant", "And more.")]
    natives = [*text("m", "As it was streamed."), {"type": "MESSAGES_SNAPSHOT", "messages": snapshot}, FINISHED]
    assert turn(*natives).answer == ["As it was streamed."]


def test_rule_1_a_paragraph_that_is_said_twice_is_shown_twice() -> None:
    snapshot = [said("user", "q"), said("assistant", "again"), said("assistant", "again")]
    natives = [
        *text("m1", "again"),
        *text("m2", "again"),
        {"type": "MESSAGES_SNAPSHOT", "messages": snapshot},
        FINISHED,
    ]
    assert turn(*natives).answer == ["again", "again"]


def test_rule_2_an_id_that_is_used_again_is_another_block() -> None:
    natives = [*text("m", "one"), *text("m", "two"), call("c"), result("c"), *text("m", "three"), FINISHED]
    assert turn(*natives).answer == ["one", "two", "three"]


def test_rule_2_a_message_that_goes_on_after_a_tool_is_two_blocks() -> None:
    start, one, two, end = text("m", "before", "after")
    assert turn(start, one, call("c"), result("c"), two, end, FINISHED).answer == ["before", "after"]


def test_rule_3_a_result_may_come_before_the_input_is_complete() -> None:
    first, end = arguments("c", '{"q": 1}')
    late = turn(call("c"), first, result("c"), end, FINISHED)
    assert [(c.name, c.arguments, c.result) for c in late.calls] == [("look", {"q": 1}, "found")]


def test_rule_3_a_result_may_come_after_later_text_and_without_its_call() -> None:
    natives = [call("c"), *text("m", "meanwhile"), result("c"), result("stranger", "x"), FINISHED]
    assert turn(*natives).tools == [("look", False), ("tool", False)]


def test_rule_3_a_call_of_the_same_id_is_another_call_once_the_first_has_its_result() -> None:
    natives = [call("c"), *arguments("c", "[1]"), result("c", "one")]
    again = [call("c"), *arguments("c", "[2]"), result("c", "two")]
    assert [(c.arguments, c.result) for c in turn(*natives, *again, FINISHED).calls] == [([1], "one"), ([2], "two")]


def test_rule_3_a_call_that_is_opened_again_goes_on() -> None:
    natives = [call("c"), *arguments("c", '{"a":'), call("c"), *arguments("c", " 1}"), result("c"), FINISHED]
    assert [c.arguments for c in turn(*natives).calls] == [{"a": 1}]


def test_rule_3_arguments_that_are_no_json_stay_text() -> None:
    assert [c.arguments for c in turn(call("c"), *arguments("c", '{"a": '), FINISHED).calls] == ['{"a": ']


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        ('"in quotes"', "in quotes"),
        ('"half', '"half'),
        ('{"a": 1}', '{"a": 1}'),
        ('{"result": "wrapped"}', "wrapped"),
        ('{"result": "one", "of": "two"}', '{"result": "one", "of": "two"}'),
        ('{"result": 1}', '{"result": 1}'),
        ([{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}], "ab"),
        ([{"type": "image"}], [{"type": "image"}]),
    ],
)
def test_a_result_is_its_text_or_what_it_is(content: Any, shown: Any) -> None:
    assert ToolFinished(id="c", result=shown) in told(call("c"), result("c", content))


def test_rule_6_a_failure_counts_though_the_stream_ended_well() -> None:
    natives = [STARTED, *text("m", "so far"), {"type": "RUN_ERROR", "message": "no more", "code": "quota"}]
    assert turn(*natives).terminal == TurnFailed(message="no more", code="quota")


def test_rule_6_a_failure_is_one_however_it_is_told() -> None:
    odd = {"type": "RUN_ERROR", "message": {"detail": "no"}, "code": 429}
    assert turn(odd).terminal == TurnFailed(message='{"detail":"no"}', code="429")
    assert turn({"type": "RUN_ERROR"}).terminal == TurnFailed(message="no reason was given")


def test_why_a_model_has_refused_is_told_in_its_words() -> None:
    failed = {"type": "RUN_ERROR", "message": "Error code: 400 - {'error': {'message': 'not this'}}", "code": "STOP"}
    assert turn(failed).terminal == TurnFailed(message="not this", code="STOP", status_code=400)


def test_rule_6_a_failure_after_the_end_of_the_run_is_a_failure() -> None:
    assert turn(STARTED, FINISHED, {"type": "RUN_ERROR", "message": "late"}).terminal == TurnFailed(message="late")


def test_rule_6_a_run_that_was_stopped_is_cancelled() -> None:
    stopped = FINISHED | {"outcome": {"type": "cancelled"}}
    assert turn(STARTED, *text("m", "so far"), stopped).terminal == TurnCancelled()


def test_rule_6_a_cancellation_that_we_asked_for_comes_before_everything() -> None:
    translator = AguiTranslator()
    translator.feed({"type": "RUN_ERROR", "message": "connection closed"})
    assert translator.close(cancelled=True) == [TurnCancelled()]
    assert translator.close() == []


@pytest.mark.parametrize("outcome", [None, {"type": "success"}, {"type": "unheard of"}, "success", 7])
def test_any_other_outcome_is_success(outcome: Any) -> None:
    assert turn(STARTED, FINISHED | {"outcome": outcome}).terminal == TurnCompleted()


def test_a_run_without_text_is_answered_by_its_result() -> None:
    assert turn(STARTED, FINISHED | {"result": {"answer": 42}}).answer == ['{"answer":42}']


def test_rule_6_a_broken_stream_is_a_failure_unless_the_run_was_over() -> None:
    for over, terminal in (
        ([], TurnFailed(message="lost", code="cut_off", status_code=502)),
        ([FINISHED], TurnCompleted()),
    ):
        translator = AguiTranslator()
        for native in over:
            translator.feed(native)
        translator.fail("lost", code="cut_off", status_code=502)
        assert translator.close() == [terminal]


def test_a_run_of_the_past_in_the_same_stream_does_not_end_the_turn() -> None:
    translator = AguiTranslator("mine")
    past = [STARTED | {"runId": "old"}, {"type": "RUN_ERROR", "message": "was long ago"}]
    for native in past:
        translator.feed(native)
        assert not translator.is_done
    for native in [STARTED | {"runId": "mine"}, *text("m", "now")]:
        translator.feed(native)
    assert not translator.is_done
    translator.feed(FINISHED | {"runId": "mine"})
    assert translator.is_done
    assert translator.close() == [TurnCompleted()]


def test_a_second_run_that_is_cut_off_is_not_completed_by_the_first() -> None:
    assert turn(STARTED, FINISHED, STARTED, *text("m", "so")).terminal == TurnFailed(message=ENDED, code=CUT_OFF)


@pytest.mark.parametrize("usage", [[], None, "much", [{"inputTokens": "many"}]])
def test_rule_7_usage_that_nobody_counted_is_not_told(usage: Any) -> None:
    assert told(STARTED, FINISHED | {"usage": usage}) == [TurnCompleted()]


def test_rule_8_a_subagent_speaks_under_the_call_that_started_it() -> None:
    child = {"subagentRunId": "s"}
    natives = [
        call("c", "research"),
        {"type": "SUBAGENT_STARTED", "name": "child", "parentToolCallId": "c", **child},
        *text("m", "under it", **child),
        call("g", "grep", **child),
        result("g"),
        {"type": "STEP_STARTED", "stepName": "reading", **child},
        {"type": "SUBAGENT_FINISHED", **child},
        result("c"),
        FINISHED,
    ]
    assert told(*natives) == [
        ToolStarted(id="c", name="research"),
        TextDelta(text="under it", parent_tool_id="c"),
        BlockFinal(parent_tool_id="c"),
        ToolStarted(id="g", name="grep", parent_tool_id="c"),
        ToolFinished(id="g", result="found", parent_tool_id="c"),
        Status(text="reading", parent_tool_id="c"),
        ToolFinished(id="c", result="found"),
        TurnCompleted(),
    ]


def test_rule_8_a_subagent_that_nobody_announced_is_shown_as_a_call() -> None:
    assert told(*text("m", "hi", subagentRunId="s"))[:2] == [
        ToolStarted(id="s", name="subagent"),
        TextDelta(text="hi", parent_tool_id="s"),
    ]


def test_rule_8_subagents_may_have_subagents_and_may_fail() -> None:
    natives = [
        {"type": "SUBAGENT_STARTED", "subagentRunId": "a", "name": "lead"},
        {"type": "SUBAGENT_STARTED", "subagentRunId": "b", "name": "hand", "parentSubagentRunId": "a"},
        {"type": "SUBAGENT_ERROR", "subagentRunId": "b", "message": "lost the thread"},
        {"type": "SUBAGENT_FINISHED", "subagentRunId": "a", "result": "did without"},
        call("c"),
        {"type": "SUBAGENT_STARTED", "subagentRunId": "d", "parentToolCallId": "c"},
        {"type": "SUBAGENT_ERROR", "subagentRunId": "d", "message": "again"},
        FINISHED,
    ]
    assert told(*natives) == [
        ToolStarted(id="a", name="lead"),
        ToolStarted(id="b", name="hand", parent_tool_id="a"),
        ToolFinished(id="b", result="lost the thread", is_error=True, parent_tool_id="a"),
        ToolFinished(id="a", result="did without"),
        ToolStarted(id="c", name="look"),
        Error(message="again", parent_tool_id="c"),
        TurnCompleted(),
    ]


def test_rule_9_the_seal_of_a_thought_is_kept_as_it_is_wherever_it_comes() -> None:
    thought = [
        {"type": "REASONING_START", "messageId": "t"},
        {"type": "REASONING_MESSAGE_CONTENT", "messageId": "t", "delta": "hm"},
        {"type": "REASONING_MESSAGE_END", "messageId": "t"},
    ]
    seal = {"type": "REASONING_ENCRYPTED_VALUE", "subtype": "message", "entityId": "t", "encryptedValue": '{"s": "x"}'}
    end = {"type": "REASONING_END", "messageId": "t"}
    sealed = [ReasoningDelta(text="hm"), ReasoningEnd(metadata='{"s": "x"}')]
    assert told(*thought, seal, end)[:-1] == sealed
    assert told(*thought, end, seal)[:-1] == [sealed[0], ReasoningEnd(), sealed[1]]
    assert told(*thought, end)[:-1] == [sealed[0], ReasoningEnd()]


def test_rule_9_a_seal_of_something_else_is_nothing_to_show() -> None:
    seal = {"type": "REASONING_ENCRYPTED_VALUE", "subtype": "tool-call", "entityId": "c", "encryptedValue": "x"}
    assert told(call("c"), seal, result("c"), FINISHED)[1:-1] == [ToolFinished(id="c", result="found")]


# What else an agent may do


def test_thoughts_that_follow_each_other_are_paragraphs() -> None:
    def thought(message: str, delta: str) -> dict[str, Any]:
        return {"type": "REASONING_MESSAGE_CHUNK", "messageId": message, "delta": delta}

    end = {"type": "REASONING_END", "messageId": "b"}
    natives = [thought("a", "first"), thought("a", " one"), thought("b", "second"), end, thought("c", "third")]
    assert turn(*natives, call("x"), thought("d", "fourth"), FINISHED).thoughts == [
        "first one\n\nsecond\n\nthird",
        "fourth",
    ]


def thought(message: str, *deltas: str) -> list[dict[str, Any]]:
    pieces = [{"type": "REASONING_MESSAGE_CONTENT", "messageId": message, "delta": delta} for delta in deltas]
    start, end = ({"type": kind, "messageId": message} for kind in ("REASONING_START", "REASONING_END"))
    return [start, *pieces, end]


def test_a_thought_that_is_told_again_in_the_middle_of_a_message_is_told_once() -> None:
    start, again, end = thought("b", "I should look.")
    after = {"type": "REASONING_MESSAGE_CONTENT", "messageId": "b", "delta": "I should look."}
    *said, over = text("m", "Let me.")
    *known, done = text("n", "There.")
    natives = [
        *thought("a", "I should ", "look."),
        *[*said, start, again, over],  # as ADK does, which closes it much later
        *[call("c"), result("c"), after, end],
        *[*known, *thought("d", "I should look."), done],
        FINISHED,
    ]
    assert turn(*natives).thoughts == ["I should look.", "I should look."]
    assert turn(*natives).answer == ["Let me.", "There."]


def test_a_thought_that_comes_twice_is_told_twice() -> None:
    *said, over = text("m", "Let me.")
    natives = [
        *[*thought("a", "Hm."), *thought("b", "Hm.")],
        *[*text("l", "Well."), *thought("c", "Hm.")],
        *[*said, *thought("d", "Hm", "."), over],
        *[call("e"), *thought("f", "Hm."), result("e"), *thought("g", "Hm.")],
    ]
    assert "".join(turn(*natives, FINISHED).thoughts).count("Hm.") == 6


def test_versions_before_1_call_thoughts_thinking() -> None:
    natives = [
        {"type": "THINKING_START", "title": "hm"},
        {"type": "THINKING_TEXT_MESSAGE_START"},
        {"type": "THINKING_TEXT_MESSAGE_CONTENT", "delta": "I "},
        {"type": "THINKING_TEXT_MESSAGE_CONTENT", "delta": "think."},
        {"type": "THINKING_TEXT_MESSAGE_END"},
        {"type": "THINKING_END"},
    ]
    assert told(*natives)[:-1] == [ReasoningDelta(text="I "), ReasoningDelta(text="think."), ReasoningEnd()]


def test_messages_that_are_not_the_agents_are_not_its_answer() -> None:
    assert turn(*text("u", "what they asked", role="user"), *text("m", "answer"), FINISHED).answer == ["answer"]


def test_what_is_null_is_not_given() -> None:
    start, piece, end = text("m", "hi", role=None, subagentRunId=None, rawEvent=None, timestamp=None)
    assert turn(start, piece | {"subagentRunId": None}, end, FINISHED | {"usage": None}).answer == ["hi"]


def test_a_call_in_chunks_is_complete_when_something_else_is_said() -> None:
    def chunk(**more: Any) -> dict[str, Any]:
        return {"type": "TOOL_CALL_CHUNK", **more}

    natives = [
        chunk(toolCallId="c", toolCallName="look", delta='{"q":'),
        {"type": "RAW", "event": {}},
        {"type": "ACTIVITY_DELTA", "messageId": "a", "activityType": "PLAN", "patch": []},
        chunk(delta=" 1}"),
        chunk(toolCallId="d", toolCallName="look"),
        chunk(toolCallId="d", delta="[2]"),
        FINISHED,
    ]
    assert told(*natives) == [
        ToolStarted(id="c", name="look"),
        ToolInput(id="c", arguments={"q": 1}),
        ToolStarted(id="d", name="look"),
        ToolInput(id="d", arguments=[2]),
        TurnCompleted(),
    ]


def test_chunks_of_two_subagents_do_not_end_each_other() -> None:
    def chunk(lane: str, delta: str, **more: Any) -> dict[str, Any]:
        return {"type": "TOOL_CALL_CHUNK", "subagentRunId": lane, "delta": delta, **more}

    natives = [
        chunk("s1", '{"a":', toolCallId="c1", toolCallName="look"),
        chunk("s2", '{"b":', toolCallId="c2", toolCallName="look"),
        chunk("s1", " 1}"),
        chunk("s2", " 2}"),
        FINISHED,
    ]
    inputs = [event for event in told(*natives) if isinstance(event, ToolInput)]
    assert inputs == [
        ToolInput(id="c1", arguments={"a": 1}, parent_tool_id="s1"),
        ToolInput(id="c2", arguments={"b": 2}, parent_tool_id="s2"),
    ]


def test_a_chunk_that_does_not_say_whose_it_is_continues_the_only_one_there_is() -> None:
    natives = [
        {"type": "TEXT_MESSAGE_CHUNK", "messageId": "m", "subagentRunId": "s", "delta": "one "},
        {"type": "TEXT_MESSAGE_CHUNK", "delta": "stream"},
    ]
    assert turn(*natives, FINISHED).answer == ["one stream"]


def test_what_a_run_has_stopped_to_ask_is_part_of_the_answer() -> None:
    interrupts = [
        {"id": "i1", "reason": "tool_call", "toolCallId": "c"},
        {"id": "i2", "reason": "input", "message": "Which Springfield?"},
        {"id": "i3", "reason": "a signature"},
    ]
    stopped = FINISHED | {"outcome": {"type": "interrupt", "interrupts": interrupts}}
    asked = turn(*text("m", "One moment."), call("c", "transfer"), *arguments("c", "{}"), stopped)
    waiting = ["Waiting for approval: transfer", "Which Springfield?", "Waiting for a signature"]
    assert asked.answer == ["One moment.", *waiting]
    assert asked.terminal == TurnCompleted(stop_reason="interrupt")


def test_what_a_graph_has_stopped_to_ask_is_part_of_the_answer_too() -> None:
    asks = {"type": "CUSTOM", "name": "on_interrupt", "value": "Which Springfield?"}
    assert turn(asks, FINISHED).answer == ["Which Springfield?"]
    outcome = {"type": "interrupt", "interrupts": [{"id": "i", "message": "Which Springfield?"}]}
    assert turn(asks, FINISHED | {"outcome": outcome}).answer == ["Which Springfield?"]


def test_a_remark_of_the_agents_own_is_short() -> None:
    remarks = [{"type": "CUSTOM", "name": "progress"}, {"type": "CUSTOM", "name": "state", "value": {"x": "y" * 999}}]
    assert [len(event.text) for event in told(*remarks) if isinstance(event, Status)] == [8, 200]


def test_characters_that_javascript_has_cut_in_two_are_whole() -> None:
    deltas = ['"a\\ud83d"', '"\\udc4b"', '"\\ud83c\\udff3 \\ud83d"', '"no other half"']
    pieces = [
        frame_value(f'{{"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": {delta}}}') for delta in deltas
    ]
    assert "".join(turn(*pieces, FINISHED).answer) == "a👋🏳 �no other half"
    halves = [frame_value(f'{{"type": "TOOL_CALL_ARGS", "toolCallId": "c", "delta": {delta}}}') for delta in deltas[:2]]
    assert [c.arguments for c in turn(call("c"), *halves, *arguments("c"), FINISHED).calls] == ["a👋"]
    assert frame_value('{"content": ["\\ud83d"], "\\ud83d": 1}') == {"content": ["�"], "�": 1}


def test_ten_thousand_events_of_each_kind_are_told() -> None:
    many = 10_000
    chunks = [{"type": "TOOL_CALL_CHUNK", "toolCallId": "k", "toolCallName": "look", "delta": "1"}] * many
    natives = [*text("m", *["x"] * many), call("c"), *arguments("c", *["1"] * many), *chunks]
    natives += [native for n in range(many) for native in thought(f"t{n}", "z")]
    long = turn(*natives, *(native for n in range(many) for native in text(f"m{n}", "y")), FINISHED)
    assert "".join(long.thoughts).count("z") == many
    assert long.answer[0] == "x" * many
    assert len(long.answer) == many + 1
    assert [c.arguments for c in long.calls] == ["1" * many] * 2
