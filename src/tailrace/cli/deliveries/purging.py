"""`tailrace deliveries purge`: forget what is over, or only what it said."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from tailrace.cli.deliveries.selection import (
    ChannelOption,
    OlderOption,
    StateOption,
    ToOption,
    TurnOption,
    query_of,
)
from tailrace.cli.failures import errors_in_one_line, warnings_in_one_line
from tailrace.cli.ledgers import (
    DebugOption,
    LedgerOption,
    each,
    is_there,
    ledger_path,
    nothing_there,
    read_ledger,
    write_ledger,
)
from tailrace.cli.progress_bar import Tally
from tailrace.deliveries import FINAL, TURN_OPEN, fingerprint_of
from tailrace.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from tailrace.deliveries import Delivery, Query
    from tailrace.ledger.reader import SqliteReader

_AT_A_TIME = 500


class _Purge(NamedTuple):
    """What is to be forgotten, and how much of it."""

    path: Path
    query: Query
    bodies: bool


def purge(  # noqa: PLR0913 -- one for each option of the command
    *,
    older_than: OlderOption = None,
    everything: Annotated[bool, typer.Option("--all", help="However new it is.")] = False,
    state: StateOption = None,
    turn: TurnOption = None,
    to: ToOption = None,
    channel: ChannelOption = None,
    bodies: Annotated[bool, typer.Option("--bodies", help="Forget only what they said; the rows stay.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count: nothing is changed.")] = False,
    ledger: LedgerOption = None,
    debug: DebugOption = False,
) -> None:
    """Forget deliveries that are over. Open ones are never touched.

    A turn that was forgotten is not known any more: delivering it again sends it again.
    """
    with errors_in_one_line(debug=debug), warnings_in_one_line(debug=debug):
        if older_than is None and turn is None and not everything:
            raise UsageError(
                "say what to forget: --older-than 30d, --turn ID, or --all for everything that is over; "
                "--dry-run counts it first"
            )
        if older_than is not None and everything:
            raise UsageError("--all and --older-than cannot both be meant: leave one out")
        query = query_of(state=state, turn=turn, to=to, channel=channel, older_than=older_than)
        if query.states is not None and not query.states & FINAL:
            raise UsageError("open deliveries are never forgotten: name a state in which a delivery is over")
        path = ledger_path(ledger)
        if not is_there(path):
            typer.echo(nothing_there(path), err=True)
            return
        asked = _Purge(path, query, bodies)
        count = asyncio.run(_counted(asked) if dry_run else _forgotten(asked))
        typer.echo(_told(count, bodies=bodies, dry_run=dry_run))


def _told(count: int, *, bodies: bool, dry_run: bool) -> str:
    which = "1 delivery" if count == 1 else f"{count} deliveries"
    what = f"what {which} said" if bodies else which
    return f"would forget {what}; nothing was changed" if dry_run else f"forgot {what}"


async def _forgotten(asked: _Purge) -> int:
    """Forget a few at a time, so that nobody waits long for the disk."""
    count = 0
    async with write_ledger(asked.path) as ledger:
        with Tally("forgetting") as tally:
            while forgotten := await ledger.prune(asked.query, limit=_AT_A_TIME, bodies=asked.bodies):
                count += forgotten
                tally.advance(forgotten)
    return count


async def _counted(asked: _Purge) -> int:
    """What would be forgotten, asked of a ledger that cannot be changed."""
    count = 0
    open_turns: dict[str, bool] = {}
    async with read_ledger(asked.path) as reader:
        async for delivery in each(reader, asked.query):
            if delivery.turn_id not in open_turns:
                open_turns[delivery.turn_id] = await _is_open(reader, delivery.turn_id)
            count += _goes(delivery, bodies=asked.bodies) and not open_turns[delivery.turn_id]
    return count


async def _is_open(reader: SqliteReader, turn_id: str) -> bool:
    turn = await reader.turn(turn_id)
    return turn is not None and turn.state in TURN_OPEN


def _goes(delivery: Delivery, *, bodies: bool) -> bool:
    is_forgotten = fingerprint_of(delivery.operation) != delivery.fingerprint
    return delivery.state in FINAL and not (bodies and is_forgotten)
