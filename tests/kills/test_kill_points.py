"""A worker is killed at a crash point and the next one continues: the rows 1 to 9 of the fault matrix.

Here are all points and all kinds of platforms, with some moments of each; `make kills` tries all moments.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from kills.crash_points import CRASH_POINTS
from kills.matrix import moments
from kills.trial import KINDS, Trial, TrialRunner

if TYPE_CHECKING:
    from collections.abc import Iterator

every_kind = pytest.mark.parametrize("kind", KINDS)


class Runners:
    """A runner of each kind, made at its first use, and how often a worker reaches each point there."""

    def __init__(self, opened: ExitStack) -> None:
        self._opened = opened
        self._runners: dict[str, TrialRunner] = {}
        self._reached: dict[str, dict[str, int]] = {}

    def of(self, kind: str) -> TrialRunner:
        if kind not in self._runners:
            runner = self._runners[kind] = self._opened.enter_context(TrialRunner(kind))
            whole = runner.trial()
            assert whole.verdict.violations == []
            self._reached[kind] = whole.reached
        return self._runners[kind]

    def kill_at(self, kind: str, *points: str, limit: int = 2) -> list[Trial]:
        """Kill a worker at some moments of these points, and check that people can read every answer."""
        runner = self.of(kind)
        reached = {point: self._reached[kind][point] for point in points}
        return [checked(runner.trial(moment)) for moment in moments(reached, limit=limit)]


def checked(trial: Trial) -> Trial:
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
def runners() -> Iterator[Runners]:
    with ExitStack() as opened:
        yield Runners(opened)


@every_kind
def test_row_01_killed_before_the_event_is_recorded(runners: Runners, kind: str) -> None:
    assert killed(runners.kill_at(kind, "accept.before")) == 2


@every_kind
def test_row_02_killed_after_the_event_is_recorded(runners: Runners, kind: str) -> None:
    # Each worker gets all events again, and proposes a new turn for each.
    assert killed(runners.kill_at(kind, "accept.after", "begin.before", "begin.after", limit=1)) == 3


@every_kind
def test_row_03_killed_before_the_intent(runners: Runners, kind: str) -> None:
    assert killed(runners.kill_at(kind, "plan.before", "plan.after", "intent.before", limit=2)) == 6


@every_kind
def test_row_04_killed_between_the_intent_and_the_request(runners: Runners, kind: str) -> None:
    trials = runners.kill_at(kind, "intent.after", "send.before", limit=2)
    assert killed(trials) == 4
    assert any(trial.verdict.unknown for trial in trials) is (KINDS[kind].doubt == "hold")
    assert any(trial.verdict.marked for trial in trials) is (KINDS[kind].doubt == "resend")


@every_kind
def test_row_05_killed_after_the_request_is_written(runners: Runners, kind: str) -> None:
    assert killed(runners.kill_at(kind, "send.written", limit=4)) == 4
    # The first call is a post, and the platform has taken it.
    first = checked(runners.of(kind).trial("send.written:1"))
    assert bool(first.verdict.duplicates) is (KINDS[kind].doubt == "resend")


@every_kind
def test_row_06_killed_after_the_answer(runners: Runners, kind: str) -> None:
    assert killed(runners.kill_at(kind, "send.answered", "outcome.before", limit=3)) == 6
    # The first call is a post, and the platform has taken it.
    first = checked(runners.of(kind).trial("send.answered:1"))
    assert bool(first.verdict.duplicates) is (KINDS[kind].doubt == "resend")


@every_kind
def test_row_07_killed_around_a_commit(runners: Runners, kind: str) -> None:
    # How many changes share a commit depends on the disk: the last moments may not be reached.
    assert killed(runners.kill_at(kind, "tx.before_commit", "tx.after_commit", limit=3)) >= 4


@every_kind
def test_row_08_killed_after_the_outcome_and_around_the_end_of_the_turn(runners: Runners, kind: str) -> None:
    assert killed(runners.kill_at(kind, "outcome.after", "turn.before", "turn.after", limit=2)) == 6


@every_kind
def test_row_09_killed_twice_and_three_times_inside_recovery(runners: Runners, kind: str) -> None:
    trials = runners.kill_at(kind, "send.written", limit=3)
    first = max(trials, key=lambda trial: sum(trial.reached_in_recovery.values()))
    runner = runners.of(kind)
    for moment in moments(first.reached_in_recovery, limit=1):
        checked(runner.trial(*first.chain, moment))
    second = checked(runner.trial(*first.chain, "recover.marked:1"))
    assert second.kills == 2
    for moment in moments(second.reached_in_recovery, limit=1):
        checked(runner.trial(*second.chain, moment))
    third = checked(runner.trial(*second.chain, "recover.marked:1"))
    assert third.kills == 3


def test_every_point_has_its_row() -> None:
    rows = {
        *("accept.before", "accept.after", "begin.before", "begin.after", "plan.before", "plan.after"),
        *("intent.before", "intent.after", "send.before", "send.written", "send.answered"),
        *("outcome.before", "outcome.after", "turn.before", "turn.after"),
        *("recover.marked", "tx.before_commit", "tx.after_commit"),
    }
    assert set(CRASH_POINTS) == rows, "a new point needs a test above"
