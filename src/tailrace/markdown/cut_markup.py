"""The markup that a cut adds: what closes the part before the cut, and what opens the part after it.

An example: a cut inside a code block closes the fence in one part and opens it again in the next. This module owns how
fences, table headers, container markers, heading marks and inline styles are written. `cutting` decides where to cut.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec

from tailrace.markdown.containers import Container, line_prefix, open_on_one_line, open_on_own_lines, skip_prefix
from tailrace.markdown.graphemes import skip_spaces
from tailrace.markdown.outline import OutlineBlock

_FENCE = re.compile("`+|~+")


class Opening(msgspec.Struct, frozen=True, kw_only=True):
    """The markup that was added at the beginning of a part, because the last cut was inside a block or a style.

    `shown` is markup that the part contains. If the markup is too long for the part, it is in `hidden`: only the parser
    reads it, so that the text keeps its meaning. `styles` are the markers of the styles that are opened again, such as
    `**`; they may still be dropped. `in_row`: the part begins with the rest of a table row, and the header is not
    shown.
    """

    shown: str = ""
    hidden: str | None = None
    styles: tuple[str, ...] = ()
    in_row: bool = False

    @property
    def text(self) -> str:
        """The markup that the part contains at its beginning."""
        return self.shown + "".join(self.styles)

    @property
    def context(self) -> str:
        """The markup that the parser reads before the text of the part, also if the part does not show it."""
        return (self.shown if self.hidden is None else self.hidden) + "".join(self.styles)


NO_OPENING = Opening()


class CutPoint(msgspec.Struct, frozen=True, kw_only=True):
    """A position where the source might be cut, and the blocks and styles around it.

    The text before the cut ends at `end`, the text after it begins at `at`; between them is whitespace. `leaf` is the
    innermost block at the position, such as a paragraph or a code block; None between two blocks. `containers` are the
    quotes and list items around it. `item_follows`: a list item begins after the cut.
    """

    source: str
    end: int
    at: int
    leaf: OutlineBlock | None
    containers: tuple[Container, ...]
    styles: tuple[str, ...]
    item_follows: bool = False

    @property
    def begins_line(self) -> bool:
        """Whether the text after the cut begins at the start of a line."""
        return self.at == 0 or self.source[self.at - 1] == "\n"


class CutMarkup(msgspec.Struct, frozen=True, kw_only=True):
    """The markup that a cut adds: `closed` ends the part before the cut, `opening` begins the part after it.

    The text after the cut begins at `resume`. `wrapper` is the fence without code in it, if the cut is in a code block.
    """

    closed: str
    opening: Opening
    resume: int
    wrapper: str | None = None

    @property
    def added(self) -> str:
        """The markup that is compared with the size of a part, because it may take at most half of a part.

        For code this is the fence, without the indentation of a line that is cut.
        """
        return self.opening.text + self.closed if self.wrapper is None else self.wrapper


def cut_markups(point: CutPoint) -> Iterator[CutMarkup]:
    """The markup that a cut at this point may add, as choices: the best first, and each shorter than the one before."""
    boundary = point.leaf.kind if point.leaf else ""
    if point.leaf and boundary == "fence":
        yield from _fence_markups(point, point.leaf)
    elif point.leaf and boundary == "table":
        yield from _table_markups(point, point.leaf)
    elif boundary == "indented":
        yield from _indented_markups(point)
    else:
        yield from _text_markups(point)


def fence_marker(source: str, fence: OutlineBlock) -> str:
    """The run of backticks or tildes that opens a fence."""
    found = _FENCE.match(source, fence.start)
    return found[0] if found else ""


def _fence_markups(point: CutPoint, fence: OutlineBlock) -> Iterator[CutMarkup]:
    source, containers = point.source, point.containers
    marker = fence_marker(source, fence)
    info = source[fence.start + len(marker) : fence.body].rstrip("\r\n")
    indent = _fence_indent(source, fence, containers)
    in_item = bool(containers) and not containers[-1].is_quote
    if in_item and indent:
        before = open_on_own_lines(containers) + line_prefix(containers) + " " * indent
    else:
        before = open_on_one_line(containers) + ("" if in_item else " " * indent)
    rest_of_line = "" if point.begins_line else line_prefix(containers) + " " * indent
    closed = ("" if source[point.end - 1] == "\n" else "\n") + line_prefix(containers) + marker
    for words in (info, ""):
        opened = f"{before}{marker}{words}\n"
        wrapper = f"{opened}\n{line_prefix(containers)}{marker}"
        yield CutMarkup(closed=closed, opening=Opening(shown=opened + rest_of_line), resume=point.at, wrapper=wrapper)
    unseen = Opening(hidden=f"{before}{marker}\n{rest_of_line}")
    resume = skip_spaces(source, point.at)  # code that is shown without its fence is cut like text
    yield CutMarkup(closed=closed, opening=unseen, resume=resume)
    yield CutMarkup(closed="", opening=unseen, resume=resume)


def _fence_indent(source: str, fence: OutlineBlock, containers: Sequence[Container]) -> int:
    line = source.rfind("\n", 0, fence.start) + 1
    if source[line : fence.start].strip(" \t>"):
        return 0  # the fence is on the line of a list marker
    return min(max(fence.start - skip_prefix(source, line, containers), 0), 3)


def _table_markups(point: CutPoint, table: OutlineBlock) -> Iterator[CutMarkup]:
    head = open_on_one_line(point.containers) + point.source[table.start : table.body]
    if point.begins_line:
        yield CutMarkup(closed="", opening=Opening(shown=head), resume=point.at)
        yield from _text_markups(point)
    else:
        containers = line_prefix(point.containers)
        resume = skip_spaces(point.source, point.at)
        yield CutMarkup(closed="", opening=Opening(hidden=head + containers, in_row=True), resume=resume)


def _indented_markups(point: CutPoint) -> Iterator[CutMarkup]:
    containers = point.containers
    if not point.begins_line:
        shown = open_on_one_line(containers) + "    "
    elif any(not container.is_quote for container in containers):
        shown = open_on_own_lines(containers)
    else:
        shown = ""
    yield CutMarkup(closed="", opening=Opening(shown=shown), resume=point.at)
    yield CutMarkup(closed="", opening=NO_OPENING, resume=point.at)


def _text_markups(point: CutPoint) -> Iterator[CutMarkup]:
    closed = "".join(reversed(point.styles))
    prefix, resume = _reopen_containers(point)
    yield CutMarkup(closed=closed, opening=Opening(shown=prefix, styles=point.styles), resume=resume)
    if prefix:
        yield CutMarkup(closed=closed, opening=Opening(styles=point.styles), resume=resume)
    yield CutMarkup(closed="", opening=NO_OPENING, resume=resume)


def _reopen_containers(point: CutPoint) -> tuple[str, int]:
    """The markup that opens the quotes and list items again after a cut, and where the text after it begins."""
    if not point.begins_line:
        return open_on_one_line(point.containers) + _heading_mark(point), skip_spaces(point.source, point.at)
    content = point.at
    while point.source[content : content + 1] in (" ", "\t"):
        content += 1
    if any(not container.is_quote for container in point.containers):
        return _reopen_in_item(point, content)
    # Each line of a quote has its mark, except a line that continues a paragraph without it.
    own = _count_quote_marks(point.source, point.at)
    missing = "> " * max(len(point.containers) - own, 0)
    return missing, content if point.leaf and not own else point.at


def _reopen_in_item(point: CutPoint, content: int) -> tuple[str, int]:
    """The same as `_reopen_containers`, if a list item is around the cut and the text after the cut begins a line.

    `content` is where that line begins after its indentation.
    """
    containers = point.containers
    quotes = [nth for nth, container in enumerate(containers) if container.is_quote]
    if point.item_follows and not quotes and content - point.at <= 3:
        return (
            "",
            point.at,
        )  # with so little indentation, a nested item is also an item at the top level and looks better alone
    own = _count_quote_marks(point.source, point.at)
    if own:
        # The line has its quote marks. Items around the quotes are opened on the same line. If there are items inside
        # the quotes, all containers are opened on lines before.
        if own == len(quotes) and quotes == list(range(quotes[0], len(containers))):
            return open_on_one_line(containers[: quotes[0]]), content
        return open_on_own_lines(containers), point.at
    indented = content > skip_prefix(point.source, point.at, containers)
    if indented and point.leaf is None:
        return open_on_own_lines(containers), point.at
    return open_on_one_line(containers), content


def _count_quote_marks(source: str, at: int) -> int:
    count = 0
    while at < len(source) and source[at] in " \t>":
        count += source[at] == ">"
        at += 1
    return count


def _heading_mark(point: CutPoint) -> str:
    if point.leaf is None or point.leaf.kind != "heading" or point.source[point.leaf.start] != "#":
        return ""
    line = point.source[point.leaf.start : point.end]
    return line[: len(line) - len(line.lstrip("#"))] + " "
