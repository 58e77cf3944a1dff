"""The laws of cutting for generated Markdown, raw text and prose, in every unit and dialect."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from lawful import at_least, breaches
from strategies import CLUSTERS, UNITS, documents, proses, raw_texts
from test_spec_examples import lost_characters

from cutting_laws.feeding import check_feeding, check_lookahead, check_no_delay
from cutting_laws.laws import judge
from cutting_laws.parts import MIN_LIMIT
from cutting_laws.prose import check_boundary_order
from cutting_laws.structure import check_meaning, is_tame
from example_counts import examples
from stable_strategies import integers
from tailrace.markdown import Splitter, join, split
from tailrace.markdown.dialects import RENDERERS, Measurer

units = st.sampled_from(UNITS)
# Only the parts of the dialect `markdown` are judged by every law.
dialects = st.sampled_from((*["markdown"] * len(RENDERERS), *RENDERERS))
small_limits = st.integers(1, 40)
limits = st.one_of(small_limits, integers(20, 400))


@settings(max_examples=examples(300, search=3000))
@given(raw_texts(), small_limits, units, dialects)
@example("&&&&", 1, "code_points", "slack")
@example("> a  \n> b", 1, "code_points", "discord")
@example(">    ```000000000\n0\r\r", 1, "code_points", "telegram")
@example("a ``` q ```\r\n\r\n| a | a |\r\n|---|:-:|", 5, "code_points", "telegram")
@example("0 \u0300", 2, "utf16", "plain")
@example("@everyone <@1> <!channel>", 1, "code_points", "slack")
def test_raw_text_keeps_the_laws(source: str, limit: int, unit: str, dialect: str) -> None:
    assert breaches(source, limit, unit, dialect) == []


@settings(max_examples=examples(200, search=3000))
@given(documents(), limits, units, dialects)
def test_markdown_keeps_the_laws(source: str, limit: int, unit: str, dialect: str) -> None:
    assert breaches(source, limit, unit, dialect) == []


@settings(max_examples=examples(150, search=2000))
@given(documents(tame=True), integers(80, 300), units, dialects)
def test_characters_keep_their_meaning(source: str, limit: int, unit: str, dialect: str) -> None:
    assume(is_tame(source, limit, unit))
    assert check_meaning(source, split(source, limit, unit=unit, dialect=dialect)) == []


@settings(max_examples=examples(80, search=1000))
@given(st.one_of(raw_texts(), documents()), st.sampled_from([name for name in RENDERERS if name != "markdown"]))
def test_rendered_text_shows_every_visible_character(source: str, dialect: str) -> None:
    assert lost_characters(source, dialect) == Counter()


@settings(max_examples=examples(40, search=500))
@given(raw_texts(max_size=60), st.integers(1, 20), units, dialects)
@example("```\nabc\n```", 9, "code_points", "markdown")
@example("**a b** c", 6, "code_points", "markdown")
@example("|a|\n|-|\n|b|\n|c|", 13, "code_points", "markdown")
def test_text_fed_in_two_pieces_gives_the_same_parts(source: str, limit: int, unit: str, dialect: str) -> None:
    limit = at_least(unit, limit)
    for cut in range(len(source) + 1):
        assert check_feeding(source, [cut], limit, unit, dialect) == []


@settings(max_examples=examples(80, search=1000))
@given(st.one_of(raw_texts(), documents()), limits, units, dialects)
def test_text_fed_by_characters_gives_the_same_parts(source: str, limit: int, unit: str, dialect: str) -> None:
    assert check_feeding(source, range(len(source)), at_least(unit, limit), unit, dialect) == []


@settings(max_examples=examples(80, search=1000))
@given(documents(max_blocks=12), limits, units, dialects, st.data())
def test_scar_11_text_fed_in_any_pieces_gives_the_same_parts(
    source: str, limit: int, unit: str, dialect: str, data: st.DataObject
) -> None:
    cuts = data.draw(st.lists(integers(0, len(source)), max_size=12))
    assert check_feeding(source, cuts, at_least(unit, limit), unit, dialect) == []


@settings(max_examples=examples(100, search=1000))
@given(st.one_of(raw_texts(200), documents()), st.integers(1, 80))
def test_no_part_is_held_back_past_the_lookahead(source: str, limit: int) -> None:
    assert check_lookahead(source, limit) == []


@settings(max_examples=examples(80, search=1000))
@given(proses(), st.integers(1, 80))
def test_prose_is_cut_at_once(source: str, limit: int) -> None:
    assert check_no_delay(source, limit) == []


@settings(max_examples=examples(150, search=2000))
@given(proses(), integers(1, 120))
def test_prose_is_cut_in_the_order_of_boundaries(source: str, limit: int) -> None:
    assert check_boundary_order(source, split(source, limit), limit) == []


@settings(max_examples=examples(80, search=1000))
@given(st.one_of(proses(), documents()), integers(1, 200), st.integers(1, 12), dialects)
def test_no_part_has_more_than_the_allowed_lines(source: str, limit: int, lines: int, dialect: str) -> None:
    assume(limit >= lines)
    splitter = Splitter(limit, dialect=dialect, lines=lines)
    parts = splitter.feed(source) + splitter.close()
    measurer = Measurer(limit, "code_points", dialect, lines=lines)
    assert join(parts) == source
    assert all(measurer.fits(part.text) for part in parts)
    several = [part.body.text for part in parts if "\n" in part.text.strip()]  # one line is shown, whatever it takes
    assert all(shown.strip().count("\n") < limit // (limit // lines) for shown in several)


@pytest.mark.parametrize("dialect", RENDERERS)
def test_part_takes_as_many_lines_as_allowed(dialect: str) -> None:
    source = "\n".join(f"line {number}" for number in range(10))
    splitter = Splitter(1000, dialect=dialect, lines=10)
    assert len(splitter.feed(source) + splitter.close()) == 1
    splitter = Splitter(1000, dialect=dialect, lines=5)
    assert [part.body.text.count("\n") + 1 for part in splitter.feed(source) + splitter.close()] == [5, 5]


@pytest.mark.parametrize("unit", UNITS)
def test_limit_that_holds_no_character_is_refused(unit: str) -> None:
    least = MIN_LIMIT[unit]
    for limit in (least - 1, 0, -5):
        with pytest.raises(ValueError, match=str(least)):
            split("text", limit, unit=unit)
        with pytest.raises(ValueError, match=str(least)):
            Splitter(limit, unit=unit)
    assert join(split("text 👍", least, unit=unit)) == "text 👍"


@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize("unit", UNITS)
def test_clusters_stay_whole(cluster: str, unit: str) -> None:
    for padding, limit in itertools.product(range(12), (12, 30)):
        source = "x" * padding + cluster * 9
        parts = split(source, limit + MIN_LIMIT[unit], unit=unit)
        assert judge(source, parts, limit + MIN_LIMIT[unit], unit) == []


def test_style_left_open_ends_with_its_paragraph() -> None:
    source = "**" + "never closed " * 30 + "\n\nThe next paragraph is plain."
    parts = split(source, 100)
    assert judge(source, parts, 100) == []
    assert parts[0].closed == parts[1].opened == "**"
    assert parts[-1].source.endswith("The next paragraph is plain.")
    assert parts[-1].closed == ""
