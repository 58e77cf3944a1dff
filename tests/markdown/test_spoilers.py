"""Spoilers: what is hidden and what is not, in each dialect and wherever the text is cut."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from reading_rich import RichMessage

from cutting_laws.feeding import partition_free
from cutting_laws.laws import judge
from tailrace.markdown import join, render, split
from tailrace.operations import Body

HIDDEN = [
    ("a ||b c|| d", ["b c"]),
    ("||a||", ["a"]),
    ("(||a||), ||b||!", ["a", "b"]),
    ("||a\nb||", ["a\nb"]),
    ("**||a||** ||*b* c||", ["a", "b c"]),
    ("> ||a||\n\n- ||b||\n\n# ||c||", ["a", "b", "c"]),
    ("||[a](https://x.y) `b`||", ["a b"]),
    ("||a **b ||c|| d** e||", ["a b c d e"]),
    ("\\\\||a||", ["a"]),
    ("||a|| ||b", ["a"]),
    ("||a || b||", ["a || b"]),
]
SHOWN = [
    *("||a", "a||", "a || b || c", "a||b||c", "|| a ||", "|||a|||", "||||", "||a |||", "x = ||a||b"),
    *("`||a||`", "```\n||a||\n```", "    ||a||", "\\||a||", "||a\\||", "\\|\\|a\\|\\|", "&#124;|a||", "||a\n\nb||"),
    *("**||a** b||", "- ||a\n- b||", "[||a](https://x.y) b||", "<i x='||a||'>", "|a||b||\n|-|-|-|\n|||c|||"),
]


def _hidden(body: Body) -> list[str]:
    units = body.text.encode("utf-16-le")
    ranges = [(entity.offset, entity.offset + entity.length) for entity in body.entities if entity.type == "spoiler"]
    return [units[2 * start : 2 * end].decode("utf-16-le") for start, end in ranges]


@pytest.mark.parametrize(("source", "hidden"), HIDDEN)
def test_what_stands_between_bars_is_hidden(source: str, hidden: list[str]) -> None:
    assert _hidden(render(source, "telegram")) == hidden
    rich = render(source, "telegram_rich")
    assert "".join(RichMessage(rich.html or "").hidden) == "".join(hidden).replace("\n", "")


@pytest.mark.parametrize("source", SHOWN)
def test_other_bars_are_bars(source: str) -> None:
    assert _hidden(render(source, "telegram")) == []
    assert "tg-spoiler" not in (render(source, "telegram_rich").html or "")


@pytest.mark.parametrize(
    ("dialect", "text"),
    [
        ("discord", "a ||b **c**|| \\|\\|d"),
        ("slack", "a ||b *c*|| ||d"),
        ("plain", "a ||b c|| ||d"),
        ("matrix", "a ||b c|| ||d"),
        ("markdown", "a ||b **c**|| ||d"),
    ],
)
def test_bars_stay_where_nothing_can_be_hidden_and_where_they_hide(dialect: str, text: str) -> None:
    assert render("a ||b **c**|| ||d", dialect).text == text


def test_code_in_a_spoiler_is_hidden_too() -> None:
    body = render("||a `b` **c `d`**||", "telegram")
    assert _hidden(body) == ["a b c d"]
    assert "code" not in {entity.type for entity in body.entities}


def test_nothing_that_is_hidden_shows_for_want_of_entities() -> None:
    body = render(" ".join(f"**b** [l](https://x.y/{number}) ||s{number}||" for number in range(40)), "telegram")
    assert _hidden(body) == [f"s{number}" for number in range(40)]


@pytest.mark.parametrize("dialect", ["markdown", "telegram", "telegram_rich", "discord"])
@pytest.mark.parametrize("limit", [40, 60, 100])
def test_both_halves_of_a_spoiler_that_is_cut_are_hidden(dialect: str, limit: int) -> None:
    source = f"before ||{'secret ' * 60}secret|| after ||{'secret ' * 3}secret||"
    parts = split(source, limit, dialect=dialect)
    assert len(parts) > 3
    assert join(parts) == source
    assert judge(source, parts, limit, dialect=dialect) == []
    assert partition_free(source, range(len(source)), limit, dialect=dialect) == []
    for part in parts:
        hidden = "".join(_hidden(render(part.text, "telegram")))
        assert hidden.count("secret") == part.text.count("secret")


PIECES = ("||", "a", "long word", " ", "\n", "\n\n", "**", "`", "> ", "- ", "\\", "|")


@settings(max_examples=150)
@given(st.lists(st.sampled_from(PIECES), max_size=24), st.integers(1, 30))
@example(["long word", "`", "||", "long word", "`", "||", "||", "||"], 13)
def test_any_bars_keep_the_laws(pieces: list[str], limit: int) -> None:
    source = "".join(pieces)
    for dialect in ("markdown", "telegram", "discord"):
        parts = split(source, limit, dialect=dialect)
        assert judge(source, parts, limit, dialect=dialect) == []
        assert partition_free(source, range(len(source)), limit, dialect=dialect) == []
