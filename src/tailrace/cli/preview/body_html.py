"""Converts a rendered body (text with entities, Markdown, HTML or plain text) to HTML that looks as on its platform.

Markup that an agent wrote must appear as text. The dialects escape it, and this module escapes text with entities. The
content security policy of the page is a second protection.
"""

from __future__ import annotations

import re
from html import escape, unescape
from itertools import pairwise

from tailrace.markdown.addresses import split_addresses
from tailrace.markdown.html import html
from tailrace.markdown.layout import TASK_MARKS
from tailrace.operations import Body, Entity

_ENTITY_TAGS = {
    "bold": "strong",
    "italic": "em",
    "underline": "u",
    "strikethrough": "del",
    "code": "code",
    "pre": "pre",
    "blockquote": "blockquote",
}
_WITHOUT_LINKS = frozenset(("code", "pre", "text_link"))
_BLOCKS = frozenset(("pre", "blockquote"))
_LINKED = re.compile(r"(?:https?|ftp|mailto|magnet|tg):.*", re.IGNORECASE | re.DOTALL)
_IN_CODE = re.compile("(?<=>)[^<>]*(?=</code>)")
_CHECKBOX = re.compile(r'<input type="checkbox"( checked)?>')
# Control characters. Browsers do not show them.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def to_html(body: Body, dialect: str) -> str:
    """Convert a body, rendered for this dialect, to HTML."""
    match dialect:
        case "telegram":
            return _from_entities(body)
        case "slack":
            # Slack also shows the escapes of `&`, `<` and `>` as these characters if they are in code.
            markdown = body.markdown if body.markdown is not None else body.text
            return _IN_CODE.sub(lambda code: escape(unescape(unescape(code[0]))), _from_markdown(markdown))
        case "matrix" | "telegram_rich" | "html" if body.html is not None:
            return _for_page(body.html)
        case "matrix" | "telegram_rich":
            return f"<p>{_with_links(body.text)}</p>"
        case "discord" | "html":  # a body of `html` is Markdown while it streams
            return _from_markdown(body.text)
    return escaped(body.text)


def escaped(text: str) -> str:
    """The text escaped for HTML. Control characters become U+FFFD, because browsers do not show them."""
    return escape(_CONTROLS.sub("\ufffd", text))


def _from_entities(body: Body) -> str:
    """Convert a text with entities (styles as ranges) to HTML.

    If two styles overlap and neither contains the other, the inner one is closed and opened again.
    """
    styles = _by_character(body)
    borders = sorted({0, len(body.text), *(border for start, end, _ in styles for border in (start, end))})
    out: list[str] = []
    stack: list[Entity] = []
    for start, end in pairwise(borders):
        active = [entity for first, last, entity in styles if first <= start < last]
        text = body.text[start:end]
        kept = 0
        while kept < min(len(stack), len(active)) and stack[kept] is active[kept]:
            kept += 1
        if any(entity.type in _BLOCKS for entity in stack[kept:]):
            text = text.removeprefix("\n")  # the end of a block element is already a line end
        out += [_entity_tags(entity)[1] for entity in reversed(stack[kept:])]
        out += [_entity_tags(entity)[0] for entity in active[kept:]]
        out.append(escaped(text) if any(entity.type in _WITHOUT_LINKS for entity in active) else _with_links(text))
        stack = active
    return "".join([*out, *(_entity_tags(entity)[1] for entity in reversed(stack))])


def _by_character(body: Body) -> list[tuple[int, int, Entity]]:
    """The entities with ranges that count characters, outer entities first. Entities themselves count UTF-16 units."""
    position = [0]  # the index of the character for each UTF-16 unit
    for nth, character in enumerate(body.text, 1):
        position += [nth] if character <= "\uffff" else [nth - 1, nth]
    last = len(position) - 1
    found = [
        (position[min(entity.offset, last)], position[min(entity.offset + entity.length, last)], entity)
        for entity in body.entities
    ]
    return sorted(found, key=lambda span: (span[0], -span[1]))


def _entity_tags(entity: Entity) -> tuple[str, str]:
    """The opening and the closing tag for an entity; empty if the page has no style for it."""
    if entity.type == "text_link":
        return _link_tags(entity.url or "")
    if entity.type == "pre" and entity.language:
        return f'<pre data-language="{escaped(entity.language)}">', "</pre>"
    tag = _ENTITY_TAGS.get(entity.type)
    return (f"<{tag}>", f"</{tag}>") if tag else ("", "")


def _with_links(text: str) -> str:
    """The text with its URLs as links, because every chat shows URLs as links."""
    return "".join(
        escaped(piece).join(_link_tags(piece) if is_address else ("", ""))
        for piece, is_address in split_addresses(text)
    )


def _link_tags(url: str) -> tuple[str, str]:
    """The opening and the closing tag of a link to this address; empty if links with its scheme are not allowed."""
    if not _LINKED.fullmatch(url):
        return "", ""
    return f'<a href="{escaped(url)}">', "</a>"


def _from_markdown(text: str) -> str:
    """Convert Markdown to HTML. The dialect has already escaped text that only looks like markup."""
    return _for_page(html(text).html or "")


def _for_page(html: str) -> str:
    """Prepare the HTML of a dialect for the page: remove control characters, and write checkboxes as characters."""
    return _CHECKBOX.sub(lambda box: TASK_MARKS[box[1] is not None], _CONTROLS.sub("\ufffd", html))
