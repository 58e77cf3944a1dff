"""An event loop in which time passes only when everybody waits, and then at once: a day of waiting takes milliseconds.

`run` runs a coroutine in a `VirtualLoop` and hands it a `Simulation`: the clock of that loop, and a source of
randomness made from a seed, so that the same seed gives the same run. There is no outside in it: sockets, pipes and
threads are refused, and tasks that wait for what nobody will do are named in a `Deadlock`.
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
    """Nothing is ready and no timer is due: what the tasks wait for will never happen."""


class VirtualClock:
    """The time of a virtual loop. What people set, `wall`, may be put forward or back; `monotonic` is the loop's."""

    def __init__(self, loop: VirtualLoop, *, wall: float = _BEGINNING) -> None:
        self._loop = loop
        self._offset = wall - loop.time()

    def wall(self) -> float:
        """Seconds since 1970, as people set it."""
        return self._loop.time() + self._offset

    def monotonic(self) -> float:
        """The loop's seconds, from 0."""
        return self._loop.time()

    def set_wall(self, wall: float) -> None:
        """Let people set the clock to this moment; it goes on from there."""
        self._offset = wall - self._loop.time()

    def jump(self, seconds: float) -> None:
        """Put what people see forward, or back by a negative number."""
        self._offset += seconds

    def suspend(self, seconds: float) -> None:
        """Let time pass in which nothing runs, as when the machine sleeps: timers that were due are late."""
        self._loop.suspend(seconds)


class Simulation(msgspec.Struct, frozen=True):
    """What a run in virtual time is given: the time, and chances that the seed repeats."""

    clock: VirtualClock
    source: random.Random


def run(main: Callable[[Simulation], Coroutine[Any, Any, T]], *, seed: int = 0, wall: float = _BEGINNING) -> T:
    """What `main` returns, run in a virtual loop of its own; the tasks it leaves behind are cancelled.

    Raises `Deadlock` where it would wait for ever.
    """
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, VirtualLoop), "the runner was given the factory"
        clock = VirtualClock(loop, wall=wall)
        return runner.run(main(Simulation(clock, random.Random(seed))))  # noqa: S311  to be repeated by the seed


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time begins at 0 and moves to the next timer as soon as nothing else is to be done."""

    def __init__(self) -> None:
        self._passing = _PassingTime(self)
        super().__init__(self._passing)

    def time(self) -> float:
        """The virtual time."""
        return self._passing.now

    def suspend(self, seconds: float) -> None:
        """Let time pass at once, whatever is due meanwhile."""
        self._passing.now += seconds

    def run_in_executor(
        self,
        executor: Executor | None,  # noqa: ARG002  whichever
        func: Callable[[Unpack[Ts]], T],
        *args: *Ts,  # noqa: ARG002  it is not called
    ) -> NoReturn:
        """Refused: a thread works in real time, and this loop would be done before it."""
        raise RuntimeError(f"in virtual time there are no threads, and {func!r} was to run in one")


class _PassingTime(selectors.DefaultSelector):
    """Where a loop waits: here the wait is the passing of time itself."""

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self.now = 0.0
        self._loop = loop

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        """Takes the loop's own wake-up pipe, which is the first, and refuses everything else."""
        if self.get_map():
            raise RuntimeError("in virtual time there is no outside: a socket or a pipe was to be waited for")
        return super().register(fileobj, events, data)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """What woke the loop up; otherwise `timeout` seconds have passed."""
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None:
            waiting = "; ".join(sorted(repr(task) for task in asyncio.all_tasks(self._loop)))
            raise Deadlock(f"nothing is ready and no timer is due; these wait for ever: {waiting or 'no task at all'}")
        self.now += max(timeout, 0.0)
        return []
