"""A courier, a ledger, a channel and a platform in virtual time, with helpers for tests."""

from __future__ import annotations

import asyncio
import inspect
import random
from collections import Counter
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec

from msgspec.structs import replace

from random_turns.unsteady import unsteady
from tailrace.capabilities import Capabilities, Keyed, Unkeyed
from tailrace.deliveries import Delivery, Query, State, Turn, TurnState, plan
from tailrace.delivery import Courier, CourierSettings, Recovery, RecoverySettings
from tailrace.ledger.memory import MemoryLedger
from tailrace.operations import Body, Delete, Edit, Post, Receipt, Target
from tailrace.testing.platform import SimulatedPlatform
from tailrace.testing.simulated import in_process_channel
from tailrace.testing.virtual_time import run
from tailrace.testing.wire import Request, capabilities_of

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from tailrace.delivery import Spool
    from tailrace.ledger_port import Ledger
    from tailrace.ports import Channel, Inbox
    from tailrace.testing.faults import Fault, Rule
    from tailrace.testing.virtual_time import Simulation

P = ParamSpec("P")


def in_virtual_time(
    scene: Callable[Concatenate[Simulation, P], Coroutine[Any, Any, None]],
) -> Callable[P, None]:
    """Run an async test in virtual time. Its first argument is the simulation, the others come from pytest."""

    @wraps(scene)
    def test(*args: P.args, **kwargs: P.kwargs) -> None:
        run(lambda simulation: scene(simulation, *args, **kwargs))

    signature = inspect.signature(scene)
    test.__dict__["__signature__"] = signature.replace(parameters=[*signature.parameters.values()][1:])
    return test


HERE = Target(channel="simulated", chat="here")
THERE = Target(channel="simulated", chat="there")


def post(text: str, target: Target = HERE) -> Post:
    return Post(target=target, body=Body(text=text))


def edit(message_id: str, text: str, target: Target = HERE) -> Edit:
    return Edit(target=target, message_id=message_id, body=Body(text=text))


class OnlySends:
    """A channel that is connected without being started. Subclasses add the calls they know."""

    name = "simulated"
    capabilities = Capabilities(idempotency=Unkeyed())

    async def start(self, inbox: Inbox) -> None:
        raise NotImplementedError

    async def stop(self) -> None:
        raise NotImplementedError

    async def wait_closed(self) -> None:
        raise NotImplementedError

    async def post(self, post: Post, *, key: str) -> Receipt:
        raise NotImplementedError


