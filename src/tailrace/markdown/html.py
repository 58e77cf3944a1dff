"""The dialect `html`: a fragment for web pages that contains only tags which this module wrote.

This module owns how a syntax tree becomes HTML; other dialects use it with their own `HtmlRules` (see `matrix`). Text
and code are escaped, and HTML of the source is shown as text. An image becomes a link, because browsers load images at
once: an attacker who controls the agent's text could put secrets of the reader into the address.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from html import escape
from itertools import chain, count, repeat
from typing import assert_never

import msgspec

from tailrace.markdown import syntax_tree as tree
from tailrace.markdown.addresses import split_addresses
from tailrace.markdown.layout import TASK_MARKS
from tailrace.markdown.links import deceives, link_as_text, scheme
from tailrace.markdown.outline import replace_surrogates
from tailrace.markdown.parsing import parse
from tailrace.markdown.plain import plain_text
from tailrace.markdown.tables import labelled_rows
from tailrace.operations import Body

_LANGUAGE = re.compile(r"[\w.+#-]+")
_STYLES = {tree.Strong: "strong", tree.Emphasis: "em", tree.Strike: "del"}


class HtmlRules(msgspec.Struct, frozen=True, kw_only=True):
    """What a client accepts in HTML: which links, which tables, how much nesting.

    `break_mentions` is applied to all text that is not code. `checkbox` is the tag that shows whether a task is done.
    Clients refuse HTML that is nested too deeply. So inside `max_container_depth` open tags, quotes and lists get no
    tags. Inside `max_style_depth` open tags, styles get none either, except a link: it may be one level deeper.
    """

    links: Callable[[str], bool]
    link_attributes: str = ""
    aligned: bool = False
    sectioned: bool = True
    max_columns: int | None = None
    break_mentions: Callable[[str], str] = str
    checkbox: str = ""
    max_container_depth: int = 12
    max_style_depth: int = 19


def has_scheme(*schemes: str) -> Callable[[str], bool]:
    """Make a function that tells whether an address has one of these schemes, such as `https`."""
    return lambda url: scheme(url) in schemes


_WEB = HtmlRules(
    links=has_scheme("http", "https", "mailto"), link_attributes=' rel="noopener noreferrer"', aligned=True
)


def html(source: str) -> Body:
    """Render Markdown as HTML for a web page."""
    blocks = parse(source)
    text = plain_text(blocks)
    if text.strip():
        return Body(text=text, html=to_html(blocks, _WEB))
    source = replace_surrogates(source).strip()
    return Body(text=source, html=f"<p>{escape(source)}</p>")


def to_html(blocks: tree.Blocks, rules: HtmlRules) -> str:
    """Write the blocks as well-nested HTML. It contains no tag or attribute of the source."""
    writer = _HtmlWriter(rules)
    writer.blocks(blocks)
    return "".join(writer.out)


class _HtmlWriter:
    """Writes a syntax tree as HTML. `out` collects the HTML, `open` counts the open tags."""

    def __init__(self, rules: HtmlRules) -> None:
        self.rules = rules
        self.out: list[str] = []
        self.open = 0
        self.in_link = False

    def blocks(self, blocks: tree.Blocks, *, mark: str = "", in_item: bool = False) -> None:
        """Write the blocks. If they are in a list item, `mark` is its mark and is written before the first block."""
        if mark and not (blocks and isinstance(blocks[0], tree.Paragraph)):
            self._text(mark)
        for nth, block in enumerate(blocks):
            if not isinstance(block, tree.Paragraph):
                self._block(block)
                continue
            with nullcontext() if block.tight and in_item else self._tag("p"):
                self._text(mark if nth == 0 else "")
                self._inlines(block.inlines)

    def _block(
        self,
        block: tree.Heading
        | tree.CodeBlock
        | tree.Quote
        | tree.List
        | tree.Table
        | tree.ThematicBreak
        | tree.HtmlBlock
        | tree.Definition,
    ) -> None:
        match block:
            case tree.Heading(level=level, inlines=inlines):
                with self._tag(f"h{level}"):
                    self._inlines(inlines)
            case tree.CodeBlock():
                language = _LANGUAGE.match(block.language)
                with self._tag("pre"), self._tag("code", f' class="language-{language[0]}"' if language else ""):
                    self.out.append(escape(block.content))
            case tree.Quote(blocks=blocks):
                with self._tag("blockquote") if self.open < self.rules.max_container_depth else nullcontext():
                    self.blocks(blocks)
            case tree.List():
                self._list(block)
            case tree.Table():
                self._table(block)
            case tree.ThematicBreak():
                self.out.append("<hr>")
            case tree.HtmlBlock(text=text) | tree.Definition(text=text):
                with self._tag("p"):
                    self._text(text.rstrip("\n"))
            case _:
                assert_never(block)

    def _list(self, block: tree.List) -> None:
        if self.open >= self.rules.max_container_depth:
            marks = repeat("• ") if block.first is None else (f"{number}. " for number in count(block.first))
            for mark, item in zip(marks, block.items, strict=False):
                self.blocks(item.blocks, mark=mark + TASK_MARKS[item.done])
            return
        name, start = ("ul", "") if block.first is None else ("ol", f' start="{block.first}"')
        with self._tag(name, "" if block.first == 1 else start):
            for item in block.items:
                with self._tag("li"):
                    self.out.append(self._checkbox(item))
                    self.blocks(item.blocks, mark="" if self.rules.checkbox else TASK_MARKS[item.done], in_item=True)

    def _checkbox(self, item: tree.ListItem) -> str:
        if not self.rules.checkbox or item.done is None:
            return ""
        return f"<{self.rules.checkbox} checked>" if item.done else f"<{self.rules.checkbox}>"

    def _table(self, table: tree.Table) -> None:
        max_columns = self.rules.max_columns
        if max_columns is not None and max(map(len, (table.header, *table.rows))) > max_columns:
            self._labelled_rows(table)
            return
        with self._tag("table"):
            with self._section("thead"):
                self._row("th", table.header, table.alignments)
            if not table.rows:
                return
            with self._section("tbody"):
                for row in table.rows:
                    self._row("td", row, table.alignments)

    def _section(self, name: str) -> AbstractContextManager[None]:
        return self._tag(name) if self.rules.sectioned else nullcontext()

    def _labelled_rows(self, table: tree.Table) -> None:
        for row in labelled_rows(table):
            with self._tag("p"):
                for nth, (label, value) in enumerate(row):
                    self.out.append("<br>" if nth else "")
                    self._inlines((tree.Strong(label), tree.Text(": ")) if label else ())
                    self._inlines(value)

    def _row(self, name: str, cells: tree.Cells, alignments: tuple[tree.Alignment, ...]) -> None:
        with self._tag("tr"):
            for cell, alignment in zip(cells, chain(alignments, repeat("none")), strict=False):
                aligned = self.rules.aligned and alignment != "none"
                with self._tag(name, f' align="{alignment}"' if aligned else ""):
                    self._inlines(cell)

    def _inlines(self, inlines: tree.Inlines) -> None:
        for inline in inlines:
            self._inline(inline)

    def _inline(self, inline: tree.Inline) -> None:
        match inline:
            case tree.Text(text) | tree.InlineHtml(text):
                self._text(text)
            case tree.CodeSpan(text):
                with self._style("code"):
                    self.out.append(escape(text))
            case tree.Strong(inlines) | tree.Emphasis(inlines) | tree.Strike(inlines):
                with self._style(_STYLES[type(inline)]):
                    self._inlines(inlines)
            case tree.Link(url=url, inlines=inlines):
                self._link(url, inlines)
            case tree.Image(url=url):
                self._link(url, (tree.Text(inline.alt),))
            case tree.SoftBreak() | tree.HardBreak():
                self.out.append("<br>")
            case _:
                assert_never(inline)

    def _link(self, url: str, inlines: tree.Inlines) -> None:
        text = tree.visible_text(inlines)
        if self.in_link:  # an image in a link: only the link's own target is shown
            self._inlines(inlines)
        elif self.rules.links(url) and not deceives(text, url):
            self._anchor(url, inlines if text.strip() else (tree.Text(url),))
        else:
            self._inlines(inlines)
            self._text(link_as_text(text, url).removeprefix(text))

    def _anchor(self, url: str, inlines: tree.Inlines) -> None:
        self.in_link = True
        with self._tag("a", f' href="{escape(url)}"{self.rules.link_attributes}'):
            self._inlines(inlines)
        self.in_link = False

    def _text(self, text: str) -> None:
        """Write text; an address in it becomes a link."""
        for piece, is_address in [(text, False)] if self.in_link else split_addresses(text):
            if is_address and self.rules.links(piece):
                self._anchor(piece, (tree.Text(piece),))
            else:
                self.out.append(escape(self.rules.break_mentions(piece)).replace("\n", "<br>"))

    def _style(self, name: str, attributes: str = "") -> AbstractContextManager[None]:
        return self._tag(name, attributes) if self.open < self.rules.max_style_depth else nullcontext()

    @contextmanager
    def _tag(self, name: str, attributes: str = "") -> Iterator[None]:
        self.out.append(f"<{name}{attributes}>")
        self.open += 1
        yield
        self.open -= 1
        self.out.append(f"</{name}>")
