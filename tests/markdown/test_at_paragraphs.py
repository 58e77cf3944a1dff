"""Splitting with `at_paragraphs`: also at each blank line outside code."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import documents

from example_counts import examples
from stable_strategies import integers
from tailrace.markdown import Part, Splitter, join

TEXT = "First.\n\nSecond\nline.\n\n```py\ncode\n\nmore\n```\n\n- a\n\n- b\n\n  c\n\nEnd"


def _parts(text: str, size: int, limit: int = 400) -> list[Part]:
    splitter = Splitter(limit, at_paragraphs=True)
    parts = []
    for start in range(0, len(text), size):
        parts += splitter.feed(text[start : start + size])
    return parts + splitter.close()


def test_paragraphs_become_parts_and_code_stays_whole() -> None:
    texts = [part.text for part in _parts(TEXT, 1)]
    assert texts == ["First.", "Second\nline.", "```py\ncode\n\nmore\n```", "- a", "- b", "- c", "End"]


def test_paragraph_is_given_when_the_next_one_begins() -> None:
    splitter = Splitter(400, at_paragraphs=True)
    assert splitter.feed("One.\n\n") == []
    assert [part.text for part in splitter.feed("T")] == ["One."]
    assert [part.text for part in splitter.close()] == ["T"]


@settings(max_examples=examples(60, search=600))
@given(documents(), integers(20, 200), st.integers(1, 40))
def test_parts_do_not_depend_on_the_pieces(text: str, limit: int, size: int) -> None:
    whole = _parts(text, max(len(text), 1), limit)
    assert _parts(text, size, limit) == whole
    assert join(whole) == (text if text.strip() else "")
    assert all(part.size <= limit for part in whole)


def test_no_blank_part_is_cut_after_a_part_that_ends_a_quote() -> None:
    text = "# a\n\n> <http://a.example/b>\n\na"
    parts = _parts(text, 1, limit=20)
    assert join(parts) == text
    assert all(part.text.removeprefix(part.opened).strip() for part in parts)


@pytest.mark.parametrize("text", ["    o", "\n\n  ü", " &"])
def test_cut_refuses_one_visible_character_behind_whitespace(text: str) -> None:
    splitter = Splitter(100, dialect="slack")
    parts = splitter.feed("Before.\n\n")
    parts += splitter.cut()
    parts += splitter.feed(text)
    parts += splitter.cut() + splitter.close()
    assert join(parts) == "Before.\n\n" + text
