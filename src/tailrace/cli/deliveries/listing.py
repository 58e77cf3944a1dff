"""`tailrace deliveries list`: the newest deliveries, one on a line."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from tailrace.cli.deliveries.selection import (
    ChannelOption,
    OlderOption,
    StateOption,
    ToOption,
    TurnOption,
    query_of,
)
from tailrace.cli.delivery_format import excerpt, json_line, one_line, place, row, span
from tailrace.cli.failures import FAILED, errors_in_one_line
from tailrace.cli.ledgers import DebugOption, LedgerOption, is_there, ledger_path, naming, nothing_there, read_ledger
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
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most so many.")] = 50,
    ledger: LedgerOption = None,
    json: Annotated[bool, typer.Option("--json", help="Write each delivery as a line of JSON.")] = False,
    debug: DebugOption = False,
) -> None:
    """List deliveries, newest first."""
    with errors_in_one_line(debug=debug):
        query = query_of(state=state, turn=turn, to=to, channel=channel, older_than=older_than)
        path = ledger_path(ledger)
        if not is_there(path):
            typer.echo(nothing_there(path), err=True)
            return
        found, missing, illegible = asyncio.run(_found(path, query, limit))
        shown = found[:limit]
        if json:
            sys.stdout.writelines(json_line(row(delivery)) for delivery in shown)
            sys.stdout.flush()
        elif shown:
            _print(shown)
        hints = [] if json else _hints(shown, missing, naming(ledger), is_all=len(found) <= limit)
        for line in (*hints, *(f"tailrace: {damage}" for damage in illegible)):
            typer.echo(line, err=True)
    if illegible:
        raise typer.Exit(FAILED)


async def _found(path: Path, query: Query, limit: int) -> tuple[list[Delivery], list[str], list[LedgerUnusable]]:
    """What is to be shown and one more, the names of those that are missing and were not sent again, and damages."""
    async with read_ledger(path) as reader:
        found, illegible = await reader.find_legible(query, limit=limit + 1)
        missing = []
        for delivery in found[:limit]:
            if delivery.state in UNDELIVERED and delivery.ordinal != NOTICE_ORDINAL:
                again = Query(turn_id=f"{delivery.turn_id}/resend", states=frozenset({State.DELIVERED}))
                sent_again, _ = await reader.find_legible(again)
                if not any(sent.ordinal == delivery.ordinal for sent in sent_again):
                    missing.append(delivery.id)
        return found, missing, illegible


def _print(shown: list[Delivery]) -> None:
    rows = [_columns(delivery) for delivery in shown]
    if sys.stdout.isatty():
        _print_table(shown, rows)
        return
    rows = [_HEADS, *((*fixed, says[:_EXCERPT_IN_PIPE]) for *fixed, says in rows)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADS) - 1)]
    for *fixed, says in rows:
        typer.echo("  ".join([*(cell.ljust(width) for cell, width in zip(fixed, widths, strict=True)), says]).rstrip())


def _columns(delivery: Delivery) -> tuple[str, ...]:
    state = delivery.state.value + (" (twice?)" if delivery.may_be_double else "")
    age = span(time.time() - delivery.updated_at)
    where = place(delivery.operation.target)
    return one_line(delivery.id), state, where, str(delivery.attempt), age, excerpt(delivery)


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
    """What a person may want to know or do after looking."""
    if not shown:
        return ["no delivery is as you asked, or there is none yet"]
    hints = [] if is_all else [f"there are more: --limit {2 * len(shown)} shows further back"]
    if missing:
        which = "1 of them did not surely arrive" if len(missing) == 1 else f"{len(missing)} did not surely arrive"
        example = one_line(missing[-1])
        hints.append(
            f"{which}: `tailrace deliveries show {example}{ledger}` says why, "
            f"`tailrace deliveries resend {example}{ledger}` sends it again"
        )
    if any(delivery.state in OPEN for delivery in shown):
        hints.append(f"some are not over: `tailrace deliveries resend --state open{ledger}` goes on with them")
    return hints
