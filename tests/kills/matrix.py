"""Kills the documented command more than 500 times, on each kind of platform, and prints a table: `make kills`.

    make kills [KILLS="--share 0.1 --kinds keyed,readback --jobs 4 --seed 7"]

Exits with 1 if people could not read every answer, or a turn could not be finished. `kills.trial` has the kinds of
kills, `kills.judge` the rules.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from kills.crash_points import POINTS
from kills.trial import Kill, Plan, Trial, TrialRunner
from kills.turns import KINDS, PRESENTATIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

_SORTS = ("kills", "in_hands", "retry", "ambiguous", "recovery", "drain")
_WRONG = ("lost", "doubled", "unfinished", "unreported", "other")
_CALLS = 4
_COMMITS = 6
_RANDOM_KILLS = 10


def plans(seed: int) -> list[Plan]:
    """All trials of one kind."""
    return [*_held(), *_in_recovery(), *_while_waiting(), *_at_points(), *_at_random(seed)]


def _held() -> list[Plan]:
    return [
        Plan(
            kills=(Kill("held", at, applied),),
            presentation=presentation,
            finish="repeat" if (at + applied) % 2 else "resume",
        )
        for presentation in PRESENTATIONS
        for at in range(1, _CALLS + 1)
        for applied in (True, False)
    ]


def _in_recovery() -> list[Plan]:
    """Two and three kills in a row: the process that recovers is killed, too."""
    chains = (
        (Kill("held", 2), Kill("held", 1)),
        (Kill("held", 1), Kill("held", 1, applied=False), Kill("held", 1)),
        (Kill("held", 3, applied=False), Kill("point", point="commit.after:2"), Kill("held", 1)),
        (Kill("held", 1), Kill("ambiguous", 1), Kill("drain", 1)),
    )
    return [
        Plan(kills=chain, presentation=presentation, finish=("repeat", "resume")[number % 2])
        for number, presentation in enumerate(PRESENTATIONS + PRESENTATIONS[1:])
        for chain in chains
    ]


def _while_waiting() -> list[Plan]:
    return [
        Plan(kills=(Kill(how, at, applied),), presentation=presentation, finish=("repeat", "resume")[at % 2])
        for presentation in PRESENTATIONS
        for how in ("retry", "ambiguous", "drain")
        for at, applied in ((1, True), (2, False))
    ]


def _at_points() -> list[Plan]:
    return [
        Plan(
            kills=(Kill("point", point=f"{point}:{number}"),),
            presentation=presentation,
            finish=("repeat", "resume")[number % 2],
        )
        for presentation in PRESENTATIONS[:2]
        for point in POINTS
        for number in range(1, (_COMMITS if point.startswith("commit") else _CALLS) + 1)
    ]


def _at_random(seed: int) -> list[Plan]:
    chance = random.Random(seed)
    return [
        Plan(
            kills=(Kill("time", chance.randint(5, 300)), Kill("time", chance.randint(5, 200))),
            presentation=chance.choice(PRESENTATIONS),
        )
        for _ in range(_RANDOM_KILLS)
    ]


def spread(items: Sequence[Plan], share: float) -> list[Plan]:
    """This share of the plans, evenly spread; at least one."""
    count = min(len(items), max(1, math.ceil(len(items) * share)))
    return [items[(2 * number + 1) * len(items) // (2 * count)] for number in range(count)]


class Table:
    """Adds up the trials by kind, and prints what went wrong."""

    def __init__(self) -> None:
        self.totals: dict[str, Counter[str]] = {}
        self.violations: list[str] = []
        self._began = time.monotonic()

    def add(self, trial: Trial) -> None:
        """Count one more trial."""
        total = self.totals.setdefault(trial.kind, Counter())
        total.update(trial.kills)
        total.update({column: len(getattr(trial.verdict, column)) for column in _WRONG})
        if trial.verdict.all:
            self.violations += [f"{trial.kind}, {trial.plan}: {text}" for text in trial.verdict.all]
            print("\n    ".join([f"violation: {trial.kind}, {trial.plan}", *trial.verdict.all]), flush=True)

    def __str__(self) -> str:
        everything: Counter[str] = sum(self.totals.values(), Counter())
        rows = [*self.totals.items(), ("all", everything)]
        columns = (*_SORTS, *_WRONG)
        lines = [f"{'kind':16}" + "".join(f"{name:>11}" for name in columns)]
        lines += [f"{name:16}" + "".join(f"{total[column]:11}" for column in columns) for name, total in rows]
        share = 100 * everything["in_hands"] / max(1, everything["kills"])
        seconds = time.monotonic() - self._began
        return "\n".join(
            [*lines, f"{share:.0f} % of the kills while a call was in the platform's hands; {seconds:.0f} s"]
        )


def try_all(kind: str, chosen: Sequence[Plan], table: Table) -> None:
    """Make these trials of a kind."""
    with TrialRunner(kind) as runner:
        for plan in chosen:
            table.add(runner.trial(plan))


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="make kills")
    parser.add_argument("--share", type=float, default=1.0, help="the share of the trials that is made, 0 to 1")
    parser.add_argument("--kinds", default=",".join(KINDS).replace(", ", " "), help="some kinds, with commas between")
    parser.add_argument("--jobs", type=int, default=6, help="how many trials run in parallel")
    parser.add_argument("--seed", type=int, default=7, help="the seed of the kills at random times")
    options = parser.parse_args()
    kinds = {name.replace(", ", " "): name for name in KINDS}
    table = Table()
    with ThreadPoolExecutor(options.jobs) as pool:
        chosen = spread(plans(options.seed), options.share)
        running = [
            pool.submit(try_all, kind, chosen[part :: KINDS[kind].parts], table)
            for kind in sorted((kinds[name] for name in options.kinds.split(",")), key=lambda kind: -KINDS[kind].parts)
            for part in range(KINDS[kind].parts)
        ]
        for done in running:
            done.result()
    print(table)
    return 1 if table.violations else 0


if __name__ == "__main__":
    sys.exit(main())
