"""What the translator of gemini-cli makes of single lines, above all of answers that start again.

Recordings are in `test_recordings`.
"""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from turns import Case, case, table, turn_of

from example_counts import examples
from tailrace.events import (
    BlockFinal,
    Error,
    Event,
    Notice,
    TextDelta,
    TextRetracted,
    TurnCancelled,
    TurnCompleted,
    TurnFailed,
)
from tailrace.runtimes.gemini.translator import GeminiTranslator
from tailrace.runtimes.restart_detector import MAY_BE_RESTARTED, RestartDetector


def events_of(*lines: dict[str, Any]) -> list[Event]:
    translator = GeminiTranslator()
    return [event for line in lines for event in translator.feed(json.dumps(line).encode())]


def piece(text: str, second: float) -> dict[str, Any]:
    at = f"2026-11-15T17:55:{second:06.3f}Z"
    return {"type": "message", "role": "assistant", "content": text, "delta": True, "timestamp": at}


SUCCESS = {"type": "result", "status": "success"}
FAILURE = {"type": "result", "status": "error", "error": {"type": "unknown", "message": "it broke"}}


TOOL = {"type": "tool_use", "tool_id": "1", "tool_name": "look"}
RESULT = {"type": "tool_result", "tool_id": "1", "status": "success", "output": "x"}
NO_FILE = {"type": "tool_result", "tool_id": "1", "status": "error", "error": {"message": "no such file"}}
CANCELLED = {"type": "FatalCancellationError", "message": "Operation cancelled."}
TOO_MANY = "Maximum session turns exceeded"
ROSES = piece("Roses are red. ", 1)
LOOK = [piece("Let me first look at ", 1), piece("this file", 1.1), piece("Let me first ", 3)]
LOOKED = [TextDelta(text="Let me first look at "), TextDelta(text="this file")]
DONE = TurnCompleted()


@table(
    case(
        "a second try after a pause",
        *(piece("It breaks ", 1), piece("here", 1.02), piece("It breaks ", 2.1), piece("here not", 2.2)),
        piece(" at all.", 2.3),
        events=[
            *(TextDelta(text="It breaks "), TextDelta(text="here")),
            *(TextRetracted(reason="gemini started its answer again"), TextDelta(text="It breaks here not")),
            *(TextDelta(text=" at all."), BlockFinal(), DONE),
        ],
    ),
    case(
        "a repeat that differs soon",
        *(*LOOK, piece("list.", 3.1)),
        events=[*LOOKED, TextDelta(text="Let me first list."), BlockFinal(), DONE],
    ),
    case(
        "a repeat that differs late may be a second try",
        *(*LOOK, piece("look around.", 3.1)),
        events=[
            *(*LOOKED, BlockFinal(), Notice(text=MAY_BE_RESTARTED)),
            *(TextDelta(text="Let me first look around."), BlockFinal(), DONE),
        ],
    ),
    case("no pause", piece("ha ha ha ha ", 1), piece("ha ha ha ha ", 1.5), answer=["ha ha ha ha ha ha ha ha "]),
    case("too few words", piece("No. ", 1), piece("No. ", 3), piece("Never.", 3.1), answer=["No. No. Never."]),
    case(
        "differs after few words",
        *(piece("Roses are red, ", 1), piece("violets are blue. ", 1.1), piece("Roses are ", 3), piece("dead.", 3.1)),
        answer=["Roses are red, violets are blue. Roses are dead."],
    ),
    case("held text at the end", ROSES, piece("Roses ", 3), answer=["Roses are red. Roses "]),
    case("held text before a tool", ROSES, piece("Roses ", 3), TOOL, answer=["Roses are red. Roses "]),
    case("a failed try", ROSES, piece("Roses ", 3), FAILURE, answer=["Roses are red. "]),
    case(
        "a shorter second try",
        *(piece("Roses are red", 1), piece("Roses", 2.5), piece("Roses are", 5), piece(" red today.", 5.1)),
        answer=["Roses are red today."],
    ),
    case(
        "each block by itself",
        *(piece("Looking around.", 1), TOOL, RESULT, piece("Looking around.", 5)),
        answer=["Looking around.", "Looking around."],
    ),
    case(
        "an error before success",
        {"type": "error", "severity": "error", "message": TOO_MANY},
        events=[TurnFailed(message=TOO_MANY)],
    ),
    case(
        "a warning",
        *(piece("Once", 1), {"type": "error", "severity": "warning", "message": "Loop detected"}),
        events=[TextDelta(text="Once"), BlockFinal(), Error(message="Loop detected"), DONE],
    ),
    case("cancelled", {"type": "result", "status": "error", "error": CANCELLED}, events=[TurnCancelled()]),
    case("a failed result of an unknown call", NO_FILE, calls=[("tool", None, "no such file")], tools=[("tool", True)]),
)
def test_lines_of_a_turn(case: Case) -> None:
    case.check(events_of(*case.natives, SUCCESS))


@settings(max_examples=examples(60, search=2000))
@given(
    whole=st.text("ab ", min_size=8, max_size=30).filter(lambda text: len(text.strip()) >= 8),
    cuts=st.lists(st.integers(0, 30), max_size=6),
    tries=st.integers(1, 4),
)
def test_second_tries_give_the_answer_once(whole: str, cuts: list[int], tries: int) -> None:
    detector = RestartDetector()
    answered: list[str] = []
    places = sorted({0, len(whole), *(cut for cut in cuts if cut < len(whole))})
    for attempt in range(tries):
        for number, (start, end) in enumerate(pairwise(places)):
            piece = detector.feed(whole[start:end], attempt * 10 + number * 0.01)
            answered = [piece.text] if piece.is_restart else [*answered, piece.text]
    assert "".join([*answered, detector.close()]) == whole


@settings(max_examples=examples(60, search=2000))
@given(pieces=st.lists(st.tuples(st.text("ab", max_size=6), st.booleans()), max_size=12))
def test_only_text_that_a_new_try_repeats_is_dropped(pieces: list[tuple[str, bool]]) -> None:
    detector = RestartDetector()
    shown, now = "", 0.0
    everything = "".join(text for text, _ in pieces)
    for text, is_pause in pieces:
        now += 2.0 if is_pause else 0.1
        piece = detector.feed(text, now)
        shown = piece.text if piece.is_restart else shown + piece.text
    shown += detector.close()
    assert everything.endswith(shown)
    if len(shown) < len(everything):
        assert len(shown.strip()) >= 8


def test_long_answer_is_streamed_also_when_it_restarts() -> None:
    pieces = [piece(f"{number:05} ", 1 + number / 1000) for number in range(10_000)]
    again = [{**line, "timestamp": line["timestamp"].replace("T17", "T18")} for line in pieces]
    events = events_of(*pieces, *again, SUCCESS)
    assert "".join(turn_of(events).answer) == "".join(f"{number:05} " for number in range(10_000))
    assert len(events) == 10_000 + 4
