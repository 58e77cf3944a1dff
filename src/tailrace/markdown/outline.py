"""Parse a Markdown text with pyromark and note the ranges that a cut has to respect.

This module translates the parser's events (tagged dicts, byte offsets) to blocks, styles and unbreakable ranges with
character offsets. `cutting` decides where to cut.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from itertools import compress
from typing import Any, TypeAlias

import msgspec
import pyromark

OPTIONS = pyromark.Options.ENABLE_TABLES | pyromark.Options.ENABLE_STRIKETHROUGH | pyromark.Options.ENABLE_TASKLISTS

_CONTINUING = bytes(byte & 0xC0 == 0x80 for byte in range(256))
_CONTINUED = re.compile(rb"[\x80-\xbf]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_BLOCKS = {"BlockQuote": "quote", "HtmlBlock": "html"} | {
    name: name.lower() for name in ("Paragraph", "Heading", "Item", "Table")
}
_BORDERS = frozenset(("Start", "End"))
_CELLS = frozenset(("TableCell", "TableRow"))
_STYLES = frozenset(("Emphasis", "Strong", "Strikethrough"))
_INLINES = _STYLES | {"Link", "Image"}
_DELIMITERS = "*_~[]`<"
_CONTAINERS = frozenset(("BlockQuote", "Item"))
# No answer is nested more deeply on purpose. Without a limit, a cut point inside many containers would cost much work.
_MAX_DEPTH = 24


Event: TypeAlias = tuple[str, Any, int, int]
"""The tag, its value, its start and its end."""


class OutlineBlock(msgspec.Struct, gc=False):
    """A block of any depth. `kind` is quote, item, paragraph, heading, table, html, fence, indented or rule.

    `body` is where the content of a fence or the first row of a table begins; `content_end` is where the last line of
    code ends. In a tight list (without blank lines), the parser has no paragraphs; here the text of an item is one.
    """

    kind: str
    start: int
    end: int
    body: int = 0
    content_end: int = 0

    @property
    def is_container(self) -> bool:
        """Whether the block contains other blocks."""
        return self.kind in ("quote", "item")

    @property
    def is_code(self) -> bool:
        """Whether the text of the block is code, in which every byte is kept."""
        return self.kind in ("fence", "indented")

    @property
    def moves_whole(self) -> bool:
        """Whether the block moves to the next part instead of being cut, if it fits there."""
        return self.kind in ("fence", "indented", "table", "item")


class Style(msgspec.Struct, frozen=True, gc=False):
    """A piece of text with emphasis, strong emphasis or strikethrough. The range includes the markers."""

    start: int
    end: int
    marker: str


class Outline(msgspec.Struct):
    """What a cut has to respect in a text: blocks in their order, outer ones first, and styles.

    `unbreakable` are the ranges of links, code spans and escapes. `unmatched` are the positions of delimiters without a
    match.
    """

    source: str
    blocks: list[OutlineBlock]
    styles: list[Style]
    unbreakable: list[tuple[int, int]]
    unmatched: list[int]


def tag_name(value: Any) -> str:
    """The name of the construct that a `Start` or `End` event of the parser is about, such as "Paragraph"."""
    return value if isinstance(value, str) else next(iter(value))


def with_line_feeds(text: str) -> str:
    """The text with a line feed for every line end, as in all text that the parser returns."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def replace_surrogates(source: str) -> str:
    """Replace each lone surrogate by one character, because the parser reads UTF-8, which has no surrogates."""
    return source if source.isascii() else _SURROGATE.sub("\ufffd", source)


def parse_events(source: str, parse_from: int = 0, skip: frozenset[str] = frozenset()) -> Iterator[Event]:
    """Parse a text and yield the parser's events as (tag, value, start, end), with offsets in characters of the source.

    Text that is nested too deeply is reported as a paragraph of HTML, which every dialect shows as written. Parsing
    begins at `parse_from`, where a top-level block must begin. The beginnings and ends of constructs named in `skip`
    are left out.
    """
    source = replace_surrogates(source[parse_from:])
    continuing = [] if source.isascii() else _continuation_bytes(source)
    depth = skipped_depth = 0
    event: Any
    value: Any
    for event, span in pyromark.events_with_range(source, options=OPTIONS):
        if skipped_depth:
            skipped_depth += ("Start" in event) - ("End" in event)
            continue
        start, end = span["start"], span["end"]
        if continuing:
            start, end = start - bisect_left(continuing, start), end - bisect_left(continuing, end)
        if "Text" in event:  # most events
            yield "Text", event["Text"], start + parse_from, end + parse_from
            continue
        if isinstance(event, str):
            tag, value, name = event, None, ""
        else:
            ((tag, value),) = event.items()
            name = tag_name(value) if tag in _BORDERS else ""
            if name in skip:
                continue
        if name in _CONTAINERS:
            depth += 1 if tag == "Start" else -1
            if depth > _MAX_DEPTH:
                depth, skipped_depth = _MAX_DEPTH, 1
                yield from _as_html(source[start:end], start + parse_from, end + parse_from)
                continue
        yield tag, value, start + parse_from, end + parse_from


