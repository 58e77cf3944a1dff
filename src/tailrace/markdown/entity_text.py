"""Build a text together with the ranges of its styles, for platforms that take styles beside the text, as a list.

This module owns the offsets of the ranges: they count UTF-16 units. No range is empty, goes beyond the text, or has
whitespace at its edges.
"""

from __future__ import annotations

import re
from bisect import bisect_left

from tailrace.operations import Entity

_SPACE = "".join(map(chr, range(33)))  # platforms treat control characters as spaces

_WIDE = re.compile("[\U00010000-\U0010ffff]")  # these take two UTF-16 units


class EntityText:
    """A growing text with the styles of its ranges. Positions count characters; `finish` converts them to UTF-16."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._marks: list[tuple[int, int, Entity]] = []
        self.position = 0

    def write(self, text: str) -> None:
        """Add text at the end."""
        self._pieces.append(text)
        self.position += len(text)

    def mark(self, kind: str, start: int, *, url: str | None = None, language: str | None = None) -> None:
        """Give the text from `start` to the present end a style of this kind. Styles may be nested."""
        entity = Entity(type=kind, offset=0, length=0, url=url, language=language)
        self._marks.append((start, self.position, entity))

    def finish(self) -> tuple[str, list[Entity]]:
        """The text without whitespace at its end, and its styles in order. An outer style comes before an inner one."""
        text = "".join(self._pieces).rstrip(_SPACE)
        wide = [] if text.isascii() else [found.start() for found in _WIDE.finditer(text)]
        entities = []
        for start, end, entity in reversed(self._marks):  # of two nested ranges, the inner one was marked first
            covered = text[start:end].lstrip(_SPACE)
            first = min(end, len(text)) - len(covered)
            last = first + len(covered.rstrip(_SPACE))
            if first < last:
                offset = first + bisect_left(wide, first)
                length = last + bisect_left(wide, last) - offset
                entities.append(
                    Entity(type=entity.type, offset=offset, length=length, url=entity.url, language=entity.language)
                )
        return text, sorted(entities, key=lambda entity: (entity.offset, -entity.length))
