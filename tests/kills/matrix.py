"""Kills a worker at every moment that matters, once, twice and three times in a row, on every kind of platform.

    make kills [KILLS="--share 0.1 --kinds keyed,readback --jobs 2 --random 200 --seed 7"]
    make kills KILLS="--kinds keyed --only send.written:2,recover.marked:1"

First a worker runs to its end and its crash points are counted. Then one is killed at each passing of each of them, and
the next one runs to its end. Which points that one passed while it recovered is known then, and so the second kill is
put at those, and the third at those of the recovery after it. Each time the people must be able to read what they were
to read: see `kills.judge`. Ends with 1 where they cannot, and says how to see it again.

A share takes as many of everything, evenly spread, and at least one of each point. Then so many workers of each kind
are killed at random while they serve many conversations: see `kills.random_kills`.
"""

from __future__ import annotations

import argparse
import math
import queue
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING, TypeVar

import msgspec
from rich.console import Console
from rich.table import Table

from kills.random_kills import Course, kill_at_random
from kills.trial import KINDS, Bench, Trial

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Item = TypeVar("Item")
Chain = tuple[str, ...]


class Sum(msgspec.Struct, kw_only=True):
    """What the trials of one kind come to."""

    trials: int = 0
    runs: int = 0
    kills: int = 0
    duplicates: int = 0
    lost: int = 0
    withheld: int = 0
    told: int = 0
    told_again: int = 0
    marked: int = 0
    violations: int = 0

    def add(self, tried: Trial | Course) -> None:
        """Count one more."""
        verdict = tried.verdict
        self.trials += 1
        self.runs += tried.runs
        self.kills += tried.kills
        self.duplicates += verdict.duplicates
        self.lost += verdict.lost
        self.withheld += verdict.withheld
        self.told += verdict.told
        self.told_again += verdict.told_again
        self.marked += verdict.marked
        self.violations += bool(verdict.violations)


