"""Hypothesis strategies that draw the same examples after every change of the code.

The strategies of Hypothesis also draw constants of the project's modules: strings, bytes, and numbers from 100 on. So
they draw other examples after a change of the code, or if the test process has loaded other modules. Integers below 100
and choices from fewer than 100 items are never replaced by such a constant: all strategies here are made of them.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Sequence
from typing import TypeVar

from hypothesis import strategies as st

T = TypeVar("T")

# ASCII, the other letters and signs, Chinese and Korean, private use, emoji, everything above. No surrogates.
_BLOCKS = ((0, 0x7F), (0x80, 0x2FFF), (0x3000, 0xD7FF), (0xE000, 0xFFFF), (0x1F000, 0x1FBFF), (0x10000, sys.maxunicode))


def integers(low: int, high: int) -> st.SearchStrategy[int]:
    """The integers from `low` to `high`."""
    if low > -100 and high < 100:
        return st.integers(low, high)
    hundreds = integers(0, (high - low) // 100)
    return st.builds(lambda above, rest: min(low + 100 * above + rest, high), hundreds, st.integers(0, 99))


def floats(high: float) -> st.SearchStrategy[float]:
    """The numbers from 0 to `high`, among them very small ones."""
    share = st.builds(operator.truediv, integers(0, 10**6), st.just(10**6))
    return st.builds(operator.mul, st.sampled_from((high, min(high, 1.0), 5e-324)), share)


def items(choices: Sequence[T]) -> st.SearchStrategy[T]:
    """One of the choices."""
    return integers(0, len(choices) - 1).map(choices.__getitem__)


def texts(alphabet: str = "", *, min_size: int = 0, max_size: int = 20) -> st.SearchStrategy[str]:
    """Text of the characters of the alphabet, or of any but surrogates."""
    characters = [items(alphabet)] if alphabet else [integers(*block).map(chr) for block in _BLOCKS]
    return st.text(st.one_of(characters), min_size=min_size, max_size=max_size)


def byte_strings(max_size: int) -> st.SearchStrategy[bytes]:
    """Any bytes."""
    return st.lists(integers(0, 255), max_size=max_size).map(bytes)
