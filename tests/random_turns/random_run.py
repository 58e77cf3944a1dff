"""Plays one scene in virtual time: the projector, the courier, a ledger and a platform, process after process.

Each process presents the turns that are not finished, while calls fail, the ledger is slow, people delete messages,
the machine sleeps, the clock is changed and the channel is disconnected; then it is killed or drained. The next one
presents the same turns again, or leaves them to recovery. In the last process nothing fails. The seed decides
everything. `random_turns.judge` says whether the laws were kept.
"""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

from random_turns.scenes import Scene, TurnScript, scene_of
from random_turns.strict_platform import StrictPlatform
from random_turns.unsteady import unsteady
from random_turns.watched_turn import WatchedTurn
from tailrace.capabilities import Readback
from tailrace.deliveries import NOTICE_ORDINAL, OPEN, Query, Turn, TurnState
from tailrace.delivery import Courier, CourierSettings, Recovery, RecoverySettings
from tailrace.delivery.presenting import present
from tailrace.errors import LedgerUnavailable
from tailrace.ledger.memory import MemoryLedger
from tailrace.testing.faults import (
    Cut,
    Delayed,
    Fault,
    Late,
    NoAnswer,
    Refuse,
    Reset,
    Rule,
    ServerError,
    TooMany,
    Unreachable,
)
from tailrace.testing.simulated import in_process_channel
from tailrace.testing.virtual_time import Simulation, run

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tailrace.deliveries import Delivery
    from tailrace.events import Event
    from tailrace.ports import Channel, Ledger

_LAST_PROCESS_S = 48 * 3600.0
_MAX_CALLS_AT_ONCE = 20_000
_FAULTS: tuple[tuple[Fault, float], ...] = (
    (TooMany(3.0), 0.03),
    (TooMany(5.0, everywhere=True), 0.005),
    (TooMany(None), 0.01),
    (TooMany(-1.0), 0.002),
    (ServerError(503), 0.03),
    (ServerError(500, applied=True), 0.02),
    (ServerError(500), 0.02),
    (Unreachable(), 0.03),
    (Reset(applied=True), 0.02),
    (Reset(applied=False), 0.02),
    (Cut(), 0.02),
    (NoAnswer(applied=True), 0.01),
    (NoAnswer(applied=False), 0.01),
    (Delayed(2.0), 0.02),
    (Delayed(45.0), 0.005),
    (Refuse(), 0.08),
)


