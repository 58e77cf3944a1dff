"""The laws for every example of the CommonMark and GFM specifications, as the `marko` package carries them."""

from __future__ import annotations

import importlib.metadata
import re
import unicodedata
from collections import Counter
from html import unescape
from itertools import cycle
from pathlib import Path

import pytest
from lawful import breaches, changes_of_meaning
from reading_html import Fragment
from strategies import UNITS

from cutting_laws.feeding import check_feeding
from cutting_laws.reading import RULE, read
from example_counts import share
from tailrace.markdown import render
from tailrace.markdown.dialects import RENDERERS

LIMITS = (*range(1, 11), 16, 40, 80, 200)
_EXAMPLE = re.compile(r"^`{32} example[^\n]*\n(.*?)^\.\n.*?^`{32}$", re.MULTILINE | re.DOTALL)
_INVISIBLE = ("Cc", "Cf", "Zs", "Zl", "Zp", "Cs")

rendering_dialects = pytest.mark.parametrize("dialect", [name for name in RENDERERS if name != "markdown"])


def _examples(specification: str) -> list[str]:
    files = importlib.metadata.files("marko") or []
    path = next(Path(str(file.locate())) for file in files if file.match(f"spec/{specification}.txt"))
    found = _EXAMPLE.findall(path.read_text("utf-8"))
    return [example.replace("→", "\t") for example in found]


# Most examples are in both specifications.
EXAMPLES = tuple(dict.fromkeys(_examples("commonmark") + _examples("gfm")))


def test_specifications_are_found() -> None:
    assert len(EXAMPLES) > 670


@pytest.mark.parametrize("limit", LIMITS)
def test_examples_keep_the_laws_and_their_meaning(limit: int) -> None:
    for source in EXAMPLES if limit >= 40 else share(EXAMPLES, LIMITS.index(limit), 4):
        assert (source, breaches(source, limit)) == (source, [])
        assert limit < 40 or (source, changes_of_meaning(source, limit)) == (source, [])


@rendering_dialects
def test_examples_keep_the_laws_in_every_dialect(dialect: str) -> None:
    nth = list(RENDERERS).index(dialect)
    for source, unit, limit in zip(share(EXAMPLES, nth, 4), cycle(UNITS), cycle((5, 17, 40, 1)), strict=False):
        assert (source, breaches(source, limit, unit, dialect)) == (source, [])


@pytest.mark.parametrize("limit", [7, 17, 40])
def test_examples_give_the_same_parts_however_fed(limit: int) -> None:
    for source, dialect in zip(share(EXAMPLES, limit, 3), cycle(RENDERERS), strict=False):
        assert check_feeding(source, range(len(source)), limit, dialect=dialect) == []


@pytest.mark.parametrize("limit", [40, 200])
def test_all_examples_as_one_text_keep_the_laws(limit: int) -> None:
    source = "\n\n".join(example for example in EXAMPLES if "<" not in example)
    assert breaches(source, limit) == []


def lost_characters(source: str, dialect: str) -> Counter[str]:
    """The visible characters that the text or the HTML lacks, except rules: each dialect draws them in its own way."""
    glyphs = (glyph.char for glyph in read(source).glyphs if glyph.char != RULE)
    visible = Counter(char for char in glyphs if unicodedata.category(char) not in _INVISIBLE)
    body = render(source, dialect)
    text = unescape(body.text) if dialect == "slack" else body.text
    return (visible - Counter(text)) | (visible - Counter(text if body.html is None else Fragment(body.html).text))


@rendering_dialects
def test_examples_show_every_visible_character(dialect: str) -> None:
    for source in EXAMPLES:
        assert (source, lost_characters(source, dialect)) == (source, Counter())
