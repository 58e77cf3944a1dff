"""How many examples the laws take: few by default, many with `SEARCH=1` (`make search-laws`).

`SEARCH=0.2` takes a fifth of the many, but never fewer than by default.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

SEARCH = float(os.environ.get("SEARCH") or 0)

T = TypeVar("T")


def examples(count: int, *, search: int) -> int:
    """The `max_examples` of a law: `count` in `make test`, `search` in `make search`."""
    return max(count, round(search * SEARCH))


def share(items: Sequence[T], nth: int, of: int) -> Sequence[T]:
    """The `nth` of `of` equal shares of the items in `make test`, all of them in `make search`."""
    shares = max(1, min(of, round(1 / SEARCH))) if SEARCH else of
    return items[nth % shares :: shares]
