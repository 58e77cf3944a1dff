"""A rendered body as HTML, as its platform would show it: from text with entities, Markdown, HTML or plain text.

`safe_html` decides what may be on a page at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import unescape
from itertools import pairwise
from typing import NamedTuple

from tailrace.cli.preview.safe_html import escaped, link_tags, sanitized
from tailrace.markdown.addresses import split_addresses
from tailrace.markdown.html import html
from tailrace.operations import Body, Entity

_TAGS = {
    "bold": "strong",
    "italic": "em",
    "underline": "u",
    "strikethrough": "del",
    "code": "code",
    "pre": "pre",
    "blockquote": "blockquote",
}
_CODE = frozenset(("code", "pre"))
_BLOCKS = frozenset(("pre", "blockquote"))


def to_html(body: Body, dialect: str) -> str:
    """The body as HTML."""
    match dialect:
        case "telegram":
            return _with_entities(body)
        case "slack":
            # Slack resolves the escapes of `&`, `<` and `>` in code, too.
            return _from_markdown(body.markdown if body.markdown is not None else body.text, code=unescape)
        case "matrix" | "telegram_rich" | "html" if body.html is not None:
            return sanitized(body.html)
        case "matrix" | "telegram_rich":
            return f"<p>{_with_links(body.text)}</p>"
        case "discord" | "html":  # a body of `html` is Markdown while it streams
            return _from_markdown(body.text)
    return escaped(body.text)


class _Span(NamedTuple):
    """An entity with its range, in characters of Python."""

    start: int
    end: int
    entity: Entity


def _spans(body: Body) -> list[_Span]:
    """The entities of a body, the outer before the inner. Their offsets come in UTF-16 units."""
    position = [0]  # the character that each unit belongs to, and the end of the text
    for nth, character in enumerate(body.text, 1):
        position += [nth] if character <= "\uffff" else [nth - 1, nth]
    last = len(position) - 1
    found = [
        _Span(position[min(entity.offset, last)], position[min(entity.offset + entity.length, last)], entity)
        for entity in body.entities
    ]
    return sorted(found, key=lambda span: (span.start, -span.end))


def _with_entities(body: Body) -> str:
    """Text and its styles. If two overlap without nesting, the inner one is closed and opened again."""
    styles = _spans(body)
    borders = sorted({0, len(body.text), *(span.start for span in styles), *(span.end for span in styles)})
    out: list[str] = []
    stack: list[_Span] = []
    for start, end in pairwise(borders):
        active = [span for span in styles if span.start <= start < span.end]
        text = body.text[start:end]
        kept = 0
        while kept < min(len(stack), len(active)) and stack[kept] is active[kept]:
            kept += 1
        if any(span.entity.type in _BLOCKS for span in stack[kept:]):
            text = text.removeprefix("\n")  # a block element already ends the line
        out += [_tags(span.entity)[1] for span in reversed(stack[kept:])]
        out += [_tags(span.entity)[0] for span in active[kept:]]
        out.append(_with_links(text, active))
        stack = active
    return "".join([*out, *(_tags(span.entity)[1] for span in reversed(stack))])


def _tags(entity: Entity) -> tuple[str, str]:
    """The tags around the text of an entity; empty if it has no style here."""
    if entity.type == "text_link":
        return link_tags(entity.url or "")
    if entity.type == "pre" and entity.language:
        return f'<pre data-language="{escaped(entity.language)}">', "</pre>"
    tag = _TAGS.get(entity.type)
    return (f"<{tag}>", f"</{tag}>") if tag else ("", "")


def _with_links(text: str, around: Sequence[_Span] = ()) -> str:
    """The text with URLs as links, as every chat shows them; not inside code or another link."""
    if any(span.entity.type in _CODE or span.entity.type == "text_link" for span in around):
        return escaped(text)
    return "".join(
        escaped(piece).join(link_tags(piece) if is_address else ("", "")) for piece, is_address in split_addresses(text)
    )


def _from_markdown(text: str, *, code: Callable[[str], str] = str) -> str:
    """Markdown as HTML. The platform's dialect has already escaped text that only looks like markup."""
    return sanitized(html(text).html or "", code=code)
