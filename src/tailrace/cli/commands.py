"""The command line `tailrace`: puts its commands together. Each command has a file of its own."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from tailrace import __version__
from tailrace.channels.terminal.visible import visible
from tailrace.cli.access import access
from tailrace.cli.chat import AGENTS, chat
from tailrace.cli.check import check
from tailrace.cli.deliver import deliver
from tailrace.cli.deliveries import deliveries
from tailrace.cli.failures import FAILED, WRONG_USE
from tailrace.cli.init import init
from tailrace.cli.preview import preview
from tailrace.cli.run import run as run_agent
from tailrace.cli.run import serve
from tailrace.cli.schema import schema
from tailrace.cli.shadow import shadow
from tailrace.cli.simulate import simulate

app = typer.Typer(
    name="tailrace",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # rich would shorten long options in its tables
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command(epilog=AGENTS)(chat)
app.command()(check)
app.command()(deliver)
app.command()(init)
app.command()(preview)
app.command("run", epilog=AGENTS)(run_agent)
app.command()(schema)
app.command()(serve)
app.command()(shadow)
app.command()(simulate)
app.add_typer(access, name="access")
app.add_typer(deliveries, name="deliveries")

# The exception that typer raises for a wrong command line. Its name is private in some versions of typer.
_CommandLineError: Any = typer.BadParameter.__mro__[1]
# The value that typer returns if Ctrl-C is pressed while it reads the command line.
_INTERRUPTED = 130


def _print_version(asked: bool) -> None:  # noqa: FBT001 -- the shape typer calls it in
    if asked:
        typer.echo(f"tailrace {__version__}")
        raise typer.Exit


@app.callback()
def _tailrace(
    *,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """Send the answers of AI agents to chat channels.

    To begin, talk to the built-in demo agent: tailrace chat
    """


def run() -> int:
    """Run the command line. Returns the exit code: 0 done, 1 failed, 2 wrong use."""
    try:
        # In standalone mode typer would print an error of the command line in a box of five lines.
        exit_code: int = app(prog_name="tailrace", standalone_mode=False)
    except _CommandLineError as error:
        _explain(error)
        return WRONG_USE
    return FAILED if exit_code == _INTERRUPTED else exit_code


def _explain(error: Any) -> None:
    """Print an error in the command line as one line, and then the command that shows the help."""
    message = error.format_message()
    if message.startswith("Usage: "):
        print(message, file=sys.stderr)  # without arguments, the message is the help
        return
    message = " ".join(message.replace("Value error, ", "").split()).rstrip(".")
    end = "" if message.endswith("?") else "."
    command = error.ctx.command_path if error.ctx is not None else "tailrace"
    line = f"{message[0].lower()}{message[1:]}{end} For help: {command} --help"
    print(f"tailrace: {visible(line)}", file=sys.stderr)
