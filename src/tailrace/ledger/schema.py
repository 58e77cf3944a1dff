"""The shape of the file: which application and version it is of, and the steps that lead from one version to the next.

Owns the migrations and the rule that each is made whole or not at all. Forward only: a file of a newer version is
refused, because its rows may mean what this version does not know.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

import msgspec

from tailrace.errors import LedgerUnusable
from tailrace.ledger.connection import ask
from tailrace.ledger.queries import queries, statements

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tailrace.ledger.connection import Connection

APPLICATION_ID = 0x7472616C


class Migration(msgspec.Struct, frozen=True, kw_only=True):
    """One step to `version`; its last statement writes that version into the file's header."""

    version: int
    statements: tuple[str, ...]


def migration(version: int, text: str) -> Migration:
    """The step to `version` that the text says."""
    return Migration(version=version, statements=(*statements(text),))


@cache
def migrations() -> tuple[Migration, ...]:
    """Every step there is, in order."""
    folder = files(__package__).joinpath("sql", "migrations")
    texts = {entry.name: entry.read_text(encoding="utf-8") for entry in folder.iterdir() if entry.name.endswith(".sql")}
    return tuple(migration(int(name[:4]), texts[name]) for name in sorted(texts))


def check_origin(connection: Connection, path: Path, steps: Sequence[Migration]) -> None:
    """Refuse a file that another program made, or a newer version of this one."""
    application, version = ask(connection, "application_id"), ask(connection, "user_version")
    blank = application == version == 0 and ask(connection, "schema_objects") == 0
    if application != APPLICATION_ID and not blank:
        raise LedgerUnusable(f"{path} is a database of another program. Name another path for the ledger.")
    newest = steps[-1].version
    if version > newest:
        raise LedgerUnusable(
            f"{path} was written by a newer tailrace (version {version} of the file, this one knows {newest}). "
            "Install that version again, or name another path for the ledger."
        )


def migrate(connection: Connection, steps: Sequence[Migration]) -> None:
    """Bring the file to the newest version; killed anywhere, it goes on from there the next time."""
    sql = queries()
    for step in steps:
        if step.version <= ask(connection, "user_version"):
            continue
        connection.execute(sql["begin"])
        for statement in step.statements:
            connection.execute(statement)
        assert ask(connection, "user_version") == step.version, f"migration {step.version} does not write its version"
        connection.execute(sql["commit"])
