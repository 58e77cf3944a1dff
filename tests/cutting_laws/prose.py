"""Law 7 for plain prose: where the law demands the cuts, worked out from the text and the limit alone.

Prose here is words, sentences that end in `.`, `!` or `?`, lines and blank lines, without any Markdown; so a
part's size is the length of its slice and every boundary is a run of whitespace or a hard cut.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cutting_laws.parts import Breach, CutPart, slice_of

if TYPE_CHECKING:
    from collections.abc import Sequence

_BLANK_LINE, _LINE, _SENTENCE, _SPACE = range(4)
_GAP = re.compile(r"\s+")


def demanded_slices(source: str, limit: int) -> list[str]:
    """The slices the law demands, in order."""
    slices = []
    rest = source.strip()
    while len(rest) > limit:
        end = _cut(rest, limit)
        slices.append(rest[:end])
        rest = rest[end:].lstrip()
    return [*slices, rest] if rest else slices


def boundary_order(source: str, parts: Sequence[CutPart], limit: int) -> list[Breach]:
    """Law 7: each part of this prose ends where the order of boundaries says."""
    demanded = demanded_slices(source, limit)
    found = [slice_of(part) for part in parts]
    for number, (wanted, got) in enumerate(zip(demanded, found, strict=False)):
        if wanted != got:
            return [Breach("boundary", number, f"the slice is {got!r}, the order of boundaries says {wanted!r}")]
    if len(demanded) != len(found):
        return [Breach("boundary", len(found), f"{len(found)} parts instead of {len(demanded)}")]
    return []


def _cut(rest: str, limit: int) -> int:
    """Where the part that begins this text ends: the last boundary of the best kind that fills a third."""
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