class RandomRun:
    """One scene and what came of it: `rows` are the deliveries in the ledger, `breaches` the laws broken on the way."""

    def __init__(self, scene: Scene, simulation: Simulation) -> None:
        self.scene = scene
        self.breaches: list[str] = []
        self.rows: list[Delivery] = []
        self.begun: dict[str, int] = {}  # how often each turn was begun
        self.states: dict[str, TurnState] = {}  # how each turn ended in the ledger
        self.received: dict[str, int] = {}  # how many events of each turn were ever presented
        self._clock = _CheckedClock(simulation)
        self._source = random.Random(f"run {scene.seed}")
        self.platform = StrictPlatform(
            scene.capabilities,
            seed=self._source.getrandbits(32),
            checks_lines=not scene.trouble.abandons,  # recovery does not know of lines
        )
        self._ledger = MemoryLedger(clock=self._clock)
        self._open = {script.turn_id: script for script in scene.turns}
        self._abandoned: set[str] = set()
        self._watched: list[WatchedTurn] = []
        self._fails = True

    async def play(self) -> None:
        """Play the scene to its end."""
        trouble, source, script = self.scene.trouble, self._source, self.platform.script
        for fault, chance in _FAULTS if trouble.faults else ():
            script.add(Rule(fault=fault, times=None, chance=chance * trouble.faults))
        if trouble.faults and isinstance(self.scene.capabilities.idempotency, Readback):
            script.add(Rule(fault=Late(1.5), kind="post", times=None, chance=0.02))
        while trouble.process_s is not None and self._open and source.random() < 0.9:
            await self._process(lives_s=source.expovariate(1 / trouble.process_s))
            await asyncio.sleep(source.random() * 20)
        if trouble.process_s is None:
            await self._process(lives_s=300.0)
        script.clear()
        self._fails = False
        await self._process(lives_s=_LAST_PROCESS_S)
        self.breaches += [f"{turn_id} is not finished after two days" for turn_id in self._open]
        self.breaches += [breach for watched in self._watched for breach in watched.breaches]
        self.breaches += [f"{each.about}: {each.detail}" for each in self.platform.complaints if each.about != "pace"]
        self.breaches += self.platform.forbidden
        while page := await self._ledger.find(Query(), after=self.rows[-1].position if self.rows else None):
            self.rows += page
        for turn in self.scene.turns:
            known = await self._ledger.begin(Turn(turn_id=turn.turn_id, target=turn.target))
            self.states[turn.turn_id] = known.state

    async def _process(self, *, lives_s: float) -> None:
        # A source of its own: what a killed process still draws must change nothing for the next one.
        source, trouble = random.Random(self._source.getrandbits(32)), self.scene.trouble
        ledger: Ledger = self._ledger
        if self._fails and trouble.ledger_s:
            ledger = unsteady(self._ledger, source, longest_s=trouble.ledger_s)
        settings = CourierSettings(on_unknown=self.scene.on_unknown)
        courier = Courier(ledger, settings=settings, clock=self._clock, jitter=source.random)
        latency_s = trouble.latency_s
        channel = in_process_channel(self.platform, self._clock, request_s=latency_s, answer_s=latency_s, source=source)
        channel.capabilities = self.scene.capabilities
        courier.connect(channel)
        work = asyncio.create_task(self._work(courier, source))
        accidents = asyncio.create_task(self._accidents(courier, channel, source))
        await asyncio.wait([work], timeout=lives_s)
        if work.done() and (error := work.exception()) is not None:
            self.breaches.append(f"the process failed: {error!r}")
        if self._fails and source.random() < 0.2:
            await courier.drain(timeout_s=source.choice((0.1, 30.0)))
        accidents.cancel()
        self._ledger = self._ledger.reopen()
        await _kill_all_other_tasks()
        self._abandoned |= {name for name, script in self._open.items() if name in self.begun and script.is_abandoned}
        self._open = {name: script for name, script in self._open.items() if name not in self._abandoned}

    async def _work(self, courier: Courier, source: random.Random) -> None:
        """Present the open turns, those of an earlier process first, until the ledger has nothing open."""
        again = {name: await self._begin(courier, script) for name, script in self._open.items() if name in self.begun}
        every_s = source.choice((1.0, 30.0)) if self._fails else 30.0
        recovery = asyncio.create_task(Recovery(courier, RecoverySettings(every_s=every_s)).run())
        async with asyncio.TaskGroup() as group:
            for name, script in self._open.items():
                group.create_task(self._present(courier, script, again.get(name), source))
        while await self._ledger.open_conversations(limit=1) or await self._ledger.interrupted_turns(limit=1):  # noqa: ASYNC110
            await asyncio.sleep(10.0)
        recovery.cancel()

    async def _begin(self, courier: Courier, script: TurnScript) -> WatchedTurn:
        self.begun[script.turn_id] = self.begun.get(script.turn_id, 0) + 1
        begun = await courier.begin(script.turn_id, script.target)
        watched = WatchedTurn(courier, begun.turn, self.scene)
        self._watched.append(watched)
        return watched

    async def _present(
        self, courier: Courier, script: TurnScript, turn: WatchedTurn | None, source: random.Random
    ) -> None:
        """Present it to its end; sometimes somebody stops the agent and it begins again."""
        if turn is None:
            await asyncio.sleep(script.starts_s)
            turn = await self._begin(courier, script)
        while True:
            stops = self._fails and source.random() < self.scene.trouble.stops
            try:
                async with asyncio.timeout(source.random() * 20 if stops else None):
                    await present(
                        self._events(script, turn, source),
                        turn,
                        self.scene.capabilities,
                        self.scene.settings,
                        clock=self._clock,
                    )
                    break
            except (TimeoutError, LedgerUnavailable):
                turn = await self._begin(courier, script)
        left = await self._ledger.find(Query(turn_id=script.turn_id, states=OPEN))
        if any(row.ordinal != NOTICE_ORDINAL for row in left):
            await asyncio.Event().wait()  # the courier is drained: the next process continues
        del self._open[script.turn_id]

    async def _events(self, script: TurnScript, turn: WatchedTurn, source: random.Random) -> AsyncIterator[Event]:
        """The events in time; those that were presented before come faster."""
        already, hurry = self.received.get(script.turn_id, 0), source.choice((0.0, 0.1))
        for number, (pause_s, event) in enumerate(script.events, 1):
            if pause_s:
                await asyncio.sleep(pause_s * (hurry if number <= already else 1.0))
            turn.received(event)
            self.received[script.turn_id] = max(number, self.received.get(script.turn_id, 0))
            yield event
        turn.closed()

    async def _accidents(self, courier: Courier, channel: Channel, source: random.Random) -> None:
        while self._fails and self.scene.trouble.accidents:
            await asyncio.sleep(source.expovariate(1 / self.scene.trouble.accident_s))
            match source.choice(self.scene.trouble.accidents):
                case "deletion":
                    self.platform.delete_any(source, self._clock.monotonic())
                case "expiry":
                    self.platform.end_any_stream(source, self._clock.monotonic())
                case "sleep":
                    self._clock.suspend(source.choice((3.0, 70.0, 4000.0)))
                case "outage":
                    courier.disconnect(channel.name)
                    await asyncio.sleep(source.random() * 40)
                    courier.connect(channel)
                case "clock":
                    self._clock.jump(source.choice((-3600.0, 3600.0)))


class _CheckedClock:
    """The clock of the simulation; it notices when everybody asks for the time and nobody lets it pass."""

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
        assert self._calls < _MAX_CALLS_AT_ONCE, f"time stands still at {now}"
        return now


async def _kill_all_other_tasks() -> None:
    while tasks := asyncio.all_tasks() - {asyncio.current_task()}:
        for task in tasks:
            task.cancel()
        # Repeated: a task that was about to continue may have lost the first cancellation.
        done, _late = await asyncio.wait(tasks, timeout=0.01)
        await asyncio.gather(*done, return_exceptions=True)


def play(seed: int, presentation: str | None = None, channel: str | None = None) -> RandomRun:
    """The run of a seed, on this channel and in this presentation if they are given."""

    async def main(simulation: Simulation) -> RandomRun:
        played = RandomRun(scene_of(seed, presentation, channel), simulation)
        await played.play()
        return played

    return run(main)
