"""Scenes at random: a turn, a place with what its channel can do, what people wish otherwise, and the weather.

The channels are those of `tailrace.capabilities`, with limits so small that short texts have to be cut.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, get_args

import msgspec
from msgspec.structs import replace

from random_turns.turns import TurnWriter
from tailrace.capabilities import CHANNELS, Capabilities, StreamRules
from tailrace.operations import Target
from tailrace.projector import Presentation, ProjectorSettings
from tailrace.projector.presentation import PresentationRules, rules_for

if TYPE_CHECKING:
    from tailrace.events import Event

PRESENTATIONS: tuple[str, ...] = get_args(Presentation)


class Weather(msgspec.Struct, frozen=True, kw_only=True):
    """How much goes wrong, as chances; `troubles` calls at most are answered badly, then all goes well.

    With `raw` what stays is answered as it comes, too, and nobody dies.
    """

    latency_s: float = 0.0
    troubles: int = 0
    trouble: float = 0.0
    raw: bool = False
    deletions: float = 0.0
    expiries: float = 0.0
    sleeps: float = 0.0
    late: float = 0.0
    deaths: int = 0
    death: float = 0.0
    replays_slowly: bool = False


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    """All that a run is made of."""

    channel: str
    presentation: str
    target: Target
    capabilities: Capabilities
    settings: ProjectorSettings
    events: list[tuple[float, Event]]
    weather: Weather

    @property
    def look(self) -> PresentationRules:
        """How the turn is shown there."""
        return rules_for(self.settings, self.capabilities, self.target)


def scene_of(seed: int, presentation: str | None = None, channel: str | None = None) -> Scene:
    """The scene that belongs to a seed; the same where it is asked for the channel and presentation it has anyway."""
    dice = Random(f"scene {seed}")
    any_channel, any_presentation = dice.choice(list(CHANNELS)), dice.choice(PRESENTATIONS)
    channel, presentation = channel or any_channel, presentation or any_presentation
    return Scene(
        channel=channel,
        presentation=presentation,
        target=Target(
            channel=channel,
            chat="1",
            thread="7" if dice.random() < 0.5 else None,
            group=dice.random() < 0.4,
        ),
        capabilities=_small(CHANNELS[channel], dice),
        settings=_settings(presentation, dice),
        events=TurnWriter(dice).write(),
        weather=_weather(dice),
    )


def _small(table: Capabilities, dice: Random) -> Capabilities:
    """The channel with limits as small as a word, a link or a row of a table in any dialect allows."""
    lines = dice.choice((None, 8, 12)) if table.lines is not None else None
    unit = dice.choice((table.unit, "code_points", "utf16", "utf8_bytes"))
    dialect = "markdown" if dice.random() < 0.4 else table.dialect
    limit = dice.choice((60, 60, 100, 150, 200)) * (1 if dialect == "markdown" else 2) * (1 + (unit == "utf8_bytes"))
    native = table.native
    if isinstance(native, StreamRules) and native.per_call is not None:
        native = replace(native, per_call=dice.choice((20, 60)))
    return replace(
        table,
        limit=limit if lines is None else limit // lines * lines,
        unit=unit,
        lines=lines,
        caption_limit=dice.choice((None, 30)),
        dialect=dialect,
        native=native,
    )


def _settings(presentation: str, dice: Random) -> ProjectorSettings:
    return ProjectorSettings(
        presentation=presentation,  # type: ignore[arg-type]  # one of its own
        first_characters=dice.choice((0, 5, 30, 30)),
        first_s=dice.choice((0.0, 1.5, 1.5)),
        edit_every_s=dice.choice((0.0, 0.0, 3.0)),
        processing_every_s=dice.choice((1.0, 5.0)),
        block_characters=dice.choice((0, 20, 200)),
        block_idle_s=dice.choice((0.0, 1.0, 5.0)),
        human_delay_s=dice.choice((0.0, 0.0, 2.0)),
        tools=dice.random() < 0.7,
        reasoning=dice.random() < 0.2,
        usage=dice.random() < 0.2,
    )


def _weather(dice: Random) -> Weather:
    if dice.random() < 0.3:
        return Weather(latency_s=dice.choice((0.0, 0.3)))
    is_raw = dice.random() < 0.2
    return Weather(
        latency_s=dice.choice((0.0, 0.3, 3.0)),
        troubles=dice.randint(0, 8),
        trouble=dice.choice((0.0, 0.1, 0.3, 0.7)),
        raw=is_raw,
        deletions=dice.choice((0.0, 0.0, 0.0, 0.02, 0.1)),
        expiries=dice.choice((0.0, 0.05)),
        sleeps=dice.choice((0.0, 0.0, 0.01)),
        late=dice.choice((0.0, 0.1)),
        deaths=0 if is_raw else dice.choice((0, 0, 1, 1, 2, 3)),
        death=dice.choice((0.01, 0.05, 0.2)),
        replays_slowly=dice.random() < 0.5,
    )
