"""The common cut, found without parsing: between two top-level blocks, at a blank line.

Most parts end there, and for those a parse of the whole window would be the greater part of all work. A line that
follows a blank line and begins in the first column is outside every list item, quote, table and paragraph; only a
fence or an HTML block can still hold it. So it is enough to follow the fences that begin in the first column.
Wherever that does not settle the matter, the answer is None and the parser is asked.
"""

from __future__ import annotations

import re

_OTHER_BLANK_LINE = re.compile(r"\n[ \t>]+\n")
_FENCE_LINE = re.compile(r"^( {0,3})(`{3,}|~{3,})(.*)$", re.MULTILINE)


def clear_cut(text: str, fits: int, least: int) -> tuple[int, int] | None:
    """Where the slice ends and where the next begins: the last blank line that leaves at least `least` characters.

    `fits` is how many characters fit; the text reaches at least one visible character beyond that.
    """
    blank = text.rfind("\n\n", least, fits + 2)
    if blank < 0 or "\r" in text or "\n<" in text or text[0] in "< \t>":
        return None
    if _OTHER_BLANK_LINE.search(text, blank, fits + 2):
        return None
    fences = _fences(text, fits + 2)
    if fences is None:
        return None
    for opened, closed in reversed(fences):
        if opened < blank < closed:
            blank = text.rfind("\n\n", least, opened)
    resume = blank + 2
    while text[resume] == "\n":
        resume += 1
    if blank < 0 or text[resume] in " \t>":
        return None
    end = len(text[:resume].rstrip())
    return (end, resume) if least <= end <= fits else None


def _fences(text: str, until: int) -> list[tuple[int, int]] | None:
    """The ranges of the top-level fences that begin before `until`; None if one may not be at the top level."""
    found: list[tuple[int, int]] = []
    marker = ""
    opened = 0
    for line in _FENCE_LINE.finditer(text, 0, until):
        indent, run, rest = line.groups()
        if marker:
            if run.startswith(marker) and not rest.strip():
                found.append((opened, line.end()))
                marker = ""
        elif not (run[0] == "`" and "`" in rest):
            if indent:
                return None
            marker, opened = run, line.start()
    if marker:
        found.append((opened, len(text)))
    return found
