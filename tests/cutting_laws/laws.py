"""The laws of cutting as functions from a text and its parts to the breaches found.

Laws 1, 2, 5 and 6 hold for every text, limit, unit and dialect. `judge` checks them here, and laws 3 and 7 as far as
they always hold (`cutting_laws.structure`). Law 3 character by character is `check_meaning` there, law 7 for prose is
`cutting_laws.prose`, law 4 is `cutting_laws.feeding`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import regex

from cutting_laws import structure
from cutting_laws.parts import Breach, locate, measure

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tailrace.markdown import Part

_WORD = re.compile(r"[^\W_]+")


def judge(
    source: str, parts: Sequence[Part], limit: int, unit: str = "code_points", dialect: str = "markdown"
) -> list[Breach]:
    """Every breach of the laws that hold for any text and any limit."""
    breaches = [*fit(parts, limit, unit, dialect), *lossless(source, parts), *progress(source, parts)]
    if breaches:
        return breaches  # the other checks use offsets, which mean nothing if the slices are wrong
    return [*whole_graphemes(source, parts, limit, unit), *structure.judge(source, parts, limit, unit, dialect)]


def fit(parts: Sequence[Part], limit: int, unit: str, dialect: str) -> Iterator[Breach]:
    """Law 1: each part as rendered is within the limit, and its size is correct."""
    for index, part in enumerate(parts):
        size = measure(part.body.text, unit)
        if size > limit:
            yield Breach("fit", index, f"the body has {size} {unit}, the limit is {limit}")
        if size != part.size:
            yield Breach("fit", index, f"the part says its size is {part.size}, the body has {size} {unit}")
        if dialect == "markdown" and part.body.text != part.text:
            yield Breach("fit", index, "in the dialect markdown the body is the text itself")


def lossless(source: str, parts: Sequence[Part]) -> Iterator[Breach]:
    """Law 2: the parts rebuild the source, and only whitespace was left out."""
    if not parts:
        if source.strip():
            yield Breach("lossless", 0, "the source is not blank and there is no part")
        return
    for index, part in enumerate(parts):
        if not part.text.startswith(part.opened) or not part.text.endswith(part.closed):
            yield Breach("lossless", index, "the text does not begin with `opened` and end with `closed`")
        if len(part.text) < len(part.opened) + len(part.closed):
            yield Breach("lossless", index, "`opened` and `closed` overlap")
        if part.seam.strip() or part.lead.strip():
            yield Breach("lossless", index, f"more than whitespace consumed: {part.lead!r}, {part.seam!r}")
        if index and part.lead:
            yield Breach("lossless", index, "only the first part has a lead")
        for word in _WORD.findall(f"{part.opened} {part.closed}"):
            if word not in source:
                yield Breach("lossless", index, f"the cut added {word!r}, which the source never says")
    rebuilt = "".join(part.lead + part.source + part.seam for part in parts)
    if rebuilt != source:
        common = next((i for i, (a, b) in enumerate(zip(rebuilt, source, strict=False)) if a != b), -1)
        yield Breach("lossless", len(parts) - 1, f"rebuilt text differs from the source at {common}")


def progress(source: str, parts: Sequence[Part]) -> Iterator[Breach]:
    """Law 5: blank text gives no parts, and no part is blank or without text of the source."""
    if parts and not source.strip():
        yield Breach("progress", 0, "the source is blank and there are parts")
    for index, part in enumerate(parts):
        if not part.text.strip():
            yield Breach("progress", index, "the part is blank")
        if not part.body.text.strip():
            yield Breach("progress", index, f"the body of {part.text!r} is blank")
        if not part.source:
            yield Breach("progress", index, "the part holds nothing of the source")


def whole_graphemes(source: str, parts: Sequence[Part], limit: int, unit: str) -> Iterator[Breach]:
    """Law 6: no part begins or ends inside a grapheme cluster that fits a part alone."""
    clusters = [match.span() for match in regex.finditer(r"\X", source)]
    borders = {start for start, _ in clusters} | {len(source)}
    for index, part, start, end in locate(parts):
        for cut in (start, end):
            if cut in borders:
                continue
            left, right = next(span for span in clusters if span[0] < cut < span[1])
            wrapped = part.opened + source[left:right] + part.closed
            if measure(wrapped, unit) <= limit:
                yield Breach("graphemes", index, f"cut at {cut} inside {source[left:right]!r}")
