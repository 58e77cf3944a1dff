"""Law 7 for plain prose: the cuts that the law demands, computed from the text and the limit alone.

Prose here is words, sentences that end in `.`, `!` or `?`, lines and blank lines, without Markdown. So the size of a
part is the length of its slice, and every cut is at whitespace or between any characters.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cutting_laws.parts import Breach

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tailrace.markdown import Part

_BLANK_LINE, _LINE, _SENTENCE, _SPACE = range(4)
_GAP = re.compile(r"\s+")


def expected_slices(source: str, limit: int) -> list[str]:
    """The slices that the law demands, in order."""
    slices = []
    rest = source.strip()
    while len(rest) > limit:
        end = _cut(rest, limit)
        slices.append(rest[:end])
        rest = rest[end:].lstrip()
    return [*slices, rest] if rest else slices


def check_boundary_order(source: str, parts: Sequence[Part], limit: int) -> list[Breach]:
    """Law 7: each part of this prose ends where the order of boundaries says."""
    demanded = expected_slices(source, limit)
    found = [part.source for part in parts]
    for number, (wanted, got) in enumerate(zip(demanded, found, strict=False)):
        if wanted != got:
            return [Breach("boundary", number, f"the slice is {got!r}, the order of boundaries says {wanted!r}")]
    if len(demanded) != len(found):
        return [Breach("boundary", len(found), f"{len(found)} parts instead of {len(demanded)}")]
    return []


def _cut(rest: str, limit: int) -> int:
    """The end of the first part: the last boundary of the best kind that fills a third."""
    last: dict[int, int] = {}
    for gap in _GAP.finditer(rest, 0, len(rest)):
        if gap.start() > limit:
            break
        last[_kind(rest, gap)] = gap.start()
    hard = len(rest[:limit].rstrip())
    for kind in (_BLANK_LINE, _LINE, _SENTENCE, _SPACE):
        end = last.get(kind, 0)
        if 3 * end >= limit or end >= hard:
            return end
    return limit


def _kind(rest: str, gap: re.Match[str]) -> int:
    newlines = gap[0].count("\n")
    if newlines:
        return _BLANK_LINE if newlines > 1 else _LINE
    return _SENTENCE if rest[gap.start() - 1] in ".!?" else _SPACE
