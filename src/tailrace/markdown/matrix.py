"""The dialect `matrix`: a plain text, and the same content as HTML with the tags that the Matrix specification allows.

This module owns what a Matrix client accepts: the schemes of links, and no `@room` mention. Servers look for `@room` in
the whole text, also in code, so a zero-width space breaks it there. Code in the HTML stays as written. The module
`html` writes the HTML.
"""

from __future__ import annotations

import re

import msgspec

from tailrace.markdown import units
from tailrace.markdown.html import HtmlRules, has_scheme, to_html
from tailrace.markdown.outline import replace_surrogates
from tailrace.markdown.parsing import parse
from tailrace.markdown.plain import plain_text
from tailrace.markdown.syntax_tree import Block, HardBreak, InlineHtml, Paragraph, SoftBreak, Text
from tailrace.operations import Body

_ROOM_MENTION = re.compile(r"@(?=room)", re.IGNORECASE)
# An event has at most 65,536 bytes, and an edit carries text and HTML twice. A part of 7,500 bytes leaves room for both
# and for the rest of the event, even if the HTML is larger than the text by this many bytes.
_FREE_MARKUP = 1024


def _break_mentions(text: str) -> str:
    return _ROOM_MENTION.sub("@\u200b", text)


_RULES = HtmlRules(links=has_scheme("https", "http", "ftp", "mailto", "magnet"), break_mentions=_break_mentions)


def matrix(source: str) -> Body:
    """Render Markdown as text and as HTML for Matrix. The HTML is left out if it would add nothing to the text."""
    blocks = parse(source)
    text = plain_text(blocks)
    if not text.strip():
        return Body(text=_break_mentions(replace_surrogates(source).strip()))
    return Body(text=_break_mentions(text), html=None if all(map(_has_no_markup, blocks)) else to_html(blocks, _RULES))


def size(body: Body, unit: str) -> int:
    """How much of the limit the body takes: the size of its text, or a quarter of its edit as JSON if that is more.

    An edit sends text and HTML twice, and Matrix limits the whole event.
    """
    edit_size = len(msgspec.json.encode(body.text)) + len(msgspec.json.encode(body.html or ""))
    return max(units.size(body.text, unit), -(-(edit_size - _FREE_MARKUP) // 4))


def _has_no_markup(block: Block) -> bool:
    """Whether the block needs no HTML, because its plain text shows the same."""
    if not isinstance(block, Paragraph):
        return False
    return all(isinstance(inline, Text | InlineHtml | SoftBreak | HardBreak) for inline in block.inlines)
