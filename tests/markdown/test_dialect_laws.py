"""Every dialect keeps the laws of cutting at any limit, and shows all that there is to see."""

from __future__ import annotations

import unicodedata
from collections import Counter
from html import unescape

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from strategies import UNITS, documents, proses, raw_texts
from test_hard_texts import DOCUMENTS, ONCE_BROKEN
from test_spec_examples import EXAMPLES

from cutting_laws.feeding import partition_free
from cutting_laws.laws import judge
from cutting_laws.parts import LEAST_LIMIT
from cutting_laws.reading import RULE, read
from cutting_laws.structure import is_tame, meaning
from tailrace.markdown import Part, Splitter, join, render, split
from tailrace.markdown.dialects import RENDERERS, Ruler

dialects = pytest.mark.parametrize("dialect", RENDERERS)
rendering_dialects = pytest.mark.parametrize("dialect", [name for name in RENDERERS if name != "markdown"])
units = st.sampled_from(UNITS)
limits = st.integers(1, 200)

UNSEEN = ("Cc", "Cf", "Zs", "Zl", "Zp", "Cs")


def _breaches(source: str, parts: list[Part], ruler: Ruler) -> list[object]:
    too_large = [part.text for part in parts if not ruler.fits(part.text)]
    return [*judge(source, parts, ruler.limit, ruler.unit, ruler.dialect), *too_large]


def _seen(source: str) -> Counter[str]:
    """The characters that a reader of the source sees; what is marked as a rule is drawn in many ways."""
    glyphs = (glyph.char for glyph in read(source).glyphs if glyph.char != RULE)
    return Counter(char for char in glyphs if unicodedata.category(char) not in UNSEEN)


@dialects
@settings(max_examples=25)
@given(source=raw_texts(), limit=st.integers(1, 40), unit=units)
@example(source="&&&&", limit=1, unit="code_points")
@example(source="> a  \n> b", limit=1, unit="code_points")
@example(source=">    ```000000000\n0\r\r", limit=1, unit="code_points")
@example(source="a ``` q ```\r\n\r\n| a | a |\r\n|---|:-:|", limit=5, unit="code_points")
@example(source="0 \u0300", limit=2, unit="utf16")
@example(source="@everyone <@1> <!channel>", limit=1, unit="code_points")
def test_raw_text_keeps_the_laws_in_every_dialect(dialect: str, source: str, limit: int, unit: str) -> None:
    ruler = Ruler(max(limit, LEAST_LIMIT[unit]), unit, dialect)
    assert _breaches(source, split(source, ruler.limit, unit=unit, dialect=dialect), ruler) == []


@dialects
@settings(max_examples=25)
@given(source=documents(), limit=limits, unit=units)
def test_markdown_keeps_the_laws_in_every_dialect(dialect: str, source: str, limit: int, unit: str) -> None:
    ruler = Ruler(max(limit, LEAST_LIMIT[unit]), unit, dialect)
    assert _breaches(source, split(source, ruler.limit, unit=unit, dialect=dialect), ruler) == []


@dialects
@settings(max_examples=25)
@given(source=documents(tame=True), limit=st.integers(80, 200))
def test_every_character_means_in_its_part_what_it_meant(dialect: str, source: str, limit: int) -> None:
    assume(is_tame(source, limit))
    assert meaning(source, split(source, limit, dialect=dialect)) == []


@dialects
@settings(max_examples=25)
@given(source=st.one_of(raw_texts(), documents()), limit=limits, data=st.data())
def test_text_fed_in_any_pieces_gives_the_same_parts(
    dialect: str, source: str, limit: int, data: st.DataObject
) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(source)), max_size=8))
    assert partition_free(source, cuts, limit, dialect=dialect) == []


@dialects
@pytest.mark.parametrize("limit", [1, 3, 17, 41, 200])
def test_hard_texts_keep_the_laws_in_every_dialect(dialect: str, limit: int) -> None:
    ruler = Ruler(limit, "code_points", dialect)
    for source in DOCUMENTS.values():
        parts = split(source, limit, dialect=dialect)
        assert (source, _breaches(source, parts, ruler)) == (source, [])


@dialects
def test_what_once_broke_a_law_keeps_it_in_every_dialect(dialect: str) -> None:
    for source, limit in ONCE_BROKEN:
        parts = split(source, limit, dialect=dialect)
        assert (source, _breaches(source, parts, Ruler(limit, "code_points", dialect))) == (source, [])
        assert partition_free(source, range(len(source)), limit, dialect=dialect) == []


@rendering_dialects
@pytest.mark.parametrize("limit", [5, 40])
def test_every_example_of_the_specification_keeps_the_laws(dialect: str, limit: int) -> None:
    ruler = Ruler(limit, "code_points", dialect)
    for source in EXAMPLES["commonmark"]:
        assert (source, _breaches(source, split(source, limit, dialect=dialect), ruler)) == (source, [])


def _shown(source: str, dialect: str) -> Counter[str]:
    """The characters that people see of the body; Slack reads three of them from what stands for them."""
    text = render(source, dialect).text
    return Counter(unescape(text) if dialect == "slack" else text)


@rendering_dialects
@pytest.mark.parametrize("specification", EXAMPLES)
def test_every_example_of_the_specifications_shows_all_that_there_is_to_see(specification: str, dialect: str) -> None:
    for source in EXAMPLES[specification]:
        lost = _seen(source) - _shown(source, dialect)
        assert (source, lost) == (source, Counter())


@rendering_dialects
@settings(max_examples=25)
@given(source=st.one_of(raw_texts(), documents()))
def test_any_text_shows_all_that_there_is_to_see(dialect: str, source: str) -> None:
    assert _seen(source) - _shown(source, dialect) == Counter()


@dialects
@settings(max_examples=25)
@given(source=st.one_of(proses(), documents()), limit=limits, lines=st.integers(1, 12))
def test_no_part_has_more_lines_than_it_may(dialect: str, source: str, limit: int, lines: int) -> None:
    assume(limit >= lines)
    splitter = Splitter(limit, dialect=dialect, lines=lines)
    parts = splitter.feed(source) + splitter.close()
    ruler = Ruler(limit, "code_points", dialect, lines=lines)
    assert join(parts) == source
    assert all(ruler.fits(part.text) for part in parts)
    several = [part.body.text for part in parts if "\n" in part.text.strip()]  # one line is shown, whatever it takes
    assert all(shown.strip().count("\n") < limit // (limit // lines) for shown in several)


@dialects
def test_a_part_may_have_as_many_lines_as_there_is_room_for(dialect: str) -> None:
    source = "\n".join(f"line {number}" for number in range(10))
    splitter = Splitter(1000, dialect=dialect, lines=10)
    assert len(splitter.feed(source) + splitter.close()) == 1
    splitter = Splitter(1000, dialect=dialect, lines=5)
    assert [part.body.text.count("\n") + 1 for part in splitter.feed(source) + splitter.close()] == [5, 5]


@pytest.mark.parametrize(("dialect", "text", "grown"), [("slack", "a & b ", 10), ("telegram", "@a ", 4)])
def test_a_part_is_given_once_the_rendered_text_is_too_long(dialect: str, text: str, grown: int) -> None:
    splitter = Splitter(1000, dialect=dialect)
    fed = 0
    while not splitter.feed(text):
        fed += len(text)
    rendered = fed * grown / len(text)
    assert 1000 - grown <= rendered <= 1100
