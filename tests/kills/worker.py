"""The process that the trials kill: it answers questions through a ledger and a courier.

    python -m kills.worker --ledger PATH [--questions matrix] [--on-unknown hold] [--kill-at send.written:2]

It finds its platform by `TAILRACE_SIMULATOR`. It resumes the turns that an earlier worker began, lets recovery do the
rest, and then takes in every question and answers it: the same question is the same event, turn and delivery in every
worker. It exits with 0 when nothing is open any more or after SIGTERM, and with `IN_USE` if another process has the
ledger.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import secrets
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from kills.crash import crashing_connect, crashing_ledger
from kills.crash_points import CrashPoints
from kills.script import CHANNEL, Question, questions_of
from tailrace.deliveries import Inbound, Query, TurnState
from tailrace.delivery import Courier, CourierSettings, Recovery, RecoverySettings
from tailrace.delivery.sender_context import SystemClock
from tailrace.delivery.stopping import stops_on_signals
from tailrace.delivery.watchdog import Watchdog
from tailrace.errors import LedgerInUse
from tailrace.ledger.connection import connect
from tailrace.ledger.sqlite import SqliteLedger
from tailrace.operations import Body, Edit, Post, Target
from tailrace.testing.simulated import simulated_channel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tailrace.delivery import OpenTurn
    from tailrace.ports import Ledger

IN_USE = 3
STOPPING = b"stopping\n"
RECOVERED = "recovered"
"""The line in the file of `--count-into` after which the points are not those of recovery any more."""

_TOOL_S = 0.001
_EDIT_TIMEOUT_S = 0.1
_LOOK_AGAIN_S = 0.02


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker had at its end: open files, and rows in its ledger."""

    open_files: int
    rows: int


class Agent:
    """Answers questions, each by one turn. `copies`: how often each event comes in, all at once.

    With `repeats` it also repeats turns that have ended.
    """

    def __init__(self, courier: Courier, *, copies: int = 1, repeats: bool = True) -> None:
        self._courier = courier
        self._copies = copies
        self._repeats = repeats
        self._resumed: dict[str, OpenTurn] = {}

    async def resume(self, questions: Sequence[Question]) -> None:
        """Begin the turns of earlier workers again, before recovery closes them as abandoned."""
        shapes = {question.event_id: question.shape for question in questions}
        for turn in await self._courier.ledger.interrupted_turns():
            if shapes.get(turn.input) != "abandon":
                self._resumed[turn.input] = await self._courier.begin(turn.turn_id, turn.target)

    async def answer(self, questions: Sequence[Question]) -> None:
        """Answer all questions, the chats in parallel."""
        chats: dict[str, list[Question]] = {}
        for question in questions:
            chats.setdefault(question.chat, []).append(question)
        async with asyncio.TaskGroup() as group:
            for asked in chats.values():
                group.create_task(self._answer_in_order(asked))

    async def _answer_in_order(self, questions: Sequence[Question]) -> None:
        for question in questions:
            turn_id = await self._accept(question)
            turn = self._resumed.pop(question.event_id, None) or await self._courier.begin(turn_id, _target(question))
            if turn.turn.state is TurnState.INTERRUPTED or (turn.is_finished and not self._repeats):
                continue
            if question.is_live:
                await self._answer_live(turn, question)
            else:
                await _answer_in_parts(turn, question)

    async def _accept(self, question: Question) -> str:
        """Take the event in. Each copy proposes another id for its turn; the first one is kept."""
        events = (
            Inbound(
                channel=CHANNEL,
                event_id=question.event_id,
                turn_id=f"{question.event_id}-{secrets.token_hex(4)}",
                target=_target(question),
                text=question.event_id,
                seen_at=self._courier.clock.wall(),
            )
            for _ in range(self._copies)
        )
        (turn_id,) = set(await asyncio.gather(*map(self._courier.ledger.accept, events)))
        return turn_id

    async def _answer_live(self, turn: OpenTurn, question: Question) -> None:
        """Post a message, show how it grows, edit it for good, and post another one."""
        target = _target(question)
        final, other = question.texts
        (preview,) = await turn.send(Post(target=target, body=Body(text=question.preview)))
        message_id = preview.receipt.message_id if preview.receipt is not None else None
        for stage in question.stages:
            if message_id is not None:
                shown = turn.show(Edit(target=target, message_id=message_id, body=Body(text=stage)))
                await asyncio.wait({shown}, timeout=_EDIT_TIMEOUT_S)
            turn.save_snapshot(stage, message_id)
        body = Body(text=final)
        await turn.send(
            Post(target=target, body=body)
            if message_id is None
            else Edit(target=target, message_id=message_id, body=body)
        )
        await turn.end(Post(target=target, body=Body(text=other)))


async def _answer_in_parts(turn: OpenTurn, question: Question) -> None:
    *first, last = [Post(target=_target(question), body=Body(text=text)) for text in question.texts]
    if question.shape == "tool":
        for post in first:
            await asyncio.sleep(_TOOL_S)
            await turn.send(post)
        await asyncio.sleep(_TOOL_S)
    else:
        await turn.send(*first)
    await turn.end(last)


