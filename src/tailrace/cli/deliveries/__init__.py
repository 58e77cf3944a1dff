"""`tailrace deliveries`: list, show, resend, resume and delete the deliveries in a ledger.

Each command has its own file. `list`, `show` and `purge --dry-run` only read the ledger; another process may write it
meanwhile. For `resend`, `resume` and `purge`, no other process may have the ledger open.
"""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

from tailrace.cli.deliveries.listing import list_deliveries
from tailrace.cli.deliveries.purging import purge
from tailrace.cli.deliveries.resending import resend
from tailrace.cli.deliveries.resuming import resume
from tailrace.cli.deliveries.showing import show


class _CommandAnywhere(TyperGroup):
    """A group of commands that accepts options before and after the command: `deliveries --json list` works too.

    Without a command, `list` runs.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        index = self._index_of_command(args)
        if index is not None:
            args = [args[index], *args[:index], *args[index + 1 :]]
        elif not set(args) & set(ctx.help_option_names):
            args = ["list", *args]
        return super().parse_args(ctx, args)

    def _index_of_command(self, args: list[str]) -> int | None:
        options = [option for command in self.commands.values() for option in command.params]
        with_value = {name for option in options if not getattr(option, "is_flag", False) for name in option.opts}
        index = 0
        while index < len(args):
            if not args[index].startswith("-"):
                return index
            index += 2 if args[index] in with_value else 1
        return None


deliveries = typer.Typer(
    cls=_CommandAnywhere,
    add_completion=False,
    help="List, show, resend, resume or delete deliveries. Without a command it lists them; options may come before or "
    "after the command.",
)
deliveries.command("list")(list_deliveries)
deliveries.command()(show)
deliveries.command()(resend)
deliveries.command()(resume)
deliveries.command()(purge)
