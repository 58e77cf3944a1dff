"""The recorded UI message streams of the AI SDK, and what each of them comes to."""

from __future__ import annotations

from typing import Any

import pytest
from sdk_streams import CUT_OFF, Expected, Turn, hold, turn_of
from vercel_streams import DONE, EXPECTED, FINISH, GARBAGE, STEP, called, natives_of, output, text

from tailrace.events import (
    BlockFinal,
    Event,
    Media,
    Notice,
    ReasoningDelta,
    ReasoningEnd,
    Status,
    TextDelta,
    TextRetracted,
    ToolFinished,
    ToolInput,
    ToolProgress,
    ToolStarted,
    TurnCancelled,
    TurnCompleted,
    TurnFailed,
    Usage,
)
from tailrace.runtimes.endpoint import frame_value
from tailrace.runtimes.vercel import VercelTranslator

ENDED = "the chat route stopped before the turn was complete"
COMPLETED = TurnCompleted(stop_reason="stop")


def told(*natives: Any) -> list[Event]:
    """What a stream comes to that ends after these."""
    translator = VercelTranslator()
    events = [event for native in natives for event in translator.feed(native)]
    return [*events, *translator.close()]


def turn(*natives: Any) -> Turn:
    return turn_of(told(*natives))


@pytest.mark.parametrize("expected", EXPECTED, ids=lambda expected: expected.recording)
def test_a_recording_comes_to_what_its_reader_expects(expected: Expected) -> None:
    hold(turn(*natives_of(expected.recording)), expected)


@pytest.mark.parametrize("expected", EXPECTED, ids=lambda expected: expected.recording)
def test_a_stream_that_is_cut_anywhere_is_a_failed_turn_that_keeps_what_was_said(expected: Expected) -> None:
    natives = natives_of(expected.recording)
    is_marker = [native == DONE or native["type"] in {"finish", "error", "abort"} for native in natives]
    for length in range(is_marker.index(True)):
        cut = turn(*natives[:length])
        assert cut.terminal == TurnFailed(message=ENDED, code=CUT_OFF)
        assert "".join(expected.answer).startswith("".join(cut.answer))


@pytest.mark.parametrize("expected", EXPECTED, ids=lambda expected: expected.recording)
def test_once_its_end_is_told_a_stream_may_be_cut(expected: Expected) -> None:
    whole = natives_of(expected.recording)
    assert whole[-1] == DONE
    assert turn(*whole[:-1]).terminal == turn(*whole).terminal


@pytest.mark.parametrize("expected", EXPECTED, ids=lambda expected: expected.recording)
def test_garbage_in_between_is_noted_and_changes_nothing_else(expected: Expected) -> None:
    natives = natives_of(expected.recording)
    mixed = [part for index, native in enumerate(natives) for part in (native, GARBAGE[index % len(GARBAGE)])]
    noted = turn(*mixed)
    assert noted.notices
    assert len(noted.notices) == len(set(noted.notices)), "the same is told once"
    assert all(notice.startswith("the chat route sent an unknown event: ") for notice in noted.notices)
    assert "".join(noted.answer) == "".join(expected.answer)
    assert noted.tools == list(expected.tools)
    assert type(noted.terminal) is expected.terminal


@pytest.mark.parametrize("garbage", GARBAGE, ids=repr)
def test_garbage_is_one_notice(garbage: Any) -> None:
    assert [type(event) for event in told(garbage)] == [Notice, TurnFailed]


def test_what_the_recorded_tools_were_asked_and_gave_back() -> None:
    calls = turn(*natives_of("vercel7_ui_parallel")).calls
    assert [(call.id, call.arguments) for call in calls[:3]] == [
        ("call_a", {"city": "slow"}),
        ("call_b", {"city": "Oslo"}),
        ("call_c", {}),
    ]
    assert [call.result for call in calls[:3]] == ["sunny in slow", "sunny in Oslo", "masked: tool exploded"]
    assert calls[3].arguments == '{"cit'
    assert calls[3].result.startswith("masked: Invalid input for tool get_weather")
    assert turn(*natives_of("vercel5_ui_parallel")).calls[3].result.startswith("masked: Invalid input")


