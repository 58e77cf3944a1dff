"""Make Markdown safe for Slack's `markdown_text` and change as little of it as possible.

In that field Slack reads Markdown and also its own `<…>` tokens: `<!channel>` would notify everybody. So every `<` of
the source is escaped. Nearly everything else stays as written, because a stream only appends: the output for a longer
text must begin with the output for the shorter text. A link is only rewritten if it could hide its target.
"""

from __future__ import annotations

import re
from html import escape
from typing import Any

from tailrace.markdown.addresses import percent_encode, split_addresses
from tailrace.markdown.fast_scan import cached_by_piece
from tailrace.markdown.links import deceives, link_as_text, remove_bidi_overrides, scheme, visible_target
from tailrace.markdown.outline import parse_events, replace_surrogates, tag_name

SCHEMES = frozenset(("http", "https", "mailto"))
"""The schemes that Slack makes links of."""

_ENTITY = re.compile(r"&#?\w+;")
_RUN_OF_MARKS = re.compile(r"[\\`*_~\[\]|]+")
# Slack does not decode entities in a target, so an ampersand stays as it is.
_IN_TARGET = re.compile(r"[\s<>()\\|`\"]")


def safe_markdown(source: str) -> str:
    """The source, changed so that Slack finds no mention in it and no link that hides its target."""
    return "".join(_pieces(replace_surrogates(source)))


def _safe_copy(source: str) -> str:
    return _SafeCopy(source).copied()


_pieces = cached_by_piece(_safe_copy)


def _literal(text: str) -> str:
    """Text as Markdown that shows exactly this text; addresses stay as they are."""
    return "".join(piece if is_address else _marked(piece) for piece, is_address in split_addresses(text))


def _marked(text: str) -> str:
    return _RUN_OF_MARKS.sub(lambda run: "\\" + "\\".join(run[0]), escape(text, quote=False))


def _escaped(text: str) -> str:
    """Escape what is special to Slack, except the ampersands of addresses."""
    return "".join(piece if is_address else escape(piece, quote=False) for piece, is_address in split_addresses(text))


class _Link:
    """A link or an image. It begins at the index `first` of the copied pieces; `words` collects its text."""

    def __init__(self, link: dict[str, str], end: int, first: int) -> None:
        self.kind = link["link_type"]
        self.url = f"mailto:{link['dest_url']}" if self.kind == "Email" else link["dest_url"]
        self.end = end
        self.first = first
        self.words: list[str] = []

    @property
    def is_reference(self) -> bool:
        return self.kind not in ("Inline", "Autolink", "Email")

    @property
    def text(self) -> str:
        return remove_bidi_overrides("".join(self.words))

    @property
    def can_be_link(self) -> bool:
        """Whether Slack makes links to such a target and the text does not name another address."""
        return scheme(self.url) in SCHEMES and not deceives(self.text, self.url)

    @property
    def can_stay(self) -> bool:
        """Whether the link may stay as written."""
        shows_all = self.text == "".join(self.words) and visible_target(self.url) == self.url
        return self.kind == "Inline" and shows_all and bool(self.text.strip()) and self.can_be_link

    def rewritten(self) -> str:
        """The link in the simplest form, or as text with its target if it cannot be a link."""
        target = visible_target(self.url)
        if not self.can_be_link:
            return _literal(link_as_text(self.text, target))
        target = _IN_TARGET.sub(lambda found: percent_encode(found[0]), target)
        return f"[{_marked(self.text if self.text.strip() else target)}]({target})"


class _SafeCopy:
    """Copies the source in one walk over the events. The source before `at` is already copied."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.at = 0
        self.out: list[str] = []
        self.links: list[_Link] = []
        self.in_code = False

    def copied(self) -> str:
        for tag, value, start, end in parse_events(self.source):
            if tag == "Start":
                self._begin(value, start, end)
            elif tag == "End":
                self._finish(value, end)
            else:
                self._leaf(tag, value, start, end)
        self._markup(len(self.source))
        return "".join(self.out)

    def _begin(self, value: Any, start: int, end: int) -> None:
        name = tag_name(value)
        if name == "CodeBlock":
            self.in_code = True
        elif name in ("Link", "Image"):
            self._markup(start)
            self.links.append(_Link(value[name], end, len(self.out)))

    def _finish(self, value: Any, end: int) -> None:
        name = tag_name(value)
        if name == "CodeBlock":
            self.in_code = False
        elif name in ("Link", "Image"):
            self._end_link(self.links.pop())
        elif name in ("Strong", "Emphasis", "Strikethrough"):
            self._markup(end)

    def _leaf(self, tag: str, value: Any, start: int, end: int) -> None:
        words = value if isinstance(value, str) else " "
        for link in self.links:
            link.words.append(words)
        if tag in ("SoftBreak", "HardBreak", "Rule", "TaskListMarker"):
            self._markup(end)
            return
        self._markup(start)
        written = self.source[start:end]
        if tag in ("Html", "InlineHtml"):
            written = _marked(written)
        elif tag == "Code" or self.in_code:
            written = escape(written, quote=False)
        elif written == value or not _ENTITY.fullmatch(written):
            # Slack decodes entities in text, so `&`, `<` and `>` are escaped.
            written = _escaped(written) if "://" in written else escape(written, quote=False)
        self.out.append(written)
        self.at = end

    def _markup(self, until: int) -> None:
        """Copy the marks between texts, and the definitions of references, which could hide where a link leads."""
        if until > self.at:
            self.out.append(self.source[self.at : until].replace("<", "&lt;").replace("]:", "]\\:"))
            self.at = until

    def _end_link(self, link: _Link) -> None:
        tail = self.source[self.at : link.end]
        if link.is_reference:
            self._markup(link.end)
        elif not self.links and link.can_stay and "<" not in tail:
            self.out.append(tail)
        else:
            self.out[link.first :] = [_literal(link.text) if self.links else link.rewritten()]
        self.at = link.end
