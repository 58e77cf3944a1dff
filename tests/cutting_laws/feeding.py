"""Law 4: the parts depend only on the text and come as soon as they are certain.

These checks feed a `Splitter` and compare its parts with those of `split` and with the text fed so far.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from cutting_laws.parts import Breach
from tailrace.markdown import Part, Splitter, split

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


def feed_all(pieces: Iterable[str], limit: int, unit: str = "code_points", dialect: str = "markdown") -> list[Part]:
    """The parts of a text that arrives in these pieces."""
    splitter = Splitter(limit, unit=unit, dialect=dialect)
    parts = [part for piece in pieces for part in splitter.feed(piece)]
    return parts + splitter.close()


def check_feeding(
    source: str, cuts: Sequence[int], limit: int, unit: str = "code_points", dialect: str = "markdown"
) -> list[Breach]:
    """Law 4, first half: the text fed in pieces gives the parts of the whole text."""
    whole = split(source, limit, unit=unit, dialect=dialect)
    borders = [0, *sorted(cuts), len(source)]
    pieces = [source[a:b] for a, b in itertools.pairwise(borders)]
    fed = feed_all(pieces, limit, unit, dialect)
    if fed == whole:
        return []
    differing = next((i for i, (a, b) in enumerate(zip(whole, fed, strict=False)) if a != b), min(len(whole), len(fed)))
    got = fed[differing].text if differing < len(fed) else None
    wanted = whole[differing].text if differing < len(whole) else None
    return [Breach("partition", differing, f"fed as {pieces!r}: {got!r} instead of {wanted!r}")]


def check_lookahead(source: str, limit: int) -> list[Breach]:
    """Law 4, second half, for any Markdown in code points: no part is held back past the lookahead.

    A part is due one further limit of text after the first character that did not fit.
    """
    return _check_delay(source, limit, limit + 1)


def check_no_delay(source: str, limit: int) -> list[Breach]:
    """Law 4, second half, for plain paragraphs: a part comes with the first character that does not fit."""
    return _check_delay(source, limit, 0)


def _check_delay(source: str, limit: int, allowed: int) -> list[Breach]:
    for fed, pending, number in _pendings(source, limit):
        excess = first_excess(pending, limit)
        if excess is not None and len(pending) - excess - 1 >= allowed:
            return [Breach("prompt", number, f"after {fed} characters {len(pending)} are still held: {pending!r}")]
    return []


def first_excess(pending: str, limit: int) -> int | None:
    """The offset of the first character that cannot be in the part this text begins."""
    return next((at for at in range(limit, len(pending)) if not pending[at].isspace()), None)


def _pendings(source: str, limit: int) -> Iterator[tuple[int, str, int]]:
    """After each character: how much was fed, what of it is in no part yet, the number of that part."""
    splitter = Splitter(limit)
    number = taken = 0
    for fed, char in enumerate(source, start=1):
        for part in splitter.feed(char):
            taken += len(part.lead + part.source + part.seam)
            number += 1
        yield fed, source[taken:fed].lstrip(), number
