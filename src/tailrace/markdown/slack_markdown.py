"""Make Markdown safe for Slack's field `markdown_text`, and change as little of the Markdown as possible.

In that field Slack reads Markdown and also its own `<…>` tokens: `<!channel>` would notify everybody. So every `<` of
the source is escaped. Nearly everything else stays as written, because text can only be appended to a stream: the
output for a longer text must begin with the output for the shorter text. A link is only rewritten if it could hide its
target.
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
    """Change the source so that Slack finds no mention in it, and no link that hides its target."""
    return "".join(_pieces(replace_surrogates(source)))


def _safe_copy(source: str) -> str:
    return _SafeCopy(source).copied()


_pieces = cached_by_piece(_safe_copy)


def _literal(text: str) -> str:
    """Markdown that shows exactly this text, with its markup characters escaped. Addresses are not escaped."""
    return "".join(piece if is_address else _marked(piece) for piece, is_address in split_addresses(text))


def _marked(text: str) -> str:
    return _RUN_OF_MARKS.sub(lambda run: "\\" + "\\".join(run[0]), escape(text, quote=False))


def _escaped(text: str) -> str:
    """Escape `&`, `<` and `>`, which are special to Slack. An `&` inside an address stays."""
    return "".join(piece if is_address else escape(piece, quote=False) for piece, is_address in split_addresses(text))


class _Link:
    """A link or an image that is being copied. `words` collects its text.

    `first` is the index of its first piece among the copied pieces, so that they can be replaced.
    """

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
        """Whether Slack accepts the target as a link and the link's text names no other address."""
        return scheme(self.url) in SCHEMES and not deceives(self.text, self.url)

    @property
    def can_stay(self) -> bool:
        """Whether the link can stay as the source wrote it."""
        shows_all = self.text == "".join(self.words) and visible_target(self.url) == self.url
        return self.kind == "Inline" and shows_all and bool(self.text.strip()) and self.can_be_link

    def rewritten(self) -> str:
        """The link in its simplest form.

        If it must not be a link (see `can_be_link`), its text and its target as text.
        """
        target = visible_target(self.url)
        if not self.can_be_link:
            return _literal(link_as_text(self.text, target))
        target = _IN_TARGET.sub(lambda found: percent_encode(found[0]), target)
        return f"[{_marked(self.text if self.text.strip() else target)}]({target})"


class _SafeCopy:
    """Copies the source to safe Markdown, in one pass over the parser's events. It has copied the source up to `at`."""

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
        """Copy the source up to `until`, which the parser did not report as text: marks, and definitions of references.

        Definitions are escaped, because a reference could hide where its link leads.
        """
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
