"""Shadow mode: another way of presenting a turn beside the one that is sent, and what it would have said, compared.

A shadow sees the same events and sends nothing: it is a rehearsal, which has no channel, no courier and no ledger, so
nothing it does can reach anybody. Beside a live turn it takes no time of the turn's: events are handed over without
waiting, and a shadow that fails or falls behind is given up and says so.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from tailrace.delivery.comparing import Comparison, Kind, Said, compare
from tailrace.delivery.rehearsal import Moment, rehearse

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tailrace.capabilities import Capabilities
    from tailrace.events import Event
    from tailrace.operations import Target
    from tailrace.ports import Clock
    from tailrace.projector import ProjectorSettings

_log = logging.getLogger(__name__)
_MOST_EVENTS = 100_000


class Way(msgspec.Struct, frozen=True, kw_only=True):
    """One way of presenting turns: what the channel can do, and the settings."""

    capabilities: Capabilities
    settings: ProjectorSettings
    name: str = ""


def account(moments: Iterable[Moment]) -> list[Said]:
    """What stood in the end, each message with when it was first there."""
    first: dict[str, float] = {}
    last: Moment | None = None
    for last in moments:
        for seen in last.chat:
            first.setdefault(seen.message_id, last.at)
    if last is None:
        return []
    said = [seen for seen in last.chat if not seen.is_aside]
    return [Said(text=seen.body.text, at=first[seen.message_id], media=seen.media) for seen in said]


def replay(events: Sequence[tuple[float, Event]], target: Target, ours: Way, theirs: Way) -> Comparison:
    """A recorded turn presented in both ways."""
    accounts = [account(rehearse(events, target, way.capabilities, way.settings)) for way in (ours, theirs)]
    return compare(*accounts)


class Summary:
    """What many comparisons came to, with the first example of each kind."""

    def __init__(self) -> None:
        self.turns = 0
        self.same = 0
        self.given_up = 0
        self.counts: Counter[Kind] = Counter()
        self.examples: dict[Kind, tuple[str, str]] = {}  # the turn, and where it parts

    def add(self, turn_id: str, comparison: Comparison) -> None:
        """One more turn."""
        self.turns += 1
        self.same += comparison.is_same
        self.counts += comparison.counts()
        for difference in comparison.differences:
            self.examples.setdefault(difference.kind, (turn_id, difference.example))


class Shadow:
    """One live turn in the other way: `feed` it what the turn says, and ask at the end how it would have gone.

    Nothing here raises into the turn, waits, or does more for an event than to keep it with its time.
    """

    def __init__(self, target: Target, way: Way, *, clock: Clock) -> None:
        self._target = target
        self._way = way
        self._clock = clock
        self._began = clock.monotonic()
        self._events: list[tuple[float, Event]] = []
        self._is_given_up = False

    def feed(self, event: Event) -> None:
        """The turn said this."""
        if len(self._events) >= _MOST_EVENTS:
            self._is_given_up = True
        if not self._is_given_up:
            self._events.append((self._clock.monotonic() - self._began, event))

    def compared_with(self, said: Sequence[Said]) -> Comparison | None:
        """How it would have gone, held against what was sent; None where the shadow was given up.

        To be asked once the turn is over, and off the way of others: in a thread, or when nobody waits.
        """
        if self._is_given_up:
            return None
        try:
            theirs = account(rehearse(self._events, self._target, self._way.capabilities, self._way.settings))
        except Exception as error:  # noqa: BLE001 -- a shadow may be anything, and the turn is not its business
            _log.warning("the shadow %s was given up: %r", self._way.name or "way", error)
            return None
        return compare(said, theirs)