def spread(items: Sequence[Item], share: float) -> list[Item]:
    """So large a share of the items, evenly spread; at least one where there is any."""
    count = min(len(items), max(1, math.ceil(len(items) * share)))
    return [items[(2 * number + 1) * len(items) // (2 * count)] for number in range(count)]


def moments(passed: dict[str, int], share: float = 1.0, *, most: int = 1_000_000) -> list[str]:
    """The settings of `CRASH` that die at these passings, of each point its share, and so many at most."""
    return [
        f"{point}:{nth}"
        for point, count in passed.items()
        for nth in spread(range(1, count + 1), min(share, most / count))
    ]


def point_of(crash: str) -> str:
    """The point of a setting of `CRASH`."""
    return crash.partition(":")[0]


def widest(trials: Sequence[Trial]) -> list[Trial]:
    """For each point at which the last kill was, the trial whose recovery after it passed the most points."""
    best: dict[str, Trial] = {}
    for trial in trials:
        point = point_of(trial.chain[-1])
        if trial.kills == len(trial.chain) and (
            point not in best or sum(trial.recovering.values()) > sum(best[point].recovering.values())
        ):
            best[point] = trial
    return list(best.values())


class Matrix:
    """The trials of one kind, on several benches side by side; `on_trial` is told of each."""

    def __init__(self, benches: Sequence[Bench], on_trial: Callable[[Trial], None]) -> None:
        self._benches: queue.SimpleQueue[Bench] = queue.SimpleQueue()
        for bench in benches:
            self._benches.put(bench)
        self._many = len(benches)
        self._on_trial = on_trial

    def run(self, share: float = 1.0) -> None:
        """Count, then kill once, twice and three times."""
        (whole,) = self._try([()])
        if whole.verdict.violations:
            return  # nothing that is found by killing it would mean anything
        once = self._try([(crash,) for crash in moments(whole.passed, share)])
        # A second kill multiplies everything: behind the widest recovery from each point, some passings of each point.
        firsts = spread(widest(once), share)
        twice = self._try([(*trial.chain, crash) for trial in firsts for crash in moments(trial.recovering, most=2)])
        seconds = spread(widest(twice), share)
        self._try([(*trial.chain, crash) for trial in seconds for crash in moments(trial.recovering, most=1)])

    def _try(self, chains: Sequence[Chain]) -> list[Trial]:
        with ThreadPoolExecutor(max_workers=self._many) as pool:
            return list(pool.map(self._one, chains))

    def _one(self, chain: Chain) -> Trial:
        bench = self._benches.get()
        try:
            trial = bench.trial(*chain)
        finally:
            self._benches.put(bench)
        self._on_trial(trial)
        return trial


class Progress:
    """Says how far it is and what went wrong, on a console, and keeps the sums."""

    def __init__(self, console: Console) -> None:
        self.sums: dict[str, Sum] = {}
        self._console = console
        self._began = time.monotonic()

    def add(self, tried: Trial | Course) -> None:
        """One more trial is over."""
        name = f"{tried.kind}, at random" if isinstance(tried, Course) else tried.kind
        found = self.sums.setdefault(name, Sum())
        found.add(tried)
        if tried.verdict.violations:
            self._console.print(f"[red]violation[/] {repetition(tried)}")
            for violation in tried.verdict.violations:
                self._console.print(f"    {violation}", markup=False)
        if isinstance(tried, Course):
            log = f"{tried.longest_log / 2**20:.1f} MiB of log at most"
            self._console.print(f"{name}: {tried.kills} kills, {tried.questions} questions, {log}, {self._seconds()}")
        elif found.trials % 100 == 0:
            self._console.print(f"{name}: {found.trials} trials, {found.kills} kills, {self._seconds()}")

    def _seconds(self) -> str:
        return f"{time.monotonic() - self._began:.0f} s"

    def table(self) -> Table:
        """All sums, and their sum."""
        columns = (
            "trials",
            "runs",
            "kills",
            "duplicates",
            "lost",
            "withheld",
            "told",
            "told_again",
            "marked",
            "violations",
        )
        table = Table(title=f"killed and gone on, in {self._seconds()}")
        table.add_column("kind")
        for column in columns:
            table.add_column(column, justify="right")
        for kind, found in self.sums.items():
            table.add_row(kind, *(str(getattr(found, column)) for column in columns))
        table.add_section()
        table.add_row("all", *(str(sum(getattr(found, column) for found in self.sums.values())) for column in columns))
        return table

    @property
    def violations(self) -> int:
        """How many trials went wrong."""
        return sum(found.violations for found in self.sums.values())


def repetition(tried: Trial | Course) -> str:
    """The command that makes this one trial again."""
    if isinstance(tried, Course):
        options = f"--share 0 --random {tried.kills} --seed {tried.seed}"
    else:
        options = f"--only {','.join(tried.chain) or 'nothing'}"
    return f'make kills KILLS="--kinds {tried.kind} {options}"'


def try_all(kinds: Sequence[str], progress: Progress, *, share: float = 1.0, jobs: int = 2) -> None:
    """The matrix of every kind."""
    for kind in kinds:
        with ExitStack() as held:
            benches = [held.enter_context(Bench(kind)) for _ in range(jobs)]
            Matrix(benches, progress.add).run(share)


def try_at_random(kinds: Sequence[str], progress: Progress, restarts: int, seed: int) -> None:
    """So many kills at random of every kind."""
    for kind in kinds:
        with Bench(kind) as bench:
            progress.add(kill_at_random(bench, restarts, seed))


def try_chain(kinds: Sequence[str], progress: Progress, chain: str) -> None:
    """One chain of kills, of every kind; `nothing` kills nobody."""
    for kind in kinds:
        with Bench(kind) as bench:
            progress.add(bench.trial(*(() if chain == "nothing" else chain.split(","))))


def main() -> int:
    """The command; 1 where people could not read what they were to."""
    parser = argparse.ArgumentParser(prog="make kills")
    parser.add_argument("--share", type=float, default=1.0, help="how much of it, from 0 to 1")
    parser.add_argument("--kinds", default=",".join(KINDS), help=f"some of {', '.join(KINDS)}")
    parser.add_argument("--jobs", type=int, default=2, help="how many trials side by side")
    parser.add_argument("--only", default="", help="one chain of settings of CRASH, with commas between")
    parser.add_argument("--random", type=int, default=200, help="how many kills at random of each kind")
    parser.add_argument("--seed", type=int, default=7, help="of those")
    asked = parser.parse_args()
    console = Console(width=120)
    progress = Progress(console)
    kinds = asked.kinds.split(",")
    if asked.only:
        try_chain(kinds, progress, asked.only)
    else:
        if asked.share > 0:
            try_all(kinds, progress, share=asked.share, jobs=asked.jobs)
        if asked.random > 0:
            try_at_random(kinds, progress, asked.random, asked.seed)
    console.print(progress.table())
    return 1 if progress.violations else 0


if __name__ == "__main__":
    sys.exit(main())
