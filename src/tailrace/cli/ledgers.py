"""The ledger of a command: finds its file, opens it and closes it.

No other file of the commands imports SQLite, and this one imports it only when it opens a ledger.
"""

from __future__ import annotations

import shlex
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple, TypeAlias

import typer

from tailrace.cli.settings import open_settings
from tailrace.errors import LedgerInUse, UsageError
from tailrace.gateway.control import control_path
from tailrace.ledger.files import default_path

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from tailrace.config import Settings
    from tailrace.deliveries import Delivery, Query
    from tailrace.ledger.reader import SqliteReader
    from tailrace.ledger.sqlite import SqliteLedger
    from tailrace.ledger_port import Ledger

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


class LedgerPlace(NamedTuple):
    """The ledger that the options of a command name, and the control socket of the gateway that uses it.

    `arguments` are these options again, for a command that a message suggests.
    """

    path: Path
    control: Path
    settings: Settings
    arguments: str

    def existing(self) -> LedgerPlace:
        """This place. Raises `UsageError` if it has no ledger."""
        if not ledger_exists(self.path):
            raise UsageError(no_ledger(self.path))
        return self


def ledger_place(
    ledger: Path | None, config: Path | None = None, assignments: Sequence[str] | None = None
) -> LedgerPlace:
    """Find the ledger by the options `--ledger`, `--config` and `--set`."""
    settings = open_settings(config, assignments)
    path, gateway = ledger_path(ledger, settings), settings.gateway
    control = control_path(ledger=ledger, data_dir=gateway.data_dir, control=gateway.control)
    options = [("--ledger", ledger), ("--config", config), *(("--set", each) for each in assignments or ())]
    arguments = "".join(f" {option} {shlex.quote(str(value))}" for option, value in options if value is not None)
    return LedgerPlace(path, control, settings, arguments)


def ledger_argument(given: Path | None) -> str:
    """The argument `--ledger PATH` for a command line that a message suggests; "" for the default ledger."""
    return f" --ledger {shlex.quote(str(given))}" if given is not None else ""


def ledger_exists(path: Path) -> bool:
    """Whether there is a ledger at the path. An empty file is not a ledger."""
    return path.exists() and (not path.is_file() or path.stat().st_size > 0)


def no_ledger(path: Path) -> str:
    """The text for people that says that there is no ledger at the path."""
    return f"there is no ledger at {path}: nothing was delivered yet, or it is elsewhere (--ledger PATH)"


def no_answer(place: LedgerPlace, in_use: LedgerInUse) -> LedgerInUse:
    """The error if another process uses the ledger, and is not a gateway that answers at the control socket."""
    who = "another process" if in_use.pid is None else f"process {in_use.pid}"
    return LedgerInUse(
        f"{place.path} is in use by {who}, and no gateway answers at {place.control}. Name the ledger as that process "
        "does (--config or --ledger), or end that process.",
        pid=in_use.pid,
    )


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
