"""The ledger that a command reads or writes: where it lies, and how it is opened and let go of.

SQLite is imported here, when a ledger is opened, and by no other file of the commands.
"""

from __future__ import annotations

import shlex
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from tailrace.errors import UsageError
from tailrace.ledger.files import default_path

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tailrace.deliveries import Delivery, Query
    from tailrace.ledger.reader import SqliteReader
    from tailrace.ledger.sqlite import SqliteLedger
    from tailrace.ports import Ledger

LedgerOption: TypeAlias = Annotated[
    Path | None, typer.Option("--ledger", metavar="PATH", help="The ledger; without it the one of your user.")
]
DebugOption: TypeAlias = Annotated[bool, typer.Option("--debug", help="Show tracebacks.")]

_PAGE = 200


def ledger_path(given: Path | None) -> Path:
    """The ledger that is meant, by its one name: what is beside it is found from any directory."""
    try:
        return (given or default_path()).resolve()
    except RuntimeError as error:
        raise UsageError("it cannot be told where your data is kept: name the ledger with --ledger PATH") from error


def naming(given: Path | None) -> str:
    """What a command needs to mean the same ledger, for those who are told what to run next."""
    return f" --ledger {shlex.quote(str(given))}" if given is not None else ""


def is_there(path: Path) -> bool:
    """Whether there is a ledger; a file without a byte is none yet."""
    return path.exists() and (not path.is_file() or path.stat().st_size > 0)


def nothing_there(path: Path) -> str:
    """What to say where there is none."""
    return f"there is no ledger at {path}: nothing was delivered yet, or it lies elsewhere (--ledger PATH)"


@asynccontextmanager
async def read_ledger(path: Path) -> AsyncIterator[SqliteReader]:
    """The ledger for questions alone, whether or not another process writes it."""
    from tailrace.ledger.reader import SqliteReader  # noqa: PLC0415 -- most commands need no SQLite

    reader = await SqliteReader.open(path)
    try:
        yield reader
    finally:
        await reader.close()


@asynccontextmanager
async def write_ledger(path: Path, *, adopt_restored: bool = False) -> AsyncIterator[SqliteLedger]:
    """The ledger as its one owner, made where there is none."""
    from tailrace.ledger.sqlite import SqliteLedger  # noqa: PLC0415 -- most commands need no SQLite

    ledger = await SqliteLedger.open(path, adopt_restored=adopt_restored)
    try:
        yield ledger
    finally:
        await ledger.close()


async def each(ledger: SqliteReader | Ledger, query: Query) -> AsyncIterator[Delivery]:
    """Every delivery that is meant, newest first."""
    position: int | None = None
    while page := await ledger.find(query, after=position, limit=_PAGE):
        for delivery in page:
            yield delivery
        position = page[-1].position
