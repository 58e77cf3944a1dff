"""Present recorded turns in two ways, compare the results, and sum up many comparisons.

Both ways are dry runs: they have no channel, no sender and no ledger, only the capabilities of a channel. So nothing
can be sent.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from tailrace.delivery.dry_run import dry_run
from tailrace.projector import Projector, ProjectorSettings
from tailrace.shadow.comparison import TOLERANCE_S, Comparison, Difference, compare
from tailrace.shadow.shown_turn import ShownTurn, from_dry_run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import TypeAlias

    from tailrace.capabilities import Capabilities
    from tailrace.delivery.dry_run import MakeProjector, PerformedCall
    from tailrace.events import Event
    from tailrace.operations import Target

    TimedEvents: TypeAlias = Iterable[tuple[float, Event]]
    """The events of a turn, each with the seconds since the turn began."""


class Variant(msgspec.Struct, frozen=True, kw_only=True):
    """One way to present turns: the channel's capabilities, the settings, and the function that makes projectors."""

    capabilities: Capabilities
    settings: ProjectorSettings = ProjectorSettings()
    make_projector: MakeProjector = Projector
    name: str = ""

    def show(self, events: TimedEvents, target: Target, *, is_stopped: Callable[[], bool] | None = None) -> ShownTurn:
        """Present the events in this way in a dry run. Raises `SystemExit` once `is_stopped` returns True."""
        calls = dry_run(events, target, self.capabilities, self.settings, make_projector=self.make_projector)
        return from_dry_run(calls if is_stopped is None else _until(is_stopped, calls))


def _until(is_stopped: Callable[[], bool], calls: Iterable[PerformedCall]) -> Iterator[PerformedCall]:
    for call in calls:
        if is_stopped():
            raise SystemExit
        yield call


def replay(
    target: Target,
    ours: tuple[Variant, TimedEvents],
    theirs: tuple[Variant, TimedEvents],
    *,
    tolerance_s: float = TOLERANCE_S,
) -> Comparison:
    """Present a recorded turn in two ways and compare. `ours` is the present way, `theirs` the one to try.

    Both may get the same events, or the events of two runtimes that answered the same prompt.
    """
    shown = [variant.show(events, target) for variant, events in (ours, theirs)]
    return compare(*shown, tolerance_s=tolerance_s)


class Summary:
    """The sum of many comparisons. For each kind of difference it has the first example and the id of its turn.

    `same` counts the turns with the same text, `given_up` those without a result, `dropped` those that were not
    compared because too many turns ran at once.
    """

    def __init__(self) -> None:
        self.turns = 0
        self.same = 0
        self.given_up = 0
        self.dropped = 0
        self.counts: Counter[Difference] = Counter()
        self.examples: dict[Difference, tuple[str, str]] = {}

    def add(self, turn_id: str, comparison: Comparison) -> None:
        """Add the comparison of one turn to the sums."""
        self.turns += 1
        self.same += comparison.is_same
        self.counts.update(comparison.counts)
        for kind, example in comparison.examples.items():
            self.examples.setdefault(kind, (turn_id, example))
