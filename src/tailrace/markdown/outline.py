"""What stands where in a piece of Markdown: pyromark's parse, as the ranges a cut has to respect.

Owns the translation from the parser's events (tagged dicts, byte offsets) to blocks, styles and solid ranges in
character offsets. It decides nothing: what may be cut is `cutting`'s to say.
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
# No answer is nested this deeply on purpose, and everything that is done at a place is done for each container there.
_MAX_DEPTH = 24


Event: TypeAlias = tuple[str, Any, int, int]
"""The tag, its value, and where it starts and ends."""


class Block(msgspec.Struct, gc=False):
    """A block of any depth. `kind` is quote, item, paragraph, heading, table, html, fence, indented or rule.

    `body` is where the content of a fence or the first row of a table begins; `content_end` where the last line
    of code ends. A paragraph without tags of its own, as in a tight list, is a paragraph here.
    """

    kind: str
    start: int
    end: int
    body: int = 0
    content_end: int = 0

    @property
    def is_container(self) -> bool:
        """Whether it is a container of other blocks."""
        return self.kind in ("quote", "item")

    @property
    def is_code(self) -> bool:
        """Whether every byte in it stands."""
        return self.kind in ("fence", "indented")

    @property
    def moves_whole(self) -> bool:
        """Whether it is moved to the next part rather than cut, where it fits."""
        return self.kind in ("fence", "indented", "table", "item")


class Style(msgspec.Struct, frozen=True, gc=False):
    """Emphasis, strong or strikethrough over a range that includes its markers."""

    start: int
    end: int
    marker: str


class Outline(msgspec.Struct):
    """The blocks in document order, outermost first; the styles; what is solid; delimiters that match nothing."""

    source: str
    blocks: list[Block]
    styles: list[Style]
    unbreakable: list[tuple[int, int]]
    unmatched: list[int]


def replace_surrogates(source: str) -> str:
    """The text with lone surrogates, which the parser's UTF-8 cannot carry, each replaced by one character."""
    return source if source.isascii() else _SURROGATE.sub("\ufffd", source)


def parse_events(source: str, parse_from: int = 0, skip: frozenset[str] = frozenset()) -> Iterator[Event]:
    """The parser's events as (tag, value, start, end), in characters of the source.

    What is nested too deeply for any reader is text: a paragraph of HTML, which everybody leaves as it was written.
    Reads from `since` on, where a top-level block must begin; leaves out the tags whose value is in `skip`.
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
        if "Text" in event:  # which most are
            yield "Text", event["Text"], start + parse_from, end + parse_from
            continue
        if isinstance(event, str):
            tag, value, name = event, None, ""
        else:
            ((tag, value),) = event.items()
            name = "" if tag not in _BORDERS else value if isinstance(value, str) else next(iter(value))
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
    """Where in the UTF-8 of a text a byte goes on with a character: so many bytes are no characters of their own."""
    data = source.encode()
    if len(data) - len(source) < len(source) // 16:  # few of them are soonest found by looking for each
        return [found.start() for found in _CONTINUED.finditer(data)]
    return list(compress(range(len(data)), data.translate(_CONTINUING)))


def _as_html(text: str, start: int, end: int) -> Iterator[Event]:
    yield "Start", "Paragraph", start, end
    yield "Html", text.rstrip().replace("\r\n", "\n").replace("\r", "\n"), start, end
    yield "End", "Paragraph", start, end


def read_outline(source: str, parse_from: int = 0) -> Outline:
    """Parse the text once, from where a top-level block begins, and note what a cut has to respect."""
    return _Builder(source).build(parse_from)


class _Builder:
    """One walk over the events of a source."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.found = Outline(source, [], [], [], [])
        self.open: list[Block] = []
        self.tight: Block | None = None  # the paragraph a tight item's text makes
        self.unbreakable_until = 0  # inside a link or an image
        self.read_until = 0  # where the last inline event ended

    def build(self, parse_from: int) -> Outline:
        for tag, value, start, end in parse_events(self.source, parse_from, skip=_CELLS):
            if tag == "Text":
                self._text(value, start, end)
            elif tag == "Start":
                name = value if isinstance(value, str) else next(iter(value))
                if name in _INLINES:
                    self._begin_inline(name, start, end)
                else:
                    self._begin_block(name, value, start, end)
            elif tag == "End":
                self._finish(value if isinstance(value, str) else next(iter(value)), end)
            elif tag == "Rule":
                self.tight = None
                self.found.blocks.append(Block("rule", start, end))
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
            block = Block("fence" if fenced else "indented", start, end)
            block.body = (self.source.find("\n", start, end) + 1 or end) if fenced else start
            block.content_end = block.body
        elif name in _BLOCKS:
            block = Block(_BLOCKS[name], start, end)
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
        # The parser passes over the backslash of an escape, and gives an entity as the character it stands for.
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
                self.tight = Block("paragraph", start, end)
                self.found.blocks.append(self.tight)
            self.tight.end = max(self.tight.end, end)
