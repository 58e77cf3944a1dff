"""Reading a text in pieces, each of which is read once.

A text that streams is read many times, each time a little longer; what of it has ended reads the same each time. Owns
which readings are kept; where the pieces end is `shortcut`'s to say. It is the same reading whether kept or not.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar

from tailrace.markdown.fast_scan import independent_pieces

_KEPT = 512  # pieces: those of the messages that are being written
_LONGEST = 4_000  # characters; a longer one fits few messages whole, and would be much to keep

T = TypeVar("T")


def piecewise(read: Callable[[str], T]) -> Callable[[str], list[T]]:
    """What reads a text in pieces that mean alone what they mean together, those that ended only once."""
    kept = lru_cache(maxsize=_KEPT)(read)

    def pieces(text: str) -> list[T]:
        *ended, last = independent_pieces(text)
        return [*(kept(piece) if len(piece) <= _LONGEST else read(piece) for piece in ended), read(last)]

    return pieces
