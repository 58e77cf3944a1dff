"""What a part is to an examiner: the fields it declares, its size, and where it stands in the source.

Any object with the fields of `CutPart` can be judged; nothing here knows how parts are made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

LEAST_LIMIT = {"code_points": 1, "utf16": 2, "utf8_bytes": 4}


class Rendered(Protocol):
    """What a part looks like on a channel."""

    @property
    def text(self) -> str:
        """The text as the channel takes it."""
        ...


class CutPart(Protocol):
    """What a part declares of itself; `tailrace.markdown.Part` is one."""

    @property
    def text(self) -> str:
        """The part as Markdown, valid alone."""
        ...

    @property
    def body(self) -> Rendered:
        """The part as rendered."""
        ...

    @property
    def size(self) -> int:
        """The size of the body in the unit."""
        ...

    @property
    def opened(self) -> str:
        """What the cut added at the start."""
        ...

    @property
    def closed(self) -> str:
        """What the cut added at the end."""
        ...

    @property
    def seam(self) -> str:
        """The whitespace consumed after the part."""
        ...

    @property
    def lead(self) -> str:
        """The whitespace of the source before the first part."""
        ...


class Breach(NamedTuple):
    """One law that one part breaks, and how."""

    law: str
    part_index: int
    message: str


class Placed(NamedTuple):
    """A part together with where its slice stands in the source."""

    number: int
    part: CutPart
    start: int
    end: int


def measure(text: str, unit: str) -> int:
    """The size of a text in a platform's unit; a lone surrogate counts as the replacement character would."""
    if unit == "code_points":
        return len(text)
    if unit == "utf16":
        return len(text) + sum(char > "\uffff" for char in text)
    if unit == "utf8_bytes":
        return len(text.encode("utf-8", "surrogatepass"))
    raise ValueError(f"{unit!r} is no unit; use one of: {', '.join(LEAST_LIMIT)}")


def slice_of(part: CutPart) -> str:
    """What of the part's text is the source's own."""
    return part.text[len(part.opened) : len(part.text) - len(part.closed)]


def place(parts: Sequence[CutPart]) -> list[Placed]:
    """Where each part's slice stands in the source, by what the parts themselves declare."""
    placed = []
    offset = 0
    for index, part in enumerate(parts):
        start = offset + len(part.lead)
        end = start + len(slice_of(part))
        placed.append(Placed(index, part, start, end))
        offset = end + len(part.seam)
    return placed
