"""The SQL of the ledger: named queries from the `.sql` files in `sql/`.

Owns reading the files and splitting them into statements.
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
    """All named queries."""
    found: dict[str, str] = {}
    for name in ("ledger", "turns", "deliveries"):
        text = files(__package__).joinpath("sql", f"{name}.sql").read_text(encoding="utf-8")
        _preface, *cut = _NAME.split(text)
        for title, body in zip(cut[::2], cut[1::2], strict=True):
            assert title not in found, f"two queries are named {title}"
            found[title] = body.strip()
    return found


@cache
def for_rows(name: str, count: int) -> str:
    """The named query for one row of values, extended to `count` rows."""
    return _ROW.sub(lambda row: f"(VALUES {', '.join([row[1]] * count)})", queries()[name])


def statements(text: str) -> list[str]:
    """Split a text into statements. `executescript` would commit the open transaction, so each one runs alone."""
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
