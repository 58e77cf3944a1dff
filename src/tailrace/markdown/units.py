"""How platforms count text: code points, UTF-16 code units, or UTF-8 bytes.

Lone surrogates, which no encoding allows, count like other characters of the same width. So text from a broken source
is measured and not refused.
"""

from __future__ import annotations

MAX_CHARACTER_SIZE = {"code_points": 1, "utf16": 2, "utf8_bytes": 4}
"""The largest size of one character, which is also the smallest limit."""


def check_limit(limit: int, unit: str) -> None:
    """Raise ValueError if the unit is unknown, or if the limit is smaller than one character can be."""
    if unit not in MAX_CHARACTER_SIZE:
        raise ValueError(f"unknown unit {unit!r}: use one of {', '.join(MAX_CHARACTER_SIZE)}")
    if limit < MAX_CHARACTER_SIZE[unit]:
        raise ValueError(f"limit must be at least {MAX_CHARACTER_SIZE[unit]} in {unit}, got {limit}")


def size(text: str, unit: str) -> int:
    """The size of the text in the unit."""
    if unit == "code_points" or text.isascii():
        return len(text)
    if unit == "utf16":
        return len(text.encode("utf-16-le", "surrogatepass")) // 2
    return len(text.encode("utf-8", "surrogatepass"))


def fitting_length(text: str, limit: int, unit: str) -> int:
    """How many characters of the text fit the limit."""
    piece = text[: max(limit, 0)]
    excess = size(piece, unit) - limit
    while piece and excess > 0:
        # No character is larger than `MAX_CHARACTER_SIZE`, so at least this many characters must be left out.
        drop = max(1, excess // MAX_CHARACTER_SIZE[unit])
        excess -= size(piece[-drop:], unit)
        piece = piece[:-drop]
    return len(piece)
