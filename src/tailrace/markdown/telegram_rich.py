"""The dialect `telegram_rich`: a Telegram message with headings, lists and tables.

The message is sent as HTML (`InputRichMessage.html`). Telegram accepts Markdown too, but reads dollar signs and
brackets as formulas and footnotes, which agents do not mean. This module owns the limits of such a message. Text and
entities are those of the dialect `telegram`, for clients that cannot show the HTML; they may exceed an ordinary message
and must then be cut.
"""

from __future__ import annotations

import re
from html import escape, unescape

import msgspec

from tailrace.markdown import graphemes, units
from tailrace.markdown.html import HtmlRules, to_html
from tailrace.markdown.links import scheme
from tailrace.markdown.outline import replace_surrogates
from tailrace.markdown.parsing import parse
from tailrace.markdown.telegram import break_mentions, is_linkable, is_visible, telegram
from tailrace.operations import Body

_MAX_COLUMNS = 20
# A message has at most 32,768 characters and 500 blocks. The first hundred blocks are free; each further one counts as
# this many characters. So a message within the limit of characters has at most 500 blocks, also if the limit is lower.
_FREE_BLOCKS = 100
_BLOCK_SHARE = 82
_TAG = re.compile(r"<[^>]*>")
_BLOCK = re.compile(r"<(?:p|h[1-6r]|pre|blockquote|[uo]l|table|tr|li)\b")
_ITEM = "<li>"  # counts twice: one block for the item, one for its content


def _is_web(url: str) -> bool:
    return is_linkable(url) and scheme(url) in ("http", "https")


_RULES = HtmlRules(
    links=_is_web,
    aligned=True,
    sectioned=False,
    max_columns=_MAX_COLUMNS,
    break_mentions=break_mentions,
    checkbox='input type="checkbox"',
    # The limit is 16 levels of blocks and styles. Telegram does not say whether a list with its item is one or two.
    max_container_depth=8,
    max_style_depth=13,
)


def telegram_rich(source: str) -> Body:
    """Render Markdown as HTML for Telegram, and also as text with entities."""
    body = telegram(source)
    html = to_html(parse(source), _RULES)
    if graphemes.is_one_character(replace_surrogates(source).strip()) or not is_visible(_visible(html)):
        html = f"<p>{escape(body.text)}</p>"  # one character is no mention; as it is, it fits any limit
    return msgspec.structs.replace(body, html=html)


def size(body: Body, unit: str) -> int:
    """How much of the limit a body takes: the visible text in its longer form, or its blocks, whichever takes more."""
    html = body.html or ""
    blocks = len(_BLOCK.findall(html)) + html.count(_ITEM)
    visible_size = max(units.size(body.text, unit), units.size(_visible(html), unit))
    return max(visible_size, (blocks - _FREE_BLOCKS) * _BLOCK_SHARE)


def _visible(html: str) -> str:
    return unescape(_TAG.sub("", html))
