"""Find blank lines between top-level blocks without parsing, because parsing is most of the work of cutting.

Most parts end at such a line, so no text has to be parsed for them. For other parts, only the text after such a line is
parsed. A line that follows a blank line and begins in the first column is outside every list item, quote, table and
paragraph; only a fence or an HTML block can contain it. So it is enough to find the fences. If that is not enough to be
sure, the result is None and the caller uses the parser.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple, TypeVar

_SPACED_BLANK_LINE = re.compile(r"\n[ \t]+\n")
_FENCE_RUN = re.compile(r"([`~])\1{2,}")  # without `^`, which would make the search try every line
_FIRST_COLUMN = re.compile(r"^[^ \t\n]", re.MULTILINE)
# The kinds of HTML blocks that continue over blank lines.
_LONG_HTML = re.compile(r"^ {0,3}<(?:pre|script|style|textarea|[!?])", re.MULTILINE | re.IGNORECASE)

_MAX_CACHED = 512  # pieces, of the messages that are being written
_MAX_CACHED_LENGTH = 4_000  # characters; longer pieces are rare and take much memory

T = TypeVar("T")

# A blank line before a line that begins in the first column and cannot be a further item of the list before it.
_BLOCKS_APART = re.compile(r"\n\n(?=[^\s\-+*\d]|\*\*)")


class TopLevelBreak(NamedTuple):
    """A blank line between two top-level blocks: the first one ends at `end`, the next one begins at `resume`.

    `is_last`: among the text that fits, there is no later blank line, so there is no better place to cut.
    """

    end: int
    resume: int
    is_last: bool


def last_top_level_break(text: str, fits: int) -> TopLevelBreak | None:
    """The last blank line that is certainly between two top-level blocks, with text before it that fits.

    `fits` is how many characters of the text fit; at least one visible character must follow them.
    """
    if "\r" in text or ("<" in text and _LONG_HTML.search(text)):
        return None
    reach = fits  # whitespace before the blank line need not fit
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
    """Split a text into pieces that can be parsed one by one with the same result. Only the last piece may grow."""
    # A link definition applies to the whole text.
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
    """Make a function that applies `read` to each independent piece of a text and returns the results.

    The results are cached, except that of the last piece, which may still grow. So a growing text is not read again and
    again.
    """
    cached = lru_cache(maxsize=_MAX_CACHED)(read)

    def read_pieces(text: str) -> list[T]:
        *ended, last = independent_pieces(text)
        return [*(cached(piece) if len(piece) <= _MAX_CACHED_LENGTH else read(piece) for piece in ended), read(last)]

    return read_pieces


def _spaced_blank_line(text: str, start: int, reach: int, fences: list[tuple[int, int]]) -> bool:
    """Whether a line that contains only spaces comes between `start` and `reach`, outside of fences."""
    positions = (found.start() for found in _SPACED_BLANK_LINE.finditer(text, start, reach))
    return any(not any(opened < at < closed for opened, closed in fences) for at in positions)


def _fences(text: str, until: int) -> list[tuple[int, int]] | None:
    """The ranges of the code fences that begin before `until`. None if this cannot be known without a parser."""
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
            if not (run[1] == "`" and "`" in rest):  # that would be a code span
                indent, marker, opened = before, run[0], line_start
        elif run[0].startswith(marker) and not rest.strip():
            # An indented fence may be in a list item, and a line in the first column ends the item and the fence.
            if indent and _FIRST_COLUMN.search(text, opened, run.end()):
                return None
            found.append((opened, run.end() + len(rest)))
            marker = ""
    if marker:
        # An unclosed fence ends at the end of the text. If it is indented, a line in the first column may end it.
        first_column = _FIRST_COLUMN.search(text, opened, until) if indent else None
        if first_column:
            return None
        found.append((opened, len(text)))
    return found
