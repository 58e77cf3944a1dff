"""The schema version of the file, and the migrations from one version to the next.

Each migration is applied completely or not at all. Migrations go forward only: a file of a newer version is refused,
because its rows may have a meaning that this version does not know.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

import msgspec

from tailrace.errors import LedgerUnusable
from tailrace.ledger.connection import run, single_value

if TYPE_CHECKING:
    from pathlib import Path

    import apsw

APPLICATION_ID = 0x7472616C


class Migration(msgspec.Struct, frozen=True, kw_only=True):
    """The change of the schema to `version`. Its last statement writes the version into the file header."""

    version: int
    sql: str


@cache
def migrations() -> tuple[Migration, ...]:
    """All migrations in order."""
    folder = files(__package__).joinpath("sql", "migrations")
    texts = {entry.name: entry.read_text(encoding="utf-8") for entry in folder.iterdir() if entry.name.endswith(".sql")}
    return tuple(Migration(version=int(name[:4]), sql=texts[name]) for name in sorted(texts))


def check_origin(connection: apsw.Connection, path: Path) -> None:
    """Refuse a file of another program, or of a newer version of tailrace."""
    application, version = single_value(connection, "application_id"), single_value(connection, "user_version")
    blank = application == version == 0 and single_value(connection, "schema_objects") == 0
    if application != APPLICATION_ID and not blank:
        raise LedgerUnusable(f"{path} is a database of another program. Name another path for the ledger.")
    newest = migrations()[-1].version
    if version > newest:
        raise LedgerUnusable(
            f"{path} was written by a newer tailrace (version {version} of the file, this one knows {newest}). "
            "Install that version again, or name another path for the ledger."
        )


def migrate(connection: apsw.Connection) -> None:
    """Migrate the file to the newest version. After a kill, the next opening continues."""
    for step in migrations():
        if step.version <= single_value(connection, "user_version"):
            continue
        run(connection, "begin")
        connection.execute(step.sql).fetchall()
        assert single_value(connection, "user_version") == step.version, (
            f"migration {step.version} does not write its version"
        )
        run(connection, "commit")
