"""One row of the table, the scale of a run, and how durations are measured."""

from __future__ import annotations

import gc
import time
from typing import TYPE_CHECKING, NamedTuple, ParamSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Arguments = ParamSpec("Arguments")


class Scale(NamedTuple):
    """How much is measured: `FULL`, or `TINY`, which only shows that every row works."""

    deltas: int
    text: int
    large: int
    repeats: int
    processes: int
    turns: int
    deliveries: int
    open_rows: int


FULL = Scale(
    deltas=1_000_000,
    text=100_000,
    large=4_000_000,
    repeats=5,
    processes=7,
    turns=1_000,
    deliveries=40_000,
    open_rows=1_000_000,
)
TINY = Scale(deltas=400, text=6_000, large=8_000, repeats=1, processes=1, turns=4, deliveries=8, open_rows=200)


class Row(NamedTuple):
    """One comparison: our duration, the baseline, their ratio and the required ratio.

    `met` is None if no ratio is required. `breaches` counts what a splitter broke, in the order of
    `cutting_laws.foreign.Tally`.
    """

    name: str
    ours: str
    baseline: str = ""
    ratio: str = ""
    target: str = ""
    met: bool | None = None
    breaches: str = ""


def at_most(name: str, ours: float, baseline: float, target: float) -> Row:
    """A row of two durations: ours may be at most `target` times the baseline."""
    ratio = ours / baseline
    return Row(name, duration(ours), duration(baseline), f"{ratio:.2f} x", f"≤ {target:g} x", ratio <= target)


def at_least(name: str, ours: float, baseline: float, target: float) -> Row:
    """A row of two durations for the same work: our rate must be at least this share of the baseline's."""
    share = baseline / ours
    return Row(name, duration(ours), duration(baseline), f"{share:.1%}", f"≥ {target:.0%}", share >= target)


def best_of(
    repeats: int, work: Callable[Arguments, object], *args: Arguments.args, **kwargs: Arguments.kwargs
) -> float:
    """The shortest of several runs in seconds, with the garbage collector off."""
    return min(_timed(lambda: work(*args, **kwargs)) for _ in range(repeats))


def best_of_each(
    repeats: int, works: Sequence[Callable[[], object]], clock: Callable[[], float] = time.perf_counter
) -> list[float]:
    """The shortest run of each function. They run alternately, so that a busy moment of the machine affects all.

    For work that only computes, pass the clock of the process: it does not count other programs.
    """
    rounds = [[_timed(work, clock) for work in works] for _ in range(repeats)]
    return [min(times) for times in zip(*rounds, strict=True)]


def _timed(work: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    gc.collect()
    gc.disable()
    try:
        start = clock()
        work()
        return clock() - start
    finally:
        gc.enable()


def duration(seconds: float) -> str:
    """Format seconds in a readable unit."""
    if seconds >= 1:
        return f"{seconds:.2f} s"
    if seconds >= 1e-3:
        return f"{seconds * 1e3:.1f} ms"
    return f"{seconds * 1e6:.0f} µs"
