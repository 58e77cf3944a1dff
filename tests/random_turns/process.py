"""One process of a run: its owner of the ledger, its channel, and the turns that it presents.

A process ends by a kill or a drain, or it is paused like a machine that hangs: nothing it asks for is done, and nothing
reaches it. Meanwhile another process takes its conversations over, and then it continues.
"""

from __future__ import annotations

import asyncio
import random
from contextvars import ContextVar
from typing import TYPE_CHECKING, cast
from weakref import WeakKeyDictionary

from random_turns.unreliable_channel import UnreliableChannel
from random_turns.unsteady import UnsteadyLedger
from random_turns.watched_turn import WatchedTurn
from tailrace.deliveries import NOTICE_ORDINAL, OPEN, TURN_OPEN, Query
from tailrace.delivery import Courier, CourierSettings, Recovery, RecoverySettings
from tailrace.delivery.presenting import present
from tailrace.errors import Fenced, LedgerUnavailable
from tailrace.events import TurnCancelled
from tailrace.testing.simulated import in_process_channel

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from typing import Any

    from random_turns.random_run import RandomRun
    from random_turns.scenes import TurnScript
    from tailrace.events import Event
    from tailrace.ledger.memory import MemoryLedger
    from tailrace.ports import Channel

STOPPED = TurnCancelled(reason="stopped")
_RETRY_S = 1.0
_label: ContextVar[object] = ContextVar("the label of the process", default=None)
_labels: WeakKeyDictionary[asyncio.Task[Any], object] = WeakKeyDictionary()


