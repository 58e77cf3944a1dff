"""HTML made safe for a page: a few tags and attributes, and text.

The dialects write only these tags. A page that people open from a file does not rely on that: all of its HTML is
sanitized here first.
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
_ATTRIBUTES = {
    ("a", "href"): re.compile(r"(?:https?|ftp|mailto|magnet|tg):.*", re.IGNORECASE | re.DOTALL),
    ("code", "class"): re.compile(r"language-[\w.+#-]+"),
    ("ol", "start"): re.compile(r"\d{1,9}"),
    ("td", "align"): re.compile(r"left|center|right"),
    ("th", "align"): re.compile(r"left|center|right"),
}
# Control characters, which a page would not show.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def escaped(text: str) -> str:
    """The text escaped for HTML, with control characters shown as U+FFFD."""
    return escape(_CONTROLS.sub("\ufffd", text))


def link_tags(url: str) -> tuple[str, str]:
    """The tags of a link to the address; empty if its scheme is not allowed."""
    if not _ATTRIBUTES["a", "href"].fullmatch(url):
        return "", ""
    return f'<a href="{escaped(url)}" rel="noopener noreferrer">', "</a>"


def sanitized(html: str, code: Callable[[str], str] = str) -> str:
    """The HTML with only the allowed tags and attributes, well nested. `code` is applied to the text in code."""
    writer = _Sanitizer(code)
    writer.feed(html)
    writer.close()
    return "".join([*writer.out, *(f"</{tag}>" for tag in reversed(writer.open))])


class _Sanitizer(HTMLParser):
    """Copies the HTML without what is not allowed; `open` has the tags that are not closed yet."""

    def __init__(self, code: Callable[[str], str]) -> None:
        super().__init__(convert_charrefs=True)
        self._code = code
        self.out: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Open the tag if it is allowed."""
        if tag == "input":
            self.out.append(TASK_MARKS["checked" in dict(attrs)])  # the box of a task becomes a character
        if tag not in _TAGS and tag not in _VOID:
            return
        kept = [(name, value) for name, value in attrs if value is not None and _is_allowed(tag, name, value)]
        written = "".join(f' {name}="{escaped(value)}"' for name, value in dict(kept).items())
        relation = ' rel="noopener noreferrer"' if tag == "a" else ""
        self.out.append(f"<{tag}{written}{relation}>")
        if tag not in _VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Close the tag, and all tags that are open in it."""
        while tag in self.open:
            closed = self.open.pop()
            self.out.append(f"</{closed}>")
            if closed == tag:
                return

    def handle_data(self, data: str) -> None:
        """Write text."""
        self.out.append(escaped(self._code(data) if "code" in self.open else data))


def _is_allowed(tag: str, name: str, value: str) -> bool:
    allowed = _ATTRIBUTES.get((tag, name))
    return allowed is not None and allowed.fullmatch(value) is not None
