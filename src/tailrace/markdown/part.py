"""A part: one piece of a text that fits a message, with what the cut added to make it valid alone."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from tailrace.operations import Body


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One message's share of a text.

    `text` is Markdown that is valid alone: it is `opened`, then a slice of the source, then `closed`. `body` is `text`
    rendered for the dialect, and `size` is its size in the unit. `seam` is the whitespace of the source that was left
    out after the slice. Only the first part has a `lead`: the whitespace before its slice.
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
    """Exactly the source that was split."""
    return "".join(part.lead + part.source + part.seam for part in parts)
