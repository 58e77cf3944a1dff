"""Crash points: they are passed where they stand, the process dies at the one that was asked for, and powers stay."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import kills
from kills.crash import (
    CrashPoints,
    crash_points,
    crashing_channel,
    crashing_connect,
    crashing_ledger,
    read_counts,
)
from kills.crash_points import parse_crash, points_of_environment
from tailrace.capabilities import Unkeyed
from tailrace.deliveries import Delivery, Inbound, Policy, State, Turn, TurnState, moved, plan, sending
from tailrace.errors import UsageError
from tailrace.ledger.memory import MemoryLedger
from tailrace.operations import Body, Post, Receipt, Target
from tailrace.ports import Channel, Deletes, Edits, ReadsBack, StreamsNatively
from tailrace.testing.platform import SimulatedPlatform
from tailrace.testing.platform_process import PlatformProcess
from tailrace.testing.simulated import SimulatorAddress, in_process_channel, simulated_channel
from tailrace.testing.virtual_time import Simulation, run
from tailrace.testing.wire import capabilities_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HERE = Target(channel="simulated", chat="here")


class Trail:
    """Points that only count, and the order they were passed in since it was last asked for."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.points = CrashPoints(count_into=path)

    def passed(self) -> list[str]:
        names = self.path.read_text(encoding="ascii").split() if self.path.exists() else []
        self.path.unlink(missing_ok=True)
        return names


@pytest.fixture
def trail(tmp_path: Path) -> Trail:
    return Trail(tmp_path / "points")


def test_without_the_settings_everything_is_as_it_was() -> None:
    assert points_of_environment({}) is None
    ledger = MemoryLedger()
    channel = simulated_channel(SimulatorAddress(port=1, capabilities=capabilities_of("keyed")))
    assert crashing_ledger(ledger) is ledger
    assert crashing_channel(channel) is channel
    assert channel.on_step is None
    assert crashing_connect(sqlite3.connect) is sqlite3.connect


def test_everybody_in_a_process_shares_the_points_of_the_environment() -> None:
    environment = {"CRASH": "send.before:1000"}
    assert points_of_environment(environment) is points_of_environment(environment) is not None


