"""Every law of cutting, over generated Markdown, over raw text and over prose."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from strategies import CLUSTERS, DIALECTS, UNITS, documents, proses, raw_texts

from cutting_laws.feeding import feed_all, partition_free, prompt, prompt_in_prose
from cutting_laws.laws import judge
from cutting_laws.parts import LEAST_LIMIT, slice_of
from cutting_laws.prose import boundary_order
from cutting_laws.structure import is_tame, meaning
from tailrace.markdown import Splitter, join, split

units = st.sampled_from(UNITS)
dialects = st.sampled_from(DIALECTS)
small_limits = st.integers(1, 40)
limits = st.one_of(small_limits, st.integers(20, 400))


def _least(unit: str, limit: int) -> int:
    return max(limit, LEAST_LIMIT[unit])


@settings(max_examples=600)
@given(raw_texts(), small_limits, units, dialects)
def test_raw_text_keeps_every_universal_law(source: str, limit: int, unit: str, dialect: str) -> None:
    limit = _least(unit, limit)
    parts = split(source, limit, unit=unit, dialect=dialect)
    assert judge(source, parts, limit, unit, dialect) == []


@settings(max_examples=600)
@given(documents(), limits, units, dialects)
def test_markdown_keeps_every_universal_law(source: str, limit: int, unit: str, dialect: str) -> None:
    limit = _least(unit, limit)
    parts = split(source, limit, unit=unit, dialect=dialect)
    assert judge(source, parts, limit, unit, dialect) == []


@settings(max_examples=500)
@given(documents(tame=True), st.integers(80, 300), units, dialects)
def test_every_character_means_in_its_part_what_it_meant(source: str, limit: int, unit: str, dialect: str) -> None:
    assume(is_tame(source, limit, unit))
    assert meaning(source, split(source, limit, unit=unit, dialect=dialect)) == []


@settings(max_examples=200)
@given(st.one_of(raw_texts(), documents()), limits, units, dialects)
def test_joining_gives_the_source_back(source: str, limit: int, unit: str, dialect: str) -> None:
    parts = split(source, _least(unit, limit), unit=unit, dialect=dialect)
    assert join(parts) == (source if source.strip() else "")


@settings(max_examples=250)
@given(raw_texts(max_size=60), st.integers(1, 20), units, dialects)
@example("```\nabc\n```", 9, "code_points", "markdown")
@example("**a b** c", 6, "code_points", "markdown")
@example("|a|\n|-|\n|b|\n|c|", 13, "code_points", "markdown")
def test_small_texts_cut_in_two_anywhere_give_the_same_parts(source: str, limit: int, unit: str, dialect: str) -> None:
    limit = _least(unit, limit)
    for cut in range(len(source) + 1):
        assert partition_free(source, [cut], limit, unit, dialect) == []


@settings(max_examples=250)
@given(st.one_of(raw_texts(), documents()), limits, units, dialects)
def test_text_fed_character_by_character_gives_the_same_parts(source: str, limit: int, unit: str, dialect: str) -> None:
    assert partition_free(source, range(len(source)), _least(unit, limit), unit, dialect) == []


@settings(max_examples=300)
@given(documents(max_blocks=12), limits, units, dialects, st.data())
def test_text_fed_in_any_pieces_gives_the_same_parts(
    source: str, limit: int, unit: str, dialect: str, data: st.DataObject
) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(source)), max_size=12))
    assert partition_free(source, cuts, _least(unit, limit), unit, dialect) == []


@settings(max_examples=300)
@given(st.one_of(raw_texts(200), documents()), st.integers(1, 80))
def test_no_part_is_held_back_past_the_lookahead(source: str, limit: int) -> None:
    assert prompt(source, limit) == []


@settings(max_examples=200)
@given(proses(), st.integers(1, 80))
def test_prose_is_cut_at_once(source: str, limit: int) -> None:
    assert prompt_in_prose(source, limit) == []


@settings(max_examples=500)
@given(proses(), st.integers(1, 120))
def test_prose_is_cut_in_the_order_of_boundaries(source: str, limit: int) -> None:
    assert boundary_order(source, split(source, limit), limit) == []


@pytest.mark.parametrize("unit", UNITS)
def test_a_limit_that_holds_no_character_is_refused(unit: str) -> None:
    least = LEAST_LIMIT[unit]
    for limit in (least - 1, 0, -5):
        with pytest.raises(ValueError, match=str(least)):
            split("text", limit, unit=unit)
        with pytest.raises(ValueError, match=str(least)):
            Splitter(limit, unit=unit)
    assert join(split("text 👍", least, unit=unit)) == "text 👍"


@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize("unit", UNITS)
def test_clusters_stay_whole_at_every_border(cluster: str, unit: str) -> None:
    for padding, limit in itertools.product(range(12), (12, 30)):
        source = "x" * padding + cluster * 9
        parts = split(source, limit + LEAST_LIMIT[unit], unit=unit)
        assert judge(source, parts, limit + LEAST_LIMIT[unit], unit) == []


@pytest.mark.parametrize("blank", ["", " ", "\n\n", "\t \r\n", "   \n\t\n"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_blank_text_gives_no_parts(blank: str, dialect: str) -> None:
    assert split(blank, 10, dialect=dialect) == []
    assert feed_all(blank, 10, dialect=dialect) == []


def test_a_style_left_open_ends_with_its_paragraph() -> None:
    source = "**" + "never closed " * 30 + "\n\nThe next paragraph is plain."
    parts = split(source, 100)
    assert judge(source, parts, 100) == []
    assert parts[0].closed == parts[1].opened == "**"
    assert slice_of(parts[-1]).endswith("The next paragraph is plain.")
    assert parts[-1].closed == ""
