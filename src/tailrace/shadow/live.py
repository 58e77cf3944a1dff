"""Shadow mode for live turns: present some of them in a second way as well, and report the differences.

A shadow gets only values: the events of the turn, and the ledger's records of its deliveries. It has no channel, no
sender and no ledger, so it cannot send anything. While the turn runs, the shadow only stores these values. The
comparison is made in a thread after the turn. A comparison that fails or takes too long is given up. If too many turns
run at once, some are not compared at all. Both are counted, and neither affects the live turn.
"""

from __future__ import annotations

import ctypes
import hashlib
import logging
import queue
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from tailrace.errors import UsageError
from tailrace.log_context import log_context
from tailrace.shadow.comparison import TOLERANCE_S, Comparison, compare
from tailrace.shadow.replay import Summary
from tailrace.shadow.shadow_turn import ShadowTurn
from tailrace.shadow.shown_turn import from_deliveries

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.deliveries import Delivery
    from tailrace.operations import Target
    from tailrace.ports import Clock
    from tailrace.shadow.replay import Variant

_log = logging.getLogger(__name__)
_CLOSED = "the shadow was closed"
_GRACE_S = 1.0


class ShadowSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Which turns a shadow compares, and its limits.

    A `share` of the turns, from 0 to 1, is compared; the ids of the turns decide which. A comparison takes at most
    `timeout_s`. At most `max_turns` are watched or compared at once, each with at most `max_events` events and
    `max_characters`. Messages count as simultaneous if their times differ by at most `tolerance_s`.
    """

    share: float = 1.0
    timeout_s: float = 10.0
    max_turns: int = 8
    max_events: int = 100_000
    max_characters: int = 4_000_000
    tolerance_s: float = TOLERANCE_S

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise UsageError(f"share is {self.share:g}; it is a part of all turns, from 0 to 1")
        if not (0 < self.timeout_s < float("inf") and self.tolerance_s >= 0):
            raise UsageError("timeout_s is a number of seconds above 0, tolerance_s one of 0 or more")
        if min(self.max_turns, self.max_events, self.max_characters) < 1:
            raise UsageError("max_turns, max_events and max_characters are numbers of 1 or more")


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The result for one turn: the differences, or in `given_up` the reason why there was no comparison."""

    turn_id: str
    comparison: Comparison | None = None
    given_up: str = ""

    def __str__(self) -> str:
        return f"the shadow was given up: {self.given_up}" if self.comparison is None else str(self.comparison)


