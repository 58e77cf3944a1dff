"""Boundaries between visible characters, compared with the clusters of the whole text."""

from __future__ import annotations

import regex
from hypothesis import given
from hypothesis import strategies as st

from tailrace.markdown.graphemes import is_boundary, last_boundary

_JOINERS = st.sampled_from(
    ["\u200d", "\u0301", "\ufe0f", "\u094d", "🇩", "🇪", "👩", "👍", "🏽", "क", "ष", "\r", "\n", "ᄀ", "ᅡ"]
)
_TEXTS = st.lists(st.one_of(_JOINERS, st.characters(exclude_categories=["Cs"])), max_size=20).map("".join)


@given(_TEXTS, st.integers(0, 40))
def test_last_boundary_is_that_of_the_whole_text(text: str, at: int) -> None:
    borders = {0, *(cluster.end() for cluster in regex.finditer(r"\X", text))}
    at = min(at, len(text))
    assert last_boundary(text, at) == max(border for border in borders if border <= at)
    assert is_boundary(text, at) == (at in borders)
