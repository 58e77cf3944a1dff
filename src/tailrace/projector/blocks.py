"""Paragraphs gathered into messages: small ones go out together, none is changed.

What is gathered stands as it stood in the source, blank lines and all. A message that was sent before, by a former
process or before text was taken back, is found again: paragraphs are gathered as they were then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.projector.message import body_hash

if TYPE_CHECKING:
    from tailrace.markdown.dialects import Ruler
    from tailrace.markdown.part import Part
    from tailrace.operations import Body
    from tailrace.projector.message import BodyHash


class Blocks:
    """Parts in, one for each paragraph; bodies of messages out, of `least` characters where there are so many."""

    __slots__ = ("_least", "_ruler", "_waiting")

    def __init__(self, ruler: Ruler, least: int) -> None:
        self._ruler = ruler
        self._least = least
        self._waiting: list[Part] = []

    @property
    def is_gathering(self) -> bool:
        """Whether any paragraph waits for others."""
        return bool(self._waiting)

    def forget(self) -> None:
        """The text is cut anew: begin again."""
        self._waiting = []

    def take(self, parts: list[Part]) -> None:
        """Further parts of the text."""
        self._waiting += parts

    @property
    def gathered(self) -> str:
        """What waits, as it was said."""
        return "".join(part.text + part.seam for part in self._waiting)

    def next(self, known: BodyHash | None, *, gather: bool) -> tuple[Body, str] | None:
        """The next message, and its text; None where none is ready. `known`: what it says already, if it was sent."""
        count = self._count(known, gather=gather)
        if count == 0:
            return None
        group, self._waiting = self._waiting[:count], self._waiting[count:]
        return self._body(group), _text(group)

    def _count(self, known: BodyHash | None, *, gather: bool) -> int:
        """How many of the waiting parts make the next message."""
        best = 0
        for count in range(1, len(self._waiting) + 1):
            group = self._waiting[:count]
            if count > 1 and not self._goes_together(group):
                return best
            best = count
            if known is not None and body_hash(self._body(group)) == known:
                return count
            if known is None and sum(len(part.text) for part in group) >= self._least:
                return count
        return 0 if gather else best

    def _goes_together(self, group: list[Part]) -> bool:
        """Whether the last of them can stand in one message with those before it."""
        if group[-1].opened or group[-2].closed:
            return False
        return self._ruler.load(self._body(group)) <= self._ruler.limit

    def _body(self, group: list[Part]) -> Body:
        if len(group) == 1:
            return group[0].body
        return self._ruler.body(_text(group))


def _text(group: list[Part]) -> str:
    return "".join(part.text + part.seam for part in group[:-1]) + group[-1].text
