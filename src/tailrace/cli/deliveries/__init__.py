"""`tailrace deliveries`: list, show, resend, resume and delete the deliveries in a ledger.

Each command has its own file. `list`, `show` and `purge --dry-run` only read the ledger; another process may write it
meanwhile. `resend`, `resume` and `purge` change it. If a gateway has it open, they ask that gateway to do the work.
"""

from __future__ import annotations

import typer

from tailrace.cli.command_anywhere import CommandAnywhere
from tailrace.cli.deliveries.listing import list_deliveries
from tailrace.cli.deliveries.purging import purge
from tailrace.cli.deliveries.resending import resend
from tailrace.cli.deliveries.resuming import resume
from tailrace.cli.deliveries.showing import show

deliveries = typer.Typer(
    cls=CommandAnywhere,
    add_completion=False,
    help="List, show, resend, resume or delete deliveries. Without a command it lists them; options may come before or "
    "after the command.",
)
deliveries.command("list")(list_deliveries)
deliveries.command()(show)
deliveries.command()(resend)
deliveries.command()(resume)
deliveries.command()(purge)