class DeliverySetup:
    """One platform and one ledger. `crash` replaces the running process by a new one."""

    def __init__(
        self,
        simulation: Simulation,
        kind: str | Capabilities = "keyed",
        *,
        spool: Spool | None = None,
        connected: bool = True,
        **settings: Any,
    ) -> None:
        self.clock = simulation.clock
        capabilities = capabilities_of(kind) if isinstance(kind, str) else kind
        self.platform = SimulatedPlatform(capabilities)
        self.channel: Channel = in_process_channel(self.platform, self.clock, request_s=0.05, answer_s=0.05)
        self.memory = MemoryLedger(clock=self.clock)
        self.settings = CourierSettings(**settings)
        self.spool = spool
        self.courier = self.courier_of(self.memory, connected=connected)

    def courier_of(self, ledger: Ledger, *, connected: bool = True, **options: Any) -> Courier:
        courier = Courier(
            ledger, settings=self.settings, spool=self.spool, clock=self.clock, jitter=lambda: 0.0, **options
        )
        if connected:
            courier.connect(self.channel)
        return courier

    def fail(self, *rules: Rule | Fault) -> None:
        self.platform.script.add(*rules)

    async def crash(self, *, connected: bool = True) -> Courier:
        """Kill the process; a new one opens the ledger."""
        self.memory = self.memory.reopen()
        await kill_everything_else()
        self.courier = self.courier_of(self.memory, connected=connected)
        return self.courier

    async def send_turn(self, turn_id: str, *texts: str, target: Target = HERE) -> list[Delivery]:
        turn = await self.courier.begin(turn_id, target)
        return await turn.end(*(post(text, target) for text in texts))

    async def record_turn(self, turn_id: str, *texts: str, target: Target = HERE) -> list[Delivery]:
        """Record a turn like a process that was killed before it sent anything."""
        lease = await self.memory.acquire(target.conversation)
        turn = await self.memory.begin(lease, Turn(turn_id=turn_id, target=target))
        policy, now = self.courier.policy(target), self.clock.wall()
        planned = [
            plan(post(text, target), turn_id=turn_id, ordinal=ordinal, policy=policy, now=now)
            for ordinal, text in enumerate(texts, start=1)
        ]
        recorded = await self.memory.end(lease, turn, TurnState.DONE, plan=planned)
        self.memory.release(lease)
        return recorded

    def recovery(self, **settings: Any) -> Recovery:
        return Recovery(self.courier, RecoverySettings(**settings))

    async def rows(self, **query: Any) -> list[Delivery]:
        return (await self.memory.find(Query(**query), limit=100_000))[::-1]

    async def states(self, turn_id: str | None = None) -> dict[int, State]:
        return {row.ordinal: row.state for row in await self.rows(turn_id=turn_id)}

    def texts(self, target: Target = HERE) -> list[str]:
        return self.platform.texts(target.chat)

    def message_id(self, target: Target = HERE) -> str:
        """The id of the only message of a chat."""
        [message] = [message for message in self.platform.history(target.chat) if not message.deleted]
        return message.message_id

    def delete_message(self, message_id: str, target: Target = HERE) -> None:
        """A user deletes a message."""
        gone = Delete(target=target, message_id=message_id)
        self.platform.handle(Request(operation=gone), self.clock.monotonic())


def states(deliveries: list[Delivery]) -> list[State]:
    return [delivery.state for delivery in deliveries]


async def kill_everything_else() -> None:
    """Cancel all tasks but the test's own, like the end of a process."""
    while tasks := asyncio.all_tasks() - {asyncio.current_task()}:
        for task in tasks:
            task.cancel()
        done, _late = await asyncio.wait(tasks, timeout=0.01)
        await asyncio.gather(*done, return_exceptions=True)


async def finished_within(work: Any, seconds: float) -> Any:
    """The result of the work, which must take at most so many seconds of virtual time."""
    async with asyncio.timeout(seconds):
        return await work


def with_deadline(kind: str, deadline_s: float) -> Capabilities:
    return replace(capabilities_of(kind), deadline_s=deadline_s)


def with_window(window_s: float, scope: str = "") -> Capabilities:
    return Capabilities(idempotency=Keyed(window_s=window_s, scope=scope))


class FullDisk(random.Random):
    """Makes a ledger unavailable while `is_full`."""

    is_full = False

    def random(self) -> float:
        return 0.0 if self.is_full else 0.9

    def around(self, setup: DeliverySetup) -> Ledger:
        return unsteady(setup.memory, self, longest_s=0.0, unavailable=0.5)


class SlowLedger:
    """A ledger whose named calls take so many seconds. It returns copies of rows."""

    def __init__(self, setup: DeliverySetup, **takes_s: float) -> None:
        self.calls: Counter[str] = Counter()
        self.takes_s = takes_s
        self.save_snapshot = setup.memory.save_snapshot
        self.release = setup.memory.release
        self._ledger = setup.memory
        setup.courier = setup.courier_of(self)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        call = getattr(self._ledger, name)

        async def slow(*args: Any, **options: Any) -> Any:
            self.calls[name] += 1
            answer = await call(*args, **options)
            if name in self.takes_s:
                await asyncio.sleep(self.takes_s[name])
            is_rows = isinstance(answer, list) and answer and isinstance(answer[0], Delivery)
            return [replace(row) for row in answer] if is_rows else answer

        return slow
