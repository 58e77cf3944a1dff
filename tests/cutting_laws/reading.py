"""How a Markdown text reads: every visible character with its meaning, and the blocks that a cut has to respect.

The checks use this instead of `tailrace.markdown`, so that both cannot be wrong in the same way. It reads only
pyromark's events. All offsets are code points.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import pyromark

if TYPE_CHECKING:
    from collections.abc import Iterator

OPTIONS = pyromark.Options.ENABLE_TABLES | pyromark.Options.ENABLE_STRIKETHROUGH | pyromark.Options.ENABLE_TASKLISTS
_STYLES = {"Emphasis": "emphasis", "Strong": "strong", "Strikethrough": "strikethrough"}
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_FENCE = re.compile(r"`{3,}|~{3,}")
RULE = "―"  # for a thematic break, which has no character of its own

Kind: TypeAlias = Literal["text", "code_span", "code_block", "head_cell", "cell", "html", "rule"]
BlockKind: TypeAlias = Literal[
    "fence", "indented", "table", "item", "heading", "rule", "link", "code_span", "html", "definition"
]


class Glyph(NamedTuple):
    """One visible character with its offset in the text and all that its surroundings make of it."""

    char: str
    at: int
    kind: Kind = "text"
    styles: frozenset[str] = frozenset()
    link: str = ""
    info: str = ""
    heading: int = 0

    @property
    def meaning(self) -> tuple[str, Kind, frozenset[str], str, str, int]:
        """All but the offset: what must stay the same in any part."""
        return (self.char, self.kind, self.styles, self.link, self.info, self.heading)


class Block(NamedTuple):
    """A range of the text that a cut treats as one thing.

    `depth` counts the lists and quotes around it, `styles` the inline styles. For a fence, `opener` is its marker
    without the info string, and `closed` says whether a closing fence ends it. For a table, `opener` is the header with
    the delimiter row. `body` is where the content begins and ends.
    """

    kind: BlockKind
    start: int
    end: int
    depth: int
    body: tuple[int, int]
    opener: str = ""
    info: str = ""
    closed: bool = True
    styles: int = 0
    in_table: bool = False


class Reading(NamedTuple):
    """The characters and blocks of a text, in order."""

    glyphs: list[Glyph]
    blocks: list[Block]

    def of(self, *kinds: BlockKind) -> list[Block]:
        """The blocks of these kinds."""
        return [block for block in self.blocks if block.kind in kinds]


def read(text: str) -> Reading:
    """Read a text as CommonMark with tables, strikethrough and task lists."""
    reader = _Reader(_LONE_SURROGATE.sub("\ufffd", text))
    for event, start, end in reader.events():
        match event:
            case {"Start": tag}:
                reader.enter(tag, start)
            case {"End": _}:
                reader.leave(end)
            case {"Text": str(words)}:
                reader.add_text(words, start, end)
            case {"Code": str(words)}:
                reader.add_block("code_span", start, end, (start, end))
                reader.add_text(words, start, start, kind="code_span")
            case {"InlineHtml": str(words)} | {"Html": str(words)}:
                reader.add_text(words, start, end, kind="html")
            case "Rule":
                reader.add_block("rule", start, end, (start, end))
                reader.add_text(RULE, start, start, kind="rule")
            case _:
                pass
    reader.add_definitions()
    reader.blocks.sort(key=lambda block: (block.start, -block.end))
    return Reading(reader.glyphs, reader.blocks)


class _Frame:
    """An open construct."""

    def __init__(self, name: str, detail: Any, start: int) -> None:
        self.name = name
        self.detail = detail
        self.start = start
        self.first: int | None = None
        self.last: int | None = None


class _Reader:
    """Collects characters and blocks from the events of one text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.glyphs: list[Glyph] = []
        self.blocks: list[Block] = []
        self.stack: list[_Frame] = []

    def events(self) -> Iterator[tuple[Any, int, int]]:
        """The events with their ranges in code points instead of bytes."""
        offset = _byte_offsets(self.text)
        for event, span in pyromark.events_with_range(self.text, options=OPTIONS):
            yield event, offset(span["start"]), offset(span["end"])

    def enter(self, tag: Any, start: int) -> None:
        name, detail = (tag, None) if isinstance(tag, str) else next(iter(tag.items()))
        if name == "CodeBlock" and isinstance(detail, dict):
            name, detail = "Fence", detail["Fenced"]
        self.stack.append(_Frame(name, detail, start))

    def leave(self, end: int) -> None:
        frame = self.stack.pop()
        whole = (frame.start, end)
        match frame.name:
            case "Item":
                self.add_block("item", *whole, whole)
            case "Heading":
                self.add_block("heading", *whole, whole)
            case "HtmlBlock":
                self.add_block("html", *whole, whole)
            case "Link" | "Image" if frame.detail["link_type"] in ("Inline", "Autolink", "Email"):
                self.add_block("link", *whole, whole)
            case "CodeBlock":
                self.add_block("indented", *whole, (frame.first or frame.start, frame.last or end))
            case "TableHead":
                table = self.stack[-1]
                table.first = frame.start
                table.last = end
            case "Table":
                self._leave_table(frame, end)
            case "Fence":
                self._leave_fence(frame, end)
            case _:
                pass

    def _leave_table(self, frame: _Frame, end: int) -> None:
        head_end = frame.last or frame.start
        delimiter_end = self.text.find("\n", head_end) + 1 or len(self.text)
        opener = self.text[frame.start : delimiter_end]
        self.add_block("table", frame.start, end, (min(delimiter_end, end), end), opener=opener)

    def _leave_fence(self, frame: _Frame, end: int) -> None:
        found = _FENCE.match(self.text, frame.start)
        marker = found[0] if found else ""
        line_end = self.text.find("\n", frame.start) + 1 or len(self.text)
        first = frame.first if frame.first is not None else min(line_end, end)
        last = frame.last if frame.last is not None else first
        closed = any(run.startswith(marker) for run in _FENCE.findall(self.text[last:end]))
        self.add_block(
            "fence", frame.start, end, (first, last), opener=marker, info=frame.detail, closed=closed and last < end
        )

    def add_block(self, kind: BlockKind, start: int, end: int, body: tuple[int, int], **more: Any) -> None:
        names = [frame.name for frame in self.stack]
        self.blocks.append(
            Block(
                kind=kind,
                start=start,
                end=end,
                depth=names.count("Item") + names.count("BlockQuote"),
                body=body,
                styles=sum(name in _STYLES for name in names),
                in_table="Table" in names,
                **more,
            )
        )

    def add_definitions(self) -> None:
        offset = _byte_offsets(self.text)
        for definition in pyromark.reference_definitions(self.text, options=OPTIONS).values():
            whole = (offset(definition["span"]["start"]), offset(definition["span"]["end"]))
            self.add_block("definition", *whole, whole)

    def add_text(self, words: str, start: int, end: int, *, kind: Kind | None = None) -> None:
        """Add the characters of one event. If the text does not contain them literally, they are where the event
        starts.
        """
        inner = self.stack[-1] if self.stack else None
        if inner is not None and inner.name in ("Fence", "CodeBlock"):
            inner.first = start if inner.first is None else inner.first
            inner.last = end
        template = self._surroundings(kind)
        in_place = end - start == len(words)
        self.glyphs.extend(
            template._replace(char=char, at=start + offset if in_place else start)
            for offset, char in enumerate(words)
            if template.kind == "code_block" or not char.isspace()
        )

    def _surroundings(self, kind: Kind | None) -> Glyph:
        found: Kind = "text"
        link = info = ""
        heading = 0
        for frame in self.stack:
            match frame.name:
                case "TableHead":
                    found = "head_cell"
                case "TableRow":
                    found = "cell"
                case "Heading":
                    heading = int(frame.detail["level"][1:])
                case "Link" | "Image":
                    link = f"{frame.name} {frame.detail['dest_url']} {frame.detail['title']}"
                case "Fence":
                    found, info = "code_block", frame.detail
                case "CodeBlock":
                    found = "code_block"
        if kind is not None:
            found = kind if found == "text" or kind != "html" else found
        styles = frozenset(_STYLES[frame.name] for frame in self.stack if frame.name in _STYLES)
        return Glyph("", 0, found, styles, link, info, heading)


def _byte_offsets(text: str) -> Any:
    """A function from offsets in the UTF-8 form to offsets in code points."""
    if text.isascii():
        return lambda offset: offset
    widths = (1 + (char > "\x7f") + (char > "\u07ff") + (char > "\uffff") for char in text)
    places = {byte: point for point, byte in enumerate(itertools.accumulate(widths, initial=0))}
    return places.__getitem__
