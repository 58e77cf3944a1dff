"""One trial: people write, the gateway is killed and started again, and all is judged when nothing is left to do."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from gateway_kills.agent import RUNS
from gateway_kills.judge import Content, content_of, judge
from gateway_kills.people import people, timetable
from pseudo_terminal import TAILRACE
from tailrace.capabilities import EditRules
from tailrace.testing.platform_process import PlatformProcess
from tailrace.testing.platforms.telegram import TelegramSimulator, WriteMessage
from tailrace.testing.platforms.telegram.world import TelegramUser
from tailrace.testing.wire import capabilities_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway_kills.people import Person

TESTS = Path(__file__).parent.parent
_LOOK_AGAIN_S = 0.25
_EARLY = 5
_DRAIN_S = 1.0
_LEAVES_WITHIN_S = 20.0
KILLS: tuple[Literal["kill", "term", "terms"], ...] = ("kill", "kill", "kill", "term", "kill", "terms")
"""How the process ends, in turn: SIGKILL, SIGTERM, or SIGTERM twice."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """How much is tried. `share` of the people are on Telegram; `kind` is the kind of the other platform.

    The process ends at a random time in `every_s` after its start.
    """

    people: int = 200
    messages: int = 4
    kills: int = 20
    every_s: tuple[float, float] = (0.2, 4.0)
    share: float = 0.5
    kind: str = "keyed:300"
    seed: int = 7
    quiet_within_s: float = 240.0


class Result(msgspec.Struct, kw_only=True):
    """What happened, and what is wrong, in sentences."""

    states: Counter[str] = msgspec.field(default_factory=Counter)
    ends: Counter[str] = msgspec.field(default_factory=Counter)
    held: int = 0
    seconds: float = 0.0
    problems: list[str] = []


class Gateway:
    """The process `tailrace run`, on both platforms."""

    def __init__(self, folder: Path, environment: dict[str, str], channels: Sequence[str]) -> None:
        self.ledger = folder / "ledger.db"
        self.runs = folder / "runs"
        self.log = folder / "log"
        self.runs.touch()
        path = os.pathsep.join(filter(None, (str(TESTS), os.environ.get("PYTHONPATH", ""))))
        self._environment = {**os.environ, **environment, RUNS: str(self.runs), "PYTHONPATH": path}
        self._command = [TAILRACE, "run", "gateway_kills.agent:answer", "--allow", "*", "--ledger", str(self.ledger)]
        self._command += [word for channel in channels for word in ("--channel", channel)]
        self._channels = len(channels)
        self._command += ["--set", f"gateway.drain_s={_DRAIN_S}"]

    async def start(self) -> None:
        """Start the process."""
        self._ready_before = self._ready
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self._command, env=self._environment, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log
            )

    @property
    def _ready(self) -> int:
        return self.log.read_text().count("ready: ") if self.log.exists() else 0

    async def wait_until_ready(self) -> None:
        """Wait until all channels are connected."""
        while self._ready < self._ready_before + self._channels:
            assert self._process.returncode is None, self.log.read_text()
            await asyncio.sleep(_LOOK_AGAIN_S / 10)

    async def end(self, how: Literal["kill", "term", "terms"]) -> int:
        """End the process. Returns its exit code."""
        if how == "kill":
            self._process.kill()
            return await self._process.wait()
        self._process.terminate()
        if how == "terms":
            await asyncio.sleep(random.Random(self._process.pid).uniform(0.0, 0.5))
            if self._process.returncode is None:
                self._process.terminate()
        async with asyncio.timeout(_LEAVES_WITHIN_S):
            return await self._process.wait()


async def trial(plan: Plan, folder: Path) -> Result:
    """Make one trial in this folder."""
    began, result = time.monotonic(), Result()
    everybody = people(plan.people, plan.messages, share=plan.share, seed=plan.seed)
    capabilities = msgspec.structs.replace(
        capabilities_of(plan.kind, limit=2000), edits=EditRules(every_s=0.3), typing_s=5.0, presentation="live"
    )
    with ExitStack() as opened:
        platform = opened.enter_context(PlatformProcess(capabilities))
        async with TelegramSimulator() as telegram:
            for person in everybody:
                if person.channel == "telegram":
                    user = TelegramUser(int(person.chat), f"Person {person.number}")
                    telegram.world.add_chat(int(person.chat), "private", user.first_name, user)
            channels = sorted({person.channel for person in everybody})
            gateway = Gateway(folder, telegram.environment | platform.environment, channels)
            within_s = plan.kills * sum(plan.every_s) / 2
            table = timetable(everybody, within_s, seed=plan.seed)
            await gateway.start()
            writing = asyncio.create_task(_write(table, telegram, platform))
            await _kill(gateway, plan, result)
            await writing
            content = await _until_quiet(gateway, everybody, plan.quiet_within_s)
            logged = len(gateway.log.read_text())
            code = await gateway.end("term")
            if "stopping" in gateway.log.read_text()[logged:]:
                result.problems.append("the idle gateway had conversations that it waited for")
            if code != 0:
                result.problems.append(f"the idle gateway left with {code} after SIGTERM")
            texts = _texts(everybody, telegram, platform)
    result.problems += content.open
    runs = Counter(gateway.runs.read_text().split())
    for person in everybody:
        result.problems += judge(person, texts[person.number], content, runs)
    result.problems += _judge_log(gateway.log.read_text())
    result.states = Counter(turn.state.value for turn in content.turns.values())
    result.held = sum(row.state == "unknown" for row in content.rows)
    result.seconds = time.monotonic() - began
    return result


async def _write(
    table: Sequence[tuple[float, Person, int]], telegram: TelegramSimulator, platform: PlatformProcess
) -> None:
    began = time.monotonic()
    for at, person, index in table:
        await asyncio.sleep(max(0.0, began + at - time.monotonic()))
        if person.channel == "telegram":
            await telegram.act(WriteMessage(chat=int(person.chat), text=person.messages[index]))
        else:
            platform.add_inbound(person.message(index))


async def _kill(gateway: Gateway, plan: Plan, result: Result) -> None:
    chance = random.Random(plan.seed)
    for number in range(plan.kills):
        if number % _EARLY:  # the others may come during the start
            await gateway.wait_until_ready()
        await asyncio.sleep(chance.uniform(*plan.every_s))
        how = KILLS[number % len(KILLS)]
        code = await gateway.end(how)
        result.ends[f"{how} {code}"] += 1
        if how == "term" and code not in {0, -signal.SIGTERM}:
            result.problems.append(f"SIGTERM ended the gateway with {code}")
        await gateway.start()


async def _until_quiet(gateway: Gateway, everybody: Sequence[Person], within_s: float) -> Content:
    expected = sum(len(person.messages) for person in everybody)
    ends_at = time.monotonic() + within_s
    while True:
        content = await asyncio.to_thread(content_of, gateway.ledger)
        if (len(content.turns) == expected and not content.open) or time.monotonic() > ends_at:
            return content
        await asyncio.sleep(_LOOK_AGAIN_S)


def _texts(everybody: Sequence[Person], telegram: TelegramSimulator, platform: PlatformProcess) -> dict[int, list[str]]:
    """What each person reads."""
    simulated: dict[str, list[str]] = {}
    for message in platform.history():
        if not message.deleted:
            simulated.setdefault(message.chat, []).append(message.text)
    return {
        person.number: telegram.texts(int(person.chat))
        if person.channel == "telegram"
        else simulated.get(person.chat, [])
        for person in everybody
    }


def _judge_log(log: str) -> list[str]:
    lines = [line for line in log.splitlines() if "Traceback" in line or "CRITICAL" in line or "ERROR" in line]
    return [f"the log says: {line}" for line in dict.fromkeys(lines)]


def show(result: Result, file: object = sys.stdout) -> None:
    """Print what happened."""
    print(f"turns: {dict(result.states)}; ends: {dict(result.ends)}; {result.held} parts on hold", file=file)  # type: ignore[call-overload]
    print(f"{len(result.problems)} problems; {result.seconds:.0f} s", file=file)  # type: ignore[call-overload]
    for problem in result.problems[:40]:
        print(f"    {problem[:400]}", file=file)  # type: ignore[call-overload]
