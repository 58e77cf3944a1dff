"""How many examples the laws take: few by default, many with `SEARCH=1` (`make search`)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

IS_SEARCH = bool(os.environ.get("SEARCH"))

T = TypeVar("T")


def examples(count: int, *, search: int) -> int:
    """The `max_examples` of a law: `count` in `make test`, `search` in `make search`."""
    return search if IS_SEARCH else count


def share(items: Sequence[T], nth: int, of: int) -> Sequence[T]:
    """The `nth` of `of` equal shares of the items in `make test`, all of them in `make search`."""
    return items if IS_SEARCH else items[nth % of :: of]
