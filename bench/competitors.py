"""Compare other splitters on the same text: their cost, for the whole text and per delta, and what they break.

Only ours accepts deltas; the others must run again over the whole text so far. That is quadratic, so it is measured at
some evenly spread deltas and multiplied by the number of deltas. The name of the row mentions it.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from bench import texts
from bench.cutting import DELTA, LIMIT, feed, in_deltas
from bench.rows import Row, Scale, best_of, duration
from cutting_laws.foreign import judge_texts
from tailrace.markdown import split

SAMPLES = 12

Cut = Callable[[str], Sequence[str]]


def rows(scale: Scale) -> Iterator[Row]:
    """Ours first, then each other splitter that is installed."""
    text = texts.mixed(scale.text)
    pieces = in_deltas(text)
    whole = best_of(scale.repeats, split, text, LIMIT)
    fed = best_of(scale.repeats, feed, pieces)
    ours = judge_texts(text, [part.text for part in split(text, LIMIT)], LIMIT)
    clean = not any(ours)
    yield Row("tailrace: breaches on the same text", duration(whole), "", "", "zeros", clean, _counts(ours))
    for name, cut in competitors():
        taken = best_of(scale.repeats, cut, text)
        found = _counts(judge_texts(text, cut(text), LIMIT))
        yield Row(f"{name}, whole", duration(whole), duration(taken), _times(whole, taken), breaches=found)
        again = _run_again(cut, text, scale)
        label = f"{name}, run again per delta (from {SAMPLES} of {len(pieces):,} runs)"
        yield Row(label, duration(fed), duration(again), _times(fed, again))


def _times(ours: float, theirs: float) -> str:
    return f"{ours / theirs:.2f} x" if ours > theirs / 100 else f"1 / {theirs / ours:,.0f}"


def _counts(breaches: tuple[int, ...]) -> str:
    return " · ".join(map(str, breaches))


def _run_again(cut: Cut, text: str, scale: Scale) -> float:
    runs = len(text) // DELTA
    lengths = [len(text) * (2 * sample + 1) // (2 * SAMPLES) for sample in range(SAMPLES)]
    mean = sum(best_of(min(scale.repeats, 2), cut, text[:end]) for end in lengths) / SAMPLES
    return mean * runs


def competitors() -> Iterator[tuple[str, Cut]]:
    """The splitters that `make bench` installs, as functions from a text to the texts of its parts."""
    if langchain := _installed("langchain_text_splitters"):
        splitter = langchain.MarkdownTextSplitter(chunk_size=LIMIT, chunk_overlap=0)
        yield "langchain MarkdownTextSplitter", splitter.split_text
    if semantic := _installed("semantic_text_splitter"):
        yield "semantic MarkdownSplitter", semantic.MarkdownSplitter(LIMIT).chunks
    if telegramify := _installed("telegramify_markdown"):
        yield (
            "telegramify_markdown",
            lambda text: telegramify.split_markdownv2(*telegramify.convert(text), LIMIT),
        )


def _installed(name: str) -> Any:
    return importlib.import_module(name) if importlib.util.find_spec(name) else None
