"""The examples of the CommonMark and GFM specifications, cut at many limits.

The examples are read from the specifications as the `marko` package carries them.
"""

from __future__ import annotations

import importlib.metadata
import re
from pathlib import Path

import pytest

from cutting_laws.feeding import partition_free
from cutting_laws.laws import judge
from cutting_laws.parts import LEAST_LIMIT
from cutting_laws.structure import is_tame, meaning
from tailrace.markdown import split

LIMITS = (*range(1, 11), 16, 40, 80, 200)
_EXAMPLE = re.compile(r"^`{32} example[^\n]*\n(.*?)^\.\n.*?^`{32}$", re.MULTILINE | re.DOTALL)


def _examples(specification: str) -> list[str]:
    files = importlib.metadata.files("marko") or []
    path = next(Path(str(file.locate())) for file in files if file.match(f"spec/{specification}.txt"))
    found = _EXAMPLE.findall(path.read_text("utf-8"))
    return [example.replace("→", "\t") for example in found]


EXAMPLES = {name: _examples(name) for name in ("commonmark", "gfm")}


def test_the_specifications_are_there() -> None:
    assert len(EXAMPLES["commonmark"]) > 600
    assert len(EXAMPLES["gfm"]) > 600


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("specification", EXAMPLES)
def test_every_example_keeps_the_laws(specification: str, limit: int) -> None:
    for source in EXAMPLES[specification]:
        assert (source, judge(source, split(source, limit), limit)) == (source, [])


@pytest.mark.parametrize("dialect", ["markdown", "plain"])
@pytest.mark.parametrize("specification", EXAMPLES)
def test_every_tame_example_keeps_its_meaning(specification: str, dialect: str) -> None:
    for source in EXAMPLES[specification]:
        for limit in (40, 80, 200):
            if is_tame(source, limit):
                assert (source, meaning(source, split(source, limit, dialect=dialect))) == (source, [])


@pytest.mark.parametrize("unit", ["utf16", "utf8_bytes"])
@pytest.mark.parametrize("specification", EXAMPLES)
def test_every_example_keeps_the_laws_in_other_units(specification: str, unit: str) -> None:
    for source in EXAMPLES[specification]:
        for limit in (LEAST_LIMIT[unit], 17):
            parts = split(source, limit, unit=unit, dialect="plain")
            assert (source, judge(source, parts, limit, unit, "plain")) == (source, [])


@pytest.mark.parametrize("limit", [7, 16, 40])
@pytest.mark.parametrize("specification", EXAMPLES)
def test_every_example_comes_out_the_same_however_fed(specification: str, limit: int) -> None:
    for source in EXAMPLES[specification]:
        assert partition_free(source, range(len(source)), limit) == []


@pytest.mark.parametrize("limit", [40, 200])
@pytest.mark.parametrize("specification", EXAMPLES)
def test_a_whole_specification_of_examples_keeps_the_laws(specification: str, limit: int) -> None:
    source = "\n\n".join(example for example in EXAMPLES[specification] if "<" not in example)
    assert judge(source, split(source, limit), limit) == []
