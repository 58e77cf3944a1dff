"""Markdown as readable text without markup: what a terminal log, an e-mail or a screen reader gets.

Links become `text (url)`, lists and quotes keep the marks that plain text has for them, tables become rows with
bars.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from tailrace.markdown.links import spelled
from tailrace.markdown.parsing import parse
from tailrace.markdown.tree import (
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
    Rule,
    SoftBreak,
    Strike,
    Strong,
    Table,
    Text,
    closely,
)


def plain(source: str) -> str:
    """The text without its markup."""
    return readable(parse(source))


def readable(blocks: Sequence[Block]) -> str:
    """The blocks as text without markup."""
    return "\n".join(_lines(blocks))


def _lines(blocks: Sequence[Block]) -> list[str]:
    lines: list[str] = []
    before: Block | None = None
    for block in blocks:
        shown = _block_lines(block)
        if not shown:
            continue
        if before is not None and not closely(before, block):
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
            return [" | ".join(map(spoken, row)).rstrip() for row in (block.header, *block.rows)]
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


def _leaf(block: Paragraph | Heading | CodeBlock | HtmlBlock | Definition | Rule) -> str:
    match block:
        case Paragraph() | Heading():
            return spoken(block.inlines).strip()
        case CodeBlock():
            return block.content.rstrip("\r\n")
        case HtmlBlock() | Definition():
            return block.text.strip()
        case Rule():
            return "---"
        case _:
            assert_never(block)


def spoken(inlines: Sequence[Inline]) -> str:
    """The inlines as text, with the targets of links."""
    return "".join(map(_spoken, inlines))


def _spoken(inline: Inline) -> str:
    match inline:
        case Text(text) | CodeSpan(text) | InlineHtml(text):
            return text
        case SoftBreak() | HardBreak():
            return "\n"
        case Strong(inlines) | Emphasis(inlines) | Strike(inlines):
            return spoken(inlines)
        case Link() | Image():
            return spelled(spoken(inline.inlines), inline.url)
        case _:
            assert_never(inline)
