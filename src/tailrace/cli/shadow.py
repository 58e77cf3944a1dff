"""`tailrace shadow`: recorded turns presented in two ways, and what people would have seen otherwise.

Nothing is sent: both ways are rehearsals. This is how a change of settings, another projector or another path to the
same agent is tried on what agents really said, before anybody meets it.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tailrace.capabilities import CHANNELS
from tailrace.cli.delivery_format import json_line, one_line
from tailrace.cli.failures import DONE, FAILED, errors_in_one_line
from tailrace.cli.ledgers import DebugOption
from tailrace.cli.presentation_options import Presented, settings_of
from tailrace.cli.preview.command import ChannelName
from tailrace.cli.preview.recording import read_turn
from tailrace.cli.shadowing import ShadowSetOption, comparison_record
from tailrace.errors import AgentNotFound, UsageError
from tailrace.operations import Target
from tailrace.projector import Projector
from tailrace.runtimes.function import load_object
from tailrace.shadow.comparison import GRAVE, TOLERANCE_S, Kind
from tailrace.shadow.replay import Summary, Variant, replay

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, TypeAlias

    from tailrace.shadow.comparison import Comparison

    Pair: TypeAlias = tuple[str, Path | None, Path | None]
    """The name of a turn, and its file in the one folder and in the other, where it has them."""

_RATE = 50.0


def shadow(  # noqa: PLR0913 -- one for each option of the command
    *,
    folder: Annotated[Path, typer.Option("--replay", metavar="DIR", help="A folder of recorded turns.")],
    against: Annotated[
        Path | None,
        typer.Option("--against", metavar="DIR", help="The same turns, recorded on another way to the agent."),
    ] = None,
    channel: Annotated[ChannelName, typer.Option("--channel", help="The channel.")] = ChannelName.TELEGRAM,
    group: Annotated[bool, typer.Option("--group", help="In a chat of several people.")] = False,
    presentation: Annotated[Presented | None, typer.Option("--presentation", help="How the answer looks now.")] = None,
    wishes: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A setting as it is now; again for more.")
    ] = None,
    shadow_presentation: Annotated[
        Presented | None, typer.Option("--shadow-presentation", help="How the answer would look.")
    ] = None,
    shadow_wishes: ShadowSetOption = None,
    shadow_projector: Annotated[
        str | None,
        typer.Option("--shadow-projector", metavar="MODULE:OBJECT", help="Another projector in place of ours."),
    ] = None,
    tolerance: Annotated[
        float, typer.Option("--tolerance", metavar="SECONDS", min=0.0, help="What is no difference in time.")
    ] = TOLERANCE_S,
    json: Annotated[bool, typer.Option("--json", help="Write each turn as a line of JSON.")] = False,
    debug: DebugOption = False,
) -> None:
    """Present recorded turns in two ways and say what people would have seen otherwise.

    Nothing is sent. Ends with 1 where text would be lost, doubled or changed.
    """
    with errors_in_one_line(debug=debug):
        table = CHANNELS[channel.value]
        ours = Variant(capabilities=table, settings=settings_of(wishes or (), presentation=presentation), name="now")
        theirs = Variant(
            capabilities=table,
            settings=settings_of(shadow_wishes or (), presentation=shadow_presentation),
            projecting=Projector if shadow_projector is None else _projecting(shadow_projector),
            name="shadow",
        )
        place = Target(channel=channel.value, chat="shadow", thread="1", group=group)
        turns = _turns(folder) if against is None else list(_paired(_turns(folder), _turns(against, "--against")))
        told = _Told(json=json)
        for name, mine, yours in turns:
            if mine is None or yours is None:
                told.alone(name, "--replay" if yours is None else "--against")
                continue
            events = read_turn(str(mine), rate=_RATE)
            others = events if against is None else read_turn(str(yours), rate=_RATE)
            try:
                found = replay(place, (ours, events), (theirs, others), tolerance_s=tolerance)
            except Exception as error:
                if shadow_projector is None:
                    raise
                told.give_up(name, error)
            else:
                told.turn(name, found)
        told.end()
    raise typer.Exit(FAILED if told.is_grave else DONE)


class _Told:
    """Tells of each turn as it was compared, and of all of them in the end."""

    def __init__(self, *, json: bool) -> None:
        self._json = json
        self._summary = Summary()
        self._alone = 0

    @property
    def is_grave(self) -> bool:
        return bool(self._alone or self._summary.given_up or self._summary.counts.keys() & GRAVE)

    def turn(self, name: str, found: Comparison) -> None:
        self._summary.add(name, found)
        if self._json or not found.is_alike:
            self._say(name, str(found), comparison_record(found))

    def alone(self, name: str, option: str) -> None:
        self._alone += 1
        self._say(name, f"only in the folder of {option}", {"only_in": option.removeprefix("--")})

    def give_up(self, name: str, error: Exception) -> None:
        self._summary.given_up += 1
        why = f"{type(error).__name__}: {error}"
        self._say(name, f"the shadow was given up: {one_line(why)}", {"given_up": why})

    def _say(self, name: str, line: str, record: dict[str, Any]) -> None:
        if self._json:
            sys.stdout.write(json_line({"turn": name, **record}))
        else:
            typer.echo(f"{name}: {line}")

    def end(self) -> None:
        if self._json:
            return
        summary = self._summary
        given_up = f", {summary.given_up} given up" if summary.given_up else ""
        alone = f", {self._alone} without a counterpart" if self._alone else ""
        typer.echo(f"{summary.turns} turns, {summary.same} of them the same{given_up}{alone}")
        for kind in Kind:
            if not summary.counts[kind]:
                continue
            typer.echo(f"  {summary.counts[kind]:>6} {kind}")
            if kind in summary.examples:
                turn, example = summary.examples[kind]
                typer.echo(f"         first in {turn}: {example}")


def _turns(folder: Path, option: str = "--replay") -> list[Pair]:
    if not folder.is_dir():
        raise UsageError(f"{option} {folder}: there is no such folder. `tailrace chat --record DIR` makes one.")
    paths = sorted(folder.glob("*.ndjson"))
    if not paths:
        raise UsageError(f"{option} {folder}: it holds no turns (files that end in .ndjson)")
    return [(path.name, path, path) for path in paths]


def _paired(ours: list[Pair], theirs: list[Pair]) -> Iterator[Pair]:
    """The turns of two folders by the names of their files; where a recorder named them, by their numbers."""
    left = {name: path for name, path, _ in theirs}
    unpaired: list[Pair] = []
    pairs: list[Pair] = []
    for name, path, _ in ours:
        if name in left:
            pairs.append((name, path, left.pop(name)))
        else:
            unpaired.append((name, path, None))
    by_number = {_number(name): name for name in left if _number(name)}
    for name, path, _ in unpaired:
        twin = by_number.pop(_number(name), None)
        pairs.append((name, path, left.pop(twin) if twin is not None else None))
    yield from sorted(pairs)
    yield from ((name, None, path) for name, path in left.items())


def _number(name: str) -> str:
    """The number that a recorder gave the turn; what comes behind it is an id that no other run has."""
    found = re.match(r"\d{4,}(?=-)", name)
    return found[0] if found is not None else ""


def _projecting(path: str) -> Any:
    if ":" not in path:
        raise UsageError(f"--shadow-projector {path}: write module:object, such as my_projector:Projector")
    try:
        found = load_object(path)
    except AgentNotFound as error:
        raise UsageError(f"--shadow-projector {path}: {error}") from error
    if not callable(found):
        raise UsageError(f"--shadow-projector {path}: it cannot be called with a target, capabilities and settings")
    return found
