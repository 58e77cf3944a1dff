"""A process that answers people through a ledger and can be killed anywhere: what the trials kill.

    python -m kills.worker --ledger PATH [--questions matrix] [--on-unknown hold]

It finds its platform by `TAILRACE_SIMULATOR` and dies where `CRASH` says. It opens the ledger, takes up the turns that
it can say again, lets recovery do the rest, and then takes in every question and answers it: whatever an earlier
process had accepted, begun or said is the same event, the same turn and the same delivery here. It ends with 0 once
nothing is open, or in good order on SIGTERM; with `IN_USE` where another process holds the ledger.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import secrets
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from kills.crash import crashing_connect, crashing_ledger
from kills.crash_points import parse_crash, points_of_environment
from kills.parts import HaltingPoints, QuickClock, WatchedChannel, watched
from kills.script import CHANNEL, Question, questions_of
from tailrace.deliveries import Inbound, Query, TurnState
from tailrace.delivery import Courier, CourierSettings, Recovery, RecoverySettings
from tailrace.delivery.stopping import stops_on_signals
from tailrace.delivery.watchdog import Watchdog
from tailrace.errors import LedgerInUse
from tailrace.ledger.connection import connect
from tailrace.ledger.sqlite import SqliteLedger
from tailrace.operations import Body, Edit, Post, Target
from tailrace.testing.simulated import simulated_channel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kills.crash_points import CrashPoints
    from tailrace.delivery import OpenTurn
    from tailrace.ports import Ledger

IN_USE = 3
STOPPING = b"stopping\n"
RECOVERED = "recovered"
"""The line in the file of `CRASH_COUNT` behind which the points are not those of recovery any more."""

_TOOL_S = 0.001
_SHOWN_WITHIN_S = 0.1
_LOOK_AGAIN_S = 0.02


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker tells that ended by itself: how many files it held open before it let go, and rows left."""

    open_files: int
    rows: int


class Answering:
    """The turns of one process: which it takes up, and how it answers.

    `copies` is how often each event comes in, all at once. Turns that are over are said again where `repeats`.
    """

    def __init__(self, courier: Courier, channel: WatchedChannel, *, copies: int = 1, repeats: bool = True) -> None:
        self._courier = courier
        self._channel = channel
        self._copies = copies
        self._repeats = repeats
        self._begun: dict[str, OpenTurn] = {}

    async def take_up(self, questions: Sequence[Question]) -> None:
        """Go on with the turns that another process had begun, before recovery takes them for given up."""
        manners = {question.event_id: question.manner for question in questions}
        for turn in await self._courier.ledger.interrupted_turns():
            if manners.get(turn.input) != "abandon":
                self._begun[turn.input] = await self._courier.begin(turn.turn_id, turn.target)

    async def answer(self, questions: Sequence[Question]) -> None:
        """Answer all, the chats side by side."""
        chats: dict[str, list[Question]] = {}
        for question in questions:
            chats.setdefault(question.chat, []).append(question)
        async with asyncio.TaskGroup() as group:
            for asked in chats.values():
                group.create_task(self._answer_in_turn(asked))

    async def _answer_in_turn(self, questions: Sequence[Question]) -> None:
        for question in questions:
            turn_id = await self._accept(question)
            turn = self._begun.pop(question.event_id, None) or await self._courier.begin(turn_id, _target(question))
            if turn.turn.state is TurnState.INTERRUPTED or (turn.is_finished and not self._repeats):
                continue
            if question.is_live:
                await self._grow(turn, question)
            else:
                await _say(turn, question)

    async def _accept(self, question: Question) -> str:
        """Take the event in; a name for its turn is proposed anew each time, and the first one is kept."""
        accepted = await asyncio.gather(
            *(
                self._courier.ledger.accept(
                    Inbound(
                        channel=CHANNEL,
                        event_id=question.event_id,
                        turn_id=f"{question.event_id}-{secrets.token_hex(4)}",
                        target=_target(question),
                        text=question.event_id,
                        seen_at=self._courier.clock.wall(),
                    )
                )
                for _ in range(self._copies)
            )
        )
        (turn_id,) = set(accepted)
        return turn_id

    async def _grow(self, turn: OpenTurn, question: Question) -> None:
        """A live message: posted, edited in between, edited for good, and a further one behind it."""
        target = _target(question)
        whole, further = question.texts
        (preview,) = await turn.send(Post(target=target, body=Body(text=question.preview)))
        shown = preview.receipt.message_id if preview.receipt is not None else None
        for stage in question.stages:
            if shown is not None:
                await self._show(turn, Edit(target=target, message_id=shown, body=Body(text=stage)))
            turn.save_snapshot(stage, shown)
        body = Body(text=whole)
        await turn.send(
            Post(target=target, body=body) if shown is None else Edit(target=target, message_id=shown, body=body)
        )
        await turn.end(Post(target=target, body=Body(text=further)))

    async def _show(self, turn: OpenTurn, edit: Edit) -> None:
        turn.show(edit)
        is_shown = not turn.is_finished and turn.turn.last_ordinal <= 1
        if is_shown:
            shown = self._channel.next_edit(edit.target.chat)
            shown.clear()
            with suppress(TimeoutError):  # it may be dropped where something durable is on its way
                await asyncio.wait_for(shown.wait(), _SHOWN_WITHIN_S)


