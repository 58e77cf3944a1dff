"""The scan without a parser finds only what the parser would find."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import documents, raw_texts

from example_counts import examples
from stable_strategies import integers
from tailrace.markdown.fast_scan import last_top_level_break
from tailrace.markdown.outline import read_outline


@settings(max_examples=examples(250, search=4000))
@given(st.one_of(documents(), raw_texts()), integers(1, 400))
def test_break_is_between_top_level_blocks(source: str, fits: int) -> None:
    text = source.strip() + "\n\nend"
    if len(text) <= fits:
        fits = len(text) - 4
    found = last_top_level_break(text, fits)
    if found is not None:
        assert text[found.end : found.resume].isspace()
        assert found.end <= fits
        over = [block for block in read_outline(text).blocks if block.start < found.end and block.end > found.resume]
        assert over == []


@pytest.mark.parametrize(
    ("text", "behind_the_break"),
    [
        ("a\n\n```\ncode\n\nmore\n```\n\n~~~\n\n```\n\n~~~~\n\nb\n\n````\nopen\n\n```\n\nstill", "````\nopen"),
        ("intro\n\n- item\n\n  more of it\n\n  and more", "- item"),
    ],
    ids=["fences in the first column are followed", "blank lines in a list are left to the parser"],
)
def test_last_break_before_an_open_block(text: str, behind_the_break: str) -> None:
    found = last_top_level_break(text, len(text) - 2)
    assert found is not None
    assert text[found.resume :].startswith(behind_the_break)
    assert not found.is_last or behind_the_break != "- item"


def test_html_over_blank_lines_is_left_to_the_parser() -> None:
    assert last_top_level_break("a\n\n<!-- one\n\ntwo -->\n\nb c d e", 20) is None
