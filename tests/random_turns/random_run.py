"""Plays one scene in virtual time: `present`, the courier, a ledger and a platform, process after process.

Each process presents the turns that are not finished, while calls fail, the channel raises anything, the ledger is
slow, messages come again, people stop turns and delete messages, the machine sleeps, the clock is changed and the
channel is disconnected. Then the process is killed or drained, or paused until another one has taken over. The next one
presents the same turns again, or leaves them to recovery. In the last process nothing fails. The seed decides
everything. `random_turns.judge` says whether the laws were kept.
"""

from __future__ import annotations

import asyncio
import logging
import random
import traceback
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING

from random_turns.process import STOPPED, Process, label_tasks
from random_turns.scenes import Scene, TurnScript, scene_of
from random_turns.strict_platform import StrictPlatform
from random_turns.unreliable_channel import SECRET
from random_turns.watched_turn import addressee_of
from tailrace.capabilities import Readback
from tailrace.deliveries import TURN_OPEN, Query, Turn, TurnState
from tailrace.errors import LedgerUnavailable
from tailrace.events import TurnCancelled, TurnCompleted, TurnFailed
from tailrace.ledger.memory import MemoryLedger
from tailrace.testing import faults
from tailrace.testing.faults import Fault, Rule
from tailrace.testing.virtual_time import Simulation, run

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from random_turns.watched_turn import WatchedTurn
    from tailrace.deliveries import Delivery
    from tailrace.events import Event
    from tailrace.ledger_port import Ledger

_LAST_PROCESS_S = 48 * 3600.0
_FORMAT = logging.Formatter()
_MAX_CALLS_AT_ONCE = 20_000
_FAULTS: tuple[tuple[Fault, float], ...] = (
    (faults.TooMany(3.0), 0.03),
    (faults.TooMany(5.0, everywhere=True), 0.005),
    (faults.TooMany(None), 0.01),
    (faults.TooMany(-1.0), 0.002),
    (faults.ServerError(503), 0.03),
    (faults.ServerError(500, applied=True), 0.02),
    (faults.ServerError(500), 0.02),
    (faults.Unreachable(), 0.03),
    (faults.Reset(applied=True), 0.02),
    (faults.Reset(applied=False), 0.02),
    (faults.Cut(), 0.02),
    (faults.NoAnswer(applied=True), 0.01),
    (faults.NoAnswer(applied=False), 0.01),
    (faults.Delayed(2.0), 0.02),
    (faults.Delayed(45.0), 0.005),
    (faults.Refuse(), 0.08),
)


