"""Many turns on a platform that fails, in virtual time, by a seed: what people saw is compared with what is recorded.

    python -m random_turns.random_run --turns 10000 --seed 1

A `World` is one ledger and one platform, and process after process on them. Each runs a courier, a recovery and agents
that say their turns; it is killed or drained at a random moment, loses its channel for a while, has its clock put
forward or back, waits for a slow ledger or one that cannot be written. A turn whose process ended is said again by the
next one, or left to its recovery. At the end nothing fails any more, and everything must be accounted for: which of it,
`random_turns.accounting` knows. The command prints a line per kind of platform, and ends with 1 on a violation.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import random
import sys
from typing import TYPE_CHECKING, Literal

import msgspec

from random_turns.accounting import Account, account_for
from random_turns.answers import Answer, Stopped, say
from random_turns.unsteady import unsteady
from tailrace.capabilities import Capabilities, Idempotency, Keyed, Rate, Readback, Repeatable, Unkeyed
from tailrace.delivery import Courier, CourierSettings, OpenTurn, Recovery, RecoverySettings
from tailrace.ledger.memory import MemoryLedger
from tailrace.operations import Target
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
from tailrace.testing.platform import SimulatedPlatform
from tailrace.testing.simulated import in_process_channel
from tailrace.testing.virtual_time import Simulation, run

if TYPE_CHECKING:
    from tailrace.ports import Ledger
    from tailrace.testing.simulated import InProcessChannel

_SHARE = 250
_CHATS = 9
_AGENTS = 12
_LONGEST_END_S = 48 * 3600.0

FAULTS: tuple[tuple[Fault, float], ...] = (
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
    (Refuse(), 0.003),
)


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """A platform by what makes repeating safe, and what is done where nothing does."""

    name: str
    idempotency: Idempotency
    on_unknown: Literal["hold", "resend"] = "hold"


KINDS = (
    Kind(name="keyed", idempotency=Keyed(window_s=7200.0)),
    Kind(name="readback", idempotency=Readback(visible_within_s=2.0)),
    Kind(name="repeatable", idempotency=Repeatable()),
    Kind(name="unkeyed, hold", idempotency=Unkeyed()),
    Kind(name="unkeyed, resend", idempotency=Unkeyed(), on_unknown="resend"),
)


class World:
    """One platform of a kind and one ledger, from the first turn to the last."""

    def __init__(self, simulation: Simulation, kind: Kind, turns: int, *, clock_jumps: bool) -> None:
        self._clock = simulation.clock
        self._source = simulation.source
        self._kind = kind
        self._clock_jumps = clock_jumps
        capabilities = Capabilities(idempotency=kind.idempotency, per_chat=Rate(calls=5, per_s=1.0), deadline_s=20.0)
        self.platform = SimulatedPlatform(capabilities, seed=self._source.getrandbits(32), keeps_calls=False)
        self.ledger = MemoryLedger(clock=self._clock)
        self.answers = [self._answer(number) for number in range(turns)]
        self.crashes = 0
        self._unsaid = self.answers[::-1]
        self._begun: dict[str, Answer] = {}
        self._fails = True

    def _answer(self, number: int) -> Answer:
        source = self._source
        return Answer(
            turn_id=f"turn{number}",
            target=Target(channel="simulated", chat=f"chat{source.randrange(_CHATS)}"),
            shape=source.choice(("posts", "posts", "live", "stream", "media")),
            parts=source.randint(1, 4),
            is_said_again=source.random() < 0.8,
        )

    async def live(self) -> None:
        """Process after process, until everything is said; the last one ends in peace."""
        script = self.platform.script
        script.add(*(Rule(fault=fault, times=None, chance=chance) for fault, chance in FAULTS))
        if isinstance(self._kind.idempotency, Readback):
            script.add(Rule(fault=Late(1.5), kind="post", times=None, chance=0.02))
        while self._unsaid or self._begun:
            await self._process(ends_after=self._source.expovariate(1 / 10))
            await asyncio.sleep(self._source.random() * 20)
        script.clear()
        self._fails = False
        await self._process(ends_after=_LONGEST_END_S)

    async def _process(self, *, ends_after: float) -> None:
        # Its own chances: what a killed one still draws must change nothing for the next.
        source = random.Random(self._source.getrandbits(32))
        ledger: Ledger = self.ledger
        if self._fails:
            ledger = unsteady(self.ledger, source, longest_s=source.choice((0.01, 0.5, 20.0)))
        settings = CourierSettings(on_unknown=self._kind.on_unknown)
        courier = Courier(ledger, settings=settings, clock=self._clock, jitter=source.random)
        channel = in_process_channel(self.platform, self._clock, there_s=0.05, back_s=0.05, source=source)
        courier.connect(channel)
        tasks = [asyncio.create_task(self._work(courier, source))]
        if self._fails:
            tasks.append(asyncio.create_task(self._accidents(courier, channel, source)))
        await asyncio.wait(tasks, timeout=ends_after, return_when=asyncio.FIRST_COMPLETED)
        if self._fails and source.random() < 0.2:
            await courier.drain(timeout_s=source.choice((0.1, 30.0)))
        self.crashes += self._fails
        self.ledger = self.ledger.reopen()
        await _kill_everything_else()
        self._begun = {name: answer for name, answer in self._begun.items() if answer.is_said_again}

    async def _work(self, courier: Courier, source: random.Random) -> None:
        """What a process does: goes on with the turns it knows, then with all the others; ends when all is settled."""
        again = [(answer, await self._begin(courier, answer)) for answer in self._begun.values()]
        settings = RecoverySettings(every_s=source.choice((1.0, 30.0)))
        recovery = asyncio.create_task(Recovery(courier, settings).run())
        await asyncio.gather(*(self._say(courier, turn, answer, source) for answer, turn in again))
        await asyncio.gather(*(self._agent(courier, source) for _ in range(_AGENTS)))
        while await self.ledger.open_conversations(limit=1) or await self.ledger.interrupted_turns(limit=1):  # noqa: ASYNC110  time
            await asyncio.sleep(10.0)
        recovery.cancel()

    async def _accidents(self, courier: Courier, channel: InProcessChannel, source: random.Random) -> None:
        while True:
            await asyncio.sleep(source.expovariate(1 / 40))
            if self._clock_jumps and source.random() < 0.5:
                self._clock.jump(source.choice((-3600.0, 3600.0)))
            else:
                courier.disconnect(channel.name)
                await asyncio.sleep(source.random() * 40)
                courier.connect(channel)

    async def _agent(self, courier: Courier, source: random.Random) -> None:
        while self._unsaid:
            answer = self._unsaid.pop()
            self._begun[answer.turn_id] = answer
            await asyncio.sleep(source.random())
            await self._say(courier, await self._begin(courier, answer), answer, source)

    async def _begin(self, courier: Courier, answer: Answer) -> OpenTurn:
        return await courier.begin(answer.turn_id, answer.target)

    async def _say(self, courier: Courier, turn: OpenTurn, answer: Answer, source: random.Random) -> None:
        """Say it all; now and then somebody stops the agent in the middle and has it say it again."""
        try:
            while True:
                patience = source.random() * 5 if self._fails and source.random() < 0.05 else None
                try:
                    await asyncio.wait_for(say(turn, answer, source), patience)
                except TimeoutError:
                    turn = await self._begin(courier, answer)
                else:
                    break
        except Stopped:
            await asyncio.get_running_loop().create_future()
        del self._begun[answer.turn_id]


async def _kill_everything_else() -> None:
    """What is left of a process whose ledger belongs to the next."""
    while tasks := asyncio.all_tasks() - {asyncio.current_task()}:
        for task in tasks:
            task.cancel()
        # Again and again: one that was about to go on may have lost the first.
        done, _late = await asyncio.wait(tasks, timeout=0.01)
        await asyncio.gather(*done, return_exceptions=True)


def simulate(kind: Kind, *, turns: int, seed: int) -> Account:
    """Let so many turns be said on a platform of that kind; what became of them."""
    total = Account()
    for number in range(0, turns, _SHARE):

        async def world(simulation: Simulation, share: int = min(_SHARE, turns - number)) -> Account:
            jumps = simulation.source.random() < 0.5
            simulated = World(simulation, kind, share, clock_jumps=jumps)
            await simulated.live()
            crashes = simulated.crashes
            return await account_for(simulated.ledger, simulated.platform, crashes=crashes, clock_jumped=jumps)

        total = total.plus(run(world, seed=seed * 1_000_003 + number))
    return total


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m random_turns.random_run")
    parser.add_argument("--turns", type=int, default=1000, help="how many, over all kinds of platforms")
    parser.add_argument("--seed", type=int, default=0, help="the same seed repeats the same run")
    parser.add_argument("--kind", choices=[kind.name for kind in KINDS], help="one kind of platform alone")
    asked = parser.parse_args()
    logging.disable(logging.ERROR)
    kinds = [kind for kind in KINDS if asked.kind in {None, kind.name}]
    print(f"{'kind':16}" + "".join(f"{name:>12}" for name in Account.COLUMNS))
    violations: list[str] = []
    for kind in kinds:
        account = simulate(kind, turns=asked.turns // len(kinds), seed=asked.seed)
        print(f"{kind.name:16}" + "".join(f"{getattr(account, name):12}" for name in Account.COLUMNS), flush=True)
        violations += [f"{kind.name}: {violation}" for violation in account.violations]
    for violation in violations:
        print(violation, file=sys.stderr)
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
