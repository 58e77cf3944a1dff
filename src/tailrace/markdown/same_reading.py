"""What a piece of Markdown says, apart from where its lines are broken: for telling whether a cut changed it."""

from __future__ import annotations

from itertools import chain, groupby
from operator import itemgetter
from typing import Any

from tailrace.markdown.outline import ranged_events

Said = list[tuple[str, str]]
"""Runs of text, each with how it is set: the styles, links, code and quotes around it."""

_SETTINGS = {
    "Emphasis": "e",
    "Strong": "s",
    "Strikethrough": "~",
    "BlockQuote": ">",
    "CodeBlock": "```",
}


def meaning(source: str, skip: int = 0, since: int = 0) -> Said:
    """What the source says from the offset `skip` on, parsed from `since` on, where a top-level block begins."""
    said: Said = []
    around: list[str] = []
    for tag, value, start, end in ranged_events(source, since):
        if tag == "Start":
            name = value if isinstance(value, str) else next(iter(value))
            around.append(_setting(name, value))
            continue
        if tag == "End":
            around.pop()
            continue
        if start < skip and not (tag == "Text" and end > skip):
            continue
        words = _words(tag, value, code="```" in around)
        if words:
            said.append((" ".join(sorted(filter(None, around))), words))
    return said


def _setting(name: str, value: Any) -> str:
    if name in _SETTINGS:
        return _SETTINGS[name]
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
        return words.replace(">", "")  # of quotes that are nested too deeply each line has its own
    return f"`{words}" if tag == "Code" else words


def merged(*pieces: Said) -> Said:
    """The pieces said one after the other, as one."""
    runs = groupby(chain.from_iterable(pieces), key=itemgetter(0))
    return [(setting, "".join(words for _, words in run)) for setting, run in runs]
