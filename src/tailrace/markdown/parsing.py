"""Build the syntax tree of a text from the parser's events, in one pass.

What the parser would drop is kept as text: link definitions, and cells of a row beyond the last column. Reference links
and HTML stay text too, because the definition of a reference may be in another part, and `List<T>` is not a tag.
"""

from __future__ import annotations

from itertools import chain
from typing import Any

from tailrace.markdown import syntax_tree as tree
from tailrace.markdown.fast_scan import cached_by_piece
from tailrace.markdown.links import remove_bidi_overrides, visible_target
from tailrace.markdown.outline import parse_events, replace_surrogates, tag_name, with_line_feeds

# No answer is nested more deeply on purpose. The renderers are recursive, so there must be a limit.
_MAX_BLOCK_DEPTH = 24
_MAX_INLINE_DEPTH = 16

_REFERENCES = frozenset(
    ("Reference", "ReferenceUnknown", "Collapsed", "CollapsedUnknown", "Shortcut", "ShortcutUnknown")
)
_INLINES = frozenset(("Emphasis", "Strong", "Strikethrough", "Link", "Image"))
_CONTAINERS = frozenset(("BlockQuote", "List", "Item"))
_TABLE_PARTS = frozenset(("TableHead", "TableRow", "TableCell"))


def parse(source: str) -> tree.Blocks:
    """Parse a text and return its top-level blocks. Blocks that later text cannot change are cached."""
    return tuple(chain.from_iterable(_pieces(source)))


def parse_whole(source: str) -> tree.Blocks:
    """The top-level blocks of a text, parsed without the cache."""
    return _Builder(source).build()


_pieces = cached_by_piece(parse_whole)


class _Frame:
    """A construct that has begun but not ended (a block, a style, a link), and its content so far."""

    def __init__(self, name: str, value: Any, start: int, end: int) -> None:
        self.name = name
        self.value = value
        self.start = start
        self.end = end
        self.words: list[str] = []  # pieces of a text that are not joined yet
        self.inlines: list[tree.Inline] = []
        self.blocks: list[tree.Block] = []
        self.items: list[tree.ListItem] = []
        self.cells: list[tree.Inlines] = []
        self.rows: list[tree.Cells] = []
        self.done: bool | None = None

    def add(self, inline: tree.Inline) -> None:
        self._join_words()
        self.inlines.append(inline)

    def take_inlines(self) -> tree.Inlines:
        """Return the inlines (text, styles, links) that were collected so far, and remove them from the frame."""
        self._join_words()
        taken = tuple(self.inlines)
        self.inlines.clear()
        return taken

    def _join_words(self) -> None:
        if self.words:
            self.inlines.append(tree.Text("".join(self.words)))
            self.words.clear()


