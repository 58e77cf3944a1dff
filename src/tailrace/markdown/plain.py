"""Render Markdown as readable text without markup, for a terminal log, an e-mail or a screen reader.

Links become `text (url)`, lists and quotes keep their marks, and the columns of tables are separated by bars.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from tailrace.markdown import syntax_tree as tree
from tailrace.markdown.links import link_as_text
from tailrace.markdown.parsing import parse
from tailrace.operations import Body


def plain(source: str) -> Body:
    """Render Markdown as plain text."""
    return Body(text=plain_text(parse(source)))


def plain_text(blocks: Sequence[tree.Block]) -> str:
    """Write the blocks as plain text without markup."""
    return "\n".join(_lines(blocks))


def _lines(blocks: Sequence[tree.Block]) -> list[str]:
    lines: list[str] = []
    before: tree.Block | None = None
    for block in blocks:
        shown = _block_lines(block)
        if not shown:
            continue
        if before is not None and not tree.are_tight(before, block):
            lines.append("")
        lines += shown
        before = block
    return lines


def _block_lines(block: tree.Block) -> list[str]:
    match block:
        case tree.Quote():
            return [f"> {line}".rstrip() for line in _lines(block.blocks)]
        case tree.List():
            return _list_lines(block)
        case tree.Table():
            return [" | ".join(map(inline_text, row)).rstrip() for row in (block.header, *block.rows)]
        case _:
            text = _leaf(block)
            return [line.rstrip() for line in text.split("\n")] if text else []


def _list_lines(block: tree.List) -> list[str]:
    lines: list[str] = []
    loose = not block.tight
    for nth, item in enumerate(block.items):
        if lines and loose:
            lines.append("")
        mark = "- " if block.first is None else f"{block.first + nth}. "
        task = {None: "", True: "[x] ", False: "[ ] "}[item.done]
        first, *rest = _lines(item.blocks) or [""]
        lines.append(f"{mark}{task}{first}".rstrip())
        lines += [f"{' ' * len(mark)}{line}".rstrip() for line in rest]
    return lines


def _leaf(
    block: tree.Paragraph | tree.Heading | tree.CodeBlock | tree.HtmlBlock | tree.Definition | tree.ThematicBreak,
) -> str:
    match block:
        case tree.Paragraph() | tree.Heading():
            return inline_text(block.inlines).strip()
        case tree.CodeBlock():
            return block.content.rstrip("\r\n")
        case tree.HtmlBlock() | tree.Definition():
            return block.text.strip()
        case tree.ThematicBreak():
            return "---"
        case _:
            assert_never(block)


def inline_text(inlines: Sequence[tree.Inline]) -> str:
    """Write the text inside a line without markup. The target of a link follows its text."""
    return "".join(map(_inline_text, inlines))


def _inline_text(inline: tree.Inline) -> str:
    match inline:
        case tree.Text(text) | tree.CodeSpan(text) | tree.InlineHtml(text):
            return text
        case tree.SoftBreak() | tree.HardBreak():
            return "\n"
        case tree.Strong(inlines) | tree.Emphasis(inlines) | tree.Strike(inlines):
            return inline_text(inlines)
        case tree.Link() | tree.Image():
            return link_as_text(inline_text(inline.inlines), inline.url)
        case _:
            assert_never(inline)