def test_what_a_recorded_tool_said_on_its_way() -> None:
    events = told(*natives_of("vercel5_ui_prelim"))
    assert [event.text for event in events if isinstance(event, ToolProgress)] == [
        '{"status":"loading","pct":10}',
        '{"status":"loading","pct":60}',
        '{"status":"done"}',
    ]
    assert [event.result for event in events if isinstance(event, ToolFinished)] == [{"status": "done"}]


@pytest.mark.parametrize("recording", ["vercel5_ui_tool", "vercel6_ui_tool", "vercel7_ui_tool"])
def test_the_recorded_seals_are_kept_as_they_are(recording: str) -> None:
    ends = [event for event in told(*natives_of(recording)) if isinstance(event, ReasoningEnd)]
    assert ends == [
        ReasoningEnd(metadata={"anthropic": {"signature": "c2lnLTE="}}),
        ReasoningEnd(metadata={"anthropic": {"redactedData": "ZW5j"}}),
    ]


@pytest.mark.parametrize(("recording", "tokens"), [("vercel5_ui_errmid", (100, 33)), ("vercel6_ui_tool", (200, 66))])
def test_rule_7_usage_is_that_of_the_turn_where_the_application_tells(recording: str, tokens: tuple[int, int]) -> None:
    usage = [event for event in told(*natives_of(recording)) if isinstance(event, Usage)]
    assert usage == [Usage(input_tokens=tokens[0], output_tokens=tokens[1], scope="turn")]


@pytest.mark.parametrize("metadata", [{}, [], "x", {"totalUsage": 7}, {"usage": {"inputTokens": 1}}])
def test_rule_7_other_metadata_are_the_applications_own(metadata: Any) -> None:
    assert told(FINISH | {"messageMetadata": metadata}) == [COMPLETED]


# The rules


def test_rule_1_the_end_of_a_streamed_block_says_nothing_again() -> None:
    assert told(*text("0", "a", "", "b"), FINISH, DONE) == [
        TextDelta(text="a"),
        TextDelta(text="b"),
        BlockFinal(),
        COMPLETED,
    ]


def test_rule_2_an_id_that_is_used_again_is_another_block() -> None:
    natives = [STEP, *text("0", "one"), *text("0", "two"), STEP, *text("0", "three"), FINISH]
    assert turn(*natives).answer == ["one", "two", "three"]


def test_rule_2_a_block_that_was_left_open_does_not_go_on_in_the_next_step() -> None:
    one, two = text("0", "one")[:-1], text("0", "two")
    assert turn(STEP, *one, STEP, *two, FINISH).answer == ["one", "two"]


def test_rule_2_blocks_that_overlap_are_told_apart() -> None:
    def piece(block: str, delta: str) -> dict[str, Any]:
        return {"type": "text-delta", "id": block, "delta": delta}

    assert turn(piece("0", "a"), piece("1", "b"), piece("0", "c"), FINISH).answer == ["a", "b", "c"]


def test_rule_3_a_call_begins_before_its_input_is_complete() -> None:
    natives = [
        {"type": "tool-input-start", "toolCallId": "c", "toolName": "look"},
        {"type": "tool-input-delta", "toolCallId": "c", "inputTextDelta": '{"q"'},
        called("c", given={"q": 1}),
        output("c"),
    ]
    assert told(*natives)[:-1] == [
        ToolStarted(id="c", name="look"),
        ToolInput(id="c", arguments={"q": 1}),
        ToolFinished(id="c", result="found"),
    ]


def test_rule_3_results_come_in_any_order_after_text_and_without_their_call() -> None:
    natives = [called("a"), called("b"), *text("0", "meanwhile"), output("b"), output("a", None), output("stranger")]
    assert turn(*natives, FINISH).tools == [("look", False), ("look", False), ("tool", False)]


