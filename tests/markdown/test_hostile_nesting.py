"""Texts made to be slow: the work to cut and render them grows linearly. Work is counted in calls, not in seconds."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial

import pytest

from example_counts import share
from tailrace.markdown import Splitter, join, render, split
from tailrace.markdown.dialects import RENDERERS

TEXTS: dict[str, Callable[[int], str]] = {
    "quotes": lambda size: ">" * size,
    "quotes with spaces": lambda size: "> " * (size // 2) + "a",
    "quotes line by line": lambda size: "".join(">" * depth + " a\n" for depth in range(1, int((2 * size) ** 0.5))),
    "bullets": lambda size: "- " * (size // 2) + "a",
    "numbers": lambda size: "1. " * (size // 3) + "a",
    "quotes in bullets": lambda size: "> - " * (size // 4) + "a",
    "a list line by line": lambda size: "".join("  " * depth + "- a\n" for depth in range(int(size**0.5))),
    "fences": lambda size: "`" * size,
    "runs of ticks": lambda size: "".join("`" * length + " " for length in range(1, int((2 * size) ** 0.5))),
    "brackets": lambda size: "[" * size,
    "links in links": lambda size: "[a](b " * (size // 6),
    "images": lambda size: "![" * (size // 2),
    "stars": lambda size: "*" * size,
    "stars and words": lambda size: "*a " * (size // 3),
    "stars and underscores": lambda size: "*a_" * (size // 3),
    "angles": lambda size: "<" * size,
    "tags": lambda size: "<a " * (size // 3),
    "comments": lambda size: "<!-- " * (size // 5),
    "bars": lambda size: "|" * size,
    "rows": lambda size: "|a|b|\n|-|-|\n" + "|b\n" * (size // 3),
    "tildes": lambda size: "~" * size,
    "tildes and words": lambda size: "~~a " * (size // 4),
    "pairs of bars": lambda size: "||a " * (size // 4),
    "ampersands": lambda size: "&" * size,
    "backslashes": lambda size: "\\" * size,
    "addresses": lambda size: "http://a(" * (size // 9),
    "calls": lambda size: "@a " * (size // 3),
    "marks on a letter": lambda size: "a" + "\u0301" * size,
    "definitions": lambda size: "[a]: b\n" * (size // 7),
}
texts = pytest.mark.parametrize("name", TEXTS)


def _number(name: str) -> int:
    return list(TEXTS).index(name)


# Quadratic work would be four and sixteen times as much. It may be a bit more than two and four times, because one more
# lookahead here or there counts, most of all in a short text.
TWICE, FOUR_TIMES = 3, 9


def calls(work: Callable[[], object]) -> int:
    """How many functions a piece of work calls, those written in C included."""
    count = 0

    def counted(_frame: object, event: str, _arg: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(counted)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def _grows_evenly(work: Callable[..., object], size: int = 500) -> bool:
    once, twice, four_times = (calls(partial(work, times * size)) for times in (1, 2, 4))
    return four_times <= FOUR_TIMES * once and four_times <= TWICE * twice


@texts
def test_work_to_cut_and_render_grows_with_the_text(name: str) -> None:
    """The limit grows with the text, because a part is cut by parsing all of it."""
    make = TEXTS[name]
    for dialect in share(("markdown", "telegram"), _number(name), 2):
        assert _grows_evenly(lambda size, dialect=dialect: split(make(size), size // 4, dialect=dialect))
    for dialect in share(list(RENDERERS), _number(name), 4):
        assert _grows_evenly(lambda size, dialect=dialect: render(make(size), dialect))


@pytest.mark.parametrize("name", ["quotes", "bullets", "a list line by line", "fences", "brackets", "stars", "rows"])
def test_work_to_feed_grows_with_the_text(name: str) -> None:
    make = TEXTS[name]

    def feed(size: int) -> None:
        splitter = Splitter(200, dialect="telegram")
        text = make(size)
        for start in range(0, size, 8):
            splitter.feed(text[start : start + 8])
        splitter.close()

    assert _grows_evenly(feed)


@texts
def test_hostile_text_is_cut_without_loss(name: str) -> None:
    source = TEXTS[name](1200)
    for dialect in share(("telegram_rich", "slack", "discord", "matrix"), _number(name), 4):
        parts = split(source, 300, dialect=dialect)
        assert join(parts) == source
        assert all(part.size <= 300 for part in parts)
