"""Blocks as lines, for platforms whose markup is text: where quotes, items, tables and blank lines go.

Owns how lines stand below each other; what a line says is the dialect's affair. Items hold no blank lines, which would
end the list there. Code stands at the margin though it be in an item, since its indentation would show. A table is
code in even columns where those fit a screen, and text row by row where they do not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import NamedTuple, TypeAlias

from tailrace.markdown.syntax_tree import (
    Block,
    CodeBlock,
    Definition,
    HardBreak,
    Heading,
    HtmlBlock,
    Inline,
    Inlines,
    List,
    ListItem,
    Paragraph,
    Quote,
    Strong,
    Table,
    Text,
    ThematicBreak,
)
from tailrace.markdown.tables import aligned_lines, aligned_width, labelled_rows

Leaf: TypeAlias = Paragraph | Heading | CodeBlock

TASK_MARKS = {None: "", False: "☐ ", True: "☑ "}
"""The mark of an item by whether it is done; None for one that is no task."""

_RULE = "———"  # no longer than the shortest rule that can be written, so that it fits where that did
_WIDEST_TABLE = 80


class TextLine(NamedTuple):
    """One line of a message; a line of `code` stands at the margin."""

    text: str
    code: bool = False


LeafLines: TypeAlias = Callable[[Leaf], list[TextLine]]


def layout_text(blocks: Sequence[Block], leaf_lines: LeafLines, bullet: str) -> str:
    """The blocks as text, given what the lines of a block without others in it are."""
    return "\n".join(line.text for line in _Layout(leaf_lines, bullet).lines(blocks))


class _Layout:
    def __init__(self, leaf_lines: LeafLines, bullet: str) -> None:
        self.leaf_lines = leaf_lines
        self.bullet = bullet

    def lines(self, blocks: Sequence[Block]) -> list[TextLine]:
        lines: list[TextLine] = []
        for shown in map(self._block_lines, blocks):
            if lines and shown:
                lines.append(TextLine(""))
            lines += shown
        return lines

    def _block_lines(self, block: Block) -> list[TextLine]:
        match block:
            case Quote(blocks=blocks):
                return [TextLine(f"> {text}", code) for text, code in self.lines(blocks)]
            case List(items=items):
                marks = [self.bullet if block.first is None else f"{block.first + nth}. " for nth in range(len(items))]
                return list(chain.from_iterable(map(self._item_lines, items, marks)))
            case Table():
                return self._table_lines(block)
            case ThematicBreak():
                return [TextLine(_RULE)]
            case HtmlBlock(text) | Definition(text):
                return self.leaf_lines(Paragraph((Text(text),)))
            case _:
                return self.leaf_lines(block)

    def _item_lines(self, item: ListItem, mark: str) -> list[TextLine]:
        lines = [line for block in item.blocks for line in self._block_lines(block)]
        if not lines or lines[0].code:
            lines.insert(0, TextLine(""))
        first, *rest = lines
        indent = " " * len(mark)
        marked = TextLine(f"{mark}{TASK_MARKS[item.done]}{first.text}".rstrip())
        return [marked, *(line if line.code else TextLine(indent + line.text) for line in rest)]

    def _table_lines(self, table: Table) -> list[TextLine]:
        if aligned_width(table) <= _WIDEST_TABLE:
            return self.leaf_lines(CodeBlock("\n".join(aligned_lines(table))))
        rows = (Paragraph(_row_text(row)) for row in labelled_rows(table))
        return list(chain.from_iterable(map(self.leaf_lines, rows)))


def _row_text(row: Sequence[tuple[Inlines, Inlines]]) -> Inlines:
    """The cells of a row, each on a line behind what heads its column."""
    inlines: list[Inline] = []
    for label, value in row:
        colon = (Text(": "),) if label and value else ()
        inlines += (Strong(label), *colon, *value, HardBreak()) if label else (*value, HardBreak())
    return tuple(inlines)


def mark_lines(shown: str, mark: Callable[[str], str]) -> str:
    """The text with each line of it marked by itself, the spaces around it left out: a mark must touch its words."""
    lines = []
    for line in shown.split("\n"):
        words = line.strip()
        start = line.find(words)
        lines.append(line[:start] + mark(words) + line[start + len(words) :] if words else line)
    return "\n".join(lines)
