"""The body of a message that is still being written.

Blocks that are complete are rendered once and kept. Only the text after them is rendered on each call. Markup that is
open at its end is closed, so that people see no half link and no single star. Text that does not fit is not shown,
because it is not decided yet where the message ends. When the text is complete, the splitter renders it as a whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from tailrace.markdown.cutting import closing_fence
from tailrace.markdown.fast_scan import last_top_level_break
from tailrace.markdown.open_markup import close_open_markup
from tailrace.markdown.outline import read_outline
from tailrace.operations import Body

if TYPE_CHECKING:
    from tailrace.markdown.dialects import Measurer

_GAP = "\n\n"
_MIN_KEPT = 1_000  # characters; less text is not worth the memory that a kept body takes in each open turn


class PreviewBody:
    """The body of one message that grows. Each call of `body` gets the whole text, which only ever becomes longer."""

    __slots__ = ("_ended", "_ended_body", "_fitting", "_max_shown", "_measurer")

    def __init__(self, measurer: Measurer) -> None:
        self._measurer = measurer
        self._ended = 0  # the length of the text whose blocks have ended
        self._ended_body: Body | None = None
        self._fitting = 0  # the longest text that fitted
        self._max_shown: int | None = None  # the length that is shown, once the whole text does not fit

    def body(self, text: str, footer: str) -> Body | None:
        """The body that shows the text, with the footer below it if there is room; None if nothing is visible."""
        body = self._rendered(text)
        if not footer:
            return body
        foot = self._measurer.body(footer)
        both = foot if body is None else _joined(body, foot)
        return both if self._measurer.body_size(both) <= self._measurer.limit else body

    def _rendered(self, text: str) -> Body | None:
        if self._max_shown is not None:
            text = text[: self._max_shown]
        text = text.rstrip()
        if not text:
            return None
        body = self._whole(text)
        if self._measurer.body_size(body) <= self._measurer.limit:
            self._fitting = len(text)
            return body
        return self._held_back(text)

    def _held_back(self, text: str) -> Body:
        """The body of the beginning of a text that is too long.

        It shows the longest text that fitted in an earlier call; if there was none, the longest that fits.
        """
        if self._fitting:
            body = self._measurer.body(close_open_markup(text[: self._fitting]))
            if self._measurer.body_size(body) <= self._measurer.limit:
                self._max_shown = self._fitting
                return body
        self._max_shown = self._measurer.fitting_length("", text)
        return self._measurer.body(text[: self._max_shown].rstrip() or text[: self._max_shown])

    def _whole(self, text: str) -> Body:
        rest = text[self._ended :]
        end = last_top_level_break(rest, len(rest) - 1) if len(rest) > _MIN_KEPT else None
        if end is not None:
            block = self._measurer.body(rest[: end.end])
            self._ended_body = block if self._ended_body is None else _joined(self._ended_body, block)
            self._ended += end.resume
            rest = rest[end.resume :]
        rest = close_open_markup(rest)
        if self._measurer.is_verbatim:
            rest += closing_fence(read_outline(rest)) if "```" in rest or "~~~" in rest else ""
        body = self._measurer.body(rest)
        return body if self._ended_body is None else _joined(self._ended_body, body)


def _joined(before: Body, after: Body) -> Body:
    """Put two bodies together, with a blank line between them."""
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
    """The HTML of the body. A body without HTML has no markup, so its text is escaped."""
    if body.html is not None:
        return body.html
    escaped = body.text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return f"<p>{escaped.replace(chr(10), '<br>')}</p>"
