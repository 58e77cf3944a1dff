"""How platforms count text: code points, UTF-16 code units, or UTF-8 bytes.

Owns the three units and nothing else. Lone surrogates, which no encoding admits, count like any character of
their width, so that text from a broken source is measured instead of refused.
"""

from __future__ import annotations

SMALLEST = {"code_points": 1, "utf16": 2, "utf8_bytes": 4}
"""The smallest limit per unit under which every character fits a part."""


def check(limit: int, unit: str) -> None:
    """Raise ValueError where the unit is unknown or some character would never fit the limit."""
    if unit not in SMALLEST:
        raise ValueError(f"unknown unit {unit!r}: use one of {', '.join(SMALLEST)}")
    if limit < SMALLEST[unit]:
        raise ValueError(f"limit must be at least {SMALLEST[unit]} in {unit}, got {limit}")


def size(text: str, unit: str) -> int:
    """The size of the text in the unit."""
    if unit == "code_points" or text.isascii():
        return len(text)
    if unit == "utf16":
        return len(text.encode("utf-16-le", "surrogatepass")) // 2
    return len(text.encode("utf-8", "surrogatepass"))


def fitting_length(text: str, start: int, budget: int, unit: str) -> int:
    """The largest index such that `text[start:index]` is at most `budget`; never inside a character."""
    if budget <= 0:
        return start
    piece = text[start : start + budget]
    excess = size(piece, unit) - budget
    while excess > 0:
        # Every character counts at most `SMALLEST` units, so at least this many must go.
        drop = max(1, excess // SMALLEST[unit])
        excess -= size(piece[-drop:], unit)
        piece = piece[:-drop]
    return start + len(piece)
