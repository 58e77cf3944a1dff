"""The command `tailrace`: one file per command, put together here."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from tailrace import __version__
from tailrace.cli.chat import chat
from tailrace.cli.deliver import deliver
from tailrace.cli.deliveries import deliveries
from tailrace.cli.preview import preview
from tailrace.cli.schema import schema
from tailrace.cli.shadow import shadow

app = typer.Typer(name="tailrace", add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)
app.command()(chat)
app.command()(deliver)
app.command()(preview)
app.command()(schema)
app.command()(shadow)
app.add_typer(deliveries, name="deliveries")


def _print_version(asked: bool) -> None:  # noqa: FBT001 -- the shape typer calls it in
    if asked:
        typer.echo(f"tailrace {__version__}")
        raise typer.Exit


@app.callback()
def _tailrace(
    *,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and leave."),
    ] = False,
) -> None:
    """Carry what an AI agent says to where people are."""


def main() -> None:
    """Run the command line; the process ends with 0 done, 1 failed, 2 wrong use."""
    _open_closed_streams()
    app()


def _open_closed_streams() -> None:
    """A standard stream that was closed before we began is None; nobody being there is no reason to fail."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("r+"))  # noqa: SIM115 -- open as long as the process is
