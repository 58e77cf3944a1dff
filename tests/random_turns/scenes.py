"""Random scenes: some turns, a channel with its limits, how the answer is presented, and what goes wrong.

The channels are those of `tailrace.capabilities`, with limits so small that short texts are cut.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Literal, get_args

import msgspec
from msgspec.structs import replace

from random_turns.turns import TurnWriter
from tailrace.capabilities import CHANNELS, Capabilities, Idempotency, Keyed, Readback, Repeatable, StreamRules, Unkeyed
from tailrace.inbound import InboundMessage
from tailrace.operations import Target
from tailrace.projector import Presentation, ProjectorSettings

if TYPE_CHECKING:
    from tailrace.events import Event

PRESENTATIONS: tuple[str, ...] = get_args(Presentation)
ACCIDENTS = ("deletion", "expiry", "sleep", "outage", "clock", "ledger", "repeat", "cancel")
_WORDS_OF_A_TURN = 100_000


class Trouble(msgspec.Struct, frozen=True, kw_only=True):
    """What goes wrong. By default nothing: then people must read exactly what the turn says.

    `faults`: how often calls fail, 1 is about every fourth. `ledger_s`: how long the ledger takes at most; while it is
    slow it is also unavailable at times. `process_s`: how long a process lives on average, None for ever. `accident_s`:
    the average time between two accidents of the kinds in `accidents`. `abandons`: how many of the turns of a dead
    process are left to recovery. `stops`: how often an agent is stopped and its turn begun again. `errors`: how often
    the channel raises anything or returns nonsense. `takes_over`: how many of the processes are paused at their end
    while the next one takes over.
    """

    latency_s: float = 0.05
    faults: float = 0.0
    ledger_s: float = 0.0
    process_s: float | None = None
    accidents: tuple[str, ...] = ()
    accident_s: float = 20.0
    abandons: float = 0.0
    stops: float = 0.0
    errors: float = 0.0
    takes_over: float = 0.0

    @property
    def is_calm(self) -> bool:
        return self == Trouble(latency_s=self.latency_s)

    @property
    def has_prompt_ledger(self) -> bool:
        """Whether a call is made at the moment of its decision."""
        return self.ledger_s == 0.0 and self.takes_over == 0.0 and "sleep" not in self.accidents


class TurnScript(msgspec.Struct, frozen=True, kw_only=True):
    """One turn: its events, each with the seconds before it."""

    message: InboundMessage
    starts_s: float
    events: list[tuple[float, Event]]
    is_abandoned: bool

    @property
    def turn_id(self) -> str:
        return self.message.turn_id

    @property
    def target(self) -> Target:
        return self.message.target


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a run consists of."""

    seed: int
    channel: str
    presentation: str
    capabilities: Capabilities
    settings: ProjectorSettings
    on_unknown: Literal["hold", "resend"]
    turns: list[TurnScript]
    trouble: Trouble


def scene_of(seed: int, presentation: str | None = None, channel: str | None = None) -> Scene:
    """The scene of a seed, on this channel and in this presentation if they are given."""
    chance = Random(f"scene {seed}")
    any_channel, any_presentation = chance.choice(list(CHANNELS)), chance.choice(PRESENTATIONS)
    channel, presentation = channel or any_channel, presentation or any_presentation
    trouble, count = _trouble(chance), chance.choice((1, 1, 1, 2, 3, 4))
    within_s = chance.choice((0.0, 5.0, 60.0))
    chats = [
        Target(channel="simulated", chat=chat, thread=chance.choice((None, "7")), group=chance.random() < 0.4)
        for chat in ("1", "2")
    ]
    return Scene(
        seed=seed,
        channel=channel,
        presentation=presentation,
        capabilities=_small(CHANNELS[channel], chance, is_alone=count == 1 and trouble.is_calm),
        settings=_settings(presentation, chance),
        on_unknown="resend" if chance.random() < 0.3 else "hold",
        turns=[
            TurnScript(
                message=InboundMessage(
                    channel="simulated", event_id=f"e{number}", target=chance.choice(chats), text="a question"
                ),
                starts_s=chance.random() * within_s,
                events=TurnWriter(chance, number * _WORDS_OF_A_TURN).write(),
                is_abandoned=chance.random() < trouble.abandons,
            )
            for number in range(count)
        ],
        trouble=trouble,
    )


def _small(table: Capabilities, chance: Random, *, is_alone: bool) -> Capabilities:
    """The channel with limits as small as a word, a link or a row of a table in any dialect allows."""
    lines = chance.choice((None, 8, 12)) if table.lines is not None else None
    unit = chance.choice((table.unit, "code_points", "utf16", "utf8_bytes"))
    dialect = "markdown" if chance.random() < 0.4 else table.dialect
    limit = chance.choice((96, 96, 120, 160, 200)) * (1 if dialect == "markdown" else 2) * (1 + (unit == "utf8_bytes"))
    native = table.native
    if isinstance(native, StreamRules):
        per_call = None if native.per_call is None else chance.choice((20, 60))
        lifetime_s = None if native.lifetime_s is None else chance.choice((native.lifetime_s, 20.0))
        # A preview that is not shown is asked for again after this time: 0 s would be an endless loop without time.
        every_s = native.every_s if is_alone else max(native.every_s, 0.05)
        native = replace(native, per_call=per_call, lifetime_s=lifetime_s, every_s=every_s)
    idempotency: Idempotency = chance.choice(
        (table.idempotency, Keyed(window_s=86_400.0), Readback(visible_within_s=2.0), Repeatable(), Unkeyed())
    )
    return replace(
        table,
        idempotency=Keyed(window_s=86_400.0) if isinstance(idempotency, Keyed) else idempotency,
        limit=limit if lines is None else limit // lines * lines,
        unit=unit,
        lines=lines,
        caption_limit=chance.choice((None, 30)),
        dialect=dialect,
        native=native,
    )


def _settings(presentation: str, chance: Random) -> ProjectorSettings:
    return ProjectorSettings(
        presentation=presentation,  # type: ignore[arg-type]  # one of its own
        first_characters=chance.choice((0, 5, 30, 30)),
        first_s=chance.choice((0.0, 1.5, 1.5)),
        edit_every_s=chance.choice((0.0, 0.0, 3.0)),
        processing_every_s=chance.choice((1.0, 5.0)),
        block_characters=chance.choice((0, 20, 200)),
        block_idle_s=chance.choice((0.0, 1.0, 5.0)),
        human_delay_s=chance.choice((0.0, 0.0, 2.0)),
        tools=chance.random() < 0.7,
        reasoning=chance.random() < 0.2,
        usage=chance.random() < 0.2,
    )


def _trouble(chance: Random) -> Trouble:
    if chance.random() < 0.3:
        return Trouble(latency_s=chance.choice((0.0, 0.3)))
    return Trouble(
        latency_s=chance.choice((0.0, 0.3, 3.0)),
        faults=chance.choice((0.0, 0.5, 1.5, 3.0)),
        ledger_s=chance.choice((0.0, 0.0, 0.5, 20.0)),
        process_s=chance.choice((None, None, 5.0, 30.0)),
        accidents=tuple(kind for kind in ACCIDENTS if chance.random() < 0.2),
        accident_s=chance.choice((5.0, 40.0)),
        abandons=chance.choice((0.0, 0.0, 0.3, 1.0)),
        stops=chance.choice((0.0, 0.0, 0.1)),
        errors=chance.choice((0.0, 0.0, 0.03, 0.2)),
        takes_over=chance.choice((0.0, 0.0, 0.5, 1.0)),
    )
