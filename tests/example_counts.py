"""How many examples Hypothesis draws: few by default, many with `SEARCH=1` (`make search`)."""

from __future__ import annotations

import os

IS_SEARCH = bool(os.environ.get("SEARCH"))


def examples(count: int, *, search: int) -> int:
    """The `max_examples` of a law: `count` in `make test`, `search` in `make search`."""
    return search if IS_SEARCH else count
