"""`tailrace deliveries adopt`: go on with a ledger that is older than it was."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import typer

from tailrace.cli.failures import errors_in_one_line, warnings_in_one_line
from tailrace.cli.ledgers import (
    DebugOption,
    LedgerOption,
    each,
    is_there,
    ledger_path,
    naming,
    nothing_there,
    write_ledger,
)
from tailrace.deliveries import OPEN, Query
from tailrace.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path


def adopt(*, ledger: LedgerOption = None, debug: DebugOption = False) -> None:
    """Take over a ledger that was restored from a backup, or has lost its last changes.

    What was sent after the backup was made is not in it. So whatever is open there counts as maybe sent from now on:
    it is sent again only where the platform can tell it from the first.
    """
    with errors_in_one_line(debug=debug), warnings_in_one_line(debug=debug):
        path = ledger_path(ledger)
        if not is_there(path):
            raise UsageError(nothing_there(path))
        still_open = asyncio.run(_adopted(path))
        typer.echo(f"{path} was taken over as it is.")
        if not still_open:
            typer.echo("nothing in it was open: nothing will be sent because of it.")
            return
        which = (
            "1 delivery that was open counts" if still_open == 1 else f"{still_open} deliveries that were open count"
        )
        typer.echo(
            f"{which} as maybe sent. Where the platform can tell, it is found out; the others become unknown, and are "
            f"told of. `tailrace deliveries resend --state open{naming(ledger)}` goes on with them now."
        )


async def _adopted(path: Path) -> int:
    async with write_ledger(path, adopt_restored=True) as ledger:
        return len([1 async for _ in each(ledger, Query(states=OPEN))])
