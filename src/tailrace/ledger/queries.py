"""The SQL of the ledger: named queries from the `.sql` files in `sql/`.

This module reads the files, and replaces each `{name}` in a query by the query of that name.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

_ROW = re.compile(r"\(VALUES (\([?, ]+\))\)")
_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_PART = re.compile(r"\{(\w+)\}")


@cache
def queries() -> dict[str, str]:
    """All named queries."""
    found: dict[str, str] = {}
    for name in ("ledger", "turns", "deliveries", "stored_values"):
        text = files(__package__).joinpath("sql", f"{name}.sql").read_text(encoding="utf-8")
        _preface, *cut = _NAME.split(text)
        for title, body in zip(cut[::2], cut[1::2], strict=True):
            assert title not in found, f"two queries are named {title}"
            # A query can contain parts that come earlier in the files.
            found[title] = _PART.sub(lambda part: found[part[1]], body.strip())
    return found


@cache
def for_rows(name: str, count: int) -> str:
    """A named query that takes the values of one row, changed to take the values of `count` rows."""
    return _ROW.sub(lambda row: f"(VALUES {', '.join([row[1]] * count)})", queries()[name])
