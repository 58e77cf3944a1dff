"""What can be told of a text's blocks without parsing it: the last blank line between two top-level blocks.

Most parts end there, and for those a parse of the whole window would be the greater part of all work; the others
need to be parsed from there on only. A line that follows a blank line and begins in the first column is outside
every list item, quote, table and paragraph; only a fence or an HTML block can still hold it. So it is enough to
follow the fences. Wherever that does not settle the matter, the answer is None and the parser is asked.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_SPACED_BLANK_LINE = re.compile(r"\n[ \t]+\n")
_FENCE_RUN = re.compile(r"([`~])\1{2,}")  # not anchored to the line, which would be tried at every line
_FIRST_COLUMN = re.compile(r"^[^ \t\n]", re.MULTILINE)
# The HTML blocks that go on over blank lines.
_LONG_HTML = re.compile(r"^ {0,3}<(?:pre|script|style|textarea|[!?])", re.MULTILINE | re.IGNORECASE)


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
    fences = _fences(text, fits + 2)
    if fences is None:
        return None
    is_last = True
    blank = text.rfind("\n\n", 0, fits + 2)
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
            return TopLevelBreak(end, resume, is_last and not _spaced_blank_line(text, blank, fits, fences))
        is_last = False
        blank = text.rfind("\n\n", 0, blank)
    return None


def _spaced_blank_line(text: str, start: int, fits: int, fences: list[tuple[int, int]]) -> bool:
    """Whether a blank line that is not empty comes after `start`, outside of fences."""
    places = (found.start() for found in _SPACED_BLANK_LINE.finditer(text, start, fits + 2))
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