class _Builder:
    """Builds the blocks from the parser's events. `open` are the constructs around the present event."""

    def __init__(self, source: str) -> None:
        self.source = replace_surrogates(source)
        self.open = [_Frame("Document", None, 0, len(source))]
        self.skipped_depth = 0  # how many constructs are open in source that is kept as written
        self.read_until = 0  # how far the events have covered the source

    def build(self) -> tree.Blocks:
        for tag, value, start, end in parse_events(self.source):
            if self.skipped_depth:
                self.skipped_depth += (tag == "Start") - (tag == "End")
            elif tag == "Start":
                self._begin(tag_name(value), value, start, end)
            elif tag == "End":
                self._finish(self.open.pop())
            else:
                self._leaf(tag, value, start, end)
        self._add_definitions(len(self.source))
        return tuple(self.open[0].blocks)

    def _begin(self, name: str, value: Any, start: int, end: int) -> None:
        if name in _INLINES:
            self._begin_inline(name, value, start, end)
            return
        if name not in _TABLE_PARTS and name != "Item":
            self._begin_block(start)
            if len(self.open) > _MAX_BLOCK_DEPTH and name in _CONTAINERS:
                source_text = tree.Text(with_line_feeds(self.source[start:end].rstrip()))
                self.open[-1].blocks.append(tree.Paragraph((source_text,)))
                self._skip_until(end)
                return
        self.open.append(_Frame(name, value, start, end))
        if name == "Item":
            self.read_until = start + 1
            while self.read_until < end and not self.source[self.read_until - 1].isspace():
                self.read_until += 1

    def _begin_inline(self, name: str, value: Any, start: int, end: int) -> None:
        link_type = value[name]["link_type"] if name in ("Link", "Image") else ""
        if link_type not in _REFERENCES and len(self.open) <= _MAX_BLOCK_DEPTH + _MAX_INLINE_DEPTH:
            self.open.append(_Frame(name, value, start, end))
            return
        if link_type.startswith("Collapsed") and self.source.startswith("[]", end):
            end += 2  # the parser leaves the `[]` out of the range
        self.open[-1].words.append(with_line_feeds(self.source[start:end]))
        self._skip_until(end)

    def _skip_until(self, end: int) -> None:
        self.skipped_depth = 1
        self.read_until = max(self.read_until, end)

    def _leaf(self, tag: str, value: Any, start: int, end: int) -> None:
        if tag == "Rule":
            self._begin_block(start)
            self.open[-1].blocks.append(tree.ThematicBreak())
        elif tag == "TaskListMarker":
            item = next(frame for frame in reversed(self.open) if frame.name == "Item")
            item.done = value
        else:
            frame = self.open[-1]
            if tag == "Code":
                frame.add(tree.CodeSpan(value))
            elif tag == "InlineHtml":
                frame.add(tree.InlineHtml(with_line_feeds(value)))
            elif tag in ("SoftBreak", "HardBreak"):
                frame.add(tree.SoftBreak() if tag == "SoftBreak" else tree.HardBreak())
            else:
                frame.words.append(value)
        self.read_until = max(self.read_until, end)

    def _begin_block(self, start: int) -> None:
        self._end_tight_text()
        self._add_definitions(start)

    def _end_tight_text(self) -> None:
        if inlines := self.open[-1].take_inlines():
            self.open[-1].blocks.append(tree.Paragraph(inlines, tight=True))

    def _finish(self, frame: _Frame) -> None:
        parent = self.open[-1]
        if frame.name in _INLINES:
            parent.add(_inline(frame))
        elif frame.name == "TableCell":
            parent.cells.append(frame.take_inlines())
        elif frame.name in ("TableHead", "TableRow"):
            parent.rows.append(tuple(frame.cells) + self._extra_cells(frame))
        elif frame.name in _CONTAINERS:
            self._finish_container(frame)
        else:
            parent.blocks.append(_block(frame))
        self.read_until = max(self.read_until, frame.end)

    def _finish_container(self, frame: _Frame) -> None:
        parent = self.open[-1]
        self.open.append(frame)
        self._end_tight_text()
        self._add_definitions(frame.end)
        self.open.pop()
        if frame.name == "Item":
            parent.items.append(tree.ListItem(tuple(frame.blocks), frame.done))
        elif frame.name == "List":
            parent.blocks.append(tree.List(tuple(frame.items), frame.value["List"]))
        else:
            parent.blocks.append(tree.Quote(tuple(frame.blocks)))

    def _extra_cells(self, row: _Frame) -> tree.Cells:
        """The cells of a row beyond the last column, as written, in one cell.

        The parser skips them, but no text of the agent may be lost.
        """
        rest = self.source[self.read_until : row.end].strip().removesuffix("|").removeprefix("|").strip()
        return ((tree.Text(rest),),) if rest else ()

    def _add_definitions(self, until: int) -> None:
        """Add the link definitions that come before the offset `until`, as written, because the parser skips them."""
        gap = self.source[self.read_until : until].strip(" \t\r\n>")
        if gap.startswith("[") and "]:" in gap:
            self.open[-1].blocks.append(tree.Definition(with_line_feeds(gap)))
        self.read_until = max(self.read_until, until)


def _inline(frame: _Frame) -> tree.Inline:
    inlines = frame.take_inlines()
    match frame.name:
        case "Strong":
            return tree.Strong(inlines)
        case "Emphasis":
            return tree.Emphasis(inlines)
        case "Strikethrough":
            return tree.Strike(inlines)
    link = frame.value[frame.name]
    url = f"mailto:{link['dest_url']}" if link["link_type"] == "Email" else link["dest_url"]
    link_type = tree.Link if frame.name == "Link" else tree.Image
    return link_type(visible_target(url), link["title"], _without_overrides(inlines))


def _without_overrides(inlines: tree.Inlines) -> tree.Inlines:
    cleaned: list[tree.Inline] = []
    for inline in inlines:
        match inline:
            case tree.Text(text) | tree.CodeSpan(text) | tree.InlineHtml(text):
                cleaned.append(type(inline)(remove_bidi_overrides(text)))
            case tree.Strong(inner) | tree.Emphasis(inner) | tree.Strike(inner):
                cleaned.append(type(inline)(_without_overrides(inner)))
            case _:
                cleaned.append(inline)  # an image was already cleaned when it ended
    return tuple(cleaned)


def _block(frame: _Frame) -> tree.Block:
    inlines = frame.take_inlines()
    match frame.name:
        case "Heading":
            return tree.Heading(int(frame.value["Heading"]["level"][1:]), inlines)
        case "CodeBlock":
            link_type = frame.value["CodeBlock"]
            info = link_type["Fenced"] if isinstance(link_type, dict) else ""
            return tree.CodeBlock(tree.visible_text(inlines), info)
        case "HtmlBlock":
            return tree.HtmlBlock(tree.visible_text(inlines))
        case "Table":
            header, *rows = frame.rows
            alignments = tuple(alignment.lower() for alignment in frame.value["Table"])
            return tree.Table(alignments, header, tuple(rows), source_length=frame.end - frame.start)
        case _:
            return tree.Paragraph(inlines)
