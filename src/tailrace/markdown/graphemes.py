"""Find the boundaries of grapheme clusters: what people see as one character, such as a flag of two code points."""

from __future__ import annotations

import unicodedata

import regex

_CLUSTER = regex.compile(r"\X")
_BLANKS = regex.compile(r"[ \t]+")
# Characters of these categories never join their neighbours, except the flags in `_is_unjoined`.
_UNJOINED_CATEGORIES = frozenset(("Lu", "Ll", "Nd", "Po", "Ps", "Pe", "Pi", "Pf", "Pd", "Pc", "Sm", "Sc", "So", "Zs"))
# Kana, Chinese characters and Hangul syllables: most of the letters that have no case and never join.
_UNJOINED_RANGES = (("\u3041", "\u3096"), ("\u30a1", "\u30fa"), ("\u3400", "\u9fff"), ("\uac00", "\ud7a3"))


def last_boundary(text: str, at: int, start: int = 0) -> int:
    """The last position up to `at` that is between two grapheme clusters; `start` counts as such a position.

    A boundary depends on the text before it and on the one character after it, so nothing after that is read.
    """
    if at >= len(text):
        return len(text)
    anchor = at
    while anchor > start and not _never_join(text[anchor - 1], text[anchor]):
        anchor -= 1
    clusters = _CLUSTER.finditer(text, anchor, at + 1)
    return next(cluster.start() for cluster in clusters if cluster.end() > at)


def is_boundary(text: str, at: int) -> bool:
    """Whether the position `at` is between two grapheme clusters, so that a cut there splits no visible character."""
    return at <= 0 or at >= len(text) or _never_join(text[at - 1], text[at]) or last_boundary(text, at) == at


def is_one_character(text: str) -> bool:
    """Whether people see the text as one single character."""
    return bool(text) and last_boundary(text, len(text) - 1) == 0


def skip_spaces(text: str, at: int) -> int:
    """The position after the spaces that begin at `at`. The search ends at a line end.

    A space that carries an accent (a combining mark) is visible and not skipped.
    """
    while at < len(text) and text[at].isspace() and text[at] not in "\r\n" and is_boundary(text, at + 1):
        blanks = _BLANKS.match(text, at)
        at = max(at + 1, blanks.end() - 1 if blanks else 0)  # a space before another space is a cluster of its own
    return at


def _never_join(before: str, after: str) -> bool:
    """Whether a boundary is always between these two characters, in any text."""
    if before.isascii() and after.isascii():
        return not (before == "\r" and after == "\n")
    return _is_unjoined(before) and _is_unjoined(after)


def _is_unjoined(character: str) -> bool:
    if character.isascii():
        return True
    if unicodedata.category(character) in _UNJOINED_CATEGORIES:
        return not "\U0001f1e6" <= character <= "\U0001f1ff"  # a flag is a pair of these characters
    return any(first <= character <= last for first, last in _UNJOINED_RANGES)
