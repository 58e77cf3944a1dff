"""The command `tailrace preview` and its options."""

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
from tailrace.cli.presentation_options import (
    GroupOption,
    PresentationOption,
    SettingsOption,
    projector_settings,
)
from tailrace.cli.preview.channel_preview import preview_on
from tailrace.cli.preview.page import page
from tailrace.cli.preview.recording import read_turn
from tailrace.cli.preview.sample import sample_turn
from tailrace.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tailrace.cli.preview.channel_preview import ChannelPreview


class ChannelName(StrEnum):
    """The channels for which a preview is possible, because their capabilities are known without an account."""

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
            metavar="FILE",
            help="A file with the events of one turn, one JSON object per line; - for standard input; demo for a "
            "built-in turn.",
        ),
    ],
    *,
    channel: Annotated[
        list[ChannelName] | None,
        typer.Option(
            "--channel",
            metavar=f"<{'|'.join(ChannelName)}>",
            help="Show only this channel; repeat it for more.",
            show_default="all",
        ),
    ] = None,
    presentation: PresentationOption = None,
    group: GroupOption = False,
    assignments: SettingsOption = None,
    rate: Annotated[
        float,
        typer.Option(
            "--rate", metavar="N", min=0.1, max=10_000, help="Assume N events per second, for events without a time."
        ),
    ] = 50.0,
    steps: Annotated[bool, typer.Option("--steps", help="Show every call, not only the messages at the end.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Write each call as a line of JSON.")] = False,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="PATH", help="Write a page with all channels side by side.")
    ] = None,
    debug: DebugOption = False,
) -> None:
    """Show how a turn would look on each channel.

    It lists each call to the platform with its time. Nothing is sent.

    \b
    For example:
      tailrace preview demo
      echo hello | tailrace chat --fast --json | tailrace preview -
    """
    with errors_in_one_line(debug=debug):
        if steps and json:
            raise UsageError("--steps is for people and --json for programs: choose one of them")
        settings = projector_settings(assignments or (), presentation=presentation)
        turn = sample_turn() if file == "demo" else read_turn(file, rate=rate)
        names = list(dict.fromkeys(channel or ChannelName))
        previews = [preview_on(turn, name, settings, group=group) for name in names]
        if html is not None:
            _write_page(html, page("standard input" if file == "-" else file, previews))
        if json:
            sys.stdout.writelines(_json_lines(previews))
            sys.stdout.flush()
        elif steps or html is None:
            _print(previews, steps=steps)


def _write_page(path: Path, html: str) -> None:
    try:
        path.write_text(html, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}. Name a file in a folder of yours.") from error
    typer.echo(f"wrote {path}: open it in a browser", err=True)


def _print(previews: list[ChannelPreview], *, steps: bool) -> None:
    from tailrace.cli.preview import terminal  # noqa: PLC0415 -- rich is slow to import, and only this needs it

    if steps:
        terminal.print_steps(previews)
    else:
        terminal.print_end(previews)


def _json_lines(previews: Iterable[ChannelPreview]) -> Iterable[str]:
    """One line of JSON for each call, with the sizes of all messages after that call."""
    for on_channel in previews:
        for call in on_channel.calls:
            line = {
                "channel": on_channel.channel,
                "at": round(call.at, 3),
                "stays": call.is_durable,
                "sizes": [on_channel.size_of(message).size for message in call.chat],
                "operation": msgspec.to_builtins(call.operation),
            }
            yield json_line(line)