async def _say(turn: OpenTurn, question: Question) -> None:
    *first, last = [Post(target=_target(question), body=Body(text=text)) for text in question.texts]
    if question.manner == "tool":
        for post in first:
            await asyncio.sleep(_TOOL_S)
            await turn.send(post)
        await asyncio.sleep(_TOOL_S)
    else:
        await turn.send(*first)
    await turn.end(last)


def _target(question: Question) -> Target:
    return Target(channel=CHANNEL, chat=question.chat)


class _Nobody:
    """The inbox of a platform on which nobody writes: the questions come by the command line."""

    async def receive(self, inbound: Inbound) -> str:
        return inbound.turn_id


def _note_recovered() -> None:
    if path := os.environ.get("CRASH_COUNT"):
        with Path(path).open("a", encoding="ascii") as file:
            file.write(f"{RECOVERED}\n")


async def _until_final(ledger: Ledger, recovery: Recovery) -> None:
    while await ledger.open_conversations():
        due_in = await recovery.sweep()
        await asyncio.sleep(_LOOK_AGAIN_S if due_in is None else due_in)


async def _work(asked: argparse.Namespace, courier: Courier, channel: WatchedChannel) -> None:
    """Recover, answer, and see everything to its end."""
    questions = questions_of(asked.questions)
    answering = Answering(courier, channel, copies=asked.copies, repeats=not asked.questions.startswith("load"))
    recovery = Recovery(courier, RecoverySettings(retention_s=0.0) if asked.prune else None)
    await answering.take_up(questions)
    await recovery.sweep()
    _note_recovered()
    beside = asyncio.create_task(recovery.run())
    try:
        await answering.answer(questions)
        await _until_final(courier.ledger, recovery)
    finally:
        beside.cancel()
        await asyncio.wait({beside})
    if asked.prune:
        while await courier.ledger.prune(Query(before=courier.clock.wall())):
            pass
    if asked.report is not None:
        _report(asked.report, rows=len(await courier.ledger.find(Query(), limit=100_000)))


def _report(path: Path, *, rows: int) -> None:
    report = Report(open_files=len(list(Path("/dev/fd").iterdir())), rows=rows)
    path.write_bytes(msgspec.json.encode(report))


def _points(asked: argparse.Namespace) -> CrashPoints | None:
    if asked.stop_at or asked.block_at:
        stop_at, block_at = (parse_crash(point) if point else None for point in (asked.stop_at, asked.block_at))
        return HaltingPoints(stop_at=stop_at, block_at=block_at)
    return points_of_environment()


async def serve(asked: argparse.Namespace) -> None:
    """Work until everything is final, or until a signal asks to stop; then the first line of output says so."""
    points = _points(asked)
    opened = await SqliteLedger.open(asked.ledger, connect=crashing_connect(connect, points))
    ledger = crashing_ledger(opened, points)
    channel = watched(simulated_channel())
    channel.on_step = points.reach if points is not None else None
    try:
        with stops_on_signals() as stop, Watchdog(timeout_s=asked.watchdog_s):
            settings = CourierSettings(on_unknown=asked.on_unknown)
            courier = Courier(ledger, settings=settings, clock=QuickClock(asked.clock_rate))
            await channel.start(_Nobody())
            courier.connect(channel)
            work = asyncio.create_task(_work(asked, courier, channel))
            stopped = asyncio.create_task(stop.wait())
            await asyncio.wait({work, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if stopped.done():
                os.write(1, STOPPING)
            stopped.cancel()
            work.cancel()
            await asyncio.wait({work})
            await courier.drain(asked.drain_s)
            if not work.cancelled():
                work.result()
    finally:
        await ledger.close()


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    """What a worker is told."""
    parser = argparse.ArgumentParser(prog="python -m kills.worker")
    parser.add_argument("--ledger", type=Path, required=True, help="where the ledger lies")
    parser.add_argument("--questions", default="matrix", help="matrix, load:COUNT or chat:CHAT:COUNT")
    parser.add_argument("--on-unknown", choices=["hold", "resend"], default="hold")
    parser.add_argument("--copies", type=int, default=1, help="how often each event comes in, all at once")
    parser.add_argument("--stop-at", default="", help="the crash point at which to stop as by SIGSTOP")
    parser.add_argument("--block-at", default="", help="the crash point at which to wait for a byte of input")
    parser.add_argument("--clock-rate", type=float, default=1.0, help="how many times as fast the clock goes")
    parser.add_argument("--watchdog-s", type=float, default=5.0, help="how long the loop may be blocked unnoticed")
    parser.add_argument("--drain-s", type=float, default=10.0, help="how long sends may take after SIGTERM")
    parser.add_argument("--prune", action="store_true", help="forget everything that is final in the end")
    parser.add_argument("--report", type=Path, help="where to write a report in the end")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """The process; how it ended."""
    try:
        asyncio.run(serve(arguments(sys.argv[1:] if argv is None else argv)))
    except LedgerInUse as error:
        sys.stderr.write(f"{error}\n")
        return IN_USE
    return 0


if __name__ == "__main__":
    sys.exit(main())
