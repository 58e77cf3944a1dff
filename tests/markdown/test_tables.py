"""Tables as text: aligned columns in any script, and labelled lines."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.markdown.parsing import parse
from tailrace.markdown.syntax_tree import Table, visible_text
from tailrace.markdown.tables import aligned_lines, aligned_width, display_width, labelled_rows


def _table(source: str) -> Table:
    (block,) = parse(source)
    assert isinstance(block, Table)
    return block


def _labelled(source: str) -> list[list[tuple[str, str]]]:
    return [
        [(visible_text(label), visible_text(value)) for label, value in group]
        for group in labelled_rows(_table(source))
    ]


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("", 0),
        ("abc", 3),
        ("日本", 4),
        ("e\u0301", 1),
        ("👨‍👩‍👧‍👦", 2),
        ("🇩🇪", 2),
        ("👍🏽", 2),
        ("1️⃣", 2),
        ("한국", 4),
        ("ก็", 1),
        ("a\u200bb", 2),
        ("ａ", 2),
    ],
)
def test_display_width(text: str, columns: int) -> None:
    assert display_width(text) == columns


def test_columns_are_aligned() -> None:
    table = _table("| name | n | mid |\n|:--|--:|:-:|\n| 日本 | 1 | x |\n| **a** | 1000 | |\n| | 2 | [l](/u) |")
    assert aligned_lines(table) == [
        "name     n   mid",
        "----  ----  ------",
        "日本     1    x",
        "a     1000",
        "         2  l (/u)",
    ]
    assert aligned_width(table) == 18


def test_extra_cells_are_kept() -> None:
    assert aligned_lines(_table("| a |\n|---|\n| b | c | d |")) == ["a", "-  -----", "b  c | d"]


def test_every_value_has_its_label() -> None:
    assert _labelled("| a | b |\n|---|---|\n| 1 | |\n| 3 | 4 | 5 |") == [
        [("a", "1"), ("b", "")],
        [("a", "3"), ("b", "4"), ("", "5")],
    ]


def test_table_without_rows_has_only_labels() -> None:
    assert _labelled("| a | b |\n|---|---|") == [[("a", ""), ("b", "")]]


def test_long_labels_are_shown_once() -> None:
    source = f"| {'long ' * 100} | b |\n|---|---|\n" + "| 1 | 2 |\n" * 100
    header, *rows = _labelled(source)
    assert header == [("", ("long " * 100).strip()), ("", "b")]
    assert rows == [[("", "1"), ("", "2")]] * 100


cells = st.lists(
    st.sampled_from(("", "a", "two words", "日本語", "👍🏽", "**b**", "x\\|y", "-")), min_size=2, max_size=2
)


@settings(max_examples=60)
@given(st.lists(cells, min_size=1, max_size=6))
def test_every_column_begins_at_one_offset(rows: list[list[str]]) -> None:
    table = _table("| head | last |\n|---|---|\n" + "".join(f"| {' | '.join(row)} |\n" for row in rows))
    lines = aligned_lines(table)
    first = max(display_width(visible_text(row[0])) for row in (table.header, *table.rows))
    for line, row in zip([lines[0], *lines[2:]], (table.header, *table.rows), strict=True):
        second = visible_text(row[1])
        before = line.removesuffix(second).rstrip() if second else line
        assert before == visible_text(row[0])
        assert not second or display_width(line) - display_width(second) == first + 2
    assert max(map(display_width, lines)) == aligned_width(table)
