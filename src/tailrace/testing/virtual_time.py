"""An event loop whose time jumps to the next timer when all tasks wait: a day of waiting takes milliseconds.

`run` runs a coroutine in a `VirtualLoop`. The coroutine gets a `Simulation`: the clock of the loop, and random numbers
from a seed, so that the same seed gives the same run. The loop refuses sockets, pipes and threads, because they work in
real time. If all tasks wait and no timer is due, it raises a `Deadlock` that names the tasks.

With `sockets` a server and its clients can run in the same loop, such as a simulated platform and a bot. Then the time
stops while bytes are on their way. Such a run is not exactly repeatable.
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

_FIRST_WALL_S = 1_700_000_000.0
_ON_THE_WAY_S = 0.001  # in real time: bytes that were sent within this machine arrive earlier


class Deadlock(RuntimeError):
    """All tasks wait and no timer is due, so they would wait for ever."""


class VirtualClock:
    """The clock of a virtual loop. `wall` jumps if a test sets it; `monotonic` is the time of the loop."""

    def __init__(self, loop: VirtualLoop, *, wall: float = _FIRST_WALL_S) -> None:
        self._loop = loop
        self._offset = wall - loop.time()

    def wall(self) -> float:
        """Seconds since 1970, by the clock that shows the date and can be set."""
        return self._loop.time() + self._offset

    def monotonic(self) -> float:
        """The seconds since the loop began."""
        return self._loop.time()

    def set_wall(self, wall: float) -> None:
        """Set the wall clock to this time. It continues from there."""
        self._offset = wall - self._loop.time()

    def jump(self, seconds: float) -> None:
        """Set the wall clock forward. A negative number sets it back."""
        self._offset += seconds

    def suspend(self, seconds: float) -> None:
        """Let time pass while no task runs, as if the machine slept. Timers that are due in this time are late."""
        self._loop.suspend(seconds)


class Simulation(msgspec.Struct, frozen=True):
    """What `run` gives to its coroutine: the clock, and random numbers that depend on the seed only."""

    clock: VirtualClock
    source: random.Random


def run(
    main: Callable[[Simulation], Coroutine[Any, Any, T]],
    *,
    seed: int = 0,
    wall: float = _FIRST_WALL_S,
    sockets: bool = False,
) -> T:
    """Run `main` in a new virtual loop and return its result. Tasks that still run after it are cancelled.

    Raises `Deadlock` if `main` would wait for ever.
    """
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(sockets=sockets)) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, VirtualLoop), "the runner was given the factory"
        clock = VirtualClock(loop, wall=wall)
        return runner.run(main(Simulation(clock, random.Random(seed))))  # noqa: S311  the seed repeats the run


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time starts at 0 and jumps to the next timer when no task is ready."""

    def __init__(self, *, sockets: bool = False) -> None:
        self._virtual_selector = _VirtualSelector(self, sockets=sockets)
        super().__init__(self._virtual_selector)

    def time(self) -> float:
        """The virtual time in seconds."""
        return self._virtual_selector.now

    def suspend(self, seconds: float) -> None:
        """Move the time forward at once. Timers that are due in between are late."""
        self._virtual_selector.now += seconds

    def run_in_executor(
        self,
        executor: Executor | None,  # noqa: ARG002  all are refused
        func: Callable[[Unpack[Ts]], T],
        *args: *Ts,  # noqa: ARG002  the function is not called
    ) -> NoReturn:
        """Raise an error, because a thread works in real time, and the loop does not wait for real time."""
        raise RuntimeError(f"virtual time has no threads, so {func!r} cannot run in one: call it directly")


class _VirtualSelector(selectors.DefaultSelector):
    """The selector of the loop: instead of waiting for the next timer, it moves the time forward."""

    def __init__(self, loop: VirtualLoop, *, sockets: bool) -> None:
        super().__init__()
        self.now = 0.0
        self._sockets = sockets
        self._loop = loop

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        """Accept the loop's own wake-up pipe, which is the first, and others only with `sockets`."""
        if self.get_map() and not self._sockets:
            raise RuntimeError("virtual time has no sockets and pipes: use parts that run in this process")
        return super().register(fileobj, events, data)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return the event that woke the loop up. If there is none, move the time forward by `timeout` seconds."""
        ready = super().select(0)
        if not ready and timeout != 0 and self._sockets:
            ready = super().select(_ON_THE_WAY_S)
        if ready or timeout == 0:
            return ready
        if timeout is None:
            waiting = "; ".join(sorted(repr(task) for task in asyncio.all_tasks(self._loop)))
            raise Deadlock(f"all tasks wait and no timer is due, so these wait for ever: {waiting or 'no task at all'}")
        self.now += max(timeout, 0.0)
        return []
