"""The real command is killed about forty times: the rows 1 to 10 of the fault matrix, on each kind of platform.

Here is a share of all trials; `make kills` makes more than 500 kills.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kills.matrix import Table, plans, spread, try_all
from kills.trial import IN_HANDS, Kill, Plan, TrialRunner
from kills.turns import KINDS

if TYPE_CHECKING:
    from collections.abc import Iterator

SHARE = 0.03
FILES_AT_REST = {"ledger.db", "ledger.db.lock", "ledger.db.mark"}


@pytest.fixture(scope="module")
def keyed() -> Iterator[TrialRunner]:
    with TrialRunner("keyed") as runner:
        yield runner


@pytest.mark.parametrize("kind", KINDS)
def test_a_share_of_all_kills(kind: str) -> None:
    table = Table()
    try_all(kind, spread(plans(seed=7), SHARE), table)
    assert table.violations == []
    assert table.totals[kind]["kills"] >= 5


def test_at_least_500_kills_are_planned_and_half_of_them_in_the_hands_of_the_platform() -> None:
    kills = [kill for plan in plans(seed=7) for kill in plan.kills]
    assert len(kills) * len(KINDS) >= 550, "a process that ends too early is not killed"
    assert sum(kill.how in IN_HANDS for kill in kills) >= 0.52 * len(kills)


def at_point(*points: str) -> tuple[Kill, ...]:
    return tuple(Kill("point", point=point) for point in points)


ROWS = {
    # The turn in the input is to this command what an event is to a channel.
    "01 before the turn is recorded": at_point("commit.before:1"),
    "02 after the turn is recorded": at_point("commit.after:2"),
    "03 before the intent": at_point("commit.before:3"),
    "04 between the intent and the request": at_point("send.before:1"),
    "05 after the request was written": (Kill("held", 2),),
    "06 after the answer": at_point("send.answered:2"),
    "07 around a commit": at_point("commit.before:5", "commit.after:2"),
    "08 before the end of the turn": at_point("send.answered:4", "commit.before:2"),
    "09 three times, twice inside recovery": (Kill("held", 1), *at_point("commit.after:1"), Kill("held", 1)),
}


@pytest.mark.parametrize("row", ROWS)
def test_a_row_of_the_fault_matrix(keyed: TrialRunner, row: str) -> None:
    finish = "resume" if row.startswith("09") else "repeat"
    trial = keyed.trial(Plan(kills=ROWS[row], finish=finish))  # type: ignore[arg-type]  # one of the two
    assert trial.verdict.all == []
    assert trial.kills["kills"] == len(ROWS[row])


def test_row_10_random_kills_leave_nothing_behind(keyed: TrialRunner) -> None:
    keyed.clear()
    for milliseconds in (15, 30, 45, 60, 80, 120):
        trial = keyed.trial(Plan(kills=(Kill("time", milliseconds),)), clear=False)
        assert trial.verdict.all == []
    assert {path.name for path in keyed.ledger.parent.iterdir()} == FILES_AT_REST


def test_the_command_prints_a_table() -> None:
    command = [sys.executable, "-m", "kills.matrix", "--kinds", "keyed", "--share", "0.01"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    header, row, everything, share = ended.stdout.splitlines()
    assert header.split()[:3] == ["kind", "kills", "in_hands"]
    assert row.split()[1:] == everything.split()[1:]
    assert "in the platform's hands" in share
