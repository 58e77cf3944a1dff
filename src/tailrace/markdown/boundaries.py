"""Where a window might be cut: the kinds of boundary, best first, and the places of each kind, last first."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import IntEnum

from tailrace.markdown import graphemes
from tailrace.markdown.window import Window

_SPACES = re.compile(r"[^\S\n\r\u00a0\u202f]+")
# Brackets and quotes may close behind the stop; scripts without spaces end a sentence with the stop alone.
_SENTENCE = re.compile(r"[.!?…]+[\"')\]»”’*_~]*(?=[^\S\n\r])|[。！？｡．]+[」』”’）】]*")


class Kind(IntEnum):
    """The kinds of boundary, best first."""

    BLANK_LINE = 0
    LINE = 1
    SENTENCE = 2
    SPACE = 3
    HARD = 4


def boundaries(window: Window, kind: Kind) -> Iterator[int]:
    """The places of one kind up to the limit, the last first: each where the rest of the text would begin."""
    match kind:
        case Kind.BLANK_LINE | Kind.LINE:
            wanted = kind is Kind.BLANK_LINE
            return (at for at, after_blank in reversed(window.lines) if after_blank is wanted)
        case Kind.SENTENCE:
            return reversed(_ends(window, _SENTENCE))
        case Kind.SPACE:
            return reversed(_ends(window, _SPACES))
        case Kind.HARD:
            return hard_places(window, window.furthest, window.solids)


def _ends(window: Window, pattern: re.Pattern[str]) -> list[int]:
    """Where the text goes on after each match, spaces passed over; not at line ends, which are better boundaries."""
    source = window.source
    places = []
    for found in pattern.finditer(source, window.first + 1, min(window.furthest + 1, len(source))):
        spaces = _SPACES.match(source, found.end())
        at = spaces.end() if spaces else found.end()
        if at < len(source) and source[at] not in "\r\n":
            places.append(at)
    return places


def hard_places(window: Window, furthest: int, solids: Sequence[tuple[int, int]]) -> Iterator[int]:
    """The borders between grapheme clusters outside of what is solid, from `furthest` down."""
    at = min(furthest, len(window.source) - 1)
    while at > window.first:
        at = graphemes.last_boundary(window.source, at, window.first)
        for start, end in solids:
            if start < at < end:
                at = start
        if at > window.first:
            yield at
        at -= 1
