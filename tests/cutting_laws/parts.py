"""The breaches of a law, the size of a text, and where parts are in their source."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tailrace.markdown import Part

MIN_LIMIT = {"code_points": 1, "utf16": 2, "utf8_bytes": 4}


class Breach(NamedTuple):
    """A law that a part breaks, and how."""

    law: str
    part_index: int
    message: str


class LocatedPart(NamedTuple):
    """A part with the range of its slice in the source."""

    number: int
    part: Part
    start: int
    end: int


def measure(text: str, unit: str) -> int:
    """The size of a text in a platform's unit; a lone surrogate counts like any character of its width."""
    if unit == "code_points":
        return len(text)
    if unit == "utf16":
        return len(text) + sum(char > "\uffff" for char in text)
    if unit == "utf8_bytes":
        return len(text.encode("utf-8", "surrogatepass"))
    raise ValueError(f"{unit!r} is no unit; use one of: {', '.join(MIN_LIMIT)}")


def locate(parts: Sequence[Part]) -> list[LocatedPart]:
    """Where the slice of each part is in the source, by what the parts declare."""
    placed = []
    offset = 0
    for index, part in enumerate(parts):
        start = offset + len(part.lead)
        end = start + len(part.source)
        placed.append(LocatedPart(index, part, start, end))
        offset = end + len(part.seam)
    return placed
