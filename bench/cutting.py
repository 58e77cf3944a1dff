"""The cost of cutting a text, against one parse of it, and how the cost grows with the text."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pyromark

from bench import texts
from bench.rows import Row, Scale, at_most, best_of, best_of_each
from tailrace.markdown import Part, Splitter, split

if TYPE_CHECKING:
    from collections.abc import Iterator

LIMIT = 4096
DELTA = 4
_KINDS = (
    (texts.paragraph, "one paragraph"),
    (texts.code, "one code block"),
    (texts.table, "one table"),
    (texts.mixed, "mixed text"),
)


def rows(scale: Scale) -> Iterator[Row]:
    """The whole text, the text in deltas, and each kind of text at double length."""
    text = texts.mixed(scale.text)
    parse = best_of(2 * scale.repeats, lambda: list(pyromark.events_with_range(text)))
    whole = best_of(2 * scale.repeats, split, text, LIMIT)
    yield at_most(f"split, {len(text):,} characters, against one parse", whole, parse, 3)
    pieces = in_deltas(text)
    fed = best_of(scale.repeats, feed, pieces)
    yield at_most(f"Splitter, the same in {len(pieces):,} deltas, against one parse", fed, parse, 6)
    yield from doubling(scale)


def in_deltas(text: str, length: int = DELTA) -> list[str]:
    """The text in pieces of `DELTA` characters."""
    return [text[at : at + length] for at in range(0, len(text), length)]


def feed(pieces: list[str], limit: int = LIMIT) -> list[Part]:
    """The parts that a splitter makes of these pieces."""
    splitter = Splitter(limit)
    parts = [part for piece in pieces for part in splitter.feed(piece)]
    return parts + splitter.close()


def doubling(scale: Scale) -> Iterator[Row]:
    """Each kind of text against half of it, whole and in deltas."""
    repeats = min(scale.repeats, 3)
    for kind, name in _KINDS:
        half, full = kind(scale.large // 2), kind(scale.large)
        less, more = best_of_each(repeats, [partial(split, text, LIMIT) for text in (half, full)])
        yield at_most(f"split, {name} of {len(full):,} against half", more, less, 2.2)
        less, more = best_of_each(repeats, [partial(feed, in_deltas(text, 16)) for text in (half, full)])
        yield at_most(f"Splitter, {name} of {len(full):,} in deltas of 16 against half", more, less, 2.2)