class RandomRun:
    """One scene and its result: `rows` are the deliveries in the ledger, `breaches` the laws broken on the way.

    By turn id: `begun` is how often a turn was begun, `received` how many of its events were presented, `turns` its
    last state in the ledger, `stopped_after` the number of its events if its agent was stopped, `cancelled_at` the time
    when a person had stopped it. Of the calls that left after another process had taken the conversation over,
    `late_keys` are the keys and `late_messages` the changed messages; `fenced` counts the lines of the log about that.
    """

    def __init__(self, scene: Scene, simulation: Simulation) -> None:
        self.scene = scene
        self.clock = _CheckedClock(simulation)
        self.breaches: list[str] = []
        self.rows: list[Delivery] = []
        self.turns: dict[str, Turn] = {}
        self.open = {script.turn_id: script for script in scene.turns}
        self.begun: dict[str, int] = {}
        self.received: dict[str, int] = {}
        self.stopped_after: dict[str, int] = {}
        self.cancelled_at: dict[str, float] = {}
        self.watched: list[WatchedTurn] = []
        self.owners: dict[str, Process] = {}
        self.takeovers = self.fenced = 0
        self.late_keys: set[str] = set()
        self.late_messages: set[str] = set()
        self._source = random.Random(f"run {scene.seed}")
        self.platform = StrictPlatform(scene.capabilities, seed=self._source.getrandbits(32))
        self._memory = MemoryLedger(clock=self.clock)
        self._offered: dict[str, list[str]] = {}  # which ones were accepted before
        self._offers: Counter[str] = Counter()
        self._new: Counter[str] = Counter()
        self._accepted: set[str] = set()

    async def play(self) -> None:
        """Play the scene to its end."""
        label_tasks(asyncio.get_running_loop())
        trouble, source = self.scene.trouble, self._source
        self._add_faults()
        paused: Process | None = None
        while trouble.process_s is not None and self.open and source.random() < 0.9:
            paused = await self._run_process(source.expovariate(1 / trouble.process_s), paused)
            await asyncio.sleep(source.random() * 20)
        if trouble.process_s is None:
            paused = await self._run_process(300.0, paused)
        self.platform.script.clear()
        await self._run_process(_LAST_PROCESS_S, paused, is_last=True)
        await self._collect()

    def log(self, record: logging.LogRecord) -> None:
        """Check a line of the log: no secret, and no error of our own."""
        text = _FORMAT.format(record)
        self.fenced += "another owner has this conversation" in text
        if SECRET in text or record.levelno >= logging.CRITICAL:
            self.breaches.append(f"the log says {text}")

    def _add_faults(self) -> None:
        factor, script = self.scene.trouble.faults, self.platform.script
        for fault, chance in _FAULTS if factor else ():
            script.add(Rule(fault=fault, times=None, chance=chance * factor))
        if factor and isinstance(self.scene.capabilities.idempotency, Readback):
            script.add(Rule(fault=faults.Late(1.5), kind="post", times=None, chance=0.02))

    async def _run_process(self, lives_s: float, paused: Process | None, *, is_last: bool = False) -> Process | None:
        """Run a process to its end, while the `paused` one continues. Returns this one if it was paused itself."""
        # A source of its own: what a killed process still draws must change nothing for the next one.
        source, trouble = random.Random(self._source.getrandbits(32)), self.scene.trouble
        process = Process(self, self._memory, source, fails=not is_last)
        if paused is not None:
            paused.fails = not is_last
            asyncio.get_running_loop().call_later(self._source.choice((5.0, 40.0, 90.0)), paused.running.set)
        await asyncio.wait([process.work], timeout=lives_s)
        if paused is not None:
            await self._kill(paused)
        if not is_last and not process.work.done() and source.random() < trouble.takes_over:
            process.running.clear()
            self._memory = process.memory.another_owner()
            self.takeovers += 1
            return process
        if not is_last and source.random() < 0.2:
            await process.drain(source.choice((0.1, 30.0)))
        self._memory = await self._kill(process)
        for name, script in list(self.open.items()):
            turn = await self._memory.turn(name)
            if script.is_abandoned and turn is not None and turn.state is not TurnState.ACCEPTED:
                del self.open[name]
        return None

    async def _kill(self, process: Process) -> MemoryLedger:
        if process.work.done() and (error := process.work.exception()) is not None:
            self.breaches.append("the process failed: " + "".join(traceback.format_exception(error)))
        next_owner = await process.kill()
        channel = process.unreliable
        self.breaches += channel.breaches
        for key, operation in channel.late_calls:
            self.late_keys |= {key} - {""}
            self.late_messages.add(addressee_of(operation) or "")
        counts = Counter(operation.target.conversation for _key, operation in channel.late_calls)
        self.breaches += [
            f"{count} calls to {name} left after another process had taken it over: {channel.late_calls}"
            for name, count in counts.items()
            if count > 1
        ]
        return next_owner

    async def _collect(self) -> None:
        self.breaches += [f"{turn_id} is not finished after two days" for turn_id in self.open]
        self.breaches += [breach for watched in self.watched for breach in watched.breaches]
        self.breaches += [f"{each.about}: {each.detail}" for each in self.platform.complaints if each.about != "pace"]
        self.breaches += self.platform.forbidden
        while page := await self._memory.find(Query(), after=self.rows[-1].position if self.rows else None):
            self.rows += page
        for script in self.scene.turns:
            if (turn := await self._memory.turn(script.turn_id)) is None:
                self.breaches.append(f"the ledger does not know {script.turn_id}")
            else:
                self.turns[script.turn_id] = turn

    async def accept(self, ledger: Ledger, script: TurnScript) -> None:
        """The message of a turn comes in, for the first time or again. Checks the answer of the ledger."""
        name = script.turn_id
        others = [other.turn_id for other in self.scene.turns if other.target == script.target and other is not script]
        most = len(others) - await self._count_ended(others)
        before = self._offered.setdefault(name, [other for other in self._accepted if other in others])
        self._offers[name] += 1
        try:
            accepted = await ledger.accept(script.message)
        except LedgerUnavailable:
            self._offers[name] -= 1
            await asyncio.sleep(1.0)
            await self.accept(ledger, script)
            return
        least = len(before) - await self._count_ended(before)
        self._new[name] += accepted.is_new
        self._accepted.add(name)
        if accepted.turn_id != name or not least <= accepted.ahead <= most:
            self.breaches.append(f"{accepted}: {least} to {most} are ahead of {name}")
        # An earlier offer may have been recorded, although its answer was lost.
        if self._new[name] > 1 or (not accepted.is_new and self._offers[name] == 1):
            self.breaches.append(f"{accepted} at the offer number {self._offers[name]}")

    async def _count_ended(self, names: Sequence[str]) -> int:
        turns = [await self._memory.turn(name) for name in names]
        return sum(turn is not None and turn.state not in TURN_OPEN for turn in turns)

    def stop_agent(self, name: str) -> None:
        """The agent of this turn stops after the events so far, in this process and in all later ones."""
        events = [event for _, event in self.open[name].events[: self.received.get(name, 0)]]
        if not any(isinstance(event, TurnCompleted | TurnFailed | TurnCancelled) for event in events):
            self.stopped_after.setdefault(name, len(events))

    def events_of(self, script: TurnScript) -> list[Event]:
        """The events that the agent of this turn gave, all processes together."""
        events = [event for _, event in script.events]
        stopped_after = self.stopped_after.get(script.turn_id)
        return events if stopped_after is None else [*events[:stopped_after], STOPPED]


class _CheckedClock:
    """The clock of the simulation; it notices an endless loop in which no time passes."""

    def __init__(self, simulation: Simulation) -> None:
        clock = simulation.clock
        self.wall, self.jump, self.suspend = clock.wall, clock.jump, clock.suspend
        self._clock = clock
        self._last = -1.0
        self._calls = 0

    def monotonic(self) -> float:
        now = self._clock.monotonic()
        self._calls = self._calls + 1 if now == self._last else 0
        self._last = now
        assert self._calls < _MAX_CALLS_AT_ONCE, f"no time passes at {now}"
        return now


@contextmanager
def _log_to(played: RandomRun) -> Iterator[None]:
    """Give the log of tailrace to the run only."""
    logger, handler = logging.getLogger("tailrace"), logging.Handler(logging.WARNING)
    handler.emit = played.log  # type: ignore[method-assign]  # instead of a class for one method
    logger.addHandler(handler)
    logger.propagate, before = False, logger.propagate
    try:
        yield
    finally:
        logger.propagate = before
        logger.removeHandler(handler)


def play(seed: int, presentation: str | None = None, channel: str | None = None) -> RandomRun:
    """The run of a seed, on this channel and in this presentation if they are given."""

    async def main(simulation: Simulation) -> RandomRun:
        played = RandomRun(scene_of(seed, presentation, channel), simulation)
        with _log_to(played):
            await played.play()
        return played

    return run(main)
