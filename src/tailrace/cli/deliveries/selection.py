"""The options and ids with which a person chooses deliveries, such as `--turn ID`."""

from __future__ import annotations

import re
import time
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from tailrace.cli.delivery_format import one_line
from tailrace.cli.ledgers import all_deliveries
from tailrace.deliveries import OPEN, Query, State
from tailrace.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tailrace.deliveries import Delivery
    from tailrace.ledger.reader import SqliteReader
    from tailrace.ledger_port import Ledger


_STATES = {"open": OPEN, **{state.value: frozenset({state}) for state in State}}
StateOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--state", help=f"Only in this state; repeat it for more: {', '.join(_STATES)}.", metavar="STATE"),
]
TurnOption: TypeAlias = Annotated[str | None, typer.Option("--turn", metavar="ID", help="Only of this turn.")]
ToOption: TypeAlias = Annotated[
    str | None, typer.Option("--to", metavar="CHANNEL:CHAT", help="Only to this chat, or CHANNEL:CHAT#THREAD.")
]
ChannelOption: TypeAlias = Annotated[str | None, typer.Option("--channel", help="Only on this channel.")]
OlderOption: TypeAlias = Annotated[
    str | None,
    typer.Option("--older-than", metavar="AGE", help="Only those unchanged for at least this long: 90s, 30m, 2h, 7d."),
]
JsonOption: TypeAlias = Annotated[bool, typer.Option("--json", help="Write each delivery as a line of JSON.")]

_UNITS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_SEARCHED_FOR_NEAR_IDS = 1000
_MAX_LISTED = 6


def selected(
    *,
    state: Sequence[str] | None = None,
    turn: str | None = None,
    to: str | None = None,
    channel: str | None = None,
    older_than: str | None = None,
) -> Query:
    """Make a query for the ledger from the values of these options. Raises `UsageError` for an invalid value."""
    if to is not None and not re.fullmatch(r"[^:]+:.+", to):
        raise UsageError(f"--to is {to!r}: write CHANNEL:CHAT, as `tailrace deliveries list` shows it")
    if unknown := [name for name in state or () if name not in _STATES]:
        raise UsageError(f"--state is {unknown[0]!r}: choose {', '.join(_STATES)}")
    states = frozenset().union(*(_STATES[name] for name in state)) if state else None
    before = None if older_than is None else time.time() - _seconds(older_than)
    return Query(states=states, turn_id=turn, conversation=to, channel=channel, before=before)


def _seconds(age: str) -> float:
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*", age.lower())
    if found is None or found[2] not in _UNITS:
        raise UsageError(f"--older-than is {age!r}: write a number and a unit, as in 90s, 30m, 2h or 7d")
    return float(found[1]) * _UNITS[found[2]]


async def delivery_by_id(ledger: SqliteReader | Ledger, delivery_id: str) -> Delivery:
    """Look up a delivery by its id. If there is none, raises `UsageError` that names similar ids."""
    turn_id, _, ordinal = delivery_id.rpartition(".")
    async for delivery in all_deliveries(ledger, Query(turn_id=turn_id)):
        if str(delivery.ordinal) == ordinal:
            return delivery
    parts = [delivery.id async for delivery in all_deliveries(ledger, Query(turn_id=delivery_id))]
    if parts:
        raise UsageError(f"{one_line(delivery_id)} is a turn; its deliveries are {_listed(parts[::-1])}")
    recent = [delivery.id for delivery in await ledger.find(Query(), limit=_SEARCHED_FOR_NEAR_IDS)]
    near = get_close_matches(delivery_id, recent, n=3)
    hint = f" Did you mean {_listed(near)}?" if near else " `tailrace deliveries list` shows those there are."
    raise UsageError(f"there is no delivery {one_line(delivery_id)!r}.{hint}")


def _listed(ids: list[str]) -> str:
    more = f" and {len(ids) - _MAX_LISTED} more" if len(ids) > _MAX_LISTED else ""
    return ", ".join(one_line(delivery_id) for delivery_id in ids[:_MAX_LISTED]) + more
