"""The common cut, found without parsing: between two top-level blocks, at a blank line.

Most parts end there, and for those a parse of the whole window would be the greater part of all work. A line that
follows a blank line and begins in the first column is outside every list item, quote, table and paragraph; only a
fence or an HTML block can still hold it. So it is enough to follow the fences. Wherever that does not settle the
matter, the answer is None and the parser is asked.
"""

from __future__ import annotations

import re

_SPACED_BLANK_LINE = re.compile(r"\n[ \t]+\n")
_FENCE_LINE = re.compile(r"^( {0,3})(`{3,}|~{3,})(.*)$", re.MULTILINE)
_FIRST_COLUMN = re.compile(r"^[^ \t\n]", re.MULTILINE)
# The HTML blocks that go on over blank lines.
_LONG_HTML = re.compile(r"^ {0,3}<(?:pre|script|style|textarea|[!?])", re.MULTILINE | re.IGNORECASE)


def clear_cut(text: str, fits: int, least: int) -> tuple[int, int] | None:
    """Where the slice ends and where the next begins: the last blank line that leaves at least `least` characters.

    `fits` is how many characters fit; the text reaches at least one visible character beyond that.
    """
    blank = text.rfind("\n\n", least, fits + 2)
    if blank < 0 or "\r" in text or ("<" in text and _LONG_HTML.search(text)):
        return None
    fences = _fences(text, fits + 2)
    if fences is None:
        return None
    spaced = [found.start() for found in _SPACED_BLANK_LINE.finditer(text, blank, fits + 2)]
    if any(not any(opened < at < closed for opened, closed in fences) for at in spaced):
        return None
    for opened, closed in reversed(fences):
        if opened < blank < closed:
            blank = text.rfind("\n\n", least, opened)
    if blank < 0:
        return None
    resume = blank + 2
    while text[resume] == "\n":
        resume += 1
    end = len(text[:resume].rstrip())
    return (end, resume) if not text[resume].isspace() and least <= end <= fits else None


def _fences(text: str, until: int) -> list[tuple[int, int]] | None:
    """The ranges of the fences that begin before `until`; None if it takes a parser to tell."""
    found: list[tuple[int, int]] = []
    if "```" not in text and "~~~" not in text:
        return found
    marker = indent = ""
    opened = 0
    for line in _FENCE_LINE.finditer(text, 0, until):
        if not marker:
            indent, marker, info = line.groups()
            opened = line.start()
            if marker[0] == "`" and "`" in info:
                marker = ""  # a code span
        elif line[2].startswith(marker) and not line[3].strip():
            # An indented fence may stand in a list item, which a line in the first column ends, fence and all.
            if indent and _FIRST_COLUMN.search(text, opened, line.end()):
                return None
            found.append((opened, line.end()))
            marker = ""
    if marker:
        if indent:
            return None
        found.append((opened, len(text)))
    return found
