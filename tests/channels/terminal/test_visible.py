"""Texts made safe for a terminal: control characters become visible signs, everything else stays."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tailrace.channels.terminal.visible import visible

any_text = st.text(alphabet=st.characters(categories=["L", "M", "N", "P", "S", "Z", "C", "Cs"]))
BIDI_CLASSES = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("plain\ttext\nof two lines", "plain\ttext\nof two lines"),
        ("\x1b[31mred\x1b[0m", "␛[31mred␛[0m"),
        ("\x1b]0;title\x07", "␛]0;title␇"),
        ("\x9b2J", "\\x9b2J"),
        ("over\rwritten\b\x7f\x00", "over␍written␈␡␀"),
        ("\u202egnp.exe\u2069", "\\u202egnp.exe\\u2069"),
        ("half \ud83d", "half \\ud83d"),
        ("👩‍👩‍👧 日本語 é 🇫🇷", "👩‍👩‍👧 日本語 é 🇫🇷"),
    ],
)
def test_control_characters_become_visible_signs(raw: str, shown: str) -> None:
    assert visible(raw) == shown


@given(any_text)
@example("\x1b[2J")
@example("\ud800\udc00")
def test_no_control_character_is_left(text: str) -> None:
    shown = visible(text)
    for character in shown:
        assert character in "\n\t" or unicodedata.category(character) not in {"Cc", "Cs", "Zl", "Zp"}
        assert unicodedata.bidirectional(character) not in BIDI_CLASSES
    shown.encode()


@given(any_text, st.integers(min_value=0))
def test_cuts_in_the_text_make_no_difference(text: str, at: int) -> None:
    at = at % (len(text) + 1)
    assert visible(text[:at]) + visible(text[at:]) == visible(text)


@given(any_text)
def test_visible_is_idempotent(text: str) -> None:
    assert visible(visible(text)) == visible(text)


@given(st.text(alphabet=st.characters(categories=["L", "M", "N", "P", "S", "Zs"])))
def test_plain_text_is_unchanged(text: str) -> None:
    assert visible(text) == text
