"""Ways of presenting turns, recorded turns presented in two of them, and what many comparisons come to.

A way has no channel, no courier and no ledger, only what a channel can do as a table: whatever it says is rehearsed and
reaches nobody. Beside a live turn it is `shadow` that uses it.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from tailrace.delivery.dry_run import dry_run
from tailrace.projector import Projector, ProjectorSettings
from tailrace.shadow.comparison import TOLERANCE_S, Account, Comparison, Kind, compare
from tailrace.shadow.shown_turn import rehearsed

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import TypeAlias

    from tailrace.capabilities import Capabilities
    from tailrace.delivery.dry_run import MakeProjector
    from tailrace.events import Event
    from tailrace.operations import Target

    Timed: TypeAlias = Iterable[tuple[float, Event]]
    """The events of a turn, each with the seconds since its beginning."""


class Variant(msgspec.Struct, frozen=True, kw_only=True):
    """One way of presenting turns: what the channel can do, the settings, and what makes the projector of a turn."""

    capabilities: Capabilities
    settings: ProjectorSettings = ProjectorSettings()
    projecting: MakeProjector = Projector
    name: str = ""

    def account(self, events: Timed, target: Target) -> Account:
        """What it makes of a turn."""
        return rehearsed(dry_run(events, target, self.capabilities, self.settings, make_projector=self.projecting))


def replay(
    target: Target, ours: tuple[Variant, Timed], theirs: tuple[Variant, Timed], *, tolerance_s: float = TOLERANCE_S
) -> Comparison:
    """A recorded turn presented in both ways; the events are the same, or those of another path to the same agent."""
    accounts = [way.account(events, target) for way, events in (ours, theirs)]
    return compare(*accounts, tolerance_s=tolerance_s)


class Summary:
    """What many comparisons came to, with the first example of each kind: the turn, and where it parts.

    `same` counts the turns of which people read the same, `given_up` those of which a shadow could not tell, `dropped`
    those that it had no time for.
    """

    def __init__(self) -> None:
        self.turns = 0
        self.same = 0
        self.given_up = 0
        self.dropped = 0
        self.counts: Counter[Kind] = Counter()
        self.examples: dict[Kind, tuple[str, str]] = {}

    def add(self, turn_id: str, comparison: Comparison) -> None:
        """One more turn."""
        self.turns += 1
        self.same += comparison.is_same
        self.counts.update(comparison.counts)
        for kind, example in comparison.examples.items():
            self.examples.setdefault(kind, (turn_id, example))
