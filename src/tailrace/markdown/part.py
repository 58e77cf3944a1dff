"""A part: one piece of a text that fits a message, with the markup that makes the piece valid alone."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from tailrace.operations import Body


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """The piece of a text that goes into one message.

    `text` is Markdown that is valid alone: the added markup `opened`, then a slice of the source, then the added markup
    `closed`. `body` is `text` rendered for the dialect, and `size` is the size of the body in the unit. `seam` is the
    whitespace of the source between this part and the next, which no part shows. Only the first part has a `lead`: the
    whitespace at the very beginning of the source.
    """

    text: str
    body: Body
    size: int
    opened: str = ""
    closed: str = ""
    seam: str = ""
    lead: str = ""

    @property
    def source(self) -> str:
        """The slice of the source that this part contains."""
        return self.text[len(self.opened) : len(self.text) - len(self.closed)]


def join(parts: Iterable[Part]) -> str:
    """Put the parts together again: the result is exactly the source that was split."""
    return "".join(part.lead + part.source + part.seam for part in parts)
