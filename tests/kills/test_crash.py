"""Crash points are reached where they should be, and a process dies at the one that was asked for."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import kills
from kills.crash import crashing_ledger
from kills.crash_points import CrashPoints
from tailrace.capabilities import Unkeyed
from tailrace.deliveries import Delivery, Inbound, Policy, State, Turn, TurnState, moved, plan, sending
from tailrace.ledger.memory import MemoryLedger
from tailrace.operations import Body, Post, Receipt, Target
from tailrace.testing.platform_process import PlatformProcess

if TYPE_CHECKING:
    from pathlib import Path

HERE = Target(channel="simulated", chat="here")


class Recorder(CrashPoints):
    """Records the points in the order they are reached."""

    def __init__(self) -> None:
        super().__init__({})
        self._names: list[str] = []

    def reach(self, name: str) -> None:
        super().reach(name)
        self._names.append(name)

    def reached(self) -> list[str]:
        """The points since the last call."""
        names, self._names = self._names, []
        return names


def delivery(ordinal: int, state: State = State.PLANNED) -> Delivery:
    post = Post(target=HERE, body=Body(text=f"part {ordinal}"))
    planned = plan(post, turn_id="t", ordinal=ordinal, policy=Policy(idempotency=Unkeyed()), now=1.0)
    return sending(planned, now=1.0) if state is State.SENDING else planned


def test_the_points_of_a_ledger() -> None:
    async def main() -> None:
        points, first = Recorder(), MemoryLedger()
        ledger = crashing_ledger(first, points)
        assert ledger.epoch == first.epoch
        event = Inbound(channel="simulated", event_id="e", turn_id="t", target=HERE, text="hi")
        assert await ledger.accept(event) == "t"
        turn = await ledger.begin(Turn(turn_id="t", target=HERE))
        assert points.reached() == ["accept.before", "accept.after", "begin.before", "begin.after"]

        (row,) = await ledger.plan([delivery(1)])
        assert points.reached() == ["plan.before", "plan.after"]
        (sent,) = await ledger.move((row, sending(row, now=1.0)))
        assert points.reached() == ["intent.before", "intent.after"]
        (lost,) = await ledger.move((sent, moved(sent, State.AMBIGUOUS, now=1.0)))
        assert points.reached() == ["outcome.before", "outcome.after"]
        (again,) = await ledger.move((lost, sending(lost, now=1.0)))
        assert points.reached() == ["intent.before", "intent.after"]
        await ledger.move((again, moved(again, State.DELIVERED, now=1.0, receipt=Receipt(message_id="m1"))))
        assert points.reached() == ["outcome.before", "outcome.after"]

        await ledger.plan([delivery(2, State.SENDING)])
        assert points.reached() == ["plan.before", "intent.before", "intent.after", "plan.after"]
        await ledger.plan([delivery(3, State.SENDING)])
        assert points.reached() == ["plan.before", "intent.before", "plan.after"], "it waits behind the one before"
        await ledger.end(turn, TurnState.DONE, plan=[delivery(4)])
        assert points.reached() == ["turn.before", "turn.after"]

        assert len(await ledger.adopt(HERE.conversation, now=1.0, limit=10)) == 3
        assert points.reached() == [], "they were its own before"
        successor = crashing_ledger(first.reopen(), points)
        for reached in (["recover.marked"], []):
            assert len(await successor.adopt(HERE.conversation, now=1.0, limit=10)) == 3
            assert points.reached() == reached

    asyncio.run(main())


@pytest.mark.parametrize("moment", ["intent", "intent.after", "intent.after:0", "intent.after:x", ":1"])
def test_a_moment_that_never_happens_is_refused(moment: str) -> None:
    with pytest.raises(ValueError, match="never happens"):
        CrashPoints({moment: "kill"})


PROGRAM = """
import asyncio, sqlite3, sys
from kills.crash import crashing_connect
from kills.crash_points import CrashPoints
from tailrace.operations import Body, Target
from tailrace.testing.simulated import simulated_channel

points = CrashPoints({sys.argv[1]: "kill"})
connection = crashing_connect(sqlite3.connect, points)(sys.argv[2], isolation_level=None)
connection.execute("create table t (a)")

async def main():
    channel = simulated_channel()
    channel.on_step = points.reach
    for text in ("one", "two", "three"):
        await channel.post(Target(channel="simulated", chat="here"), Body(text=text), key=text)
        connection.execute("begin")
        connection.execute("insert into t values (?)", (text,))
        connection.execute("commit")

asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("moment", "posted", "committed"),
    [
        ("send.before:2", 1, 1),
        ("send.written:2", 2, 1),
        ("send.answered:2", 2, 1),
        ("tx.before_commit:2", 2, 1),
        ("tx.after_commit:2", 2, 2),
        ("send.before:4", 3, 3),
    ],
)
def test_a_process_dies_at_its_moment(tmp_path: Path, moment: str, posted: int, committed: int) -> None:
    with PlatformProcess("keyed") as platform:
        command = [sys.executable, "-c", PROGRAM, moment, str(tmp_path / "file")]
        ended = subprocess.run(command, env=kills.environment(**platform.environment), timeout=30, check=False)
        assert ended.returncode == (-signal.SIGKILL if committed < 3 else 0)
        assert len(platform.wait(messages=posted).messages) == posted
    connection = sqlite3.connect(tmp_path / "file")
    assert connection.execute("select count(*) from t").fetchone() == (committed,)
    connection.close()
