"""What can be told of a text's blocks without parsing it: the blank lines between two top-level blocks.

Most parts end at one, and for those a parse of the whole window would be the greater part of all work; the others
need to be parsed from there on only. A line that follows a blank line and begins in the first column is outside
every list item, quote, table and paragraph; only a fence or an HTML block can still hold it. So it is enough to
follow the fences. Wherever that does not settle the matter, the answer is None and the parser is asked.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple, TypeVar

_SPACED_BLANK_LINE = re.compile(r"\n[ \t]+\n")
_FENCE_RUN = re.compile(r"([`~])\1{2,}")  # not anchored to the line, which would be tried at every line
_FIRST_COLUMN = re.compile(r"^[^ \t\n]", re.MULTILINE)
# The HTML blocks that go on over blank lines.
_LONG_HTML = re.compile(r"^ {0,3}<(?:pre|script|style|textarea|[!?])", re.MULTILINE | re.IGNORECASE)

_MAX_CACHED = 512  # pieces: those of the messages that are being written
_MAX_CACHED_LENGTH = 4_000  # characters; a longer one fits few messages whole, and would be much to keep

T = TypeVar("T")

# A blank line at the top level before what cannot be a further item of the list before it.
_BLOCKS_APART = re.compile(r"\n\n(?=[^\s\-+*\d]|\*\*)")


class TopLevelBreak(NamedTuple):
    """A blank line at the top level: the text before it ends at `end`, the text after it begins at `resume`.

    `is_last` says that no blank line after it, within what fits, could be a better place to cut.
    """

    end: int
    resume: int
    is_last: bool


def last_top_level_break(text: str, fits: int) -> TopLevelBreak | None:
    """The last blank line that surely stands between two top-level blocks and before which the text fits.

    `fits` is how many characters fit; the text reaches at least one visible character beyond that.
    """
    if "\r" in text or ("<" in text and _LONG_HTML.search(text)):
        return None
    reach = fits  # what is only whitespace is not part of the text before it
    while text[reach].isspace():
        reach += 1
    fences = _fences(text, reach)
    if fences is None:
        return None
    is_last = True
    blank = text.rfind("\n\n", 0, reach)
    while blank > 0:
        opened = next((start for start, end in fences if start < blank < end), None)
        if opened is not None:
            blank = text.rfind("\n\n", 0, opened)
            continue
        end = len(text[:blank].rstrip())
        resume = blank + 2
        while text[resume] == "\n":
            resume += 1
        if 0 < end <= fits and not text[resume].isspace():
            return TopLevelBreak(end, resume, is_last and not _spaced_blank_line(text, blank, reach, fences))
        is_last = False
        blank = text.rfind("\n\n", 0, blank)
    return None


def independent_pieces(text: str) -> list[str]:
    """The text in pieces that each mean alone what they mean together; the last one may go on."""
    # A definition of a link's target is for all of the text.
    if "\n\n" not in text or "\r" in text or "]:" in text or ("<" in text and _LONG_HTML.search(text)):
        return [text]
    fences = _fences(text, len(text))
    if fences is None:
        return [text]
    starts = [0]
    ranges = iter((*fences, (len(text), len(text))))
    opened, closed = next(ranges)
    for blank in _BLOCKS_APART.finditer(text):
        at = blank.start()
        while closed <= at:
            opened, closed = next(ranges)
        if at < opened:
            starts.append(blank.end())
    return [text[start:end] for start, end in pairwise((*starts, len(text)))]


def cached_by_piece(read: Callable[[str], T]) -> Callable[[str], list[T]]:
    """What reads a text in pieces that mean alone what they mean together, those that ended only once."""
    cached = lru_cache(maxsize=_MAX_CACHED)(read)

    def read_pieces(text: str) -> list[T]:
        *ended, last = independent_pieces(text)
        return [*(cached(piece) if len(piece) <= _MAX_CACHED_LENGTH else read(piece) for piece in ended), read(last)]

    return read_pieces


def _spaced_blank_line(text: str, start: int, reach: int, fences: list[tuple[int, int]]) -> bool:
    """Whether a blank line that is not empty comes after `start`, outside of fences."""
    places = (found.start() for found in _SPACED_BLANK_LINE.finditer(text, start, reach))
    return any(not any(opened < at < closed for opened, closed in fences) for at in places)


def _fences(text: str, until: int) -> list[tuple[int, int]] | None:
    """The ranges of the fences that begin before `until`; None if it takes a parser to tell."""
    found: list[tuple[int, int]] = []
    if "```" not in text and "~~~" not in text:
        return found
    marker = indent = ""
    opened = 0
    for run in _FENCE_RUN.finditer(text, 0, until):
        line_start = text.rfind("\n", 0, run.start()) + 1
        before = text[line_start : run.start()]
        if before.strip(" ") or len(before) > 3:
            continue
        line_end = text.find("\n", run.end())
        rest = text[run.end() : line_end if line_end >= 0 else None]
        if not marker:
            if not (run[1] == "`" and "`" in rest):  # which would be a code span
                indent, marker, opened = before, run[0], line_start
        elif run[0].startswith(marker) and not rest.strip():
            # An indented fence may stand in a list item, which a line in the first column ends, fence and all.
            if indent and _FIRST_COLUMN.search(text, opened, run.end()):
                return None
            found.append((opened, run.end() + len(rest)))
            marker = ""
    if marker:
        # Unclosed and indented, it goes on for as long as the lines are; in the first column, to the end.
        first_column = _FIRST_COLUMN.search(text, opened, until) if indent else None
        if first_column:
            return None
        found.append((opened, len(text)))
    return found
