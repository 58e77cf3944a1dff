"""`tailrace deliveries`: what the ledger knows of what was sent, and what a person can do about it.

One file for each of its commands, put together here. Looking needs nothing but the file, and works beside a process
that writes it; sending, forgetting and taking over need the ledger for themselves.
"""

from __future__ import annotations

import typer

from tailrace.cli.deliveries.adopting import adopt
from tailrace.cli.deliveries.listing import list_deliveries
from tailrace.cli.deliveries.purging import purge
from tailrace.cli.deliveries.resending import resend
from tailrace.cli.deliveries.showing import show

deliveries = typer.Typer(add_completion=False)
deliveries.command("list")(list_deliveries)
deliveries.command()(show)
deliveries.command()(resend)
deliveries.command()(purge)
deliveries.command()(adopt)


@deliveries.callback(invoke_without_command=True)
def _deliveries(context: typer.Context) -> None:
    """List, show, resend and forget what was delivered. Alone it lists."""
    if context.invoked_subcommand is None:
        list_deliveries()
