"""gemini-cli as it was recorded, and what a reader of the recordings expects of it."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from cli_streams import Expected, changed, heard, hold, said, translated, with_junk
from hypothesis import given, settings
from hypothesis import strategies as st
from sdk_streams import turn_of

from tailrace.events import (
    BlockFinal,
    Error,
    Event,
    Notice,
    TextDelta,
    TextRetracted,
    ToolFinished,
    ToolStarted,
    TurnCancelled,
    TurnCompleted,
    TurnFailed,
    Usage,
)
from tailrace.runtimes.gemini.translator import GeminiTranslator
from tailrace.runtimes.restart_detector import MAY_BE_RESTARTED, RestartDetector

REFUSED = "API Error: invalid request from fake"
EXPECTED = [
    Expected("gemini_cli_tool", ["Let me check.", "The tool said hi."], [("run_shell_command", False)]),
    Expected(
        "gemini_cli_empty", ["Héllo wörld 👋🏽"], [("run_shell_command", False)], notes="its last answer is empty"
    ),
    Expected(
        "gemini_cli_errmid",
        ["This will break"],
        terminal=TurnFailed,
        message="Model stream ended without a finish reason.",
        notes="said four times, with nothing between; the command's exit code is 0",
    ),
    Expected("gemini_cli_http400", terminal=TurnFailed, message=REFUSED),
    Expected(
        "gemini_cli_int",
        ["Before stall "],
        terminal=TurnFailed,
        message="gemini stopped before the turn was complete",
        code="cut_off",
    ),
]
NAMES = [expected.recording for expected in EXPECTED]


@pytest.mark.parametrize("expected", EXPECTED, ids=NAMES)
def test_a_recording_comes_to_what_its_reader_expects(expected: Expected) -> None:
    hold(expected.recording, expected)


@pytest.mark.parametrize("expected", EXPECTED, ids=NAMES)
def test_a_recording_that_is_cut_anywhere_is_a_turn_with_one_end(expected: Expected) -> None:
    lines = heard(expected.recording)
    for length in range(len(lines)):
        end = turn_of(translated(expected.recording, lines[:length])).terminal
        assert isinstance(end, TurnFailed), "no recording ends before its last line"
        assert end.code == "cut_off" or end.message == expected.message


@pytest.mark.parametrize("expected", EXPECTED, ids=NAMES)
def test_what_nobody_can_read_changes_nothing_but_a_remark(expected: Expected) -> None:
    events = translated(expected.recording, with_junk(heard(expected.recording)))
    turn = turn_of(events)
    assert type(turn.terminal) is expected.terminal
    if expected.recording != "gemini_cli_errmid":  # behind a remark a failed try cannot be taken back
        assert said(events) == "".join(expected.answer)
    assert turn.tools == list(expected.tools)
    assert any("gemini sent an unknown event" in notice for notice in turn.notices)


# The rules


def told(*lines: dict[str, Any]) -> list[Event]:
    translator = GeminiTranslator()
    return [event for line in lines for event in translator.feed(json.dumps(line).encode())]


def piece(text: str, second: float) -> dict[str, Any]:
    at = f"2026-11-15T17:55:{second:06.3f}Z"
    return {"type": "message", "role": "assistant", "content": text, "delta": True, "timestamp": at}


SUCCESS = {"type": "result", "status": "success"}
FAILURE = {"type": "result", "status": "error", "error": {"type": "unknown", "message": "it broke"}}


def answer(*lines: dict[str, Any]) -> str:
    events = told(*lines)
    ended = isinstance(events[-1], TurnCompleted | TurnFailed) if events else False
    return said(events if ended else [*events, TurnCompleted()])


def test_an_answer_that_begins_again_after_a_pause_takes_the_first_one_back() -> None:
    again = [piece("It breaks ", 1), piece("here", 1.02), piece("It breaks ", 2.1), piece("here not", 2.2)]
    assert told(*again) == [
        TextDelta(text="It breaks "),
        TextDelta(text="here"),
        TextRetracted(reason="gemini started its answer again"),
        TextDelta(text="It breaks here not"),
    ]
    assert answer(*again, piece(" at all.", 2.3), SUCCESS) == "It breaks here not at all."


def test_words_that_come_again_without_a_pause_were_said_twice() -> None:
    twice = [piece("ha ha ha ha ", 1), piece("ha ha ha ha ", 1.5), SUCCESS]
    assert answer(*twice) == "ha ha ha ha ha ha ha ha "


def test_a_beginning_that_comes_again_and_goes_on_otherwise_was_said_twice() -> None:
    twice = [piece("Roses are red, ", 1), piece("violets are blue. ", 1.1), piece("Roses are ", 3), piece("dead.", 3.1)]
    assert answer(*twice, SUCCESS) == "Roses are red, violets are blue. Roses are dead."


def test_much_that_comes_again_and_goes_on_otherwise_stands_apart_and_is_told_of() -> None:
    lines = [
        piece("Let me first look at ", 1),
        piece("this file", 1.1),
        piece("Let me first ", 3),
        piece("list.", 3.1),
    ]
    assert told(*lines) == [
        TextDelta(text="Let me first look at "),
        TextDelta(text="this file"),
        TextDelta(text="Let me first list."),
    ]
    lines[3] = piece("look around.", 3.1)
    assert told(*lines) == [
        TextDelta(text="Let me first look at "),
        TextDelta(text="this file"),
        BlockFinal(),
        Notice(text=MAY_BE_RESTARTED),
        TextDelta(text="Let me first look around."),
    ]


def test_a_few_words_that_come_again_prove_nothing() -> None:
    assert answer(piece("No. ", 1), piece("No. ", 3), piece("Never.", 3.1), SUCCESS) == "No. No. Never."


def test_what_was_held_back_when_the_answer_ends_was_said() -> None:
    lines = [piece("Roses are red. ", 1), piece("Roses ", 3)]
    assert answer(*lines, SUCCESS) == "Roses are red. Roses "
    tool = {"type": "tool_use", "tool_id": "1", "tool_name": "look"}
    assert answer(*lines, tool, SUCCESS) == "Roses are red. Roses "


def test_the_beginning_of_a_try_that_fails_too_is_not_said_again() -> None:
    assert answer(piece("Roses are red. ", 1), piece("Roses ", 3), FAILURE) == "Roses are red. "


def test_a_try_that_breaks_earlier_than_the_one_before_is_no_part_of_the_answer() -> None:
    tries = [piece("Roses are red", 1), piece("Roses", 2.5), piece("Roses are", 5), piece(" red today.", 5.1)]
    assert answer(*tries, SUCCESS) == "Roses are red today."


def test_each_block_is_looked_at_on_its_own() -> None:
    tool = {"type": "tool_use", "tool_id": "1", "tool_name": "look"}
    done = {"type": "tool_result", "tool_id": "1", "status": "success", "output": "x"}
    lines = [piece("Looking around.", 1), tool, done, piece("Looking around.", 5), SUCCESS]
    assert answer(*lines) == "Looking around.Looking around."


@settings(max_examples=200)
@given(
    whole=st.text("ab ", min_size=8, max_size=30).filter(lambda text: len(text.strip()) >= 8),
    cuts=st.lists(st.integers(0, 30), max_size=6),
    tries=st.integers(1, 4),
)
def test_tries_of_the_same_answer_come_to_it_once_however_they_are_cut(whole: str, cuts: list[int], tries: int) -> None:
    attempts = RestartDetector()
    answered: list[str] = []
    places = sorted({0, len(whole), *(cut for cut in cuts if cut < len(whole))})
    for attempt in range(tries):
        for number, (start, end) in enumerate(pairwise(places)):
            heard_now = attempts.feed(whole[start:end], attempt * 10 + number * 0.01)
            answered = [heard_now.text] if heard_now.is_restart else [*answered, heard_now.text]
    assert "".join([*answered, attempts.close()]) == whole


@settings(max_examples=200)
@given(pieces=st.lists(st.tuples(st.text("ab", max_size=6), st.booleans()), max_size=12))
def test_nothing_is_lost_but_what_a_new_try_says_again(pieces: list[tuple[str, bool]]) -> None:
    attempts = RestartDetector()
    shown, now = "", 0.0
    everything = "".join(text for text, _ in pieces)
    for text, is_pause in pieces:
        now += 2.0 if is_pause else 0.1
        told_now = attempts.feed(text, now)
        shown = told_now.text if told_now.is_restart else shown + told_now.text
    shown += attempts.close()
    assert everything.endswith(shown)
    if len(shown) < len(everything):
        assert len(shown.strip()) >= 8


def test_a_failure_that_was_told_counts_more_than_a_result_that_claims_success() -> None:
    *_, end = told({"type": "error", "severity": "error", "message": "Maximum session turns exceeded"}, SUCCESS)
    assert end == TurnFailed(message="Maximum session turns exceeded")


def test_a_warning_does_not_end_the_turn() -> None:
    events = told(piece("Once", 1), {"type": "error", "severity": "warning", "message": "Loop detected"}, SUCCESS)
    assert events == [TextDelta(text="Once"), BlockFinal(), Error(message="Loop detected"), TurnCompleted()]


def test_a_cancellation_is_one() -> None:
    error = {"type": "FatalCancellationError", "message": "Operation cancelled."}
    assert told({"type": "result", "status": "error", "error": error}) == [TurnCancelled()]


def test_a_tool_that_fails_says_so_and_one_that_nobody_announced_has_a_beginning() -> None:
    failed = {"type": "tool_result", "tool_id": "1", "status": "error", "error": {"message": "no such file"}}
    assert told(failed) == [
        ToolStarted(id="1", name="tool"),
        ToolFinished(id="1", result="no such file", is_error=True),
    ]


def test_usage_is_that_of_the_turn() -> None:
    (spent,) = [event for event in translated("gemini_cli_tool") if isinstance(event, Usage)]
    assert spent == Usage(input_tokens=200, output_tokens=66, scope="turn")


def test_a_message_that_comes_whole_is_a_block() -> None:
    whole = {"type": "message", "role": "assistant", "content": "All of it."}
    assert told(whole, whole) == [BlockFinal(text="All of it."), BlockFinal(text="All of it.")]


def test_what_is_unknown_is_no_error() -> None:
    (notice,) = told({"type": "thought", "content": "hm"})
    assert isinstance(notice, Notice)
    assert '"thought"' in notice.text


def test_half_a_character_does_not_cost_the_line() -> None:
    line = b'{"type": "message", "role": "assistant", "content": "so \\ud83d", "delta": true}'
    assert GeminiTranslator().feed(line) == [TextDelta(text="so \ufffd")]


def test_a_long_answer_is_told_piece_by_piece_also_when_it_is_said_again() -> None:
    pieces = [piece(f"{number:05} ", 1 + number / 1000) for number in range(10_000)]
    again = [{**line, "timestamp": line["timestamp"].replace("T17", "T18")} for line in pieces]
    events = told(*pieces, *again, SUCCESS)
    assert said(events) == "".join(f"{number:05} " for number in range(10_000))
    assert len(events) == 10_000 + 4


@settings(max_examples=100)
@given(lines=st.lists(changed(["gemini_cli_tool", "gemini_cli_errmid"]), max_size=8))
def test_whatever_the_command_prints_is_a_turn_with_one_end(lines: list[bytes]) -> None:
    turn_of(translated("gemini_cli_tool", lines))
