"""The body of a message that is still being written.

Blocks that ended are rendered once and kept; only the open end is rendered each time it is shown, and is read as it is
probably meant: no half link, no star that waits for its pair. What does not fit yet, because where the message ends is
not decided, is held back. This is for what is shown in between: what stays is rendered as a whole by whoever cuts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from tailrace.markdown.cutting import closing_fence
from tailrace.markdown.fast_scan import last_top_level_break
from tailrace.markdown.outline import outline
from tailrace.markdown.unfinished import as_meant
from tailrace.operations import Body

if TYPE_CHECKING:
    from tailrace.markdown.dialects import Ruler

_GAP = "\n\n"
_WORTH_KEEPING = 1_000  # characters; most messages are shorter, and many turns wait with theirs


class PreviewBody:
    """One message that grows; `body` is asked with all of its text each time, which only ever becomes longer."""

    __slots__ = ("_done", "_done_body", "_fits", "_fitted", "_ruler")

    def __init__(self, ruler: Ruler) -> None:
        self._ruler = ruler
        self._done = 0  # how much of the text are blocks that ended and are kept
        self._done_body: Body | None = None
        self._fitted = 0  # how much of the text did, when last asked
        self._fits: int | None = None  # how much of it people see, once that is not all

    def body(self, text: str, footer: str) -> Body | None:
        """What people see of the text, and below it the footer where there is room; None where there is nothing."""
        body = self._rendered(text)
        if not footer:
            return body
        foot = self._ruler.body(footer)
        both = foot if body is None else joined(body, foot)
        return both if self._ruler.load(both) <= self._ruler.limit else body

    def _rendered(self, text: str) -> Body | None:
        if self._fits is not None:
            text = text[: self._fits]
        text = text.rstrip()
        if not text:
            return None
        body = self._grown(text)
        if self._ruler.load(body) <= self._ruler.limit:
            self._fitted = len(text)
            return body
        return self._held_back(text)

    def _held_back(self, text: str) -> Body:
        """Once too long it stays so: people see what fitted last, and only where nothing did it is asked what does."""
        if self._fitted:
            body = self._ruler.body(as_meant(text[: self._fitted]))
            if self._ruler.load(body) <= self._ruler.limit:
                self._fits = self._fitted
                return body
        self._fits = self._ruler.fitting("", text)
        return self._ruler.body(text[: self._fits].rstrip() or text[: self._fits])

    def _grown(self, text: str) -> Body:
        rest = text[self._done :]
        ended = last_top_level_break(rest, len(rest) - 1) if len(rest) > _WORTH_KEEPING else None
        if ended is not None:
            block = self._ruler.body(rest[: ended.end])
            self._done_body = block if self._done_body is None else joined(self._done_body, block)
            self._done += ended.resume
            rest = rest[ended.resume :]
        rest = as_meant(rest)
        if self._ruler.verbatim:
            rest += closing_fence(outline(rest)) if "```" in rest or "~~~" in rest else ""
        body = self._ruler.body(rest)
        return body if self._done_body is None else joined(self._done_body, body)


def joined(before: Body, after: Body) -> Body:
    """Two bodies as one, a blank line between them."""
    offset = len((before.text + _GAP).encode("utf-16-le", "surrogatepass")) // 2
    moved = tuple(msgspec.structs.replace(entity, offset=entity.offset + offset) for entity in after.entities)
    html = markdown = None
    if before.html is not None or after.html is not None:
        html = _html(before) + _html(after)
    if before.markdown is not None or after.markdown is not None:
        markdown = (before.markdown or before.text) + _GAP + (after.markdown or after.text)
    text = before.text + _GAP + after.text
    return Body(text=text, entities=before.entities + moved, html=html, markdown=markdown)


def _html(body: Body) -> str:
    """The body as HTML; one that has none has no markup."""
    if body.html is not None:
        return body.html
    escaped = body.text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return f"<p>{escaped.replace(chr(10), '<br>')}</p>"
