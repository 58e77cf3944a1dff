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
            return (at for at, after_blank in reversed(_lines(window)) if after_blank is wanted)
        case Kind.SENTENCE:
            return reversed(_ends(window, _SENTENCE))
        case Kind.SPACE:
            return reversed(_ends(window, _SPACES))
        case Kind.HARD:
            return hard_places(window, window.furthest, window.solids)


def _lines(window: Window) -> list[tuple[int, bool]]:
    """Where lines begin, each with whether a blank line is before it. In code no line is blank, each is a line."""
    source, furthest = window.source, window.furthest
    starts = []
    at, after_blank = window.base, False
    ink = at  # where the last visible character before the line ends
    while at < len(source) and ink <= furthest:
        end = source.find("\n", at) + 1 or len(source)
        line = source[at:end]
        in_code = window.code_at(at) is not None
        if at > window.base and (in_code or line.strip(" \t>\r\n")):
            starts.append((at, after_blank and not in_code))
        after_blank = line.isspace()
        ink = ink if after_blank else at + len(line.rstrip())
        at = end
    return starts


def _ends(window: Window, pattern: re.Pattern[str]) -> list[int]:
    """Where the text goes on after each match, spaces passed over; not at line ends, which are better boundaries."""
    source = window.source
    places = []
    for found in pattern.finditer(source, window.base + 1, min(window.furthest + 1, len(source))):
        spaces = _SPACES.match(source, found.end())
        at = spaces.end() if spaces else found.end()
        if at < len(source) and source[at] not in "\r\n":
            places.append(at)
    return places


def hard_places(window: Window, furthest: int, solids: Sequence[tuple[int, int]]) -> Iterator[int]:
    """The borders between grapheme clusters outside of what is solid, from `furthest` down."""
    at = min(furthest, len(window.source) - 1)
    while at > window.base:
        at = graphemes.last_border(window.source, at, window.base)
        for start, end in solids:
            if start < at < end:
                at = start
        if at > window.base:
            yield at
        at -= 1
