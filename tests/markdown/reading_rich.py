"""How Telegram reads the HTML of a rich message, and what it would refuse, by the limits of its documentation.

Blocks are headings, paragraphs, code, quotes, lists and their items, tables and their rows, and rules. Text directly in
an item, a quote or the message is a paragraph. Every tag around a text is a level, and the text is one more.
"""

from __future__ import annotations

import re

from reading_html import VOID, Fragment

_LEAVES = frozenset(("p", "h1", "h2", "h3", "h4", "h5", "h6", "pre", "td", "th"))
_HOLDERS = frozenset(("", "li", "blockquote"))
_LISTED = frozenset(("ul", "ol", "table", "tr"))
_STYLES = frozenset(("strong", "em", "del", "code", "a"))
_TAKEN = _LEAVES | _HOLDERS | _LISTED | _STYLES | VOID
_ATTRIBUTES = {
    "a": {"href"},
    "code": {"class"},
    "ol": {"start"},
    "th": {"align"},
    "td": {"align"},
    "input": {"type", "checked"},
}
_INSIDE = {"ul": {"li"}, "ol": {"li"}, "table": {"tr"}, "tr": {"td", "th"}}
_TARGET = re.compile(r"https?://[^/?#\s@]+\.[^/?#\s@]+.*", re.IGNORECASE)


class RichMessage(Fragment):
    """A rich message; `errors` is what Telegram would refuse of it."""

    def __init__(self, html: str) -> None:
        self.blocks = self.columns = self.levels = 0
        self._in_run = False  # inside a paragraph without a tag
        self._cells = 0
        super().__init__(html)
        limits = {"characters": 32_768, "blocks": 500, "levels": 16, "columns": 20}
        counts = {"characters": len(self.text), "blocks": self.blocks, "levels": self.levels, "columns": self.columns}
        self.errors += [f"{counts[name]} {name}" for name, limit in limits.items() if counts[name] > limit]

    @property
    def _parent(self) -> str:
        return self.open[-1] if self.open else ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in _TAKEN or not {name for name, _ in attrs} <= _ATTRIBUTES.get(tag, set()):
            self.errors.append(f"{tag} with {attrs}")
        if tag not in _INSIDE.get(self._parent, {tag}):
            self.errors.append(f"{tag} in {self._parent}")
        if tag in _STYLES | {"br", "input"}:
            self._begin_run()
        else:
            self._begin_block(tag)
        super().handle_starttag(tag, attrs)
        if tag == "a" and not _TARGET.fullmatch(self.targets[-1]):
            self.errors.append(f"a link to {self.targets[-1]}")

    def _begin_block(self, tag: str) -> None:
        if tag not in ("td", "th", "li", "tr") and self._parent not in _HOLDERS:
            self.errors.append(f"{tag} in {self._parent}")
        self._in_run = False
        self.blocks += tag not in ("td", "th")
        self._cells = 0 if tag == "tr" else self._cells + (tag in ("td", "th"))
        self.columns = max(self.columns, self._cells)

    def _begin_run(self) -> None:
        if self._parent in _HOLDERS and not self._in_run:
            self._in_run = True
            self.blocks += 1

    def handle_endtag(self, tag: str) -> None:
        super().handle_endtag(tag)
        self._in_run = self._in_run and tag in _STYLES

    def handle_data(self, data: str) -> None:
        self._begin_run()
        self.levels = max(self.levels, len(self.open) + 1)
        super().handle_data(data)
        if self._parent in _LISTED:
            self.errors.append(f"text in {self._parent}")
