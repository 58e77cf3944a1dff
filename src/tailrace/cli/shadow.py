"""`tailrace shadow`: recorded turns presented in two ways, and what people would have seen otherwise.

Nothing is sent: both ways are rehearsals. This is how a change of settings is tried on what agents really said, before
anybody meets it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tailrace.capabilities import CHANNELS
from tailrace.cli.deliver import Presented
from tailrace.cli.failures import DONE, FAILED, told_in_one_line
from tailrace.cli.ledgers import DebugOption
from tailrace.cli.preview.command import ChannelName
from tailrace.cli.preview.recording import recorded
from tailrace.cli.preview.wishes import settings_of
from tailrace.cli.telling import json_line
from tailrace.delivery.comparing import Kind
from tailrace.delivery.shadow import Summary, Way, replay
from tailrace.errors import UsageError
from tailrace.operations import Target

if TYPE_CHECKING:
    from tailrace.delivery.comparing import Comparison

_RATE = 50.0


def shadow(  # noqa: PLR0913 -- one for each option of the command
    *,
    folder: Annotated[Path, typer.Option("--replay", metavar="DIR", help="A folder of recorded turns.")],
    channel: Annotated[ChannelName, typer.Option("--channel", help="The channel.")] = ChannelName.TELEGRAM,
    group: Annotated[bool, typer.Option("--group", help="In a chat of several people.")] = False,
    presentation: Annotated[Presented | None, typer.Option("--presentation", help="How the answer looks now.")] = None,
    wishes: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A setting as it is now; again for more.")
    ] = None,
    shadow_presentation: Annotated[
        Presented | None, typer.Option("--shadow-presentation", help="How the answer would look.")
    ] = None,
    shadow_wishes: Annotated[
        list[str] | None,
        typer.Option("--shadow-set", metavar="NAME=VALUE", help="A setting as it would be; again for more."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Write each turn as a line of JSON.")] = False,
    debug: DebugOption = False,
) -> None:
    """Present recorded turns in two ways and say what people would have seen otherwise.

    Nothing is sent. Ends with 1 where text would be lost, doubled or changed.
    """
    with told_in_one_line(debug=debug):
        table = CHANNELS[channel.value]
        ours = Way(capabilities=table, settings=settings_of(wishes or (), presentation=presentation), name="now")
        theirs = Way(
            capabilities=table,
            settings=settings_of(shadow_wishes or (), presentation=shadow_presentation),
            name="shadow",
        )
        place = Target(channel=channel.value, chat="shadow", thread="1", group=group)
        summary = Summary()
        for path in _turns(folder):
            comparison = replay(recorded(str(path), rate=_RATE), place, ours, theirs)
            summary.add(path.name, comparison)
            if json:
                sys.stdout.write(json_line(_told(path.name, comparison)))
            elif not comparison.is_same:
                typer.echo(f"{path.name}: {_counted(comparison)}")
        if not json:
            _print(summary)
    raise typer.Exit(FAILED if any(summary.counts[kind] for kind in _GRAVE) else DONE)


_GRAVE = (Kind.TEXT_DIFFERS, Kind.LOST, Kind.EXTRA, Kind.ORDER)


def _turns(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise UsageError(f"--replay {folder}: there is no such folder. `tailrace chat --record DIR` makes one.")
    paths = sorted(folder.glob("*.ndjson"))
    if not paths:
        raise UsageError(f"--replay {folder}: it holds no turns (files that end in .ndjson)")
    return paths


def _counted(comparison: Comparison) -> str:
    counts = comparison.counts()
    found = ", ".join(f"{counts[kind]} {kind}" for kind in Kind if counts[kind])
    later = f", done {comparison.later_s:+.1f} s" if abs(comparison.later_s) >= 0.05 else ""
    return found + later


def _told(name: str, comparison: Comparison) -> dict[str, object]:
    return {
        "turn": name,
        "same": comparison.is_same,
        "counts": {str(kind): count for kind, count in comparison.counts().items() if count},
        "later_s": round(comparison.later_s, 3),
        "examples": {str(found.kind): found.example for found in comparison.differences},
    }


def _print(summary: Summary) -> None:
    typer.echo(f"{summary.turns} turns, {summary.same} of them the same")
    for kind in Kind:
        if not summary.counts[kind]:
            continue
        typer.echo(f"  {summary.counts[kind]:>6} {kind}")
        if kind in summary.examples:
            turn, example = summary.examples[kind]
            typer.echo(f"         first in {turn}: {example}")
