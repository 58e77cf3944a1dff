"""`tailrace shadow`: present recorded turns in two ways and compare what people would see.

Nothing is sent: both are dry runs. Use it to test other settings, another projector or another runtime for the same
agent with real turns.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from tailrace.capabilities import CHANNELS
from tailrace.cli.delivery_format import json_line, one_line
from tailrace.cli.failures import DONE, FAILED, errors_in_one_line
from tailrace.cli.ledgers import DebugOption
from tailrace.cli.presentation_options import (
    GroupOption,
    PresentationOption,
    SettingsOption,
    projector_settings,
)
from tailrace.cli.preview.command import ChannelName
from tailrace.cli.preview.recording import read_turn
from tailrace.errors import AgentNotFound, UsageError
from tailrace.operations import Target
from tailrace.projector import Presentation, Projector
from tailrace.runtimes.function import load_object
from tailrace.shadow.comparison import GRAVE, TOLERANCE_S, Difference
from tailrace.shadow.replay import Summary, Variant, replay

if TYPE_CHECKING:
    from collections.abc import Iterator


_RATE = 50.0


def shadow(  # noqa: PLR0913 -- one for each option of the command
    *,
    folder: Annotated[
        Path, typer.Option("--replay", metavar="DIR", help="Read the turns that `tailrace chat --record DIR` saved.")
    ],
    against: Annotated[
        Path | None,
        typer.Option(
            "--against", metavar="DIR", help="Try the turns in DIR: the same prompts, answered by another agent."
        ),
    ] = None,
    channel: Annotated[ChannelName, typer.Option(help="Use this channel.")] = ChannelName.TELEGRAM,
    group: GroupOption = False,
    presentation: PresentationOption = None,
    assignments: SettingsOption = None,
    shadow_presentation: Annotated[
        Presentation | None,
        typer.Option("--shadow-presentation", help="Try this presentation.", show_default="the channel's"),
    ] = None,
    shadow_assignments: Annotated[
        list[str] | None,
        typer.Option("--shadow-set", metavar="NAME=VALUE", help="Try this setting; repeat it for more."),
    ] = None,
    shadow_projector: Annotated[
        str | None,
        typer.Option("--shadow-projector", metavar="MODULE:OBJECT", help="Try this projector in Python."),
    ] = None,
    tolerance: Annotated[
        float, typer.Option("--tolerance", metavar="SECONDS", min=0.0, help="Ignore smaller differences in time.")
    ] = TOLERANCE_S,
    json: Annotated[bool, typer.Option("--json", help="Write each turn as a line of JSON.")] = False,
    debug: DebugOption = False,
) -> None:
    """Compare two ways to present recorded turns.

    The first way is the one you use now: --presentation and --set. The second is the one to try: --shadow-presentation,
    --shadow-set, --shadow-projector or --against. Nothing is sent. The exit code is 1 if the second way would lose,
    double, change or reorder text.

    \b
    For example:
      echo hello | tailrace chat --fast --record turns
      tailrace shadow --replay turns --shadow-presentation blocks
    """
    with errors_in_one_line(debug=debug):
        capabilities = CHANNELS[channel.value]
        settings = projector_settings(assignments or (), presentation=presentation)
        ours = Variant(capabilities=capabilities, settings=settings)
        theirs = Variant(
            capabilities=capabilities,
            settings=projector_settings(shadow_assignments or (), presentation=shadow_presentation),
            make_projector=Projector if shadow_projector is None else _load_projector(shadow_projector),
        )
        target = Target(channel=channel.value, chat="shadow", thread="1", group=group)
        report = _Report(ours, theirs, target, tolerance_s=tolerance, json=json)
        for name, our_file, their_file in _paired(folder, against or folder):
            report.compare(name, our_file, their_file)
        report.finish()
    raise typer.Exit(FAILED if report.is_grave else DONE)


class _Report:
    """Compares the turns one by one. Writes the differences of each turn, and at the end a summary of all turns."""

    def __init__(self, ours: Variant, theirs: Variant, target: Target, *, tolerance_s: float, json: bool) -> None:
        self._ours = ours
        self._theirs = theirs
        self._target = target
        self._tolerance_s = tolerance_s
        self._json = json
        self._summary = Summary()
        self._unpaired = 0

    @property
    def is_grave(self) -> bool:
        return bool(self._unpaired or self._summary.given_up or self._summary.counts.keys() & GRAVE)

    def compare(self, name: str, our_file: Path | None, their_file: Path | None) -> None:
        if our_file is None or their_file is None:
            option = "replay" if their_file is None else "against"
            self._unpaired += 1
            self._write(name, f"only in the folder of --{option}", {"only_in": option})
            return
        ours = self._ours, read_turn(str(our_file), rate=_RATE)
        theirs = self._theirs, read_turn(str(their_file), rate=_RATE)
        try:
            found = replay(self._target, ours, theirs, tolerance_s=self._tolerance_s)
        except Exception as error:
            if self._theirs.make_projector is Projector:
                raise
            self._summary.given_up += 1
            why = f"{type(error).__name__}: {error}"
            self._write(name, f"the shadow was given up: {one_line(why)}", {"given_up": why})
            return
        self._summary.add(name, found)
        if self._json or not found.is_alike:
            self._write(name, str(found), {"same": found.is_same, **msgspec.to_builtins(found)})

    def _write(self, name: str, line: str, record: dict[str, Any]) -> None:
        if self._json:
            sys.stdout.write(json_line({"turn": name, **record}))
        else:
            typer.echo(f"{name}: {line}")

    def finish(self) -> None:
        if self._json:
            return
        summary = self._summary
        different = summary.turns - summary.same
        given_up = f", {summary.given_up} given up" if summary.given_up else ""
        unpaired = f", {self._unpaired} without a counterpart" if self._unpaired else ""
        turns = "1 turn" if summary.turns == 1 else f"{summary.turns} turns"
        typer.echo(f"{turns} compared: {summary.same} the same, {different} different{given_up}{unpaired}")
        for kind in Difference:
            if summary.counts[kind]:
                typer.echo(f"  {summary.counts[kind]:>6} {kind}")
            if kind in summary.examples:
                turn, example = summary.examples[kind]
                typer.echo(f"         first in {turn}: {example}")


def _turns(folder: Path, option: str) -> dict[str, Path]:
    """The recorded turns in a folder: the path of each file by its name.

    `option` is for the error if there are none.
    """
    if not folder.is_dir():
        raise UsageError(f"{option} {folder}: there is no such folder. `tailrace chat --record DIR` makes one.")
    paths = sorted(folder.glob("*.ndjson"))
    if not paths:
        raise UsageError(f"{option} {folder}: it holds no turns (files that end in .ndjson)")
    return {path.name: path for path in paths}


def _paired(folder: Path, against: Path) -> Iterator[tuple[str, Path | None, Path | None]]:
    """Find the file for the same turn in two folders: by its file name, or else by the number in it.

    Yields a name and both files; None for a missing file.
    """
    ours, theirs = _turns(folder, "--replay"), _turns(against, "--against")
    by_number = {_number(name): name for name in theirs if _number(name) and name not in ours}
    for name, path in ours.items():
        their_name = name if name in theirs else by_number.pop(_number(name), "")
        yield name, path, theirs.pop(their_name, None)
    yield from ((name, None, path) for name, path in theirs.items())


def _number(name: str) -> str:
    """The number at the beginning of the file name, which the recorder counts up. The id after it always differs."""
    found = re.match(r"\d{4,}(?=-)", name)
    return found[0] if found is not None else ""


def _load_projector(path: str) -> Any:
    if ":" not in path:
        raise UsageError(f"--shadow-projector {path}: write module:object, such as my_projector:Projector")
    try:
        found = load_object(path)
    except AgentNotFound as error:
        raise UsageError(f"--shadow-projector {path}: {error}") from error
    if not callable(found):
        raise UsageError(f"--shadow-projector {path}: it cannot be called with a target, capabilities and settings")
    return found
