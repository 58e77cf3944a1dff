"""How the part after a cut begins, and how the part before it ends: what the cut must add on both sides.

Owns the wording of every addition: fences, table headers, container markers, heading marks, inline styles. Which
place is cut is `cutting`'s decision.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec

from tailrace.markdown.containers import (
    Container,
    after_prefix,
    continuing,
    on_one_line,
    on_own_lines,
)
from tailrace.markdown.graphemes import past_space
from tailrace.markdown.outline import Block

_FENCE = re.compile("`+|~+")


class Opening(msgspec.Struct, frozen=True, kw_only=True):
    """What a part begins with before its slice of the source.

    `shown` is in the part; `parsed` is what the parser reads in its place where the wrapper was too wide to
    show, so that the text still means what it meant. `styles` are the inline markers to be opened again, which
    may yet be withdrawn. `one_row` says that the rest of a table row follows, without its header.
    """

    shown: str = ""
    parsed: str | None = None
    styles: tuple[str, ...] = ()
    one_row: bool = False

    @property
    def text(self) -> str:
        """What the part shows before its slice."""
        return self.shown + "".join(self.styles)

    @property
    def context(self) -> str:
        """What the parser reads before the slice."""
        return (self.shown if self.parsed is None else self.parsed) + "".join(self.styles)


NOTHING = Opening()


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """A place in a source where it might be cut, and what is open there.

    The slice before it ends at `end`, the one after it begins at `at`; between them is whitespace. `leaf` is the
    block, other than a container, that reaches over it.
    """

    source: str
    end: int
    at: int
    leaf: Block | None
    around: tuple[Container, ...]
    styles: tuple[str, ...]
    item_follows: bool = False

    @property
    def begins_line(self) -> bool:
        """Whether the slice after the cut begins a line of the source."""
        return self.at == 0 or self.source[self.at - 1] == "\n"


class Seam(msgspec.Struct, frozen=True, kw_only=True):
    """One way to mend a cut: what closes the part before, and what opens the part after, from `resume` on."""

    closed: str
    opening: Opening
    resume: int
    wrapper: str | None = None

    @property
    def added(self) -> str:
        """What counts against the limit on wrappers; the indentation of a line that was cut does not."""
        return self.opening.text + self.closed if self.wrapper is None else self.wrapper


def seams(place: Place) -> Iterator[Seam]:
    """The ways to mend a cut, the best first; each further one adds less."""
    kind = place.leaf.kind if place.leaf else ""
    if place.leaf and kind == "fence":
        yield from _fence_seams(place, place.leaf)
    elif place.leaf and kind == "table":
        yield from _table_seams(place, place.leaf)
    elif kind == "indented":
        yield from _indented_seams(place)
    else:
        yield from _text_seams(place)


def fence_marker(source: str, fence: Block) -> str:
    """The run of backticks or tildes that opens a fence."""
    found = _FENCE.match(source, fence.start)
    return found[0] if found else ""


def _fence_seams(place: Place, fence: Block) -> Iterator[Seam]:
    source, around = place.source, place.around
    marker = fence_marker(source, fence)
    info = source[fence.start + len(marker) : fence.body].rstrip("\r\n")
    indent = _fence_indent(source, fence, around)
    in_item = bool(around) and not around[-1].is_quote
    if in_item and indent:
        before = on_own_lines(around) + continuing(around) + " " * indent
    else:
        before = on_one_line(around) + ("" if in_item else " " * indent)
    rest_of_line = "" if place.begins_line else continuing(around) + " " * indent
    closed = ("" if source[place.end - 1] == "\n" else "\n") + continuing(around) + marker
    for words in (info, ""):
        opened = f"{before}{marker}{words}\n"
        wrapper = f"{opened}\n{continuing(around)}{marker}"
        yield Seam(closed=closed, opening=Opening(shown=opened + rest_of_line), resume=place.at, wrapper=wrapper)
    unseen = Opening(parsed=f"{before}{marker}\n{rest_of_line}")
    resume = past_space(source, place.at)  # code that does not show is cut as text
    yield Seam(closed=closed, opening=unseen, resume=resume)
    yield Seam(closed="", opening=unseen, resume=resume)


def _fence_indent(source: str, fence: Block, around: Sequence[Container]) -> int:
    line = source.rfind("\n", 0, fence.start) + 1
    if source[line : fence.start].strip(" \t>"):
        return 0  # on the line of a list marker
    return min(max(fence.start - after_prefix(source, line, around), 0), 3)


def _table_seams(place: Place, table: Block) -> Iterator[Seam]:
    head = on_one_line(place.around) + place.source[table.start : table.body]
    if place.begins_line:
        yield Seam(closed="", opening=Opening(shown=head), resume=place.at)
        yield from _text_seams(place)
    else:
        around = continuing(place.around)
        resume = past_space(place.source, place.at)
        yield Seam(closed="", opening=Opening(parsed=head + around, one_row=True), resume=resume)


def _indented_seams(place: Place) -> Iterator[Seam]:
    around = place.around
    if not place.begins_line:
        shown = on_one_line(around) + "    "
    elif any(not container.is_quote for container in around):
        shown = on_own_lines(around)
    else:
        shown = ""
    yield Seam(closed="", opening=Opening(shown=shown), resume=place.at)
    yield Seam(closed="", opening=NOTHING, resume=place.at)


def _text_seams(place: Place) -> Iterator[Seam]:
    closed = "".join(reversed(place.styles))
    prefix, resume = _standing(place)
    yield Seam(closed=closed, opening=Opening(shown=prefix, styles=place.styles), resume=resume)
    if prefix:
        yield Seam(closed=closed, opening=Opening(styles=place.styles), resume=resume)
    yield Seam(closed="", opening=NOTHING, resume=resume)


def _standing(place: Place) -> tuple[str, int]:
    """What puts the text after the cut back into its containers, and where that text begins."""
    if not place.begins_line:
        return on_one_line(place.around) + _heading_mark(place), past_space(place.source, place.at)
    content = place.at
    while place.source[content : content + 1] in (" ", "\t"):
        content += 1
    if any(not container.is_quote for container in place.around):
        return _standing_in_item(place, content)
    # Quotes mark every line, unless a lazy one goes on with a paragraph.
    own = _own_quotes(place.source, place.at)
    missing = "> " * max(len(place.around) - own, 0)
    return missing, content if place.leaf and not own else place.at


def _standing_in_item(place: Place, content: int) -> tuple[str, int]:
    """As `_standing`, for a line inside a list item, whose `content` begins after its indentation."""
    around = place.around
    quotes = [nth for nth, container in enumerate(around) if container.is_quote]
    if place.item_follows and not quotes and content - place.at <= 3:
        return "", place.at  # a nested item this far left is one at the top level, too, and looks better alone
    own = _own_quotes(place.source, place.at)
    if own:
        # The line brings its quotes; items around them open in front of it, items inside them on a line before.
        if own == len(quotes) and quotes == list(range(quotes[0], len(around))):
            return on_one_line(around[: quotes[0]]), content
        return on_own_lines(around), place.at
    indented = content > after_prefix(place.source, place.at, around)
    if indented and place.leaf is None:
        return on_own_lines(around), place.at
    return on_one_line(around), content


def _own_quotes(source: str, at: int) -> int:
    count = 0
    while at < len(source) and source[at] in " \t>":
        count += source[at] == ">"
        at += 1
    return count


def _heading_mark(place: Place) -> str:
    if place.leaf is None or place.leaf.kind != "heading" or place.source[place.leaf.start] != "#":
        return ""
    line = place.source[place.leaf.start : place.end]
    return line[: len(line) - len(line.lstrip("#"))] + " "
