"""A worker that is killed at any checkpoint, and the next one goes on: the rows 1 to 9 of the fault matrix.

Every point and every kind of platform is here, with some passings of each; `make kills` tries all of them.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from kills.crash_points import crash_points
from kills.matrix import moments
from kills.trial import KINDS, Bench, Trial

if TYPE_CHECKING:
    from collections.abc import Iterator

every_kind = pytest.mark.parametrize("kind", KINDS)


class Benches:
    """One bench of each kind, made when it is first asked for, and how often a worker passes each point there."""

    def __init__(self, held: ExitStack) -> None:
        self._held = held
        self._benches: dict[str, Bench] = {}
        self._passed: dict[str, dict[str, int]] = {}

    def of(self, kind: str) -> Bench:
        if kind not in self._benches:
            bench = self._benches[kind] = self._held.enter_context(Bench(kind))
            whole = bench.trial()
            assert whole.verdict.violations == []
            self._passed[kind] = whole.passed
        return self._benches[kind]

    def kill_at(self, kind: str, *points: str, most: int = 2) -> list[Trial]:
        """Kill a worker at some passings of these points, and see that people can read what they were to read."""
        bench = self.of(kind)
        passed = {point: self._passed[kind][point] for point in points}
        return [examined(bench.trial(crash)) for crash in moments(passed, most=most)]


def examined(trial: Trial) -> Trial:
    assert trial.verdict.violations == [], trial.chain
    assert trial.verdict.lost == 0, trial.chain
    if KINDS[trial.kind].doubt == "resend":
        assert trial.verdict.duplicates <= trial.kills * trial.verdict.marked, trial.chain
    else:
        assert trial.verdict.duplicates == 0, trial.chain
    return trial


def killed(trials: list[Trial]) -> int:
    return sum(trial.kills for trial in trials)


@pytest.fixture(scope="module")
def benches() -> Iterator[Benches]:
    with ExitStack() as held:
        yield Benches(held)


@every_kind
def test_row_01_killed_before_the_event_is_recorded(benches: Benches, kind: str) -> None:
    assert killed(benches.kill_at(kind, "accept.before")) == 2


@every_kind
def test_row_02_killed_after_the_event_is_recorded_and_it_comes_again(benches: Benches, kind: str) -> None:
    # Each worker is given all events anew, and proposes a new turn for each.
    assert killed(benches.kill_at(kind, "accept.after", "begin.before", "begin.after", most=1)) == 3


@every_kind
def test_row_03_killed_before_the_intent(benches: Benches, kind: str) -> None:
    assert killed(benches.kill_at(kind, "plan.before", "plan.after", "intent.before", most=2)) == 6


@every_kind
def test_row_04_killed_after_the_intent_and_before_the_first_byte(benches: Benches, kind: str) -> None:
    trials = benches.kill_at(kind, "intent.after", "send.before", most=2)
    assert killed(trials) == 4
    assert any(trial.verdict.withheld for trial in trials) is (KINDS[kind].doubt == "hold")
    assert any(trial.verdict.marked for trial in trials) is (KINDS[kind].doubt == "resend")


@every_kind
def test_row_05_killed_after_the_bytes_are_written(benches: Benches, kind: str) -> None:
    assert killed(benches.kill_at(kind, "send.written", most=4)) == 4
    # The first that is sent is no edit, and the platform has it.
    first = examined(benches.of(kind).trial("send.written:1"))
    assert bool(first.verdict.duplicates) is (KINDS[kind].doubt == "resend")


@every_kind
def test_row_06_killed_after_the_answer(benches: Benches, kind: str) -> None:
    assert killed(benches.kill_at(kind, "send.answered", "outcome.before", most=3)) == 6
    # The first that is sent is no edit, and the platform has it.
    first = examined(benches.of(kind).trial("send.answered:1"))
    assert bool(first.verdict.duplicates) is (KINDS[kind].doubt == "resend")


@every_kind
def test_row_07_killed_around_a_commit(benches: Benches, kind: str) -> None:
    # How many changes share a commit depends on the disk: the last passings may not be reached.
    assert killed(benches.kill_at(kind, "tx.before_commit", "tx.after_commit", most=3)) >= 4


@every_kind
def test_row_08_killed_after_the_outcome_and_around_the_end_of_the_turn(benches: Benches, kind: str) -> None:
    assert killed(benches.kill_at(kind, "outcome.after", "turn.before", "turn.after", most=2)) == 6


@every_kind
def test_row_09_killed_twice_and_three_times_inside_recovery(benches: Benches, kind: str) -> None:
    first = max(benches.kill_at(kind, "send.written", most=3), key=lambda trial: sum(trial.recovering.values()))
    bench = benches.of(kind)
    for crash in moments(first.recovering, most=1):
        examined(bench.trial(*first.chain, crash))
    second = examined(bench.trial(*first.chain, "recover.marked:1"))
    assert second.kills == 2
    for crash in moments(second.recovering, most=1):
        examined(bench.trial(*second.chain, crash))
    third = examined(bench.trial(*second.chain, "recover.marked:1"))
    assert third.kills == 3


def test_every_point_has_its_row() -> None:
    rows = {
        *("accept.before", "accept.after", "begin.before", "begin.after", "plan.before", "plan.after"),
        *("intent.before", "intent.after", "send.before", "send.written", "send.answered"),
        *("outcome.before", "outcome.after", "turn.before", "turn.after"),
        *("recover.marked", "tx.before_commit", "tx.after_commit"),
    }
    assert set(crash_points()) == rows, "a new point needs a test above"