def _target(question: Question) -> Target:
    return Target(channel=CHANNEL, chat=question.chat)


class _FastClock(SystemClock):
    """A clock that runs `rate` times as fast: timeouts of seconds are over soon."""

    def __init__(self, rate: float) -> None:
        self._rate = rate

    def monotonic(self) -> float:
        return self._rate * super().monotonic()


class _NoInbox:
    """Nobody writes on this platform: the questions come by the command line."""

    async def receive(self, inbound: Inbound) -> str:
        return inbound.turn_id


async def _until_final(ledger: Ledger, recovery: Recovery) -> None:
    while await ledger.open_conversations():
        due_in = await recovery.sweep()
        await asyncio.sleep(_LOOK_AGAIN_S if due_in is None else due_in)


async def _work(options: argparse.Namespace, courier: Courier) -> None:
    """Recover, answer, and wait until everything is final."""
    questions = questions_of(options.questions)
    agent = Agent(courier, copies=options.copies, repeats=not options.questions.startswith("load"))
    recovery = Recovery(courier, RecoverySettings(retention_s=0.0) if options.prune else None)
    await agent.resume(questions)
    await recovery.sweep()
    if options.count_into is not None:
        with options.count_into.open("a", encoding="ascii") as file:
            file.write(f"{RECOVERED}\n")
    in_background = asyncio.create_task(recovery.run())
    try:
        await agent.answer(questions)
        await _until_final(courier.ledger, recovery)
    finally:
        in_background.cancel()
        await asyncio.wait({in_background})
    if options.prune:
        while await courier.ledger.prune(Query(before=courier.clock.wall())):
            pass
    if options.report is not None:
        _report(options.report, rows=len(await courier.ledger.find(Query(), limit=100_000)))


def _report(path: Path, *, rows: int) -> None:
    report = Report(open_files=len(list(Path("/dev/fd").iterdir())), rows=rows)
    path.write_bytes(msgspec.json.encode(report))


async def serve(options: argparse.Namespace) -> None:
    """Work until everything is final, or until a signal asks to stop; then write `STOPPING`."""
    moments = {"kill": options.kill_at, "stop": options.stop_at, "block": options.block_at}
    points = CrashPoints(
        {moment: action for action, moment in moments.items() if moment},  # type: ignore[misc]  # the three literals
        count_into=options.count_into,
    )
    opened = await SqliteLedger.open(options.ledger, connect=crashing_connect(connect, points))
    channel = simulated_channel()
    channel.on_step = points.reach
    try:
        with stops_on_signals() as stop, Watchdog(timeout_s=options.watchdog_s):
            settings = CourierSettings(on_unknown=options.on_unknown)
            clock = _FastClock(options.clock_rate)
            courier = Courier(crashing_ledger(opened, points), settings=settings, clock=clock)
            await channel.start(_NoInbox())
            courier.connect(channel)
            work = asyncio.create_task(_work(options, courier))
            stopped = asyncio.create_task(stop.wait())
            await asyncio.wait({work, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if stopped.done():
                os.write(1, STOPPING)
            stopped.cancel()
            work.cancel()
            await asyncio.wait({work})
            await courier.drain(options.drain_s)
            if not work.cancelled():
                work.result()
    finally:
        await opened.close()


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m kills.worker")
    parser.add_argument("--ledger", type=Path, required=True, help="the file of the ledger")
    parser.add_argument("--questions", default="matrix", help="matrix, load:COUNT or chat:CHAT:COUNT")
    parser.add_argument("--on-unknown", choices=["hold", "resend"], default="hold")
    parser.add_argument("--copies", type=int, default=1, help="how often each event comes in, all at once")
    parser.add_argument("--kill-at", default="", help="the crash point at which to die, such as send.written:2")
    parser.add_argument("--stop-at", default="", help="the crash point at which to stop as by SIGSTOP")
    parser.add_argument("--block-at", default="", help="the crash point at which to wait for a byte of input")
    parser.add_argument("--count-into", type=Path, help="a file that gets a line for each crash point reached")
    parser.add_argument("--clock-rate", type=float, default=1.0, help="how many times as fast the clock runs")
    parser.add_argument("--watchdog-s", type=float, default=5.0, help="how long the loop may be blocked unnoticed")
    parser.add_argument("--drain-s", type=float, default=10.0, help="how long sends may take after SIGTERM")
    parser.add_argument("--prune", action="store_true", help="delete everything that is final at the end")
    parser.add_argument("--report", type=Path, help="where to write a report at the end")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    try:
        asyncio.run(serve(arguments(sys.argv[1:] if argv is None else argv)))
    except LedgerInUse as error:
        sys.stderr.write(f"{error}\n")
        return IN_USE
    return 0


if __name__ == "__main__":
    sys.exit(main())
