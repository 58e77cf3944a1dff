"""Markdown as readable text without markup: what a terminal log, an e-mail or a screen reader gets.

Links become `text (url)`, lists and quotes keep the marks that plain text has for them, tables become rows with
bars. HTML and reference links stand as they were written: dropping what looks like a tag would lose `List<T>`.
"""

from __future__ import annotations

from typing import Any

from tailrace.markdown.outline import ranged_events

_REFERENCES = frozenset(
    ("Reference", "ReferenceUnknown", "Collapsed", "CollapsedUnknown", "Shortcut", "ShortcutUnknown")
)
_LEAVES = frozenset(("Paragraph", "Heading", "CodeBlock", "HtmlBlock", "Table"))


def plain(source: str) -> str:
    """The text without its markup."""
    return _Plain(source).render()


class _Plain:
    """One walk over the events: inline text gathers in `words`, whole blocks in `out`."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.out: list[str] = []
        self.words: list[str] = []
        self.prefixes: list[tuple[str, str]] = []  # per container: on the next line, and on every one after it
        self.numbers: list[int | None] = []  # per list: the next number, None for bullets
        self.links: list[tuple[int, int, str]] = []
        self.cells: list[str] = []
        self.rows: list[str] = []
        self.literal_until = 0
        self.read_until = 0
        self.tight = False  # the block last put out was the text of a tight item

    def render(self) -> str:
        for tag, value, start, end in ranged_events(self.source):
            if tag == "Start":
                self._begin(value if isinstance(value, str) else next(iter(value)), value, start, end)
            elif tag == "End":
                self._finish(value if isinstance(value, str) else next(iter(value)), end)
            elif start >= self.literal_until:
                self._inline(tag, value, start, end)
        self._definitions(len(self.source))
        return "".join(self.out)

    def _begin(self, name: str, value: Any, start: int, end: int) -> None:
        if name in _LEAVES or name in ("BlockQuote", "List"):
            self._tight_text()
            self._definitions(start)
        if name == "BlockQuote":
            self.prefixes.append(("> ", "> "))
        elif name == "List":
            self.numbers.append(value["List"])
        elif name == "Item":
            number = self.numbers[-1]
            mark = "- " if number is None else f"{number}. "
            self.numbers[-1] = None if number is None else number + 1
            self.prefixes.append((mark, " " * len(mark)))
            self.read_until = start + 1
            while self.read_until < end and not self.source[self.read_until - 1].isspace():
                self.read_until += 1
        elif name in ("Link", "Image"):
            self._begin_link(value[name], start, end)

    def _begin_link(self, link: dict[str, Any], start: int, end: int) -> None:
        if start < self.literal_until:
            return
        if link["link_type"] in _REFERENCES:
            self.words.append(self.source[start:end])
            self.literal_until = end
        else:
            self.links.append((end, len(self.words), link["dest_url"]))

    def _finish(self, name: str, end: int) -> None:
        if name in ("Link", "Image") and self.links and self.links[-1][0] == end:
            self._end_link()
        elif name == "TableCell":
            self.cells.append(self._take())
        elif name in ("TableHead", "TableRow"):
            self.rows.append(" | ".join(self.cells).rstrip())
            self.cells.clear()
        elif name == "Table":
            self._put("\n".join(self.rows))
            self.rows.clear()
        elif name == "CodeBlock":
            self._put(self._take().rstrip("\r\n"))
        elif name in _LEAVES:
            self._put(self._take().strip())
        elif name == "Item":
            self._tight_text()
            self._definitions(end)
            self.prefixes.pop()
        elif name == "BlockQuote":
            self._definitions(end)
            self.prefixes.pop()
        elif name == "List":
            self.numbers.pop()
        if name in _LEAVES:
            self.read_until = max(self.read_until, end)

    def _end_link(self) -> None:
        _, first, url = self.links.pop()
        text = "".join(self.words[first:])
        if url and url not in (text, f"mailto:{text}"):
            self.words[first:] = [f"{text} ({url})" if text.strip() else url]

    def _inline(self, tag: str, value: Any, start: int, end: int) -> None:
        if tag in ("SoftBreak", "HardBreak"):
            self.words.append("\n")
        elif tag == "TaskListMarker":
            self.words.append("[x] " if value else "[ ] ")
        elif tag == "Rule":
            self._tight_text()
            self._definitions(start)
            self._put("---")
        else:
            self.words.append(value)
        self.read_until = max(self.read_until, end)

    def _take(self) -> str:
        text = "".join(self.words)
        self.words.clear()
        return text

    def _tight_text(self) -> None:
        if self.words:
            self._put(self._take().strip(), tight=True)

    def _definitions(self, until: int) -> None:
        """The parser passes over link definitions; they are put out as they stand."""
        gap = self.source[self.read_until : until].strip(" \t\r\n>")
        if gap.startswith("[") and "]:" in gap:
            self._put(gap)
        self.read_until = max(self.read_until, until)

    def _put(self, block: str, *, tight: bool = False) -> None:
        if not block:
            return
        if self.out:
            self.out.append("\n" if tight and self.tight else "\n\n")
        for nth, line in enumerate(block.split("\n")):
            mark = "".join(first for first, _ in self.prefixes)
            self.prefixes = [(rest, rest) for _, rest in self.prefixes]
            self.out.append(("\n" if nth else "") + (mark + line).rstrip())
        self.tight = tight
