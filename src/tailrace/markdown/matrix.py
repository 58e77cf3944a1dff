"""The dialect `matrix`: a text that reads well alone, and the same as HTML of the subset the specification allows.

Owns what a Matrix client may be given: the schemes of links, and that nobody is called to a room by accident. Servers
look for `@room` in the text, and in code as well, so a character of no width parts it there wherever it stands; in
the HTML code stays as it was written. The HTML itself is written by `html`.
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
# An event has at most 65,536 bytes, and an edit carries text and HTML twice: a part of 7,500 bytes leaves room for
# both with the names of the event around them, and so does HTML that is larger than its text by this much.
_FREE_MARKUP = 1024


def _break_mentions(text: str) -> str:
    return _ROOM_MENTION.sub("@\u200b", text)


_RULES = HtmlRules(links=has_scheme("https", "http", "ftp", "mailto", "magnet"), break_mentions=_break_mentions)


def matrix(source: str) -> Body:
    """The text as body and formatted body; as body alone where HTML would say nothing more."""
    blocks = parse(source)
    text = plain_text(blocks)
    if not text.strip():
        return Body(text=_break_mentions(replace_surrogates(source).strip()))
    return Body(text=_break_mentions(text), html=None if all(map(_is_bare, blocks)) else to_html(blocks, _RULES))


def size(body: Body, unit: str) -> int:
    """How much of a limit the body takes: its text, or a share of all that an edit carries as JSON if that is more."""
    carried = len(msgspec.json.encode(body.text)) + len(msgspec.json.encode(body.html or ""))
    return max(units.size(body.text, unit), -(-(carried - _FREE_MARKUP) // 4))


def _is_bare(block: Block) -> bool:
    """Whether the block has no markup: its text, line by line, is all there is to say."""
    if not isinstance(block, Paragraph):
        return False
    return all(isinstance(inline, Text | InlineHtml | SoftBreak | HardBreak) for inline in block.inlines)