def test_the_setting_is_a_name_and_a_number() -> None:
    assert parse_crash("intent.after:3") == ("intent.after", 3)
    assert {parse_crash(name) for name in crash_points()} == {(name, 1) for name in crash_points()}


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("intent", r"no point 'intent'.*intent\.before"),
        ("intent.after:", "counted from 1"),
        ("intent.after:0", "counted from 1"),
        ("intent.after:-1", "counted from 1"),
        ("intent.after:x", "not 'x'"),
        (":1", "no point ''"),
    ],
)
def test_a_setting_that_would_never_crash_is_refused(setting: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        points_of_environment({"CRASH": setting})


def test_counts_name_all_points(trail: Trail) -> None:
    assert read_counts(trail.path) == dict.fromkeys(crash_points(), 0)
    for _ in range(3):
        trail.points.reach("turn.after")
    assert read_counts(trail.path) == {**dict.fromkeys(crash_points(), 0), "turn.after": 3}


def delivery(ordinal: int, state: State = State.PLANNED) -> Delivery:
    policy = Policy(idempotency=Unkeyed())
    planned = plan(
        Post(target=HERE, body=Body(text=f"part {ordinal}")), turn_id="t", ordinal=ordinal, policy=policy, now=1.0
    )
    return sending(planned, now=1.0) if state is State.SENDING else planned


def test_the_points_of_a_ledger(trail: Trail) -> None:
    async def main() -> None:
        first = MemoryLedger()
        ledger = crashing_ledger(first, trail.points)
        assert ledger.epoch == first.epoch
        event = Inbound(channel="simulated", event_id="e", turn_id="t", target=HERE, text="hi")
        assert await ledger.accept(event) == "t"
        turn = await ledger.begin(Turn(turn_id="t", target=HERE))
        assert trail.passed() == ["accept.before", "accept.after", "begin.before", "begin.after"]

        (row,) = await ledger.plan([delivery(1)])
        assert trail.passed() == ["plan.before", "plan.after"]
        (sent,) = await ledger.move((row, sending(row, now=1.0)))
        assert trail.passed() == ["intent.before", "intent.after"]
        (lost,) = await ledger.move((sent, moved(sent, State.AMBIGUOUS, now=1.0)))
        assert trail.passed() == ["outcome.before", "outcome.after"]
        (again,) = await ledger.move((lost, sending(lost, now=1.0)))
        assert trail.passed() == ["intent.before", "intent.after"]
        receipt = Receipt(message_id="m1")
        await ledger.move((again, moved(again, State.DELIVERED, now=1.0, receipt=receipt)))
        assert trail.passed() == ["outcome.before", "outcome.after"]

        await ledger.plan([delivery(2, State.SENDING)])
        assert trail.passed() == ["plan.before", "intent.before", "intent.after", "plan.after"]
        await ledger.plan([delivery(3, State.SENDING)])
        assert trail.passed() == ["plan.before", "intent.before", "plan.after"], "it waits behind the one before"
        await ledger.end(turn, TurnState.DONE, plan=[delivery(4)])
        assert trail.passed() == ["turn.before", "turn.after"]

        conversation = HERE.conversation
        assert len(await ledger.adopt(conversation, now=1.0, limit=10)) == 3
        assert trail.passed() == [], "they were its own before"
        successor = crashing_ledger(first.reopen(), trail.points)
        for passed in (["recover.marked"], []):
            assert len(await successor.adopt(conversation, now=1.0, limit=10)) == 3
            assert trail.passed() == passed

    asyncio.run(main())


@pytest.mark.parametrize("kind", ["readback", "unkeyed"])
def test_any_channel_keeps_its_powers_and_passes_the_points(trail: Trail, kind: str) -> None:
    async def main(simulation: Simulation) -> None:
        platform = SimulatedPlatform(capabilities_of(kind))
        channel: Channel = crashing_channel(in_process_channel(platform, simulation.clock), trail.points)
        assert isinstance(channel, Channel)
        assert isinstance(channel, Edits)
        assert isinstance(channel, StreamsNatively)
        assert isinstance(channel, ReadsBack) is (kind == "readback")
        assert channel.capabilities is platform.capabilities
        receipt = await channel.post(HERE, Body(text="one"), key="k")
        await channel.edit(HERE, receipt.message_id, Body(text="two"))
        assert platform.texts("here") == ["two"]
        assert trail.passed() == ["send.before", "send.answered"] * 2

    run(main)


def test_a_channel_gets_no_power_it_had_not(trail: Trail) -> None:
    class Plain:
        name = "plain"
        capabilities = capabilities_of("unkeyed")

        async def post(self, target: Target, body: Body, *, key: str) -> Receipt:
            return Receipt(message_id=f"{target.chat} {body.text} {key}")

        async def start(self, inbox: object) -> None:
            """Nothing."""

        async def stop(self) -> None:
            """Nothing."""

    channel: Channel = crashing_channel(Plain(), trail.points)
    assert isinstance(channel, Channel)
    assert not isinstance(channel, Edits | Deletes | StreamsNatively | ReadsBack)
    assert asyncio.run(channel.post(HERE, Body(text="one"), key="k")) == Receipt(message_id="here one k")
    asyncio.run(channel.stop())
    assert trail.passed() == ["send.before", "send.answered"]


def test_the_points_of_a_connection(trail: Trail) -> None:
    commit = ["tx.before_commit", "tx.after_commit"]
    connection = crashing_connect(sqlite3.connect, trail.points)(":memory:", isolation_level=None)
    connection.row_factory = sqlite3.Row
    connection.execute("create table t (a, b)")
    assert trail.passed() == []
    for spelling in ("COMMIT", " commit ;", "end"):
        connection.execute("begin")
        connection.execute("insert into t values (?, ?)", (1, 2))
        connection.execute(spelling)
        assert trail.passed() == commit
    assert not connection.in_transaction
    connection.execute("begin")
    connection.commit()
    assert trail.passed() == commit
    with connection:
        connection.execute("begin")
    assert trail.passed() == commit
    with pytest.raises(ZeroDivisionError), connection:
        1 / 0  # noqa: B018  only its failing matters
    assert trail.passed() == []
    assert [row["b"] for row in connection.execute("select * from t")] == [2, 2, 2]
    connection.close()


def die(program: str, **environment: str) -> int:
    """How a process ended that ran this program."""
    return subprocess.run(
        [sys.executable, "-c", program], env=kills.environment(**environment), check=False, timeout=30
    ).returncode


POSTING = """
import asyncio
from kills.crash import crashing_channel
from tailrace.operations import Body, Target
from tailrace.testing.simulated import simulated_channel

async def main():
    channel = crashing_channel(simulated_channel())
    here = Target(channel="simulated", chat="here")
    await channel.typing(here)
    for text in ("one", "two", "three"):
        await channel.post(here, Body(text=text), key=text)

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def process() -> Iterator[PlatformProcess]:
    with PlatformProcess("keyed") as started:
        yield started


@pytest.mark.parametrize(
    ("point", "seen", "passed"),
    [
        ("send.before", ["one"], (2, 1, 1)),
        ("send.written", ["one", "two"], (2, 2, 1)),
        ("send.answered", ["one", "two"], (2, 2, 2)),
    ],
)
def test_a_sender_dies_at_its_second_post(
    process: PlatformProcess, trail: Trail, point: str, seen: list[str], passed: tuple[int, int, int]
) -> None:
    process.clear()
    environment = {**process.environment, "CRASH": f"{point}:2", "CRASH_COUNT": str(trail.path)}
    assert die(POSTING, **environment) == -signal.SIGKILL
    account = process.wait(messages=len(seen))
    assert [message.text for message in account.messages] == seen
    counts = read_counts(trail.path)
    assert (counts["send.before"], counts["send.written"], counts["send.answered"]) == passed


def test_a_point_that_is_not_reached_lets_the_process_live(process: PlatformProcess) -> None:
    process.clear()
    assert die(POSTING, **process.environment, CRASH="send.before:4") == 0
    assert process.texts("here") == ["one", "two", "three"]


COMMITTING = """
import sqlite3, sys
import kills
from kills.crash import crashing_connect
connection = crashing_connect(sqlite3.connect)("ledger", isolation_level=None)
connection.execute("create table t (a)")
for number in (1, 2):
    connection.execute("begin")
    connection.execute("insert into t values (?)", (number,))
    connection.execute("commit")
"""


@pytest.mark.parametrize(("point", "kept"), [("tx.before_commit", [1]), ("tx.after_commit", [1, 2])])
def test_a_writer_dies_around_its_commit(tmp_path: Path, point: str, kept: list[int]) -> None:
    program = COMMITTING.replace('"ledger"', repr(str(tmp_path / "ledger")))
    assert die(program, CRASH=f"{point}:2") == -signal.SIGKILL
    connection = sqlite3.connect(tmp_path / "ledger")
    assert [a for (a,) in connection.execute("select a from t")] == kept
    connection.close()
