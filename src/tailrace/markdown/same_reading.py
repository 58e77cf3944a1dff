"""Compare two texts as people see them after rendering, to find out whether a cut changes the text.

Line ends are ignored, because a cut may change them.
"""

from __future__ import annotations

from itertools import chain, groupby
from operator import itemgetter
from typing import Any

from tailrace.markdown.outline import parse_events, tag_name

StyledText = list[tuple[str, str]]
"""Runs of text. Before each run are the names of what is around it: styles, links, code and quotes."""

_STYLES = {
    "Emphasis": "e",
    "Strong": "s",
    "Strikethrough": "~",
    "BlockQuote": ">",
    "CodeBlock": "```",
}


def styled_text(source: str, start_at: int = 0, parse_from: int = 0) -> StyledText:
    """Parse the source and return its text from `start_at` on, as runs of (styles, text).

    Parsing begins at `parse_from`, where a top-level block must begin.
    """
    found: StyledText = []
    styles: list[str] = []
    for tag, value, start, end in parse_events(source, parse_from):
        if tag == "Start":
            name = tag_name(value)
            styles.append(_style(name, value))
            continue
        if tag == "End":
            styles.pop()
            continue
        if start < start_at and not (tag == "Text" and end > start_at):
            continue
        words = _words(tag, value, code="```" in styles)
        if words:
            found.append((" ".join(sorted(filter(None, styles))), words))
    return found


def _style(name: str, value: Any) -> str:
    if name in _STYLES:
        return _STYLES[name]
    if name == "Heading":
        return str(value[name]["level"])
    if name in ("Link", "Image"):
        return f"[{value[name]['dest_url']}]"
    return "|" if name in ("TableHead", "TableRow") else ""


def _words(tag: str, value: Any, *, code: bool) -> str:
    if tag == "Rule":
        return "---"
    if tag in ("SoftBreak", "HardBreak", "TaskListMarker"):
        return ""
    if code:
        return str(value).replace("\r", "").replace("\n", "")
    words = "".join(str(value).split())
    if tag == "Html":
        return words.replace(">", "")  # each line of a quote that is nested too deeply has its own mark
    return f"`{words}" if tag == "Code" else words


def merge(*pieces: StyledText) -> StyledText:
    """Put the texts together. Neighbouring runs with the same styles become one, so that texts can be compared."""
    runs = groupby(chain.from_iterable(pieces), key=itemgetter(0))
    return [(style, "".join(words for _, words in run)) for style, run in runs]
