"""The SQL of the ledger: read from the `.sql` files beside this one, by the names that stand in them.

Owns how the files are read and cut into statements. What they mean is told where they are used.
"""

from __future__ import annotations

import re
import sqlite3
from functools import cache
from importlib.resources import files

_ROW = re.compile(r"\(VALUES (\([?, ]+\))\)")
_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


@cache
def queries() -> dict[str, str]:
    """Every named query."""
    found: dict[str, str] = {}
    for name in ("ledger", "turns", "deliveries"):
        text = files(__package__).joinpath("sql", f"{name}.sql").read_text(encoding="utf-8")
        _preface, *cut = _NAME.split(text)
        for title, body in zip(cut[::2], cut[1::2], strict=True):
            assert title not in found, f"two queries are called {title}"
            found[title] = body.strip()
    return found


@cache
def for_rows(name: str, count: int) -> str:
    """The named query, which takes one row of values, for so many of them."""
    return _ROW.sub(lambda row: f"(VALUES {', '.join([row[1]] * count)})", queries()[name])


def statements(text: str) -> list[str]:
    """The statements of a text with several: SQLite runs one at a time inside a transaction that others began."""
    found: list[str] = []
    gathered = ""
    *pieces, rest = text.split(";")
    for piece in pieces:
        gathered += f"{piece};"
        if sqlite3.complete_statement(gathered):
            found.append(gathered.strip())
            gathered = ""
    assert not f"{gathered}{rest}".strip(), f"a statement has no end: {gathered}{rest}"
    return found
