"""Random turns keep the laws: a few here, 100,000 by `make search-turns`; and the judge finds what breaks them."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from random_turns.expected import WORD, ExpectedTurn, visible
from random_turns.judge import judge
from random_turns.random_run import play
from random_turns.scenes import PRESENTATIONS, Trouble, scene_of
from random_turns.search import COLUMNS, counts_of, report
from random_turns.strict_platform import StrictPlatform
from random_turns.unreliable_channel import SECRET
from random_turns.watched_turn import WatchedTurn
from tailrace.capabilities import CHANNELS, TELEGRAM
from tailrace.deliveries import State, TurnState
from tailrace.delivery import Courier
from tailrace.events import BlockFinal, Error, TextDelta, TurnCancelled, TurnCompleted
from tailrace.ledger.memory import MemoryLedger
from tailrace.operations import Body, Delete, Draft, Edit, Post, Target, Typing
from tailrace.projector import ProjectorSettings
from tailrace.testing.simulated import in_process_channel
from tailrace.testing.virtual_time import Simulation, run
from tailrace.testing.wire import Request

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from random_turns.random_run import RandomRun

RUNS = 3  # of each presentation on each channel
HERE = Target(channel="simulated", chat="1")


@pytest.mark.parametrize("presentation", PRESENTATIONS)
def test_random_turns_keep_the_laws(presentation: str) -> None:
    first = 1000 * PRESENTATIONS.index(presentation)
    for seed, channel in enumerate(RUNS * list(CHANNELS), first):  # a scene of its own for each
        played = play(seed, presentation, channel)
        if breaches := judge(played):
            pytest.fail(report(played, breaches))


def test_a_seed_repeats_its_run() -> None:
    first, second, other = play(7), play(7), play(8)
    assert (first.rows, first.platform.calls) == (second.rows, second.platform.calls)
    assert first.rows != other.rows
    scene = scene_of(7)
    assert scene_of(7, scene.presentation, scene.channel) == scene


def test_runs_meet_everything_that_can_go_wrong() -> None:
    counts: Counter[str] = Counter()
    faults: set[str] = set()
    for seed in range(100, 140):
        played = play(seed)
        counts.update(counts_of(played))
        faults |= {call.fault for call in played.platform.calls}
    assert {name for name in COLUMNS if not counts[name]} <= {"broken"}
    assert len(faults) > 8


def test_the_command_prints_a_line_for_each_presentation() -> None:
    command = [sys.executable, "-m", "random_turns.search", "--turns", "20"]
    environment = {"PYTHONPATH": str(Path(__file__).parent.parent)}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    header, *lines = ended.stdout.splitlines()
    assert header.split() == [*COLUMNS]
    assert [line.split()[0] for line in lines] == [*PRESENTATIONS]


@pytest.fixture
def calm() -> RandomRun:
    """A run without trouble, in which the first three messages have words of one turn."""
    for seed in range(1000):
        scene = scene_of(seed, "final", "discord")
        if not scene.trouble.is_calm or len(scene.turns) > 1:
            continue
        played = play(seed, "final", "discord")
        texts = [message.text for message in played.platform.history()]
        if len(texts) > 2 and all(WORD.search(text) for text in texts[:3]):
            assert judge(played) == []
            return played
    raise AssertionError("no such run")


NEW = -1  # instead of the number of a message


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({1: ""}, "lost: "),
        ({NEW: "{0}"}, "was posted 2 times"),
        ({NEW: "of somebody else"}, "no delivery posted ' of somebody else'"),
        ({1: "{1} {0}"}, "said twice: "),
        ({0: "{1}", 1: "{0}"}, "out of order: "),
        ({0: "{0} w999999z"}, "never said, or taken back: ['w999999z']"),
        ({0: "{0}."}, "the messages are "),
    ],
)
def test_the_judge_finds_wrong_messages(calm: RandomRun, change: dict[int, str], found: str) -> None:
    messages, target = calm.platform.history(), calm.scene.turns[0].target
    for number, text in change.items():
        body = Body(text=text.format(*(message.text for message in messages)))
        message_id = messages[number].message_id
        operation: Post | Edit | Delete = Post(target=target, body=body)
        if number != NEW:
            operation = Edit(target=target, message_id=message_id, body=body)
        if not text:
            operation = Delete(target=target, message_id=message_id)
        calm.platform.handle(Request(operation=operation, key=str(operation)), 1e6)
    assert found in judge(calm)[0]


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"state": State.RETRY}, "is still retry"),
        ({"state": State.FAILED}, "was posted 1 times, not 0 to 0 times"),
        ({"state": State.UNKNOWN}, "though it could be found out or sent again"),
        ({"state": State.UNKNOWN, "error": "the bot was blocked"}, "no line says so"),
        ({"position": 10**9}, "out of order: the deliveries"),
        ({"error": f"password={SECRET}"}, "is stored"),
    ],
)
def test_the_judge_finds_a_wrong_delivery(calm: RandomRun, changes: dict[str, object], found: str) -> None:
    first = min(calm.rows, key=lambda row: row.position)
    calm.rows[calm.rows.index(first)] = replace(first, **changes)
    calm.scene = replace(calm.scene, on_unknown="resend")
    assert found in "\n".join(judge(calm))


@pytest.mark.parametrize(
    ("state", "found"), [(TurnState.RUNNING, "is still running"), (TurnState.INTERRUPTED, "no line says so")]
)
def test_the_judge_finds_a_wrong_turn(calm: RandomRun, state: TurnState, found: str) -> None:
    calm.turns = {name: replace(turn, state=state) for name, turn in calm.turns.items()}
    assert found in judge(calm)[0]


def test_the_judge_finds_calls_that_should_not_have_been_made(calm: RandomRun) -> None:
    calm.cancelled_at = dict.fromkeys(calm.turns, -100.0)
    assert "cancelled at -100.00, and sent at" in judge(calm)[0]
    calm.late_keys.add(calm.rows[0].key)
    assert "a late call is not in the log" in judge(calm)


def test_the_judge_finds_an_edit_that_was_not_made(calm: RandomRun) -> None:
    first, *_ = sorted(calm.rows, key=lambda row: row.position)
    assert isinstance(first.operation, Post)
    target, [message, *_] = first.operation.target, calm.platform.history()
    shown = Edit(target=target, message_id=message.message_id, body=Body(text="another text"))
    calm.rows.append(replace(first, ordinal=99, position=10**9, operation=shown, receipt=None))
    assert "made m1 say 'another text'" in judge(calm)[0]


@pytest.mark.parametrize(
    ("operation", "found"),
    [
        (Post(target=HERE, body=Body(text="x" * 4097)), "4097"),
        (Post(target=HERE, body=Body(text=" ")), "blank"),
        (Draft(target=replace(HERE, group=True), draft_id=1, body=Body(text="x")), "cannot do this"),
    ],
)
def test_the_platform_complains_about_forbidden_calls(operation: Post | Draft, found: str) -> None:
    platform = StrictPlatform(TELEGRAM, seed=0)
    platform.handle(Request(operation=Post(target=HERE, body=Body(text="x" * 4096))), 0.0)
    assert platform.forbidden == []
    platform.handle(Request(operation=operation), 100.0)
    assert found in platform.forbidden[0]


def say(text: str) -> Post:
    return Post(target=HERE, body=Body(text=text))


async def edit_too_soon(turn: WatchedTurn) -> None:
    for text in ("w1z w2z", "w1z"):
        await turn.show(Edit(target=HERE, message_id="m1", body=Body(text=text)))


async def edit_what_nobody_knows(turn: WatchedTurn) -> None:
    turn.show(Edit(target=HERE, message_id="m9", body=Body(text="w1z")))


async def show_two_at_once(turn: WatchedTurn) -> None:
    turn.show(Typing(target=HERE))
    turn.show(Draft(target=HERE, draft_id=1, body=Body(text="w1z")))


async def send_what_was_not_said(turn: WatchedTurn) -> None:
    await turn.send(say("w1z w7z"))


async def show_after_the_end(turn: WatchedTurn) -> None:
    turn.received(TurnCompleted())
    turn.show(Typing(target=HERE))


async def post_after_cancelling(turn: WatchedTurn) -> None:
    turn.received(TurnCancelled())
    await turn.send(say("w2z"))


async def leave_a_draft(turn: WatchedTurn) -> None:
    await turn.show(Draft(target=HERE, draft_id=1, body=Body(text="w1z")))
    await asyncio.sleep(40.0)
    turn.received(TextDelta(text=" w3z"))


async def show_processing_at_once(turn: WatchedTurn) -> None:
    await turn.send(replace(say("working"), is_processing=True))


@pytest.mark.parametrize(
    ("misbehave", "found"),
    [
        (edit_too_soon, "after the last call, not 2.0 s"),
        (edit_what_nobody_knows, "which no receipt named"),
        (show_two_at_once, "while Typing is pending"),
        (send_what_was_not_said, "shows w7z, which is not part of the answer"),
        (show_after_the_end, "is shown after the turn ended"),
        (post_after_cancelling, "begins a message after the turn was cancelled"),
        (leave_a_draft, "was left to end"),
        (show_processing_at_once, "begins the processing message too early"),
    ],
)
def test_a_wrong_projector_is_found(misbehave: Callable[[WatchedTurn], Awaitable[None]], found: str) -> None:
    async def main(simulation: Simulation) -> list[str]:
        scene = replace(scene_of(0), capabilities=TELEGRAM, settings=ProjectorSettings(), trouble=Trouble())
        courier = Courier(MemoryLedger(clock=simulation.clock), clock=simulation.clock, jitter=lambda: 0.0)
        courier.connect(in_process_channel(StrictPlatform(TELEGRAM, seed=0), simulation.clock))
        begun = await courier.begin("t", HERE)
        turn = WatchedTurn(courier, begun.turn, scene)
        turn.received(TextDelta(text="w1z w2z and enough text for a message to begin"))
        await turn.send(say("w1z"))
        await asyncio.sleep(4.0)
        await misbehave(turn)
        return turn.breaches

    assert found in run(main)[0]


def test_what_a_turn_should_say_is_read_without_reasoning_and_silence() -> None:
    assert visible("<think>s1z</think>\n\nw2z") == "w2z"
    assert visible("w1z\n<think>s2") == "w1z\n"
    assert visible("w1z\n</think>\nw2z") == "w2z"
    assert visible("w1z\nNO_REPLY") == "w1z\n"
    events = (TextDelta(text="```\nw1z"), BlockFinal(), TextDelta(text="w2z"), Error(message="e3z"))
    expected = ExpectedTurn(events)
    assert [item.text for item in expected.items] == ["```\nw1z\n```\n\nw2z", "⚠️ e3z"]
    assert expected.words == ["w1z", "w2z", "e3z"]