def _continuation_bytes(source: str) -> list[int]:
    """The offsets of all UTF-8 bytes that are not the first byte of a character.

    They are needed to convert offsets in bytes, which the parser gives, to offsets in characters.
    """
    data = source.encode()
    if len(data) - len(source) < len(source) // 16:  # a few such bytes are found fastest one by one
        return [found.start() for found in _CONTINUED.finditer(data)]
    return list(compress(range(len(data)), data.translate(_CONTINUING)))


def _as_html(text: str, start: int, end: int) -> Iterator[Event]:
    yield "Start", "Paragraph", start, end
    yield "Html", with_line_feeds(text.rstrip()), start, end
    yield "End", "Paragraph", start, end


def read_outline(source: str, parse_from: int = 0) -> Outline:
    """Parse the text from the top-level block at `parse_from` on, and note what a cut has to respect."""
    return _Builder(source).build(parse_from)


class _Builder:
    """Builds the outline of a text from the parser's events, in one pass."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.found = Outline(source, [], [], [], [])
        self.open: list[OutlineBlock] = []
        self.tight: OutlineBlock | None = None  # the paragraph made for the text of a tight item
        self.unbreakable_until = 0  # the end of the link or image around the current event
        self.read_until = 0  # where the last inline event ended

    def build(self, parse_from: int) -> Outline:
        for tag, value, start, end in parse_events(self.source, parse_from, skip=_CELLS):
            if tag == "Text":
                self._text(value, start, end)
            elif tag == "Start":
                name = tag_name(value)
                if name in _INLINES:
                    self._begin_inline(name, start, end)
                else:
                    self._begin_block(name, value, start, end)
            elif tag == "End":
                self._finish(tag_name(value), end)
            elif tag == "Rule":
                self.tight = None
                self.found.blocks.append(OutlineBlock("rule", start, end))
            elif tag != "Html":
                self._inline(start, end)
                if tag in ("Code", "InlineHtml") or (tag == "HardBreak" and self.source[start] == "\\"):
                    self.found.unbreakable.append((start, end))
        return self.found

    def _begin_inline(self, name: str, start: int, end: int) -> None:
        self._inline(start, end)
        if name in _STYLES:
            width = 1 if name == "Emphasis" else 2
            if name == "Strikethrough" and not self.source.startswith("~~", start):
                width = 1
            marker = self.source[start : start + width]
            self.found.styles.append(Style(start, end, marker))
            self.read_until = start + len(marker)
        else:
            self.found.unbreakable.append((start, end))
            self.unbreakable_until = max(self.unbreakable_until, end)
            self.read_until = end

    def _begin_block(self, name: str, value: Any, start: int, end: int) -> None:
        self.tight = None
        self.read_until = start
        if name == "TableHead":
            table = self.open[-1]
            table.body = self.source.find("\n", end) + 1 or table.end
            return
        if name == "CodeBlock":
            fenced = isinstance(value["CodeBlock"], dict)
            block = OutlineBlock("fence" if fenced else "indented", start, end)
            block.body = (self.source.find("\n", start, end) + 1 or end) if fenced else start
            block.content_end = block.body
        elif name in _BLOCKS:
            block = OutlineBlock(_BLOCKS[name], start, end)
        else:
            return
        self.found.blocks.append(block)
        self.open.append(block)

    def _finish(self, name: str, end: int) -> None:
        if name in _BLOCKS or name == "CodeBlock":
            self.open.pop()
            self.tight = None
        elif name in _STYLES:
            self.read_until = end

    def _text(self, value: str, start: int, end: int) -> None:
        if self.open and self.open[-1].kind in ("fence", "indented"):
            self.open[-1].content_end = end
            return
        self._inline(start, end)
        if start < self.unbreakable_until:
            return
        # The parser skips the backslash of an escape, and reports an entity as the character that the entity means.
        if self.read_until < start and self.source[start - 1] == "\\":
            self.found.unbreakable.append((start - 1, start + 1))
        elif end - start != len(value):
            self.found.unbreakable.append((start, end))
        elif value == "![":
            self.found.unmatched.append(start + 1)
        elif not value.strip(_DELIMITERS):
            self.found.unmatched.append(start)
        self.read_until = end

    def _inline(self, start: int, end: int) -> None:
        if self.open and self.open[-1].kind == "item":
            if self.tight is None:
                self.tight = OutlineBlock("paragraph", start, end)
                self.found.blocks.append(self.tight)
            self.tight.end = max(self.tight.end, end)
