"""`tailrace deliveries list`: the newest deliveries, one on a line."""

from __future__ import annotations

import asyncio
import shutil
import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer
from rich.cells import cell_len, set_cell_size

from tailrace.channels.terminal.lines import TerminalWriter
from tailrace.channels.terminal.visible import visible
from tailrace.cli.deliveries.selection import (
    ChannelOption,
    JsonOption,
    OlderOption,
    StateOption,
    ToOption,
    TurnOption,
    selected,
)
from tailrace.cli.delivery_format import format_duration, json_line, list_record, one_line, text_of
from tailrace.cli.failures import FAILED, errors_in_one_line
from tailrace.cli.ledgers import (
    DebugOption,
    LedgerOption,
    ledger_exists,
    ledger_place,
    no_ledger,
    read_ledger,
)
from tailrace.cli.settings import ConfigOption, SetOption
from tailrace.deliveries import NOTICE_ORDINAL, OPEN, UNDELIVERED, Query, State

if TYPE_CHECKING:
    from pathlib import Path

    from tailrace.deliveries import Delivery
    from tailrace.errors import LedgerUnusable

_HEADS = ("ID", "STATE", "TO", "TRIES", "AGE", "SAYS")
_MAX_EXCERPT = 200
_EXCERPT_IN_PIPE = 60


def list_deliveries(  # noqa: PLR0913 -- one for each option of the command
    *,
    state: StateOption = None,
    turn: TurnOption = None,
    to: ToOption = None,
    channel: ChannelOption = None,
    older_than: OlderOption = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most this many.")] = 50,
    ledger: LedgerOption = None,
    config: ConfigOption = None,
    assignments: SetOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """List deliveries, newest first."""
    with errors_in_one_line(debug=debug):
        query = selected(state=state, turn=turn, to=to, channel=channel, older_than=older_than)
        place = ledger_place(ledger, config, assignments)
        if not ledger_exists(place.path):
            typer.echo(no_ledger(place.path), err=True)
            return
        found, missing, damaged = asyncio.run(_find(place.path, query, limit))
        shown = found[:limit]
        if json:
            sys.stdout.writelines(json_line(list_record(delivery)) for delivery in shown)
            sys.stdout.flush()
        elif shown:
            _print(shown)
        hints = [] if json else _hints(shown, missing, place.arguments, is_all=len(found) <= limit)
        for line in (*hints, *(f"tailrace: {damage}" for damage in damaged)):
            typer.echo(line, err=True)
    if damaged:
        raise typer.Exit(FAILED)


async def _find(path: Path, query: Query, limit: int) -> tuple[list[Delivery], list[str], list[LedgerUnusable]]:
    """Read up to `limit` + 1 deliveries; one more than `limit` shows that there are more.

    Also returns the ids of those that may be missing and were not sent again, and the rows that are damaged.
    """
    async with read_ledger(path) as reader:
        found, damaged = await reader.find_readable(query, limit=limit + 1)
        missing = []
        for delivery in found[:limit]:
            if delivery.state in UNDELIVERED and delivery.ordinal != NOTICE_ORDINAL:
                resent = Query(turn_id=f"{delivery.turn_id}/resend", states=frozenset({State.DELIVERED}))
                delivered, _ = await reader.find_readable(resent)
                if all(other.ordinal != delivery.ordinal for other in delivered):
                    missing.append(delivery.id)
        return found, missing, damaged


def _print(shown: list[Delivery]) -> None:
    """Print a table. On a terminal its last column uses the remaining width."""
    rows = [_cells(delivery) for delivery in shown]
    widths = [max(len(row[column]) for row in (_HEADS, *rows)) for column in range(len(_HEADS) - 1)]
    is_styled = TerminalWriter(sys.stdout).styled
    room = None
    if sys.stdout.isatty():
        room = max(shutil.get_terminal_size().columns - sum(widths) - 2 * len(widths), 1)
    for delivery, (*cells, text) in zip([None, *shown], (_HEADS, *rows), strict=True):
        padded = [cell.ljust(width) for cell, width in zip(cells, widths, strict=True)]
        if is_styled and delivery is not None:
            padded[1] = typer.style(padded[1], fg=_color(delivery))
        typer.echo("  ".join([*padded, _fitted(text, room)]).rstrip())


def _fitted(text: str, room: int | None) -> str:
    if room is None:
        return text[:_EXCERPT_IN_PIPE]
    return text if cell_len(text) <= room else set_cell_size(text, room - 1).rstrip() + "…"


def _cells(delivery: Delivery) -> tuple[str, ...]:
    state = delivery.state.value + (" (twice?)" if delivery.may_be_double else "")
    age = format_duration(time.time() - delivery.updated_at)
    target = visible(delivery.operation.target.conversation)
    text = one_line(text_of(delivery.operation)[: 2 * _MAX_EXCERPT])[:_MAX_EXCERPT]
    return one_line(delivery.id), state, target, str(delivery.attempt), age, text


def _color(delivery: Delivery) -> str | None:
    if delivery.state in UNDELIVERED:
        return "red"
    return "yellow" if delivery.state in OPEN else "green" if delivery.state is State.DELIVERED else None


def _hints(shown: list[Delivery], missing: list[str], ledger: str, *, is_all: bool) -> list[str]:
    """Lines that suggest what the person can do next."""
    if not shown:
        return ["no delivery matches, or there is none yet"]
    hints = [] if is_all else [f"there are more: --limit {2 * len(shown)} shows further back"]
    if missing:
        which = (
            "1 of them may not have arrived" if len(missing) == 1 else f"{len(missing)} of them may not have arrived"
        )
        example = one_line(missing[-1])
        hints.append(
            f"{which}: `tailrace deliveries show {example}{ledger}` says why, "
            f"`tailrace deliveries resend {example}{ledger}` sends it again"
        )
    if any(delivery.state in OPEN for delivery in shown):
        hints.append(f"some are not finished: `tailrace deliveries resume{ledger}` finishes them")
    return hints