class Shadow:
    """Presents live turns in a second way (`variant`) and compares. Only `__init__` raises, and only `close` waits.

    `on_report` is called for each turn after its comparison, in a thread of the shadow. Its exceptions are logged.
    While `on_report` runs, the comparison of further turns may be left out.
    """

    def __init__(
        self,
        variant: Variant,
        *,
        clock: Clock,
        settings: ShadowSettings | None = None,
        on_report: Callable[[Report], None] | None = None,
    ) -> None:
        self.summary = Summary()
        self._variant = variant
        self._settings = settings or ShadowSettings()
        self._clock = clock
        self._on_report = on_report
        self._room = threading.BoundedSemaphore(self._settings.max_turns)
        self._watched: dict[str, ShadowTurn] = {}
        self._finished: queue.SimpleQueue[ShadowTurn | None] = queue.SimpleQueue()
        self._closed = threading.Event()
        self._comparing: threading.Thread | None = None
        self._thread = threading.Thread(target=self._work, name=f"shadow {variant.name}".rstrip(), daemon=True)
        self._thread.start()

    def is_chosen(self, turn_id: str) -> bool:
        """Whether the turn with this id is one of those that are compared. The same id always gives the same answer."""
        digest = hashlib.blake2b(turn_id.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        return int.from_bytes(digest) < self._settings.share * 2**64

    def watch(self, turn_id: str, target: Target) -> ShadowTurn:
        """Watch a turn. Use the result in a `with` block, from the first event until everything is delivered.

        Do not watch a turn that an earlier process began, because its times are unknown. If the turn is not one of
        those to compare, or too many turns are watched, the result does nothing.
        """
        turn = ShadowTurn(turn_id, target, self._clock)
        if self._closed.is_set() or turn_id in self._watched or not self.is_chosen(turn_id):
            return turn
        if not self._room.acquire(blocking=False):
            self.summary.dropped += 1
            return turn
        limits = self._settings
        turn.begin(limits.max_events, limits.max_characters, timeout_s=limits.timeout_s, on_finished=self._finish)
        self._watched[turn_id] = turn
        return turn

    def record(self, delivery: Delivery) -> None:
        """Take a delivery that is new or has changed. Deliveries of turns that are not watched are ignored."""
        if (turn := self._watched.get(delivery.turn_id)) is not None:
            turn.record(delivery)

    def close(self, *, timeout_s: float = 0.0) -> None:
        """Wait up to `timeout_s` until the finished turns are compared, and give up the comparison of all others.

        If `ShadowTurn.follow` was used, call this in the thread of the event loop.
        """
        self._finished.put(None)
        if timeout_s:
            self._thread.join(timeout_s)
        self._closed.set()
        for turn in list(self._watched.values()):
            turn.give_up(_CLOSED)
        if self._comparing is not None:
            _stop_thread(self._comparing)
        self._thread.join(_GRACE_S)

    def _finish(self, turn: ShadowTurn) -> None:
        self._watched.pop(turn.turn_id, None)
        self._finished.put(turn)

    def _work(self) -> None:
        while (turn := self._finished.get()) is not None:
            try:
                with log_context(conversation=turn.target.conversation, turn=turn.turn_id):
                    self._report(self._compare_in_time(turn))
            except Exception as error:  # noqa: BLE001 -- `on_report` may raise anything
                _log.warning("turn %s: its shadow could not be reported: %r", turn.turn_id, error)
            finally:
                turn.forget()
                self._room.release()

    def _compare_in_time(self, turn: ShadowTurn) -> Report:
        """Compare in a new thread, and give up if that takes too long."""
        if turn.given_up or self._closed.is_set():
            return Report(turn_id=turn.turn_id, given_up=turn.given_up or _CLOSED)
        if self._comparing is not None and self._comparing.is_alive():
            return Report(turn_id=turn.turn_id, given_up="an earlier comparison does not end")
        reports: list[Report] = []

        stopped = threading.Event()

        def run() -> None:
            with suppress(SystemExit):
                reports.append(self._compare(turn, stopped.is_set))

        self._comparing = threading.Thread(target=run, name=f"{self._thread.name}: comparison", daemon=True)
        self._comparing.start()
        self._comparing.join(self._settings.timeout_s)
        stopped.set()
        self._comparing.join(_GRACE_S / 2)
        if not reports:
            _stop_thread(self._comparing)
            self._comparing.join(_GRACE_S)
        if not reports:
            why = _CLOSED if self._closed.is_set() else f"it took longer than {self._settings.timeout_s:g} s"
            return Report(turn_id=turn.turn_id, given_up=why)
        return reports[0]

    def _compare(self, turn: ShadowTurn, is_stopped: Callable[[], bool]) -> Report:
        try:
            ours = from_deliveries(turn.deliveries.values(), began_at=turn.began_at)
            theirs = self._variant.show(turn.events, turn.target, is_stopped=is_stopped)
            comparison = compare(ours, theirs, tolerance_s=self._settings.tolerance_s)
            return Report(turn_id=turn.turn_id, comparison=comparison)
        except Exception as error:  # noqa: BLE001 -- the projector of a shadow may raise anything
            return Report(turn_id=turn.turn_id, given_up=f"{type(error).__name__}: {error}"[:1000].rstrip(": "))

    def _report(self, report: Report) -> None:
        if report.comparison is None:
            self.summary.given_up += 1
            _log.warning("turn %s: %s", report.turn_id, report)
        else:
            self.summary.add(report.turn_id, report.comparison)
            level = logging.WARNING if report.comparison.is_grave else logging.INFO
            _log.log(level, "turn %s: %s", report.turn_id, report)
        if self._on_report is not None:
            self._on_report(report)


def _stop_thread(thread: threading.Thread) -> None:
    """Stop a thread that may never end by raising SystemExit in it. An endless loop would slow down the live turns.

    Python code gets the exception at its next instruction; code that waits in C gets it when the C call returns.
    """
    if thread.is_alive() and thread.ident is not None:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(SystemExit))
