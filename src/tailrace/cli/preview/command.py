"""The command itself: which turn, on which channels, drawn how."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from tailrace.cli.delivery_format import json_line
from tailrace.cli.failures import errors_in_one_line
from tailrace.cli.ledgers import DebugOption
from tailrace.cli.presentation_options import Presented, settings_of
from tailrace.cli.preview.page import page
from tailrace.cli.preview.performing import perform
from tailrace.cli.preview.recording import recorded
from tailrace.cli.preview.sample import sample_turn
from tailrace.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tailrace.cli.preview.performing import Performance


class ChannelName(StrEnum):
    """The platforms there is a table of."""

    TELEGRAM = "telegram"
    TELEGRAM_RICH = "telegram_rich"
    SLACK = "slack"
    DISCORD = "discord"
    MATRIX = "matrix"
    WEB = "web"
    TERMINAL = "terminal"


def preview(  # noqa: PLR0913 -- one for each option of the command
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE", help="The events of a turn, one JSON object per line; - for standard input, or demo."
        ),
    ],
    *,
    channel: Annotated[
        list[ChannelName] | None,
        typer.Option("--channel", help="Only this channel, or again for more; without it all of them."),
    ] = None,
    presentation: Annotated[
        Presented | None, typer.Option("--presentation", help="How the answer looks while it comes.")
    ] = None,
    group: Annotated[bool, typer.Option("--group", help="In a chat of several people.")] = False,
    wishes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Another setting, such as edit_every_s=3; again for more."),
    ] = None,
    rate: Annotated[
        float, typer.Option("--rate", min=0.1, max=10_000, help="Events without a time come so many in a second.")
    ] = 50.0,
    steps: Annotated[bool, typer.Option("--steps", help="Show every call, not only what stands in the end.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Write each call as a line of JSON.")] = False,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write a page with the channels side by side.")
    ] = None,
    debug: DebugOption = False,
) -> None:
    """Show a turn as each channel would show it, with every call that would be made and its time.

    Nothing is sent. `tailrace preview demo` shows a turn that has everything in it.
    """
    with errors_in_one_line(debug=debug):
        if steps and json:
            raise UsageError("--steps is for people and --json for programs: choose one of them")
        settings = settings_of(wishes or (), presentation=presentation)
        turn = sample_turn() if file == "demo" else recorded(file, rate=rate)
        names = list(dict.fromkeys(channel or ChannelName))
        performances = [perform(turn, name, settings, group=group) for name in names]
        if html is not None:
            _write(html, page("standard input" if file == "-" else file, performances))
        if json:
            sys.stdout.writelines(_json_lines(performances))
            sys.stdout.flush()
        elif steps or html is None:
            _print(performances, steps=steps)


def _write(path: Path, written: str) -> None:
    try:
        path.write_text(written, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}. Name a file in a folder of yours.") from error
    typer.echo(f"wrote {path}: open it in a browser", err=True)


def _print(performances: list[Performance], *, steps: bool) -> None:
    from tailrace.cli.preview import terminal  # noqa: PLC0415 -- only whoever looks needs it, and it takes its time

    if steps:
        terminal.print_steps(performances)
    else:
        terminal.print_end(performances)


def _json_lines(performances: Iterable[Performance]) -> Iterable[str]:
    """Each call with what stands after it: how much every message holds."""
    for performance in performances:
        for moment in performance.moments:
            told = {
                "channel": performance.channel,
                "at": round(moment.at, 3),
                "stays": moment.is_durable,
                "sizes": [performance.extent(seen).size for seen in moment.chat],
                "operation": msgspec.to_builtins(moment.operation),
            }
            yield json_line(told)
