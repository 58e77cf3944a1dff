"""`tailrace deliveries purge`: delete deliveries that are finished, or only their texts."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from tailrace.cli.deliveries.selection import (
    ChannelOption,
    OlderOption,
    StateOption,
    ToOption,
    TurnOption,
    selected,
)
from tailrace.cli.failures import errors_in_one_line, warnings_in_one_line
from tailrace.cli.ledgers import (
    DebugOption,
    LedgerOption,
    all_deliveries,
    ledger_exists,
    ledger_path,
    no_ledger,
    read_ledger,
    write_ledger,
)
from tailrace.cli.status_line import StatusLine
from tailrace.deliveries import FINAL, TURN_OPEN, fingerprint_of
from tailrace.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from tailrace.deliveries import Query

_BATCH = 500


def purge(  # noqa: PLR0913 -- one for each option of the command
    *,
    older_than: OlderOption = None,
    everything: Annotated[bool, typer.Option("--all", help="Finished deliveries of any age.")] = False,
    state: StateOption = None,
    turn: TurnOption = None,
    to: ToOption = None,
    channel: ChannelOption = None,
    bodies: Annotated[
        bool, typer.Option("--bodies", help="Delete only the texts; keep the rest of each delivery.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count what would be deleted.")] = False,
    ledger: LedgerOption = None,
    debug: DebugOption = False,
) -> None:
    """Delete deliveries that are finished. Open ones always stay.

    Give at least --older-than, --turn or --all. A deleted turn is forgotten: to deliver it again sends all of it
    again.
    """
    with errors_in_one_line(debug=debug), warnings_in_one_line(debug=debug):
        if older_than is None and turn is None and not everything:
            raise UsageError(
                "say what to delete: --older-than 30d, --turn ID, or --all for everything that is finished; "
                "--dry-run counts it first"
            )
        if older_than is not None and everything:
            raise UsageError("--all and --older-than contradict each other: leave one out")
        query = selected(state=state, turn=turn, to=to, channel=channel, older_than=older_than)
        if query.states is not None and not query.states & FINAL:
            raise UsageError("open deliveries are never deleted: name a state in which a delivery is finished")
        path = ledger_path(ledger)
        if not ledger_exists(path):
            typer.echo(no_ledger(path), err=True)
            return
        count = asyncio.run((_count if dry_run else _delete)(path, query, bodies=bodies))
        which = "1 delivery" if count == 1 else f"{count} deliveries"
        what = f"the text of {which}" if bodies else which
        typer.echo(f"would delete {what}; nothing was changed" if dry_run else f"deleted {what}")


async def _delete(path: Path, query: Query, *, bodies: bool) -> int:
    """Delete in small batches, so that no other writer has to wait long."""
    count, status = 0, StatusLine()
    async with write_ledger(path) as ledger:
        while deleted := await ledger.prune(query, limit=_BATCH, bodies=bodies):
            count += deleted
            status.count("deleted", count)
    status.clear()
    return count


async def _count(path: Path, query: Query, *, bodies: bool) -> int:
    """Count what `_delete` would delete, with a ledger that is opened for reading."""
    count = 0
    is_turn_open: dict[str, bool] = {}
    async with read_ledger(path) as reader:
        async for delivery in all_deliveries(reader, query):
            if delivery.turn_id not in is_turn_open:
                turn = await reader.turn(delivery.turn_id)
                is_turn_open[delivery.turn_id] = turn is not None and turn.state in TURN_OPEN
            has_text = fingerprint_of(delivery.operation) == delivery.fingerprint
            is_deletable = delivery.state in FINAL and (has_text or not bodies)
            count += is_deletable and not is_turn_open[delivery.turn_id]
    return count
