"""Reads a body as a person sees it on each platform: its code with the language, and its bold words.

It follows the platform's own rules and shares no code with the dialects, so that it can judge them.
"""

from __future__ import annotations

import re
from html import unescape
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tailrace.operations import Body, Entity

_FENCED = re.compile(r"^```([^\n`]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PRE = re.compile(r'<pre><code(?: class="language-([^"]*)")?>(.*?)</code></pre>', re.DOTALL)
_TWO_STARS = re.compile(r"\*\*(.+?)\*\*", re.DOTALL)
_ONE_STAR = re.compile(r"\*(.+?)\*", re.DOTALL)
_STRONG = re.compile("<strong>(.*?)</strong>", re.DOTALL)


class Code(NamedTuple):
    """One block of code."""

    language: str
    text: str


def code_in(channel: str, body: Body) -> list[Code]:
    """The blocks of code in a message; a no-break space in an indentation counts as a space."""
    match channel:
        case "telegram":
            pre = [entity for entity in body.entities if entity.type == "pre"]
            found = [Code(entity.language or "", covered(body, entity)) for entity in pre]
        case "slack":
            found = [Code(*block) for block in _FENCED.findall(unescape(body.markdown or ""))]
        case "discord":
            found = [Code(*block) for block in _FENCED.findall(body.text)]
        case _:
            found = [Code(language, unescape(text)) for language, text in _PRE.findall(body.html or "")]
    return [Code(language.strip(), _as_typed(text)) for language, text in found]


def _as_typed(code: str) -> str:
    return code.replace("\xa0", " ").replace("\u200b", "").strip("\n")


def bold_in(channel: str, body: Body) -> str:
    """The bold words of a message."""
    match channel:
        case "telegram":
            return " ".join(covered(body, entity) for entity in body.entities if entity.type == "bold")
        case "slack":
            return " ".join(_ONE_STAR.findall(body.text))
        case "discord":
            return " ".join(_TWO_STARS.findall(body.text))
        case _:
            return " ".join(_STRONG.findall(body.html or ""))


def covered(body: Body, entity: Entity) -> str:
    """The text of an entity, whose offsets count UTF-16 units."""
    units = body.text.encode("utf-16-le")
    start, end = 2 * entity.offset, 2 * (entity.offset + entity.length)
    assert 0 <= start < end <= len(units), "an entity covers text of its body"
    return units[start:end].decode("utf-16-le")


def sizes(channel: str, body: Body) -> Iterator[int]:
    """The sizes that a platform may check, in its own unit."""
    yield len(body.text.encode()) if channel == "matrix" else len(body.text)
    if channel == "slack":
        yield len(body.markdown or "")
