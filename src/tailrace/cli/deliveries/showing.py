"""`tailrace deliveries show`: all recorded facts about one delivery."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from tailrace.channels.terminal.visible import visible
from tailrace.cli.deliveries.selection import delivery_by_id
from tailrace.cli.delivery_format import (
    format_duration,
    format_time,
    full_record,
    json_line,
    one_line,
    text_of,
)
from tailrace.cli.failures import errors_in_one_line
from tailrace.cli.ledgers import DebugOption, LedgerOption, ledger_place, read_ledger
from tailrace.cli.settings import ConfigOption, SetOption
from tailrace.deliveries import fingerprint_of

if TYPE_CHECKING:
    from pathlib import Path

    from tailrace.deliveries import Delivery


def show(
    delivery_id: Annotated[str, typer.Argument(metavar="ID", help="The delivery, as `list` shows it.")],
    *,
    ledger: LedgerOption = None,
    config: ConfigOption = None,
    assignments: SetOption = None,
    json: Annotated[bool, typer.Option("--json", help="Write it as a line of JSON.")] = False,
    debug: DebugOption = False,
) -> None:
    """Show everything that is known about one delivery."""
    with errors_in_one_line(debug=debug):
        delivery = asyncio.run(_find(ledger_place(ledger, config, assignments).existing().path, delivery_id))
        if json:
            typer.echo(json_line(full_record(delivery)), nl=False)
            return
        for name, value in _facts(delivery):
            typer.echo(f"{typer.style(f'{name:<9}', bold=True)} {value}")
        is_deleted = fingerprint_of(delivery.operation) != delivery.fingerprint
        typer.echo()
        typer.echo(visible(text_of(delivery.operation)) or ("(its text was deleted)" if is_deleted else "(no text)"))


async def _find(path: Path, delivery_id: str) -> Delivery:
    async with read_ledger(path) as reader:
        return await delivery_by_id(reader, delivery_id)


def _facts(delivery: Delivery) -> list[tuple[str, str]]:
    """The names and values of all that is known about a delivery, as text."""
    receipt, policy = delivery.receipt, delivery.policy
    deferred = f", {delivery.deferred_tries} only put off" if delivery.deferred_tries else ""
    facts = [
        ("id", one_line(delivery.id)),
        ("state", delivery.state.value + (", may be there twice" if delivery.may_be_double else "")),
        ("to", visible(delivery.operation.target.conversation)),
        ("operation", type(delivery.operation).__struct_config__.tag),
        ("message", one_line(receipt.message_id) if receipt else None),
        ("degraded", one_line(receipt.degraded) if receipt and receipt.degraded else None),
        ("error", one_line(delivery.error) or None),
        ("tries", f"{delivery.attempt}{deferred}"),
        ("made", _when(delivery.created_at)),
        ("first try", _when(delivery.first_try_at)),
        ("last try", _when(delivery.last_try_at)),
        ("not until", _when(delivery.not_before)),
        ("changed", _when(delivery.updated_at)),
        ("policy", f"{_idempotency(delivery)}; on unknown {policy.on_unknown}, on dead {policy.on_dead}"),
        ("limits", f"{policy.max_attempts} tries, {format_duration(policy.max_age_s)}"),
        ("key", delivery.key),
    ]
    return [(name, str(value)) for name, value in facts if value is not None]


def _idempotency(delivery: Delivery) -> str:
    fields = msgspec.to_builtins(delivery.idempotency)
    kind = fields.pop("kind")
    details = ", ".join(f"{name} {value}" for name, value in fields.items() if value not in {"", None})
    return f"{kind} ({details})" if details else str(kind)


def _when(at: float | None) -> str | None:
    if at is None:
        return None
    passed = time.time() - at
    when = f"{format_duration(passed)} ago" if passed >= 0 else f"in {format_duration(-passed)}"
    return f"{format_time(at)} ({when})"