def label_tasks(loop: asyncio.AbstractEventLoop) -> None:
    """Remember of each task which process started it."""

    def labelled(loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> asyncio.Task[Any]:
        task = asyncio.Task(work, loop=loop, **options)
        _labels[task] = _label.get()
        return task

    loop.set_task_factory(labelled)


class Process:
    """A process. `running` is not set while it is paused. `work` ends when nothing is open any more."""

    def __init__(self, run: RandomRun, memory: MemoryLedger, source: random.Random, *, fails: bool) -> None:
        self.run = run
        self.memory = memory
        self.fails = fails
        self.running = asyncio.Event()
        self.running.set()
        self.turns: dict[str, WatchedTurn] = {}
        self._source = source
        self._clock, self._scene = run.clock, run.scene
        trouble = run.scene.trouble
        longest_s = trouble.ledger_s if fails else 0.0
        self.ledger = UnsteadyLedger(memory, source, longest_s, 0.02 if longest_s else 0.0, self.running)
        self.ledger.on_acquire = self._note_owner
        latency_s = trouble.latency_s
        channel = in_process_channel(run.platform, run.clock, request_s=latency_s, answer_s=latency_s, source=source)
        channel.capabilities = run.scene.capabilities
        self.unreliable = UnreliableChannel(
            channel,
            source,
            run.clock,
            self.running,
            lambda conversation: run.owners.get(conversation, self) is self,
            errors=trouble.errors if fails else 0.0,
            checks_pace=trouble.has_prompt_ledger,
        )
        self._channel = cast("Channel", self.unreliable)  # its methods are those of the channel inside
        settings = CourierSettings(on_unknown=run.scene.on_unknown)
        self.courier = Courier(self.ledger, settings=settings, clock=run.clock, jitter=source.random)
        self.courier.connect(self._channel)
        self._own_label = object()  # not the process itself: it holds its tasks, and they would never be forgotten
        self.work = asyncio.create_task(self._run())
        _labels[self.work] = self._own_label

    def _note_owner(self, conversation: str) -> None:
        self.run.owners[conversation] = self

    async def _run(self) -> None:
        _label.set(self._own_label)
        accidents = asyncio.create_task(self._cause_accidents())
        try:
            await self._work()
        finally:
            accidents.cancel()

    async def drain(self, timeout_s: float) -> None:
        """End in good order, as after SIGTERM."""
        _label.set(self._own_label)
        await self.courier.drain(timeout_s)
        _label.set(None)

    async def kill(self) -> MemoryLedger:
        """End at once. Returns the owner of the ledger that takes its place."""
        self.running.set()
        next_owner = self.memory.reopen()
        while tasks := [task for task in asyncio.all_tasks() if _labels.get(task) is self._own_label]:
            for task in tasks:
                task.cancel()
            # Repeated: a task that was about to continue may have lost the first cancellation.
            done, _late = await asyncio.wait(tasks, timeout=0.01)
            await asyncio.gather(*done, return_exceptions=True)
        return next_owner

    async def _work(self) -> None:
        """Present the open turns, those of an earlier process first, until the ledger has nothing open."""
        run, source = self.run, self._source
        again = [script for name, script in run.open.items() if name in run.begun]
        begun = {script.turn_id: await self._begin(script) for script in again}
        recovery = asyncio.create_task(
            Recovery(self.courier, RecoverySettings(every_s=source.choice((1.0, 30.0)) if self.fails else 30.0)).run()
        )
        async with asyncio.TaskGroup() as group:
            for name, script in run.open.items():
                group.create_task(self._answer(script, begun.get(name)))
        while await self.memory.open_conversations(limit=1) or await self.memory.interrupted_turns(limit=1):  # noqa: ASYNC110
            await asyncio.sleep(10.0)
        recovery.cancel()

    async def _answer(self, script: TurnScript, turn: WatchedTurn | None) -> None:
        """Accept the message and present its turn to its end. Sometimes it is stopped there and begins again."""
        if turn is None:
            await asyncio.sleep(script.starts_s)
            await self.run.accept(self.ledger, script)
            turn = await self._begin(script)
        while True:
            stops = self.fails and self._source.random() < self._scene.trouble.stops
            try:
                async with asyncio.timeout(self._source.random() * 20 if stops else None):
                    await present(
                        self._events(script, turn),
                        turn,
                        self._scene.capabilities,
                        self._scene.settings,
                        clock=self._clock,
                    )
                if await self._is_finished(script):
                    self.run.open.pop(script.turn_id, None)
                    return
                await asyncio.sleep(_RETRY_S)  # it is drained, or another process took the conversation over
            except (TimeoutError, LedgerUnavailable, Fenced):
                pass
            turn = await self._begin(script)

    async def _begin(self, script: TurnScript) -> WatchedTurn:
        self.run.begun[script.turn_id] = self.run.begun.get(script.turn_id, 0) + 1
        while True:
            try:
                begun = await self.courier.begin(script.turn_id, script.target)
                break
            except (Fenced, LedgerUnavailable):
                await asyncio.sleep(_RETRY_S)
        watched = self.turns[script.turn_id] = WatchedTurn(self.courier, begun.turn, self._scene)
        self.run.watched.append(watched)
        return watched

    async def _is_finished(self, script: TurnScript) -> bool:
        turn = await self.memory.turn(script.turn_id)
        rows = await self.memory.find(Query(turn_id=script.turn_id, states=OPEN))
        is_open = turn is None or turn.state in TURN_OPEN
        return not is_open and all(row.ordinal == NOTICE_ORDINAL for row in rows)

    async def _events(self, script: TurnScript, turn: WatchedTurn) -> AsyncIterator[Event]:
        """The events in time; those that were presented before come faster."""
        received, hurry = self.run.received, self._source.choice((0.0, 0.1))
        already = received.get(script.turn_id, 0)
        for number, (pause_s, event) in enumerate(script.events, 1):
            if pause_s:
                await asyncio.sleep(pause_s * (hurry if number <= already else 1.0))
            await self.running.wait()
            if number > self.run.stopped_after.get(script.turn_id, number):
                turn.received(STOPPED)
                yield STOPPED
                return
            turn.received(event)
            received[script.turn_id] = max(number, received.get(script.turn_id, 0))
            yield event
        turn.closed()

    async def _cause_accidents(self) -> None:
        trouble, source = self._scene.trouble, self._source
        while self.fails and trouble.accidents:
            await asyncio.sleep(source.expovariate(1 / trouble.accident_s))
            await self.running.wait()
            match source.choice(trouble.accidents):
                case "deletion":
                    self.run.platform.delete_any(source, self._clock.monotonic())
                case "expiry":
                    self.run.platform.end_any_stream(source, self._clock.monotonic())
                case "sleep":
                    self._clock.suspend(source.choice((3.0, 70.0, 4000.0)))
                case "outage":
                    self.courier.disconnect(self._channel.name)
                    await asyncio.sleep(source.random() * 40)
                    self.courier.connect(self._channel)
                case "clock":
                    self._clock.jump(source.choice((-3600.0, 3600.0)))
                case "ledger":
                    self.ledger.is_out = True
                    await asyncio.sleep(source.random() * 60)
                    self.ledger.is_out = False
                case "repeat":
                    await self.run.accept(self.ledger, source.choice(self._scene.turns))
                case "cancel":
                    await self._cancel_one()

    async def _cancel_one(self) -> None:
        """A person stops a turn; the agent notices it, or it does not."""
        running = sorted(name for name in self.turns if name in self.run.open)
        if not running:
            return
        name = self._source.choice(running)
        if self._source.random() < 0.5:
            self.run.stop_agent(name)
        await self.courier.cancel(self.turns[name].turn)
        self.run.cancelled_at.setdefault(name, self._clock.monotonic())
