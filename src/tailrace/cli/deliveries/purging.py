"""`tailrace deliveries purge`: delete final deliveries, or only their texts."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec.structs import replace

from tailrace.cli.deliveries.operating import OperatedLedger, SendReport, operate
from tailrace.cli.deliveries.selection import (
    ChannelOption,
    OlderOption,
    StateOption,
    ToOption,
    TurnOption,
    selected,
)
from tailrace.cli.failures import errors_in_one_line
from tailrace.cli.ledgers import (
    DebugOption,
    LedgerOption,
    all_deliveries,
    ledger_exists,
    ledger_place,
    no_ledger,
    read_ledger,
)
from tailrace.cli.settings import ConfigOption, SetOption
from tailrace.deliveries import FINAL, TURN_OPEN, fingerprint_of
from tailrace.delivery.operator import Purge
from tailrace.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from tailrace.deliveries import Query


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
    config: ConfigOption = None,
    assignments: SetOption = None,
    debug: DebugOption = False,
) -> None:
    """Delete deliveries that are finished. Open ones always stay.

    Give at least --older-than, --turn or --all. The ledger does not know a deleted turn any more: if you deliver it
    again, all of it is sent again.
    """
    with errors_in_one_line(debug=debug):
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
        place = ledger_place(ledger, config, assignments)
        if not ledger_exists(place.path):
            typer.echo(no_ledger(place.path), err=True)
            return
        if dry_run:
            count = asyncio.run(_count(place.path, query, bodies=bodies))
        else:
            report, verb = SendReport(), Purge(query=query, bodies=bodies)
            count_done = partial(report.status.count, "deleted")
            count = asyncio.run(
                operate(
                    OperatedLedger(place),
                    report,
                    lambda operator: operator.purge(verb, count_done),
                    lambda client: client.ask(verb, int, progress=int, report=count_done, within_s=None),
                    debug=debug,
                )
            )
        which = "1 delivery" if count == 1 else f"{count} deliveries"
        what = f"the text of {which}" if bodies else which
        typer.echo(f"would delete {what}; nothing was changed" if dry_run else f"deleted {what}")


async def _count(path: Path, query: Query, *, bodies: bool) -> int:
    """Count the deliveries that would be deleted. The ledger is only read."""
    count = 0
    is_open: dict[str, bool] = {}
    async with read_ledger(path) as reader:
        async for delivery in all_deliveries(reader, replace(query, states=(query.states or FINAL) & FINAL)):
            if delivery.turn_id not in is_open:
                turn = await reader.turn(delivery.turn_id)
                is_open[delivery.turn_id] = turn is not None and turn.state in TURN_OPEN
            is_deletable = not bodies or fingerprint_of(delivery.operation) == delivery.fingerprint
            count += is_deletable and not is_open[delivery.turn_id]
    return count