def test_rule_3_a_call_that_was_denied_has_failed() -> None:
    denied = {"type": "tool-output-denied", "toolCallId": "c"}
    assert told(called("c"), denied)[1] == ToolFinished(id="c", result="denied", is_error=True)
    asked = {"type": "tool-approval-request", "approvalId": "a", "toolCallId": "c", "isAutomatic": True}
    answered = {"type": "tool-approval-response", "approvalId": "a", "approved": False, "reason": "Nobody may."}
    assert told(called("c"), asked, answered, denied)[1] == ToolFinished(id="c", result="Nobody may.", is_error=True)


def test_rule_5_text_of_a_step_that_is_reset_is_taken_back() -> None:
    reset = {"type": "reset-step"}
    natives = [STEP, *text("0", "before"), called("c"), output("c"), STEP]
    for failed in ([*text("0", "false ", "start")], text("0", "false", "start")[:-1]):
        assert turn(*natives, *failed, reset, *text("0", "right"), FINISH).answer == ["before", "right"]


def test_rule_5_a_reset_takes_back_nothing_of_the_steps_before() -> None:
    reset = {"type": "reset-step"}
    before = [STEP, *text("0", "before"), STEP]
    assert turn(*before, reset, *text("0", "after"), FINISH).answer == ["before", "after"]
    assert not any(isinstance(event, TextRetracted) for event in told(*before, reset))
    assert turn(*before, *text("0", "false"), reset, *text("0", "after"), FINISH).answer == ["before", "after"]


def test_rule_6_an_error_counts_though_a_finish_follows() -> None:
    error = {"type": "error", "errorText": "An error occurred."}
    assert turn(error, FINISH, DONE).terminal == TurnFailed(message="An error occurred.")
    assert turn({"type": "error", "errorText": {"code": 7}}, DONE).terminal == TurnFailed(message='{"code":7}')
    finish = {"type": "finish", "finishReason": "error"}
    assert turn(finish, DONE).terminal == TurnFailed(message="the model has failed")


def test_rule_6_an_abort_is_a_cancellation() -> None:
    assert turn(*text("0", "so"), {"type": "abort"}, DONE).terminal == TurnCancelled()


def test_rule_6_a_cancellation_that_we_asked_for_comes_before_everything() -> None:
    translator = VercelTranslator()
    translator.feed({"type": "error", "errorText": "aborted"})
    assert translator.close(cancelled=True) == [TurnCancelled()]


def test_rule_6_a_whole_stream_without_a_finish_is_complete() -> None:
    assert turn(*text("0", "hi"), DONE).terminal == TurnCompleted()


def test_rule_6_a_broken_stream_is_a_failure_unless_the_answer_was_complete() -> None:
    for over, terminal in (
        ([], TurnFailed(message="lost", code="cut_off", status_code=502)),
        ([FINISH], COMPLETED),
    ):
        translator = VercelTranslator()
        for native in over:
            translator.feed(native)
        translator.fail("lost", code="cut_off", status_code=502)
        assert translator.close() == [terminal]


def test_an_application_may_go_on_after_a_finish() -> None:
    translator = VercelTranslator()
    translator.feed(FINISH)
    assert not translator.is_done
    assert translator.feed({"type": "text-delta", "id": "1", "delta": "and more"}) == [TextDelta(text="and more")]
    translator.feed(DONE)
    assert translator.is_done


