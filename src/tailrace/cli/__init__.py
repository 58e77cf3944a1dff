"""The command `tailrace`: one file per command, put together here."""

from __future__ import annotations

from typing import Annotated

import typer

from tailrace import __version__
from tailrace.cli.chat import chat
from tailrace.cli.schema import schema

app = typer.Typer(name="tailrace", add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)
app.command()(chat)
app.command()(schema)


def _print_version(asked: bool) -> None:  # noqa: FBT001 -- the shape typer calls it in
    if asked:
        typer.echo(f"tailrace {__version__}")
        raise typer.Exit


@app.callback()
def _tailrace(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and leave."
        ),
    ] = False,
) -> None:
    """Carry what an AI agent says to where people are."""


def main() -> None:
    """Run the command line; the process ends with 0 done, 1 failed, 2 wrong use."""
    app()
