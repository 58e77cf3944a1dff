"""Write blocks as lines of text, for platforms without tags for quotes, list items and tables.

Each dialect writes the text inside a line; this module adds the marks of quotes and items, and the blank lines. Items
have no blank lines, because a blank line would end the list on these platforms. Code is never indented, even in an
item, because people would see the indentation. A table becomes code with aligned columns if they fit a screen, else one
paragraph for each row.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import chain
from typing import NamedTuple, TypeAlias

from tailrace.markdown import syntax_tree as tree
from tailrace.markdown.tables import aligned_lines, aligned_width, labelled_rows

Leaf: TypeAlias = tree.Paragraph | tree.Heading | tree.CodeBlock

TASK_MARKS = {None: "", False: "☐ ", True: "☑ "}
"""The mark of an item, by its `done`: True, False, or None for an item that is not a task."""

ZERO_WIDTH_SPACE = "\u200b"
RULE = "———"  # as long as the shortest rule in Markdown, so that it fits wherever the source did
_WIDEST_TABLE = 80
_FENCE = re.compile("`{3,}")


class TextLine(NamedTuple):
    """One line of a message. `code` says that the line is code, so it must not be indented."""

    text: str
    code: bool = False


LeafLines: TypeAlias = Callable[[Leaf], list[TextLine]]


def layout_text(blocks: Sequence[tree.Block], leaf_lines: LeafLines, bullet: str) -> str:
    """The blocks as text. `leaf_lines` writes a block that contains no other blocks, such as a paragraph."""
    return "\n".join(line.text for line in _Layout(leaf_lines, bullet).lines(blocks))


class _Layout:
    def __init__(self, leaf_lines: LeafLines, bullet: str) -> None:
        self.leaf_lines = leaf_lines
        self.bullet = bullet

    def lines(self, blocks: Sequence[tree.Block]) -> list[TextLine]:
        lines: list[TextLine] = []
        for shown in map(self._block_lines, blocks):
            if lines and shown:
                lines.append(TextLine(""))
            lines += shown
        return lines

    def _block_lines(self, block: tree.Block) -> list[TextLine]:
        match block:
            case tree.Quote(blocks=blocks):
                return [TextLine(f"> {text}", code) for text, code in self.lines(blocks)]
            case tree.List(items=items):
                marks = [self.bullet if block.first is None else f"{block.first + nth}. " for nth in range(len(items))]
                return list(chain.from_iterable(map(self._item_lines, items, marks)))
            case tree.Table():
                return self._table_lines(block)
            case tree.ThematicBreak():
                return [TextLine(RULE)]
            case tree.HtmlBlock(text) | tree.Definition(text):
                return self.leaf_lines(tree.Paragraph((tree.Text(text),)))
            case _:
                return self.leaf_lines(block)

    def _item_lines(self, item: tree.ListItem, mark: str) -> list[TextLine]:
        lines = [line for block in item.blocks for line in self._block_lines(block)]
        if not lines or lines[0].code:
            lines.insert(0, TextLine(""))
        first, *rest = lines
        indent = " " * len(mark)
        marked = TextLine(f"{mark}{TASK_MARKS[item.done]}{first.text}".rstrip())
        return [marked, *(line if line.code else TextLine(indent + line.text) for line in rest)]

    def _table_lines(self, table: tree.Table) -> list[TextLine]:
        if aligned_width(table) <= _WIDEST_TABLE:
            return self.leaf_lines(tree.CodeBlock("\n".join(aligned_lines(table))))
        rows = (tree.Paragraph(_row_text(row)) for row in labelled_rows(table))
        return list(chain.from_iterable(map(self.leaf_lines, rows)))


def _row_text(row: Sequence[tuple[tree.Inlines, tree.Inlines]]) -> tree.Inlines:
    """The cells of a table row as text, one line for each: the label of its column, then the cell."""
    inlines: list[tree.Inline] = []
    for label, value in row:
        colon = (tree.Text(": "),) if label and value else ()
        inlines += (tree.Strong(label), *colon, *value, tree.HardBreak()) if label else (*value, tree.HardBreak())
    return tuple(inlines)


def text_lines(text: str) -> list[TextLine]:
    """The lines of a text; none if it is blank."""
    return [TextLine(line) for line in text.split("\n")] if text.strip() else []


def code_lines(code: str, language: str = "") -> list[TextLine]:
    """The lines of a code block. Zero-width spaces break a fence inside the code, so that it does not end the block."""
    code = _FENCE.sub(lambda fence: ZERO_WIDTH_SPACE.join(fence[0]), code.rstrip("\n"))
    return [TextLine(line, code=True) for line in (f"```{language}", *code.split("\n"), "```")] if code.strip() else []


def mark_lines(shown: str, mark: Callable[[str], str]) -> str:
    """Put a mark around each line of the text, such as `*` for bold.

    Spaces at the ends of a line stay outside, because platforms read a mark only if it touches a word.
    """
    lines = []
    for line in shown.split("\n"):
        words = line.strip()
        start = line.find(words)
        lines.append(line[:start] + mark(words) + line[start + len(words) :] if words else line)
    return "\n".join(lines)