def test_rule_9_the_seal_of_a_thought_may_come_with_any_of_its_chunks() -> None:
    def thought(*sealed: int) -> list[dict[str, Any]]:
        chunks: list[dict[str, Any]] = [
            {"type": "reasoning-start", "id": "r"},
            {"type": "reasoning-delta", "id": "r", "delta": "hm"},
            {"type": "reasoning-end", "id": "r"},
        ]
        return [
            chunk | ({"providerMetadata": {"p": {"n": index}}} if index in sealed else {})
            for index, chunk in enumerate(chunks)
        ]

    for sealed, seal in (((), None), ((0,), 0), ((1,), 1), ((2,), 2), ((0, 1, 2), 2)):
        metadata = None if seal is None else {"p": {"n": seal}}
        assert told(*thought(*sealed))[:-1] == [ReasoningDelta(text="hm"), ReasoningEnd(metadata=metadata)]


# What else an agent may do


def test_thoughts_that_follow_each_other_are_paragraphs() -> None:
    def thought(block: str, *pieces: str) -> list[dict[str, Any]]:
        deltas = [{"type": "reasoning-delta", "id": block, "delta": piece} for piece in pieces]
        return [{"type": "reasoning-start", "id": block}, *deltas, {"type": "reasoning-end", "id": block}]

    natives = [*thought("a", "first", " one"), *thought("b", "second"), called("c"), *thought("d", "third")]
    assert turn(*natives, FINISH).thoughts == ["first one\n\nsecond", "third"]


def test_what_is_null_is_not_given() -> None:
    piece = {"type": "text-delta", "id": "0", "delta": "hi", "providerMetadata": None}
    assert turn(piece, {"type": "finish", "finishReason": None, "messageMetadata": None}).answer == ["hi"]


def test_a_call_that_waits_for_leave_is_part_of_the_answer() -> None:
    def asked(call: str, **more: Any) -> dict[str, Any]:
        return {"type": "tool-approval-request", "approvalId": f"a-{call}", "toolCallId": call, **more}

    natives = [
        *(called(call, tool) for call, tool in (("c", "transfer"), ("d", "look"), ("e", "erase"))),
        asked("c"),
        asked("d", isAutomatic=True),
        asked("e"),
        {"type": "tool-approval-response", "approvalId": "a-e", "approved": True},
        FINISH,
        DONE,
    ]
    waiting = turn(*text("0", "One moment."), *natives)
    assert waiting.answer == ["One moment.", "Waiting for approval: transfer"]
    assert waiting.terminal == TurnCompleted(stop_reason="approval")


def test_a_file_is_a_medium_and_a_source_a_status() -> None:
    natives = [
        {"type": "file", "url": "https://x/y.png", "mediaType": "image/png"},
        {"type": "source-document", "sourceId": "s", "mediaType": "file", "title": "Tides"},
        {"type": "source-url", "sourceId": "u", "url": "https://x"},
        {"type": "data-weather", "data": {"a": "b" * 999, "c": 1}, "transient": True},
        {"type": "reasoning-file", "url": "https://x/z.png", "mediaType": "image/png"},
        {"type": "custom", "kind": "openai.compaction"},
    ]
    events = told(*natives, FINISH)
    assert events[:3] == [
        Media(url="https://x/y.png", mime="image/png"),
        Status(text="Source: Tides"),
        Status(text="Source: https://x"),
    ]
    assert [len(event.text) for event in events[3:4] if isinstance(event, Status)] == [200]
    assert events[4:] == [COMPLETED]


def test_characters_that_javascript_has_cut_in_two_are_whole() -> None:
    deltas = ['"a\\ud83d"', '"\\udc4b"', '"\\udc4b"', '"\\ud83d"']
    pieces = [frame_value(f'{{"type": "text-delta", "id": "0", "delta": {delta}}}') for delta in deltas]
    assert "".join(turn(*pieces, FINISH).answer) == "a👋�"


def test_ten_thousand_chunks_of_each_kind_are_told() -> None:
    many = 10_000
    steps = [native for n in range(many) for native in (STEP, *text("0", "y"), called(f"c{n}"), output(f"c{n}"))]
    long = turn(*text("0", *["x"] * many), *steps, FINISH, DONE)
    assert long.answer == ["x" * many, *["y"] * many]
    assert long.tools == [("look", False)] * many
