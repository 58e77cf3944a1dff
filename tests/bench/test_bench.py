"""Every row of the bench can be measured; what it measures is not judged here."""

from __future__ import annotations

import importlib

import pytest
from bench.__main__ import AREAS
from bench.rows import TINY

from bench import texts
from cutting_laws.reading import read


@pytest.mark.parametrize("area", AREAS)
def test_every_row_of_the_area_is_measured(area: str) -> None:
    rows = list(importlib.import_module(f"bench.{area}").rows(TINY))
    assert rows
    assert len({row.name for row in rows}) == len(rows)
    assert all(row.name and row.ours for row in rows)


def test_mixed_text_is_the_same_every_time_and_holds_every_construct() -> None:
    text = texts.mixed(60_000)
    assert text == texts.mixed(60_000)
    assert len(text) >= 60_000
    kinds = {block.kind for block in read(text).blocks}
    assert kinds >= {"fence", "table", "item", "heading", "link", "code_span"}
