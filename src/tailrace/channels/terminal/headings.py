"""Removes the `**` of headings in reasoning. Models write a heading as a line that contains only bold text.

Reasoning is shown as dim text, in which `**Looking around**` is hard to read. All other text stays as it is, also `**`
in the middle of a line.
"""

from __future__ import annotations

import re

_MAX_LENGTH = 120  # a longer line is no heading, and is shown at once
_HEADING = re.compile(r"\*\*([^*\n]+)\*\*[ \t]*(\n?)")
_HEADING_BEGINS = re.compile(r"\*{1,2}|\*\*[^*\n]+\*{0,2}[ \t]*")


class HeadingFilter:
    """Takes reasoning in pieces: `feed` gives the text that can be shown, and `close` the rest."""

    def __init__(self) -> None:
        self._held = ""
        self._begins_line = True

    def feed(self, piece: str) -> str:
        """Take a piece of reasoning and return the text that can be shown now.

        A line that may become a heading is returned only when it is complete.
        """
        text, self._held = self._held + piece, ""
        shown: list[str] = []
        for line in re.findall(r"[^\n]*\n|[^\n]+", text):
            is_whole = line.endswith("\n")
            if not self._begins_line or (not is_whole and not _may_become_heading(line)):
                shown.append(line)
                self._begins_line = is_whole
            elif is_whole:
                shown.append(_plain(line))
            else:
                self._held = line
        return "".join(shown)

    def close(self) -> str:
        """End the reasoning, and return the text that was held back."""
        rest, self._held = _plain(self._held), ""
        self._begins_line = True
        return rest


def _may_become_heading(line: str) -> bool:
    return len(line) <= _MAX_LENGTH and _HEADING_BEGINS.fullmatch(line) is not None


def _plain(line: str) -> str:
    return _HEADING.sub(r"\1\2", line) if _HEADING.fullmatch(line) else line
