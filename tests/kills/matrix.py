"""Kills a worker at each crash point, once, twice and three times in a row, on each kind of platform.

    make kills [KILLS="--share 0.1 --kinds keyed,readback --jobs 2 --random 200 --seed 7"]
    make kills KILLS="--kinds keyed --only send.written:2,recover.marked:1"

First a worker runs to its end and its crash points are counted. Then one worker is killed each time it reaches a point,
and the next one runs to its end. The second kill is at the points that this one reached while it recovered, and the
third at those of the recovery after it. Each time people must be able to read every answer, see `kills.judge`. Exits
with 1 if they cannot, and prints the command that repeats it.

A share takes as many of all moments, evenly spread, and at least one of each point. After that, workers of each kind
are killed at random, see `kills.random_kills`.
"""

from __future__ import annotations

import argparse
import math
import queue
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING, TypeVar

from kills.random_kills import RandomKills, kill_at_random
from kills.trial import KINDS, Trial, TrialRunner

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Item = TypeVar("Item")
Chain = tuple[str, ...]

_COUNTS = ("duplicates", "lost", "unknown", "notices", "repeated_notices", "marked")
_COLUMNS = ("trials", "runs", "kills", *_COUNTS, "violations")


def spread(items: Sequence[Item], share: float) -> list[Item]:
    """This share of the items, evenly spread; at least one if there are any."""
    count = min(len(items), max(1, math.ceil(len(items) * share)))
    return [items[(2 * number + 1) * len(items) // (2 * count)] for number in range(count)]


def moments(reached: dict[str, int], share: float = 1.0, *, limit: int = 1_000_000) -> list[str]:
    """The moments at which to kill: this share of the times each point was reached, at most `limit` of each."""
    return [
        f"{point}:{number}"
        for point, count in reached.items()
        for number in spread(range(1, count + 1), min(share, limit / count))
    ]


def widest(trials: Sequence[Trial]) -> list[Trial]:
    """For each point of the last kill, the trial whose recovery afterwards reached the most points."""
    best: dict[str, Trial] = {}
    for trial in sorted(trials, key=lambda trial: sum(trial.reached_in_recovery.values()), reverse=True):
        if trial.kills == len(trial.chain):
            best.setdefault(trial.chain[-1].partition(":")[0], trial)
    return list(best.values())


class Matrix:
    """The trials of one kind, by several runners in parallel; `on_trial` is called after each."""

    def __init__(self, runners: Sequence[TrialRunner], on_trial: Callable[[Trial], None]) -> None:
        self._runners: queue.SimpleQueue[TrialRunner] = queue.SimpleQueue()
        for runner in runners:
            self._runners.put(runner)
        self._count = len(runners)
        self._on_trial = on_trial

    def run(self, share: float = 1.0) -> None:
        """Count the points, then kill once, twice and three times."""
        (whole,) = self._try([()])
        if whole.verdict.violations:
            return  # the kills would show nothing
        once = self._try([(moment,) for moment in moments(whole.reached, share)])
        # A second kill multiplies everything: only the widest recovery of each point, and some of its moments.
        firsts = spread(widest(once), share)
        twice = self._try(
            [(*trial.chain, at) for trial in firsts for at in moments(trial.reached_in_recovery, limit=2)]
        )
        seconds = spread(widest(twice), share)
        self._try([(*trial.chain, at) for trial in seconds for at in moments(trial.reached_in_recovery, limit=1)])

    def _try(self, chains: Sequence[Chain]) -> list[Trial]:
        with ThreadPoolExecutor(max_workers=self._count) as pool:
            return list(pool.map(self._try_one, chains))

    def _try_one(self, chain: Chain) -> Trial:
        runner = self._runners.get()
        try:
            trial = runner.trial(*chain)
        finally:
            self._runners.put(runner)
        self._on_trial(trial)
        return trial


class Progress:
    """Prints the progress and the violations, and adds up the results."""

    def __init__(self) -> None:
        self._totals: dict[str, Counter[str]] = {}
        self._began = time.monotonic()

    def add(self, result: Trial | RandomKills) -> None:
        """Count one more result."""
        name = f"{result.kind}, random" if isinstance(result, RandomKills) else result.kind
        total = self._totals.setdefault(name, Counter())
        verdict = result.verdict
        total.update(trials=1, runs=result.runs, kills=result.kills, violations=bool(verdict.violations))
        total.update({column: getattr(verdict, column) for column in _COUNTS})
        if verdict.violations:
            print("\n    ".join([f"violation: {command_of(result)}", *verdict.violations]), flush=True)
        seconds = f"{time.monotonic() - self._began:.0f} s"
        if isinstance(result, RandomKills):
            log = f"the write-ahead log had at most {result.max_log_bytes / 2**20:.1f} MiB"
            print(f"{name}: {result.kills} kills, {result.questions} questions, {log}, {seconds}", flush=True)
        elif total["trials"] % 100 == 0:
            print(f"{name}: {total['trials']} trials, {total['kills']} kills, {seconds}", flush=True)

    def table(self) -> str:
        """All totals, and their sum in the last line."""
        everything: Counter[str] = sum(self._totals.values(), Counter())
        rows = [
            ("kind", _COLUMNS),
            *((name, [total[column] for column in _COLUMNS]) for name, total in self._totals.items()),
        ]
        rows.append(("all", [everything[column] for column in _COLUMNS]))
        return "\n".join(f"{name:22}" + "".join(f"{cell:>17}" for cell in cells) for name, cells in rows)

    @property
    def violations(self) -> int:
        """How many trials had a violation."""
        return sum(total["violations"] for total in self._totals.values())


def command_of(result: Trial | RandomKills) -> str:
    """The command that repeats this one."""
    if isinstance(result, RandomKills):
        options = f"--share 0 --random {result.kills} --seed {result.seed}"
    else:
        options = f"--only {','.join(result.chain) or 'nothing'}"
    return f'make kills KILLS="--kinds {result.kind} {options}"'


def try_all(kind: str, progress: Progress, *, share: float, jobs: int) -> None:
    """The matrix of one kind."""
    with ExitStack() as opened:
        runners = [opened.enter_context(TrialRunner(kind)) for _ in range(jobs)]
        Matrix(runners, progress.add).run(share)


def main() -> int:
    parser = argparse.ArgumentParser(prog="make kills")
    parser.add_argument("--share", type=float, default=1.0, help="the share of the moments that is tried, 0 to 1")
    parser.add_argument("--kinds", default=",".join(KINDS), help=f"some of {', '.join(KINDS)}")
    parser.add_argument("--jobs", type=int, default=2, help="how many trials run in parallel")
    parser.add_argument("--only", default="", help="one chain of crash points, with commas between, or `nothing`")
    parser.add_argument("--random", type=int, default=200, help="how many random kills of each kind")
    parser.add_argument("--seed", type=int, default=7, help="the seed of the random kills")
    options = parser.parse_args()
    progress = Progress()
    for kind in options.kinds.split(","):
        if options.only:
            with TrialRunner(kind) as runner:
                progress.add(runner.trial(*(() if options.only == "nothing" else options.only.split(","))))
        elif options.share > 0:
            try_all(kind, progress, share=options.share, jobs=options.jobs)
    for kind in options.kinds.split(",") if options.random > 0 and not options.only else ():
        with TrialRunner(kind) as runner:
            progress.add(kill_at_random(runner, options.random, options.seed))
    print(progress.table())
    return 1 if progress.violations else 0


if __name__ == "__main__":
    sys.exit(main())
