"""Headings of thoughts, without their marks: models write them as a line that is bold and nothing else.

What an agent thinks is shown dim, beside the answer and not as a text to be kept: there `**Looking around**` is only
harder to read. All else, a `**` in the middle of a line as well, stays as it is.
"""

from __future__ import annotations

import re

_LONGEST = 120  # a longer line is no heading, and is not waited for
_HEADING = re.compile(r"\*\*([^*\n]+)\*\*[ \t]*(\n?)")
_MAY_BECOME_ONE = re.compile(r"\*{1,2}|\*\*[^*\n]+\*{0,2}[ \t]*")


class Headings:
    """Thoughts in pieces: `feed` gives what can be shown, and `close` what was waited with."""

    def __init__(self) -> None:
        self._held = ""
        self._begins_line = True

    def feed(self, piece: str) -> str:
        """The text as far as it is known what it is; a line that may become a heading waits for its end."""
        text, self._held = self._held + piece, ""
        shown: list[str] = []
        for line in re.findall(r"[^\n]*\n|[^\n]+", text):
            is_whole = line.endswith("\n")
            if not self._begins_line or (not is_whole and not _may_become_one(line)):
                shown.append(line)
                self._begins_line = is_whole
            elif is_whole:
                shown.append(_plain(line))
            else:
                self._held = line
        return "".join(shown)

    def close(self) -> str:
        """The thought is over."""
        rest, self._held = _plain(self._held), ""
        self._begins_line = True
        return rest


def _may_become_one(line: str) -> bool:
    return len(line) <= _LONGEST and _MAY_BECOME_ONE.fullmatch(line) is not None


def _plain(line: str) -> str:
    return _HEADING.sub(r"\1\2", line) if _HEADING.fullmatch(line) else line
