"""The quotes and list items around a position, and how to open them again in another part.

The meaning of a line depends on its containers: four spaces are code at the top level and a paragraph in a list item.
So a part that begins inside containers opens them again, with the same indentation.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from tailrace.markdown.outline import OutlineBlock

_MARKER = re.compile(r"\d{1,9}[.)]|[-+*]")
_WIDEST_INDENT = 3  # if one more column is before a marker, the line is indented code
_WIDEST_PAD = 4  # if one more column is after a marker, the rest of the line is indented code


class Container(msgspec.Struct, frozen=True, gc=False):
    """A block that contains other blocks: a quote (`marker` is ">") or a list item (`marker` is such as "-" or "1.").

    Its content is indented by `width` columns.
    """

    marker: str
    width: int

    @property
    def is_quote(self) -> bool:
        """Whether the container is a quote. A quote has its mark on every line, a list item only on its first line."""
        return self.marker == ">"


QUOTE = Container(">", 2)


def read_containers(source: str, blocks: Sequence[OutlineBlock]) -> tuple[Container, ...]:
    """The containers for these blocks, which are quotes and list items around each other, outermost first."""
    found: list[Container] = []
    for block in blocks:
        found.append(QUOTE if block.kind == "quote" else _item(source, block.start, found))
    return tuple(found)


def _item(source: str, start: int, containers: Sequence[Container]) -> Container:
    while start < len(source) and source[start] in " \t":
        start += 1
    found = _MARKER.match(source, start)
    marker = found[0] if found else "-"
    after = start + len(marker)
    line_start = source.rfind("\n", 0, start) + 1
    column = len(source[line_start:start].expandtabs(4))
    line_end = source.find("\n", after)
    line = source[line_start : line_end if line_end >= 0 else len(source)]
    rest_of_line = line.expandtabs(4)[column + len(marker) :]
    pad = len(rest_of_line) - len(rest_of_line.lstrip(" "))
    if not rest_of_line.strip() or pad > _WIDEST_PAD:
        pad = 1
    return Container(marker, _indent(source[line_start:start], containers) + len(marker) + pad)


def _indent(before: str, containers: Sequence[Container]) -> int:
    """How many columns a list marker is indented, counted from where the content of its container begins."""
    before = before.expandtabs(4)
    spaces = len(before) - len(before.rstrip(" "))
    if spaces < len(before):
        if before.rstrip(" ")[-1] != ">":
            return 0  # another marker is before it on this line: the spaces are the padding of that marker
        spaces -= 1
    for container in reversed(containers):
        if container.is_quote:
            break
        spaces -= container.width
    return max(spaces, 0)


def open_on_one_line(containers: Sequence[Container]) -> str:
    """The markers that open these containers, for the beginning of a line: a list in a quote gives `> - `."""
    line = ""
    for container in containers:
        if container.is_quote:
            line += "> "
            continue
        # Reach the width by padding after the marker. Padding that would make code goes before the line's first marker.
        pad = min(container.width - len(container.marker), _WIDEST_PAD)
        rest = container.width - len(container.marker) - pad
        line += " " * (0 if line.strip(" >") else min(rest, _WIDEST_INDENT)) + container.marker + " " * pad
    return line


def open_on_own_lines(containers: Sequence[Container]) -> str:
    """Lines that open these containers and hold only their markers, one line for each list item.

    They are needed if the first line of the content is indented, such as code: behind a marker on the same line, the
    indentation would have another meaning. After a marker that is alone on its line, Markdown counts one column of
    padding; the rest of the padding goes before the marker.
    """
    lines = [""]
    for nth, container in enumerate(containers):
        if container.is_quote:
            lines[-1] += "> "
            continue
        if lines[-1].strip(" >"):
            lines.append(line_prefix(containers[:nth]))
        indent = min(container.width - len(container.marker) - 1, _WIDEST_INDENT)
        lines[-1] += " " * indent + container.marker + " "
    return "".join(line.rstrip(" ") + "\n" for line in lines)


def line_prefix(containers: Sequence[Container]) -> str:
    """The quote marks and the indentation that every line inside the containers has after the line that opens them."""
    return "".join("> " if item.is_quote else " " * item.width for item in containers)


def skip_prefix(source: str, at: int, containers: Sequence[Container]) -> int:
    """Where the content of the line at `at` begins, after the quote marks and indentation of the containers.

    A line may have fewer marks than there are containers; then only those are skipped.
    """
    for container in containers:
        if container.is_quote:
            mark = at
            while source[mark : mark + 1] == " " and mark - at < 3:
                mark += 1
            if source[mark : mark + 1] != ">":
                return at
            at = mark + 1
            if source[at : at + 1] == " ":
                at += 1
        else:
            column = 0
            while column < container.width and source[at : at + 1] in (" ", "\t"):
                column += 4 - column % 4 if source[at] == "\t" else 1
                at += 1
    return at
