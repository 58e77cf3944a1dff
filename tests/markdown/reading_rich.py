"""How Telegram reads a rich message: what it would refuse of the HTML, counted as its documentation states the limits.

Blocks are headings, paragraphs, code, quotes, lists and their items, tables and their rows, and rules; text that stands
in an item, a quote or the message itself is a paragraph. Every tag around a text is a level, and the text is another.
"""

from __future__ import annotations

import re
from html.parser import HTMLParser

_LEAVES = frozenset(("p", "h1", "h2", "h3", "h4", "h5", "h6", "pre", "td", "th"))
_HOLDERS = frozenset(("", "li", "blockquote"))
_LISTED = frozenset(("ul", "ol", "table", "tr"))
_STYLES = frozenset(("strong", "em", "del", "code", "a"))
_VOID = frozenset(("br", "hr", "input"))
_TAKEN = _LEAVES | _HOLDERS | _LISTED | _STYLES | _VOID
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


class RichMessage(HTMLParser):
    """What was read of a message, and in `refusals` what Telegram would not take of it."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.refusals: list[str] = []
        self.blocks = self.deepest = self.columns = 0
        self.said: list[str] = []
        self.targets: list[str] = []
        self._open: list[str] = [""]
        self._in_run = False  # inside of a paragraph that has no tag
        self._cells = 0
        self.feed(html)
        self.close()
        if self._open != [""]:
            self.refusals.append(f"left open: {self._open}")
        self._hold("characters", len(self.text), 32_768)
        self._hold("blocks", self.blocks, 500)
        self._hold("levels", self.deepest, 16)
        self._hold("columns", self.columns, 20)

    @property
    def text(self) -> str:
        return "".join(self.said)

    def _hold(self, what: str, count: int, most: int) -> None:
        if count > most:
            self.refusals.append(f"{count} {what}")

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        around = self._open[-1]
        if tag not in _TAKEN or not {name for name, _ in attrs} <= _ATTRIBUTES.get(tag, set()):
            self.refusals.append(f"{tag} with {attrs}")
        if tag not in _INSIDE.get(around, {tag}):
            self.refusals.append(f"{tag} in {around}")
        if tag in _STYLES | {"br", "input"}:
            self._begin_run()
            if tag == "a" and tag in self._open:
                self.refusals.append(f"{tag} in {tag}")
        else:
            self._begin_block(tag, around)
        self.targets += [value or "" for name, value in attrs if name == "href"]
        if tag == "a" and not _TARGET.fullmatch(self.targets[-1]):
            self.refusals.append(f"a link to {self.targets[-1]}")
        if tag not in _VOID:
            self._open.append(tag)
        elif tag == "br":
            self.said.append("\n")

    def _begin_block(self, tag: str, around: str) -> None:
        if tag not in ("td", "th", "li", "tr") and around not in _HOLDERS:
            self.refusals.append(f"{tag} in {around}")
        self._in_run = False
        self.blocks += tag not in ("td", "th")
        self._cells = 0 if tag == "tr" else self._cells + (tag in ("td", "th"))
        self.columns = max(self.columns, self._cells)

    def _begin_run(self) -> None:
        if self._open[-1] in _HOLDERS and not self._in_run:
            self._in_run = True
            self.blocks += 1

    def handle_endtag(self, tag: str) -> None:
        if self._open.pop() != tag:
            self.refusals.append(f"{tag} is closed where it is not open")
        self._in_run = self._in_run and tag in _STYLES

    def handle_data(self, data: str) -> None:
        self._begin_run()
        self.deepest = max(self.deepest, len(self._open))
        self.said.append(data)
        if self._open[-1] in _LISTED:
            self.refusals.append(f"text in {self._open[-1]}")

    def handle_comment(self, data: str) -> None:
        self.refusals.append(f"a comment: {data}")

    def handle_decl(self, decl: str) -> None:
        self.refusals.append(f"a declaration: {decl}")

    def handle_pi(self, data: str) -> None:
        self.refusals.append(f"an instruction: {data}")
