"""What the translator of gemini-cli makes of single lines, above all of answers that start again."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from cli_streams import own_text
from hypothesis import given, settings
from hypothesis import strategies as st

from example_counts import examples
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
)
from tailrace.runtimes.gemini.translator import GeminiTranslator
from tailrace.runtimes.restart_detector import MAY_BE_RESTARTED, RestartDetector

# The rules


def events_of(*lines: dict[str, Any]) -> list[Event]:
    translator = GeminiTranslator()
    return [event for line in lines for event in translator.feed(json.dumps(line).encode())]


def piece(text: str, second: float) -> dict[str, Any]:
    at = f"2026-11-15T17:55:{second:06.3f}Z"
    return {"type": "message", "role": "assistant", "content": text, "delta": True, "timestamp": at}


SUCCESS = {"type": "result", "status": "success"}
FAILURE = {"type": "result", "status": "error", "error": {"type": "unknown", "message": "it broke"}}


def answer(*lines: dict[str, Any]) -> str:
    events = events_of(*lines)
    ended = isinstance(events[-1], TurnCompleted | TurnFailed) if events else False
    return own_text(events if ended else [*events, TurnCompleted()])


def test_restart_after_a_pause_retracts_the_first_try() -> None:
    again = [piece("It breaks ", 1), piece("here", 1.02), piece("It breaks ", 2.1), piece("here not", 2.2)]
    assert events_of(*again) == [
        TextDelta(text="It breaks "),
        TextDelta(text="here"),
        TextRetracted(reason="gemini started its answer again"),
        TextDelta(text="It breaks here not"),
    ]
    assert answer(*again, piece(" at all.", 2.3), SUCCESS) == "It breaks here not at all."


def test_long_repeat_that_then_differs_stays_apart_with_a_notice() -> None:
    lines = [piece("Let me first look at ", 1), piece("this file", 1.1), piece("Let me first ", 3), piece("list.", 3.1)]
    assert events_of(*lines) == [
        TextDelta(text="Let me first look at "),
        TextDelta(text="this file"),
        TextDelta(text="Let me first list."),
    ]
    lines[3] = piece("look around.", 3.1)
    assert events_of(*lines) == [
        TextDelta(text="Let me first look at "),
        TextDelta(text="this file"),
        BlockFinal(),
        Notice(text=MAY_BE_RESTARTED),
        TextDelta(text="Let me first look around."),
    ]


TOOL = {"type": "tool_use", "tool_id": "1", "tool_name": "look"}
DONE = {"type": "tool_result", "tool_id": "1", "status": "success", "output": "x"}
ROSES = piece("Roses are red. ", 1)


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        ([piece("ha ha ha ha ", 1), piece("ha ha ha ha ", 1.5)], "ha ha ha ha ha ha ha ha "),
        ([piece("No. ", 1), piece("No. ", 3), piece("Never.", 3.1)], "No. No. Never."),
        (
            [
                *(piece("Roses are red, ", 1), piece("violets are blue. ", 1.1)),
                *(piece("Roses are ", 3), piece("dead.", 3.1)),
            ],
            "Roses are red, violets are blue. Roses are dead.",
        ),
        ([ROSES, piece("Roses ", 3)], "Roses are red. Roses "),
        ([ROSES, piece("Roses ", 3), TOOL], "Roses are red. Roses "),
        ([ROSES, piece("Roses ", 3), FAILURE], "Roses are red. "),
        (
            [piece("Roses are red", 1), piece("Roses", 2.5), piece("Roses are", 5), piece(" red today.", 5.1)],
            "Roses are red today.",
        ),
        ([piece("Looking around.", 1), TOOL, DONE, piece("Looking around.", 5)], "Looking around.Looking around."),
    ],
    ids=[
        *("no pause", "too few words", "differs after few words", "held text at the end", "held text before a tool"),
        *("failed try", "shorter second try", "each block by itself"),
    ],
)
def test_repeated_text_is_kept_unless_it_is_a_restart(lines: list[dict[str, Any]], text: str) -> None:
    assert answer(*lines, SUCCESS) == text


@settings(max_examples=examples(60, search=2000))
@given(
    whole=st.text("ab ", min_size=8, max_size=30).filter(lambda text: len(text.strip()) >= 8),
    cuts=st.lists(st.integers(0, 30), max_size=6),
    tries=st.integers(1, 4),
)
def test_tries_of_one_answer_give_it_once_however_they_are_cut(whole: str, cuts: list[int], tries: int) -> None:
    attempts = RestartDetector()
    answered: list[str] = []
    places = sorted({0, len(whole), *(cut for cut in cuts if cut < len(whole))})
    for attempt in range(tries):
        for number, (start, end) in enumerate(pairwise(places)):
            passed = attempts.feed(whole[start:end], attempt * 10 + number * 0.01)
            answered = [passed.text] if passed.is_restart else [*answered, passed.text]
    assert "".join([*answered, attempts.close()]) == whole


@settings(max_examples=examples(60, search=2000))
@given(pieces=st.lists(st.tuples(st.text("ab", max_size=6), st.booleans()), max_size=12))
def test_only_text_that_a_new_try_repeats_is_dropped(pieces: list[tuple[str, bool]]) -> None:
    attempts = RestartDetector()
    shown, now = "", 0.0
    everything = "".join(text for text, _ in pieces)
    for text, is_pause in pieces:
        now += 2.0 if is_pause else 0.1
        passed = attempts.feed(text, now)
        shown = passed.text if passed.is_restart else shown + passed.text
    shown += attempts.close()
    assert everything.endswith(shown)
    if len(shown) < len(everything):
        assert len(shown.strip()) >= 8


def test_reported_error_fails_the_turn_despite_success() -> None:
    *_, end = events_of({"type": "error", "severity": "error", "message": "Maximum session turns exceeded"}, SUCCESS)
    assert end == TurnFailed(message="Maximum session turns exceeded")


def test_warning_does_not_end_the_turn() -> None:
    events = events_of(piece("Once", 1), {"type": "error", "severity": "warning", "message": "Loop detected"}, SUCCESS)
    assert events == [TextDelta(text="Once"), BlockFinal(), Error(message="Loop detected"), TurnCompleted()]


def test_cancellation_is_recognised() -> None:
    error = {"type": "FatalCancellationError", "message": "Operation cancelled."}
    assert events_of({"type": "result", "status": "error", "error": error}) == [TurnCancelled()]


def test_result_of_an_unknown_call_starts_it() -> None:
    failed = {"type": "tool_result", "tool_id": "1", "status": "error", "error": {"message": "no such file"}}
    assert events_of(failed) == [
        ToolStarted(id="1", name="tool"),
        ToolFinished(id="1", result="no such file", is_error=True),
    ]


def test_long_answer_is_streamed_also_when_it_restarts() -> None:
    pieces = [piece(f"{number:05} ", 1 + number / 1000) for number in range(10_000)]
    again = [{**line, "timestamp": line["timestamp"].replace("T17", "T18")} for line in pieces]
    events = events_of(*pieces, *again, SUCCESS)
    assert own_text(events) == "".join(f"{number:05} " for number in range(10_000))
    assert len(events) == 10_000 + 4
