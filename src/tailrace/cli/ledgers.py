"""The ledger of a command: finds its file, opens it and closes it.

No other file of the commands imports SQLite, and this one imports it only when it opens a ledger.
"""

from __future__ import annotations

import shlex
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from tailrace.cli.settings import open_settings
from tailrace.errors import UsageError
from tailrace.ledger.files import default_path

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tailrace.config import Settings
    from tailrace.deliveries import Delivery, Query
    from tailrace.ledger.reader import SqliteReader
    from tailrace.ledger.sqlite import SqliteLedger
    from tailrace.ports import Ledger

LedgerOption: TypeAlias = Annotated[
    Path | None,
    typer.Option("--ledger", metavar="PATH", help="The file of the ledger. Default: ledger.db in your data directory."),
]
DebugOption: TypeAlias = Annotated[bool, typer.Option("--debug", help="Show tracebacks.")]

_PAGE = 200


def ledger_path(given: Path | None, settings: Settings | None = None) -> Path:
    """The absolute path of the ledger. It stays correct if the working directory changes.

    If `given` is None, the ledger is in the `data_dir` of the settings. If these are None too, they are read from the
    working directory.
    """
    if given is None and (folder := (settings or open_settings()).gateway.data_dir) is not None:
        given = folder / default_path().name
    try:
        return (given or default_path()).resolve()
    except RuntimeError as error:
        raise UsageError("your data directory cannot be found: name the ledger with --ledger PATH") from error


def existing_ledger(given: Path | None) -> Path:
    """The path of an existing ledger. Raises `UsageError` if there is none."""
    path = ledger_path(given)
    if not ledger_exists(path):
        raise UsageError(no_ledger(path))
    return path


def ledger_argument(given: Path | None) -> str:
    """The argument `--ledger PATH` for a command line that a message suggests; "" for the default ledger."""
    return f" --ledger {shlex.quote(str(given))}" if given is not None else ""


def ledger_exists(path: Path) -> bool:
    """Whether there is a ledger at the path. An empty file is not a ledger."""
    return path.exists() and (not path.is_file() or path.stat().st_size > 0)


def no_ledger(path: Path) -> str:
    """The text for people that says that there is no ledger at the path."""
    return f"there is no ledger at {path}: nothing was delivered yet, or it is elsewhere (--ledger PATH)"


@asynccontextmanager
async def read_ledger(path: Path) -> AsyncIterator[SqliteReader]:
    """Open the ledger for reading. Another process may write it meanwhile."""
    from tailrace.ledger.reader import SqliteReader  # noqa: PLC0415 -- most commands need no SQLite

    reader = await SqliteReader.open(path)
    try:
        yield reader
    finally:
        await reader.close()


@asynccontextmanager
async def write_ledger(path: Path, *, adopt_restored: bool = False) -> AsyncIterator[SqliteLedger]:
    """Open the ledger for writing, as its only owner. Creates it if there is none."""
    from tailrace.ledger.sqlite import SqliteLedger  # noqa: PLC0415 -- most commands need no SQLite

    ledger = await SqliteLedger.open(path, adopt_restored=adopt_restored)
    try:
        yield ledger
    finally:
        await ledger.close()


async def all_deliveries(ledger: SqliteReader | Ledger, query: Query) -> AsyncIterator[Delivery]:
    """Every delivery that the query selects, newest first, read page by page."""
    position: int | None = None
    while page := await ledger.find(query, after=position, limit=_PAGE):
        for delivery in page:
            yield delivery
        position = page[-1].position
