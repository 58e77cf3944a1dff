"""`tailrace deliveries show`: all that is known of one delivery."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from tailrace.channels.terminal.visible import visible
from tailrace.cli.deliveries.selection import found_by_id
from tailrace.cli.delivery_format import everything, json_line, moment, one_line, place, span, text_of
from tailrace.cli.failures import errors_in_one_line
from tailrace.cli.ledgers import DebugOption, LedgerOption, is_there, ledger_path, nothing_there, read_ledger
from tailrace.deliveries import fingerprint_of
from tailrace.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from tailrace.deliveries import Delivery


def show(
    delivery_id: Annotated[str, typer.Argument(metavar="ID", help="The delivery, as it is listed.")],
    *,
    ledger: LedgerOption = None,
    json: Annotated[bool, typer.Option("--json", help="Write it as a line of JSON.")] = False,
    debug: DebugOption = False,
) -> None:
    """Show all that is known of one delivery."""
    with errors_in_one_line(debug=debug):
        path = ledger_path(ledger)
        if not is_there(path):
            raise UsageError(nothing_there(path))
        delivery = asyncio.run(_found(path, delivery_id))
        if json:
            typer.echo(json_line(everything(delivery)), nl=False)
            return
        for name, value in _facts(delivery):
            typer.echo(f"{typer.style(f'{name:<9}', bold=True)} {value}")
        typer.echo()
        typer.echo(visible(text_of(delivery.operation)) or _silence(delivery))


async def _found(path: Path, delivery_id: str) -> Delivery:
    async with read_ledger(path) as reader:
        return await found_by_id(reader, delivery_id)


def _silence(delivery: Delivery) -> str:
    forgotten = fingerprint_of(delivery.operation) != delivery.fingerprint
    return "(what it said was forgotten)" if forgotten else "(it says nothing)"


def _facts(delivery: Delivery) -> list[tuple[str, str]]:
    """What there is to say, with what there is not left out."""
    receipt, policy = delivery.receipt, delivery.policy
    tries = (
        str(delivery.attempt)
        if not delivery.deferred_tries
        else f"{delivery.attempt}, {delivery.deferred_tries} only put off"
    )
    facts = [
        ("id", one_line(delivery.id)),
        ("state", delivery.state.value + (", may be there twice" if delivery.may_be_double else "")),
        ("to", place(delivery.operation.target)),
        ("does", type(delivery.operation).__struct_config__.tag),
        ("message", one_line(receipt.message_id) if receipt else None),
        ("degraded", one_line(receipt.degraded) if receipt and receipt.degraded else None),
        ("error", one_line(delivery.error) or None),
        ("tries", tries),
        ("made", _when(delivery.created_at)),
        ("first try", _when(delivery.first_try_at)),
        ("last try", _when(delivery.last_try_at)),
        ("not until", _when(delivery.not_before)),
        ("changed", _when(delivery.updated_at)),
        ("policy", f"{_repeating(delivery)}; on unknown {policy.on_unknown}, on dead {policy.on_dead}"),
        ("limits", f"{policy.max_attempts} tries, {span(policy.max_age_s)}"),
        ("key", delivery.key),
    ]
    return [(name, str(value)) for name, value in facts if value is not None]


def _repeating(delivery: Delivery) -> str:
    told = msgspec.to_builtins(delivery.idempotency)
    kind = told.pop("kind")
    details = ", ".join(f"{name} {value}" for name, value in told.items() if value not in {"", None})
    return f"{kind} ({details})" if details else str(kind)


def _when(at: float | None) -> str | None:
    if at is None:
        return None
    passed = time.time() - at
    return f"{moment(at)} ({span(passed)} ago)" if passed >= 0 else f"{moment(at)} (in {span(-passed)})"
