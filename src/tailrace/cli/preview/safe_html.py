"""HTML in which nothing is left that a page would obey: a few tags and attributes, and text.

The dialects write only such tags themselves. A page that people open from a file does not rely on that: what is put on
it as HTML passes here first.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from html import escape
from html.parser import HTMLParser

from tailrace.markdown.layout import TASK_MARKS

_TAGS = frozenset(
    (
        *("a", "blockquote", "code", "del", "em", "h1", "h2", "h3", "h4", "h5", "h6", "li", "ol", "p", "pre", "strong"),
        *("table", "tbody", "td", "th", "thead", "tr", "u", "ul"),
    )
)
_VOID = frozenset(("br", "hr"))
_VALUES = {
    ("a", "href"): re.compile(r"(?:https?|ftp|mailto|magnet|tg):.*", re.IGNORECASE | re.DOTALL),
    ("code", "class"): re.compile(r"language-[\w.+#-]+"),
    ("ol", "start"): re.compile(r"\d{1,9}"),
    ("td", "align"): re.compile(r"left|center|right"),
    ("th", "align"): re.compile(r"left|center|right"),
}
# What a page shows as nothing, or not at all.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def as_text(text: str) -> str:
    """The text for a page: nothing in it is a tag, and what cannot be seen is shown to be there."""
    return escape(_CONTROLS.sub("\ufffd", text))


def link_tags(url: str) -> tuple[str, str]:
    """What stands around the text of a link to the address; nothing where it is none that may be followed."""
    if not _VALUES["a", "href"].fullmatch(url):
        return "", ""
    return f'<a href="{as_text(url)}" rel="noopener noreferrer">', "</a>"


def sanitised(html: str, code: Callable[[str], str] = str) -> str:
    """The HTML with the tags and attributes that may be there, well nested; `code` is applied to the text in code."""
    reader = _Reader(code)
    reader.feed(html)
    reader.close()
    return "".join([*reader.out, *(f"</{tag}>" for tag in reversed(reader.open))])


class _Reader(HTMLParser):
    """Writes anew what it reads; `open` are the tags that are not closed yet."""

    def __init__(self, code: Callable[[str], str]) -> None:
        super().__init__(convert_charrefs=True)
        self._code = code
        self.out: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Open the tag if it may be there."""
        if tag == "input":
            self.out.append(TASK_MARKS["checked" in dict(attrs)])  # a box of a task, of which a picture will do
        if tag not in _TAGS and tag not in _VOID:
            return
        kept = [(name, value) for name, value in attrs if value is not None and _may_be(tag, name, value)]
        written = "".join(f' {name}="{as_text(value)}"' for name, value in dict(kept).items())
        relation = ' rel="noopener noreferrer"' if tag == "a" else ""
        self.out.append(f"<{tag}{written}{relation}>")
        if tag not in _VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Close the tag, and what is open in it."""
        while tag in self.open:
            closed = self.open.pop()
            self.out.append(f"</{closed}>")
            if closed == tag:
                return

    def handle_data(self, data: str) -> None:
        """Write text."""
        self.out.append(as_text(self._code(data) if "code" in self.open else data))


def _may_be(tag: str, name: str, value: str) -> bool:
    allowed = _VALUES.get((tag, name))
    return allowed is not None and allowed.fullmatch(value) is not None
