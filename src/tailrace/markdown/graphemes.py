"""Where a text may be cut without cutting what a person sees as one character."""

from __future__ import annotations

import regex

_CLUSTER = regex.compile(r"\X")


def last_border(text: str, at: int, start: int = 0) -> int:
    """The largest border between two grapheme clusters that is at most `at`; `start` counts as one.

    Looks no further than the character after `at`: a border depends on what comes before it and on the one
    character that follows.
    """
    if at >= len(text):
        return len(text)
    # Between two ASCII characters, the line end pair aside, there always is a border to count from.
    anchor = at
    while anchor > start and not (text[anchor].isascii() and text[anchor - 1].isascii()):
        anchor -= 1
    if anchor > start and text[anchor] == "\n":
        anchor -= text[anchor - 1] == "\r"
    clusters = _CLUSTER.finditer(text, anchor, at + 1)
    return next(cluster.start() for cluster in clusters if cluster.end() > at)


def is_border(text: str, at: int) -> bool:
    """Whether no grapheme cluster reaches over `at`."""
    if at <= 0 or at >= len(text):
        return True
    if text[at].isascii() and text[at - 1].isascii():
        return not (text[at] == "\n" and text[at - 1] == "\r")
    return last_border(text, at) == at
