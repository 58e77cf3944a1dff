"""A body as its platform shows it, in HTML for the page: text with entities, Markdown, HTML, or nothing but text.

Owns what becomes of each form that a body has; what may stand on a page at all is `safe_html`'s to say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import unescape
from itertools import pairwise
from typing import NamedTuple

from tailrace.cli.preview.safe_html import as_text, link_tags, sanitised
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


def shown(body: Body, dialect: str) -> str:
    """The body as HTML."""
    return _WAYS.get(dialect, _as_text)(body)


class Span(NamedTuple):
    """A style over characters of a text."""

    start: int
    end: int
    entity: Entity


def spans(body: Body) -> list[Span]:
    """The entities of a body by characters of Python instead of UTF-16 units, the outer before the inner."""
    position = [0]  # of the character that each unit belongs to, and the end of the text
    for nth, character in enumerate(body.text, 1):
        position += [nth] if character <= "\uffff" else [nth - 1, nth]
    last = len(position) - 1
    found = [
        Span(position[min(entity.offset, last)], position[min(entity.offset + entity.length, last)], entity)
        for entity in body.entities
    ]
    return sorted(found, key=lambda span: (span.start, -span.end))


def _with_entities(body: Body) -> str:
    """Text and its styles. Where two overlap without nesting, the inner one ends with the outer and begins again."""
    styles = spans(body)
    borders = sorted({0, len(body.text), *(span.start for span in styles), *(span.end for span in styles)})
    out: list[str] = []
    stack: list[Span] = []
    for start, end in pairwise(borders):
        active = [span for span in styles if span.start <= start < span.end]
        text = body.text[start:end]
        kept = 0
        while kept < min(len(stack), len(active)) and stack[kept] is active[kept]:
            kept += 1
        if any(span.entity.type in _BLOCKS for span in stack[kept:]):
            text = text.removeprefix("\n")  # the block has ended its line
        out += [_tags(span.entity)[1] for span in reversed(stack[kept:])]
        out += [_tags(span.entity)[0] for span in active[kept:]]
        out.append(_words(text, active))
        stack = active
    return "".join([*out, *(_tags(span.entity)[1] for span in reversed(stack))])


def _tags(entity: Entity) -> tuple[str, str]:
    """What stands around the text of an entity; nothing where it has no style here."""
    if entity.type == "text_link":
        return link_tags(entity.url or "")
    if entity.type == "pre" and entity.language:
        return f'<pre data-language="{as_text(entity.language)}">', "</pre>"
    tag = _TAGS.get(entity.type)
    return (f"<{tag}>", f"</{tag}>") if tag else ("", "")


def _words(text: str, around: Sequence[Span] = ()) -> str:
    """Text in which addresses are links, as in every chat; not in code, and not in a link."""
    if any(span.entity.type in _CODE or span.entity.type == "text_link" for span in around):
        return as_text(text)
    return "".join(
        as_text(piece).join(link_tags(piece) if is_address else ("", "")) for piece, is_address in split_addresses(text)
    )


def _from_markdown(body: Body) -> str:
    """Markdown as our own page writes it; a platform's dialect has escaped what the platform would take otherwise."""
    return sanitised(html(body.text).html or "")


def _from_slack(body: Body) -> str:
    """As above, but Slack resolves what stands for `&`, `<` and `>` in code as well."""
    return sanitised(html(body.markdown if body.markdown is not None else body.text).html or "", code=unescape)


def _from_html(body: Body) -> str:
    return sanitised(body.html) if body.html is not None else _lines(body)


def _grown_to_html(body: Body) -> str:
    """HTML once it is finished; while it grows it is Markdown still."""
    return sanitised(body.html) if body.html is not None else _from_markdown(body)


def _lines(body: Body) -> str:
    return f"<p>{_words(body.text)}</p>"


def _as_text(body: Body) -> str:
    return as_text(body.text)


_WAYS: dict[str, Callable[[Body], str]] = {
    "telegram": _with_entities,
    "telegram_rich": _from_html,
    "slack": _from_slack,
    "discord": _from_markdown,
    "matrix": _from_html,
    "html": _grown_to_html,
}
