"""Finds the boundaries at which a text may be cut: the best kind first, and within a kind the last position first."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import IntEnum

from tailrace.markdown import graphemes
from tailrace.markdown.lookahead import Lookahead

_SPACES = re.compile(r"[^\S\n\r\u00a0\u202f]+")
# Brackets and quotes may follow the full stop. In scripts without spaces no space must follow it.
_SENTENCE = re.compile(r"[.!?…]+[\"')\]»”’*_~]*(?=[^\S\n\r])|[。！？｡．]+[」』”’）】]*")


class Boundary(IntEnum):
    """The kinds of places where a text may be cut, the best kind first."""

    BLANK_LINE = 0
    LINE = 1
    SENTENCE = 2
    SPACE = 3
    CHARACTER = 4


def cut_positions(ahead: Lookahead, boundary: Boundary) -> Iterator[int]:
    """The positions of one kind at which the next part may begin, the last first. The text before each one fits."""
    match boundary:
        case Boundary.BLANK_LINE | Boundary.LINE:
            wanted = boundary is Boundary.BLANK_LINE
            return (at for at, after_blank in reversed(ahead.line_starts) if after_blank is wanted)
        case Boundary.SENTENCE:
            return reversed(_match_ends(ahead, _SENTENCE))
        case Boundary.SPACE:
            return reversed(_match_ends(ahead, _SPACES))
        case Boundary.CHARACTER:
            return character_positions(ahead, ahead.max_end, ahead.unbreakable)


def _match_ends(ahead: Lookahead, pattern: re.Pattern[str]) -> list[int]:
    """The positions after each match of the pattern and the spaces behind it, in order.

    Line ends are left out, because they are better boundaries of their own.
    """
    source = ahead.source
    positions = []
    for found in pattern.finditer(source, ahead.first_cut + 1, min(ahead.max_end + 1, len(source))):
        spaces = _SPACES.match(source, found.end())
        at = spaces.end() if spaces else found.end()
        if at < len(source) and source[at] not in "\r\n":
            positions.append(at)
    return positions


def character_positions(ahead: Lookahead, max_end: int, unbreakable: Sequence[tuple[int, int]]) -> Iterator[int]:
    """The positions between two visible characters and outside `unbreakable` ranges, from `max_end` down."""
    at = min(max_end, len(ahead.source) - 1)
    while at > ahead.first_cut:
        at = graphemes.last_boundary(ahead.source, at, ahead.first_cut)
        for start, end in unbreakable:
            if start < at < end:
                at = start
        if at > ahead.first_cut:
            yield at
        at -= 1
