"""What people see of a text that is not complete yet."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from strategies import documents, raw_texts

from example_counts import examples
from tailrace.markdown.open_markup import close_open_markup

CLOSED = (
    *("a * b * c", "5 * 3", "x_y_z", "see [the pa", "```py\na = b**", "```py\na = '**b", "    a = b**"),
    *("| a | b", "**", "a\n\n**b** c"),
)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("Take **bo", "Take **bo**"),
        ("Take **", "Take"),
        ("Take **bold*", "Take **bold**"),
        ("Take **bold**", "Take **bold**"),
        ("***both", "***both***"),
        ("~~gone", "~~gone~~"),
        ("a **b `c", "a **b `c`**"),
        ("a `co", "a `co`"),
        ("a `b` `co", "a `b` `co`"),
        ("`a ** b", "`a ** b`"),
        ("- item **x", "- item **x**"),
        ("> q *a", "> q *a*"),
        ("# Head **b", "# Head **b**"),
        ("done **twice**\n\nand *once", "done **twice**\n\nand *once*"),
        ("see [the page](https://ex", "see the page"),
        ("see **[the page](htt", "see **the page**"),
        ("[a](b) and [c](", "[a](b) and c"),
        ("![pic](http", "pic"),
        ("text\n```", "text"),
        ("a || *b", "a || *b*"),
        # nothing is open
        *((text, text) for text in CLOSED),
    ],
)
def test_markup_open_at_the_end_is_closed(text: str, meant: str) -> None:
    assert close_open_markup(text) == meant


@settings(max_examples=examples(60, search=1000))
@given(raw_texts() | documents())
def test_visible_text_stays_visible(text: str) -> None:
    assert bool(close_open_markup(text).strip()) == bool(text.strip())


@settings(max_examples=examples(60, search=1000))
@given(documents())
def test_no_character_is_added_but_closers(text: str) -> None:
    shown, words = iter(text), close_open_markup(text).rstrip("*_~`|")
    assert all(character in shown for character in words), "what is shown are characters of the text, in their order"
