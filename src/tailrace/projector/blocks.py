"""Puts paragraphs together into messages: short paragraphs share one message, and no paragraph is changed.

Paragraphs in one message keep their source text, blank lines included. After a crash or a retraction, the paragraphs of
a message that was already sent are put together in the same way again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.projector.message import body_hash

if TYPE_CHECKING:
    from tailrace.markdown.dialects import Measurer
    from tailrace.markdown.part import Part
    from tailrace.operations import Body
    from tailrace.projector.message import BodyHash


class Blocks:
    """Collects parts, each of them one paragraph, and makes messages of them.

    A message has at least `min_characters`, if enough text comes in time.
    """

    __slots__ = ("_measurer", "_min_characters", "_waiting")

    def __init__(self, measurer: Measurer, min_characters: int) -> None:
        self._measurer = measurer
        self._min_characters = min_characters
        self._waiting: list[Part] = []

    @property
    def has_waiting(self) -> bool:
        """Whether a paragraph is not in a message yet, because more paragraphs may share its message."""
        return bool(self._waiting)

    @property
    def waiting_text(self) -> str:
        """The source text of the paragraphs that are not in a message yet."""
        return "".join(part.text + part.seam for part in self._waiting)

    def clear(self) -> None:
        """Forget the paragraphs that are not in a message yet: the text is cut again from its beginning."""
        self._waiting = []

    def add(self, parts: list[Part]) -> None:
        """Add the next parts of the text, each of them one paragraph."""
        self._waiting += parts

    def next(self, sent: BodyHash | None, *, gather: bool) -> tuple[Body, str] | None:
        """Take the next message: its body and its source text. None if not enough paragraphs wait for a message.

        `sent` is the body that was already sent for this message, if any: then the same paragraphs are taken again.
        With `gather=False`, a short message is returned too.
        """
        count = self._count(sent, gather=gather)
        if count == 0:
            return None
        group, self._waiting = self._waiting[:count], self._waiting[count:]
        return self._body(group), _source(group) + group[-1].seam

    def _count(self, sent: BodyHash | None, *, gather: bool) -> int:
        """How many of the waiting paragraphs make the next message; 0 to wait for more."""
        best = 0
        for count in range(1, len(self._waiting) + 1):
            group = self._waiting[:count]
            if count > 1 and not self._is_one_message(group):
                return best
            best = count
            if sent is not None and body_hash(self._body(group)) == sent:
                return count
            if sent is None and sum(len(part.text) for part in group) >= self._min_characters:
                return count
        return 0 if gather else best

    def _is_one_message(self, group: list[Part]) -> bool:
        """Whether the last part of the group fits into one message with the parts before it."""
        if group[-1].opened or group[-2].closed:
            return False
        return self._measurer.body_size(self._body(group)) <= self._measurer.limit

    def _body(self, group: list[Part]) -> Body:
        if len(group) == 1:
            return group[0].body
        return self._measurer.body(_source(group))


def _source(group: list[Part]) -> str:
    return "".join(part.text + part.seam for part in group[:-1]) + group[-1].text
