"""`tailrace simulate`: a chat platform on this machine, with a page to type in, to try a bot without an account.

A simulator is an entry point of the group `tailrace.simulators`: a class that takes `port` (0 for any free one) and is
an async context manager. While it is entered, it serves on loopback. It has the attributes `url`, where a browser shows
its page, and `environment`, the variables that lead a bot to it.
"""

from __future__ import annotations

import asyncio
import errno
import shlex
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tailrace.cli.failures import errors_in_one_line, warnings_in_one_line
from tailrace.cli.ledgers import DebugOption
from tailrace.plugins import load
from tailrace.signals import stops_on_signals

if TYPE_CHECKING:
    from collections.abc import Callable


def simulate(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The platform, such as telegram.")],
    *,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65_535, help="Serve on this port of 127.0.0.1; 0 is any free one.")
    ] = 0,
    debug: DebugOption = False,
) -> None:
    """Start a simulator of a chat platform, with a page to type in, until Ctrl-C.

    Prints the address of the page, and the environment variables to set for a bot.
    """
    with errors_in_one_line(debug=debug), warnings_in_one_line(debug=debug):
        try:
            asyncio.run(_serve(load("simulator", name), port))
        except OSError as error:
            if error.errno not in {errno.EADDRINUSE, errno.EACCES}:
                raise
            problem = f"{error.strerror or error}. Name another port with --port."
            raise OSError(problem) from error


async def _serve(make: Callable[..., Any], port: int) -> None:
    with stops_on_signals() as stop:
        async with make(port=port) as simulator:
            typer.echo(f"page: {simulator.url}")
            for variable, value in simulator.environment.items():
                typer.echo(f"export {variable}={shlex.quote(value)}")
            typer.echo("Ctrl-C stops it", err=True)
            await stop.wait()
