"""What the translator of gemini-cli makes of single lines, above all of answers that start again.

Turns are in `made_turns` and `recordings`.
"""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from turns import turn_of

from example_counts import examples
from stable_strategies import texts
from tailrace.events import Event
from tailrace.runtimes.gemini.translator import GeminiTranslator
from tailrace.runtimes.restart_detector import RestartDetector


def events_of(*lines: dict[str, Any]) -> list[Event]:
    translator = GeminiTranslator()
    return [event for line in lines for event in translator.feed(json.dumps(line).encode())]


def piece(text: str, second: float) -> dict[str, Any]:
    at = f"2026-11-15T17:55:{second:06.3f}Z"
    return {"type": "message", "role": "assistant", "content": text, "delta": True, "timestamp": at}


SUCCESS = {"type": "result", "status": "success"}


@settings(max_examples=examples(60, search=2000))
@given(
    whole=texts("ab ", min_size=8, max_size=30).filter(lambda text: len(text.strip()) >= 8),
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
@given(pieces=st.lists(st.tuples(texts("ab", max_size=6), st.booleans()), max_size=12))
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
