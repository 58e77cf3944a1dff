"""Write tables for platforms without tables: as aligned columns, or as one group of lines for each row.

In a group each cell has its own line, with the label of its column. Each dialect chooses one of the two forms and
writes the markup in the cells.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from itertools import zip_longest

import regex

from tailrace.markdown.plain import inline_text
from tailrace.markdown.syntax_tree import Alignment, Inlines, Table

_GAP = "  "
_CLUSTER = regex.compile(r"\X")
_ZERO = frozenset(("Mn", "Me", "Cf", "Cc"))
_EMOJI_STYLE = "\ufe0f"
# Labels repeat in every row. A table that would become more than this many times longer gets no labels.
_MAX_LENGTHENING = 4


def display_width(text: str) -> int:
    """How many columns a text takes in a fixed-width font: two for wide characters, none for combining marks."""
    if text.isascii() and text.isprintable():
        return len(text)
    return sum(map(_cluster_width, _CLUSTER.findall(text)))


def _cluster_width(cluster: str) -> int:
    if _EMOJI_STYLE in cluster or "\U0001f1e6" <= cluster[0] <= "\U0001f1ff":
        return 2
    return max(map(_character_width, cluster))


def _character_width(character: str) -> int:
    if unicodedata.category(character) in _ZERO:
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def aligned_width(table: Table) -> int:
    """How many columns of a fixed-width font the lines of `aligned_lines` take."""
    return _total(_widths(_texts(table)))


def aligned_lines(table: Table) -> list[str]:
    """The table as lines with aligned columns. The header is underlined; a link's target follows its text."""
    texts = _texts(table)
    widths = _widths(texts)
    excess: list[Alignment] = ["none"] * (len(widths) - len(table.alignments))
    columns = [*zip(widths, (*table.alignments, *excess), strict=True)]
    header, *rows = ([_padded(text, *column) for text, column in zip(row, columns, strict=True)] for row in texts)
    lines = (header, ["-" * columns for columns in widths], *rows)
    return [_GAP.join(line).rstrip() for line in lines]


def labelled_rows(table: Table) -> list[list[tuple[Inlines, Inlines]]]:
    """The cells of each row as (label, cell); the label is the header of the column. Both may be empty.

    A table without rows has only labels. If repeated labels would make a table too long, all labels come once, as the
    first row.
    """
    rows = table.rows or ((),)
    labels = table.header if _has_room_for_labels(table) else ()
    groups = [list(zip_longest(labels, row, fillvalue=())) for row in rows]
    return groups if labels else [[((), label) for label in table.header], *groups]


def _has_room_for_labels(table: Table) -> bool:
    header = sum(len(inline_text(cell)) for cell in table.header)
    return header * len(table.rows) <= _MAX_LENGTHENING * table.source_length


def _texts(table: Table) -> list[list[str]]:
    """The cells of all rows, header included, as text. Every row gets the same number of cells, each on one line."""
    rows = [[" ".join(inline_text(cell).split()) for cell in row] for row in (table.header, *table.rows)]
    columns = max(map(len, rows))
    return [row + [""] * (columns - len(row)) for row in rows]


def _widths(texts: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(display_width, column)) for column in zip(*texts, strict=True)]


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(_GAP) * (len(widths) - 1)


def _padded(text: str, columns: int, alignment: Alignment) -> str:
    missing = columns - display_width(text)
    match alignment:
        case "right":
            return " " * missing + text
        case "center":
            return " " * (missing // 2) + text + " " * (missing - missing // 2)
        case _:
            return text + " " * missing
