"""Judge the parts of any splitter by their texts alone, for the bench.

Other splitters declare nothing about their cuts and may rewrite the markup. So lines are recognized by their letters
and digits only.
"""

from __future__ import annotations

import itertools
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import regex

from cutting_laws.parts import measure
from cutting_laws.reading import Reading, read

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_SPAN = 12  # characters on each side of a cut: enough to find it in the source, few enough to survive a trim


class Defects(NamedTuple):
    """How often the parts of one text break what a reader relies on."""

    over_limit: int
    broken_fences: int
    headless_tables: int
    cut_graphemes: int
    lost_text: int


def judge_texts(source: str, texts: Sequence[str], limit: int, unit: str = "code_points") -> Defects:
    """Count the parts over the limit, with a broken fence, and with rows that lack their header; the cuts inside a
    grapheme cluster; and the letters and digits of the source that are in no part.
    """
    reading = read(source)
    code = _code_keys(source, reading)
    headers = _row_headers(source, reading)
    return Defects(
        over_limit=sum(measure(text, unit) > limit for text in texts),
        broken_fences=sum(_breaks_fence(text, code) for text in texts),
        headless_tables=sum(_lacks_header(text, headers) for text in texts),
        cut_graphemes=sum(_cuts_cluster(source, a, b) for a, b in itertools.pairwise(texts)),
        lost_text=(_letters(glyph.char for glyph in reading.glyphs) - _letters("".join(texts))).total(),
    )


def _key(line: str) -> str:
    return "".join(char for char in line if char.isalnum())


def _letters(chars: Iterable[str]) -> Counter[str]:
    return Counter(char for char in chars if char.isalnum())


def _lines(text: str) -> Iterator[tuple[int, str]]:
    offset = 0
    for line in text.splitlines(keepends=True):
        yield offset, line
        offset += len(line)


def _code_keys(source: str, reading: Reading) -> frozenset[str]:
    """The lines that are in fenced code and nowhere else."""
    inside: set[str] = set()
    outside: set[str] = set()
    bodies = iter(sorted(block.body for block in reading.of("fence")))
    body = next(bodies, (len(source), len(source)))
    for offset, line in _lines(source):
        while offset >= body[1]:
            body = next(bodies, (len(source), len(source) + 1))
        (inside if offset + len(line) > body[0] else outside).add(_key(line))
    return frozenset(inside - outside - {""})


def _breaks_fence(text: str, code: frozenset[str]) -> bool:
    fences = read(text).of("fence")
    if any(not block.closed for block in fences):
        return True
    bodies = [block.body for block in fences]
    return any(
        _key(line) in code and not any(start < offset + len(line) and offset < end for start, end in bodies)
        for offset, line in _lines(text)
    )


def _row_headers(source: str, reading: Reading) -> dict[str, set[str]]:
    """For each row of a table the headers it may be under."""
    headers: dict[str, set[str]] = {}
    for table in reading.of("table"):
        header = _key(table.opener)
        for row in source[table.body[0] : table.end].splitlines():
            headers.setdefault(_key(row), set()).add(header)
    headers.pop("", None)
    return headers


def _lacks_header(text: str, headers: dict[str, set[str]]) -> bool:
    seen: set[str] = set()
    for line in text.splitlines():
        key = _key(line)
        if key in headers and not headers[key] & seen:
            return True
        seen.add(key)
    return False


def _cuts_cluster(source: str, before: str, after: str) -> bool:
    tail, head = before[-_SPAN:], after[:_SPAN]
    at = source.find(tail + head)
    if at < 0:
        return False  # whitespace or markup is between them
    cut = at + len(tail)
    window = source[max(0, cut - 40) : cut + 40]
    return min(cut, 40) not in {match.start() for match in regex.finditer(r"\X", window)}
