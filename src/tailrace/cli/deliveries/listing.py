"""`tailrace deliveries list`: the newest deliveries, one on a line."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from tailrace.cli.deliveries.selection import (
    ChannelOption,
    JsonOption,
    OlderOption,
    StateOption,
    ToOption,
    TurnOption,
    selected,
)
from tailrace.cli.delivery_format import excerpt, format_duration, format_target, json_line, list_record, one_line
from tailrace.cli.failures import FAILED, errors_in_one_line
from tailrace.cli.ledgers import (
    DebugOption,
    LedgerOption,
    ledger_argument,
    ledger_exists,
    ledger_path,
    no_ledger,
    read_ledger,
)
from tailrace.deliveries import NOTICE_ORDINAL, OPEN, UNDELIVERED, Query, State

if TYPE_CHECKING:
    from pathlib import Path

    from tailrace.deliveries import Delivery
    from tailrace.errors import LedgerUnusable

_HEADS = ("ID", "STATE", "TO", "TRIES", "AGE", "SAYS")
_EXCERPT_IN_PIPE = 60


def list_deliveries(  # noqa: PLR0913 -- one for each option of the command
    *,
    state: StateOption = None,
    turn: TurnOption = None,
    to: ToOption = None,
    channel: ChannelOption = None,
    older_than: OlderOption = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Not more than this many.")] = 50,
    ledger: LedgerOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """List deliveries, newest first."""
    with errors_in_one_line(debug=debug):
        query = selected(state=state, turn=turn, to=to, channel=channel, older_than=older_than)
        path = ledger_path(ledger)
        if not ledger_exists(path):
            typer.echo(no_ledger(path), err=True)
            return
        found, missing, damaged = asyncio.run(_find(path, query, limit))
        shown = found[:limit]
        if json:
            sys.stdout.writelines(json_line(list_record(delivery)) for delivery in shown)
            sys.stdout.flush()
        elif shown:
            _print(shown)
        hints = [] if json else _hints(shown, missing, ledger_argument(ledger), is_all=len(found) <= limit)
        for line in (*hints, *(f"tailrace: {damage}" for damage in damaged)):
            typer.echo(line, err=True)
    if damaged:
        raise typer.Exit(FAILED)


async def _find(path: Path, query: Query, limit: int) -> tuple[list[Delivery], list[str], list[LedgerUnusable]]:
    """The deliveries and one more, the ids of those that may be missing and were not sent again, and damaged rows."""
    async with read_ledger(path) as reader:
        found, damaged = await reader.find_legible(query, limit=limit + 1)
        missing = []
        for delivery in found[:limit]:
            if delivery.state in UNDELIVERED and delivery.ordinal != NOTICE_ORDINAL:
                resent = Query(turn_id=f"{delivery.turn_id}/resend", states=frozenset({State.DELIVERED}))
                delivered, _ = await reader.find_legible(resent)
                if all(other.ordinal != delivery.ordinal for other in delivered):
                    missing.append(delivery.id)
        return found, missing, damaged


def _print(shown: list[Delivery]) -> None:
    rows = [_cells(delivery) for delivery in shown]
    if sys.stdout.isatty():
        _print_table(shown, rows)
        return
    rows = [_HEADS, *((*cells, text[:_EXCERPT_IN_PIPE]) for *cells, text in rows)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADS) - 1)]
    for *cells, text in rows:
        typer.echo("  ".join([*(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)), text]).rstrip())


def _cells(delivery: Delivery) -> tuple[str, ...]:
    state = delivery.state.value + (" (twice?)" if delivery.may_be_double else "")
    age = format_duration(time.time() - delivery.updated_at)
    target = format_target(delivery.operation.target)
    return one_line(delivery.id), state, target, str(delivery.attempt), age, excerpt(delivery)


def _print_table(shown: list[Delivery], rows: list[tuple[str, ...]]) -> None:
    from rich.console import Console  # noqa: PLC0415 -- only people at a terminal need it
    from rich.table import Table  # noqa: PLC0415 -- as above
    from rich.text import Text  # noqa: PLC0415 -- as above

    table = Table(box=None, pad_edge=False, header_style="bold", expand=True)
    for head in _HEADS:
        is_long = head == "SAYS"
        table.add_column(
            head, no_wrap=True, overflow="ellipsis" if is_long else "fold", ratio=1 if is_long else None,
            justify="right" if head in {"TRIES", "AGE"} else "left",
        )  # fmt: skip
    for delivery, (name, state, *rest) in zip(shown, rows, strict=True):
        table.add_row(Text(name), Text(state, style=_style(delivery)), *(Text(cell) for cell in rest))
    Console(highlight=False).print(table)


def _style(delivery: Delivery) -> str:
    if delivery.state in UNDELIVERED:
        return "red"
    return "yellow" if delivery.state in OPEN else "green" if delivery.state is State.DELIVERED else "dim"


def _hints(shown: list[Delivery], missing: list[str], ledger: str, *, is_all: bool) -> list[str]:
    """What a person may want to do next."""
    if not shown:
        return ["no delivery matches, or there is none yet"]
    hints = [] if is_all else [f"there are more: --limit {2 * len(shown)} shows further back"]
    if missing:
        which = "1 of them did not surely arrive" if len(missing) == 1 else f"{len(missing)} did not surely arrive"
        example = one_line(missing[-1])
        hints.append(
            f"{which}: `tailrace deliveries show {example}{ledger}` says why, "
            f"`tailrace deliveries resend {example}{ledger}` sends it again"
        )
    if any(delivery.state in OPEN for delivery in shown):
        hints.append(f"some are not finished: `tailrace deliveries resend --state open{ledger}` sends them")
    return hints
