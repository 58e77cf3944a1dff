"""Shadow mode beside live turns: another way of presenting a share of them, and what it would have done otherwise.

A shadow is handed values and nothing else: what the turn says, and what the ledger recorded of its deliveries. It has
no channel, no courier and no ledger, so nothing it does can reach anybody. Of a turn it takes the time to keep an event
and no more. The comparison is made once the turn is over, by a thread that has it made in another process
(`examination`); where that fails, hangs or is short of memory the shadow of that turn is given up, and where it cannot
keep up turns are dropped. Both are counted, and no turn ever hears of either.
"""

from __future__ import annotations

import hashlib
import logging
import queue
import threading
from typing import TYPE_CHECKING

import msgspec

from tailrace.errors import UsageError
from tailrace.shadow.comparison import TOLERANCE_S, Comparison
from tailrace.shadow.replay import Summary
from tailrace.shadow.sandbox import Answer, Question, SandboxProcess
from tailrace.shadow.shadow_turn import ShadowTurn
from tailrace.shadow.shown_turn import delivered

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.deliveries import Delivery
    from tailrace.operations import Target
    from tailrace.ports import Clock
    from tailrace.shadow.replay import Variant

_log = logging.getLogger(__name__)
_LEAVE_S = 1.0


class ShadowSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How much a shadow may take.

    `share` of the turns have one, from 0 to 1; which ones follows from their ids. A comparison takes at most `within_s`
    and `memory_mb`. At most `most_turns` are under way or waiting at once, each of at most `most_events` events with
    `most_characters`. Messages that come no further apart than `tolerance_s` came at the same time.
    """

    share: float = 1.0
    within_s: float = 10.0
    memory_mb: int = 1024
    most_turns: int = 8
    most_events: int = 100_000
    most_characters: int = 4_000_000
    tolerance_s: float = TOLERANCE_S

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise UsageError(f"share is {self.share:g}; it is a part of all turns, from 0 to 1")
        if not (0 < self.within_s < float("inf") and self.tolerance_s >= 0):
            raise UsageError("within_s is a number of seconds above 0, tolerance_s one of 0 or more")
        if min(self.memory_mb, self.most_turns, self.most_events, self.most_characters) < 1:
            raise UsageError("memory_mb, most_turns, most_events and most_characters are numbers of 1 or more")


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one turn's shadow: how it differs, or why nobody can tell."""

    turn_id: str
    comparison: Comparison | None = None
    given_up: str = ""

    def __str__(self) -> str:
        if self.comparison is None:
            return f"the shadow was given up: {self.given_up}"
        return str(self.comparison)


class Shadow:
    """Another way beside live turns. Nothing but making one raises, and nothing waits but `close`.

    `reported` is told of each turn as it was compared, in a thread of the shadow's: what it raises is logged, and while
    it takes its time further turns are dropped.
    """

    def __init__(
        self,
        way: Variant,
        *,
        clock: Clock,
        settings: ShadowSettings | None = None,
        reported: Callable[[Report], None] | None = None,
    ) -> None:
        self.summary = Summary()
        self._settings = settings or ShadowSettings()
        self._clock = clock
        self._reported = reported
        limits = self._settings
        self._examiner = SandboxProcess(way, within_s=limits.within_s, memory_mb=limits.memory_mb)
        self._room = threading.BoundedSemaphore(limits.most_turns)
        self._watching: dict[str, ShadowTurn] = {}
        self._over: queue.SimpleQueue[ShadowTurn | None] = queue.SimpleQueue()
        self._is_closed = False
        self._thread = threading.Thread(target=self._work, name=f"shadow {way.name}".rstrip(), daemon=True)
        self._thread.start()

    def is_chosen(self, turn_id: str) -> bool:
        """Whether the turn of this id is one of the share."""
        drawn = hashlib.blake2b(turn_id.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        return int.from_bytes(drawn) < self._settings.share * 2**64

    def beside(self, turn_id: str, target: Target) -> ShadowTurn:
        """Whoever presents a turn has it watched, `with` this, from its first event until all is delivered.

        A turn that was begun by a former process is not to be watched: its times are not known. One that is not of the
        share, or for which there is no room, is let alone.
        """
        limits = self._settings
        if self._is_closed or turn_id in self._watching or not self.is_chosen(turn_id):
            return ShadowTurn(turn_id, target, self._clock)
        if not self._room.acquire(blocking=False):
            self.summary.dropped += 1
            return ShadowTurn(turn_id, target, self._clock)
        watched = ShadowTurn(turn_id, target, self._clock)
        watched.begin(limits.most_events, limits.most_characters, within_s=limits.within_s, over=self._end)
        self._watching[turn_id] = watched
        return watched

    def told(self, delivery: Delivery) -> None:
        """A delivery of some turn was recorded, or has changed."""
        if (watched := self._watching.get(delivery.turn_id)) is not None:
            watched.told(delivery)

    def close(self, *, within_s: float = 0.0) -> None:
        """Give what is over so long to be compared and told, then end that, and give up what is still watched.

        Where another path is followed it is to be called by whoever runs that.
        """
        self._over.put(None)
        if within_s:
            self._thread.join(within_s)
        self._is_closed = True
        for watched in list(self._watching.values()):
            watched.give_up("the shadow was closed")
        self._examiner.close()
        # What `reported` does can only be waited for.
        self._thread.join(_LEAVE_S)

    def _end(self, watched: ShadowTurn) -> None:
        self._watching.pop(watched.turn_id, None)
        self._over.put(watched)

    def _work(self) -> None:
        while (watched := self._over.get()) is not None:
            try:
                self._tell(self._examined(watched))
            except Exception as error:  # noqa: BLE001 -- whatever happens here is the shadow's business alone
                _log.warning("turn %s: its shadow could not be told of: %r", watched.turn_id, error)
            finally:
                watched.forget()
                self._room.release()

    def _examined(self, watched: ShadowTurn) -> Report:
        given_up = "the shadow was closed" if self._is_closed else watched.given_up
        answer = Answer(given_up=given_up)
        if not given_up:
            ours = delivered(watched.rows.values(), began=watched.began_wall)
            question = Question(target=watched.target, ours=ours, tolerance_s=self._settings.tolerance_s)
            answer = self._examiner.examine(question, watched.events)
        return Report(turn_id=watched.turn_id, comparison=answer.comparison, given_up=answer.given_up)

    def _tell(self, report: Report) -> None:
        if report.comparison is None:
            self.summary.given_up += 1
            _log.warning("turn %s: %s", report.turn_id, report)
        else:
            self.summary.add(report.turn_id, report.comparison)
            level = logging.WARNING if report.comparison.is_grave else logging.INFO
            _log.log(level, "turn %s: %s", report.turn_id, report)
        if self._reported is not None:
            self._reported(report)
