"""An event loop in virtual time: when all tasks wait, the time jumps to the next timer. A day takes milliseconds.

`run` runs a coroutine in a `VirtualLoop` and gives it a `Simulation`: the clock of that loop, and a source of
randomness with a seed, so that the same seed repeats a run. Sockets, pipes and threads are refused. If all tasks wait
and no timer is due, a `Deadlock` names them.
"""

from __future__ import annotations

import asyncio
import random
import selectors
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, TypeVarTuple, Unpack

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from concurrent.futures import Executor

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_BEGINNING = 1_700_000_000.0


class Deadlock(RuntimeError):
    """No task is ready and no timer is due: the tasks would wait forever."""


class VirtualClock:
    """The time of a virtual loop. The `wall` clock can be set and can jump; `monotonic` is the time of the loop."""

    def __init__(self, loop: VirtualLoop, *, wall: float = _BEGINNING) -> None:
        self._loop = loop
        self._offset = wall - loop.time()

    def wall(self) -> float:
        """Seconds since 1970, by the wall clock."""
        return self._loop.time() + self._offset

    def monotonic(self) -> float:
        """The loop's seconds, from 0."""
        return self._loop.time()

    def set_wall(self, wall: float) -> None:
        """Set the wall clock."""
        self._offset = wall - self._loop.time()

    def jump(self, seconds: float) -> None:
        """Move the wall clock forward, or back by a negative number."""
        self._offset += seconds

    def suspend(self, seconds: float) -> None:
        """Let time pass without running timers, as when the machine sleeps: they fire late."""
        self._loop.suspend(seconds)


class Simulation(msgspec.Struct, frozen=True):
    """The clock of a run in virtual time, and its source of randomness."""

    clock: VirtualClock
    source: random.Random


def run(main: Callable[[Simulation], Coroutine[Any, Any, T]], *, seed: int = 0, wall: float = _BEGINNING) -> T:
    """Run `main` in a new virtual loop and return its result. Tasks that still run then are cancelled.

    Raises `Deadlock` if it would wait forever.
    """
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, VirtualLoop), "the runner was given the factory"
        clock = VirtualClock(loop, wall=wall)
        return runner.run(main(Simulation(clock, random.Random(seed))))  # noqa: S311  to be repeated by the seed


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop with a time that begins at 0 and jumps to the next timer when nothing else is to be done."""

    def __init__(self) -> None:
        self._passing = _PassingTime(self)
        super().__init__(self._passing)

    def time(self) -> float:
        """The virtual time."""
        return self._passing.now

    def suspend(self, seconds: float) -> None:
        """Let time pass without running the timers that are due."""
        self._passing.now += seconds

    def run_in_executor(
        self,
        executor: Executor | None,  # noqa: ARG002  none is used
        func: Callable[[Unpack[Ts]], T],
        *args: *Ts,  # noqa: ARG002  it is not called
    ) -> NoReturn:
        """Refused: a thread runs in real time, which this loop does not wait for."""
        raise RuntimeError(f"in virtual time no code can run in a thread: {func!r}")


class _PassingTime(selectors.DefaultSelector):
    """The selector in which a loop waits: here a wait only moves the time."""

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self.now = 0.0
        self._loop = loop

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        """Accept the wake-up pipe of the loop, which comes first, and refuse everything else."""
        if self.get_map():
            raise RuntimeError("in virtual time a task cannot wait for a socket or a pipe")
        return super().register(fileobj, events, data)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return what woke the loop up. Without that, move the time by `timeout` seconds."""
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None:
            waiting = "; ".join(sorted(repr(task) for task in asyncio.all_tasks(self._loop)))
            raise Deadlock(f"nothing is ready and no timer is due; these tasks wait forever: {waiting or 'none'}")
        self.now += max(timeout, 0.0)
        return []
