"""Render Markdown as readable text without markup, for a terminal log, an e-mail or a screen reader.

Links become `text (url)`, lists and quotes keep their marks, tables become rows with bars.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from tailrace.markdown.links import link_as_text
from tailrace.markdown.parsing import parse
from tailrace.markdown.syntax_tree import (
    Block,
    CodeBlock,
    CodeSpan,
    Definition,
    Emphasis,
    HardBreak,
    Heading,
    HtmlBlock,
    Image,
    Inline,
    InlineHtml,
    Link,
    List,
    Paragraph,
    Quote,
    SoftBreak,
    Strike,
    Strong,
    Table,
    Text,
    ThematicBreak,
    are_tight,
)
from tailrace.operations import Body


def plain(source: str) -> Body:
    """The text without its markup."""
    return Body(text=plain_text(parse(source)))


def plain_text(blocks: Sequence[Block]) -> str:
    """The blocks as text without markup."""
    return "\n".join(_lines(blocks))


def _lines(blocks: Sequence[Block]) -> list[str]:
    lines: list[str] = []
    before: Block | None = None
    for block in blocks:
        shown = _block_lines(block)
        if not shown:
            continue
        if before is not None and not are_tight(before, block):
            lines.append("")
        lines += shown
        before = block
    return lines


def _block_lines(block: Block) -> list[str]:
    match block:
        case Quote():
            return [f"> {line}".rstrip() for line in _lines(block.blocks)]
        case List():
            return _list_lines(block)
        case Table():
            return [" | ".join(map(inline_text, row)).rstrip() for row in (block.header, *block.rows)]
        case _:
            text = _leaf(block)
            return [line.rstrip() for line in text.split("\n")] if text else []


def _list_lines(block: List) -> list[str]:
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


def _leaf(block: Paragraph | Heading | CodeBlock | HtmlBlock | Definition | ThematicBreak) -> str:
    match block:
        case Paragraph() | Heading():
            return inline_text(block.inlines).strip()
        case CodeBlock():
            return block.content.rstrip("\r\n")
        case HtmlBlock() | Definition():
            return block.text.strip()
        case ThematicBreak():
            return "---"
        case _:
            assert_never(block)


def inline_text(inlines: Sequence[Inline]) -> str:
    """The inlines as text, with the targets of links."""
    return "".join(map(_inline_text, inlines))


def _inline_text(inline: Inline) -> str:
    match inline:
        case Text(text) | CodeSpan(text) | InlineHtml(text):
            return text
        case SoftBreak() | HardBreak():
            return "\n"
        case Strong(inlines) | Emphasis(inlines) | Strike(inlines):
            return inline_text(inlines)
        case Link() | Image():
            return link_as_text(inline_text(inline.inlines), inline.url)
        case _:
            assert_never(inline)
