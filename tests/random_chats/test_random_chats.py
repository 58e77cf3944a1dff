"""Random scenes keep the laws: some here, many by `make search-chats`; and the judge finds what breaks them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from random_chats.judge import judge
from random_chats.play import Played, play
from random_chats.scenes import End, Fail, Say, Scene, scene
from random_chats.search import report
from tailrace.capabilities import Unkeyed
from tailrace.deliveries import TurnState
from tailrace.delivery.recovery import INTERRUPTED
from tailrace.gateway.words import WORDS

if TYPE_CHECKING:
    from collections.abc import Callable

TESTS = Path(__file__).parent.parent
SCENES = 80
PARTS = 4


@pytest.mark.parametrize("part", range(PARTS))
def test_random_scenes_keep_the_laws(part: int) -> None:
    for seed in range(part, SCENES, PARTS):
        played = play(scene(seed))
        if problems := judge(played):
            pytest.fail(report(played, problems))


def test_a_seed_repeats_its_scene() -> None:
    first, second = play(scene(3)), play(scene(3))
    assert (first.rows, first.platform.calls) == (second.rows, second.platform.calls)


def test_scenes_have_everything_that_people_and_platforms_do() -> None:
    scenes = [scene(seed) for seed in range(SCENES)]
    actions = [action for each in scenes for _, action in each.actions]
    assert {each.busy for each in scenes} == {"queue", "interrupt", "merge"}
    assert {action.word for action in actions if isinstance(action, Say)} == {"", *WORDS}
    assert {action.how for action in actions if isinstance(action, End)} == {"crash", "drain"}
    faults = Counter(type(action.rule.fault).__name__ for action in actions if isinstance(action, Fail))
    assert len(faults) >= 7
    assert any(isinstance(each.limits.idempotency, Unkeyed) for each in scenes)


# The judge

TALK = Scene(
    seed=1,
    busy="queue",
    limits=replace(scene(0).limits, idempotency=Unkeyed(), presentation="parts"),
    max_queue_size=5,
    actions=[
        (0.0, Say("7", sort="text")),
        (0.0, Say("7", sort="text")),
        (9.0, Say("7", sort="slow")),
        (3.0, Say("7", word="stop")),
        (9.0, Say("8", sort="slow")),
        (3.0, End("crash")),
    ],
)


@pytest.fixture
def talk() -> Played:
    """Two answers, one that is stopped, and one that a crash interrupts."""
    played = play(TALK)
    assert judge(played) == []
    states = Counter(turn.state for turn in played.turns.values())
    assert states == {TurnState.DONE: 3, TurnState.CANCELLED: 1, TurnState.INTERRUPTED: 1}
    return played


def change(played: Played, chat: str, index: int, **fields: Any) -> None:
    """Let people read something else in the place of one message."""
    messages = played.platform._chats[chat]
    message_id = list(messages)[index]
    body = (
        replace(messages[message_id].body, text=fields.pop("text")) if "text" in fields else messages[message_id].body
    )
    messages[message_id] = replace(messages[message_id], body=body, **fields)


def reverse(played: Played, chat: str) -> None:
    played.platform._chats[chat] = dict(reversed(played.platform._chats[chat].items()))


def state(played: Played, chat: str, index: int, to: TurnState) -> None:
    turn_id = played.said[chat][index].message.turn_id
    played.turns[turn_id] = replace(played.turns[turn_id], state=to)


def say_late(played: Played) -> None:
    """A word of the stopped answer comes after the acknowledgement."""
    stopped = played.said["7"][2].message.turn_id
    (run,) = [each for each in played.runs if each.turn_id == stopped]
    last = list(played.platform._chats["7"])[-1]
    versions = played.platform._versions[last]
    shown = versions[-1].message
    late = replace(shown, body=replace(shown.body, text=f"r{run.number}w99"))
    versions.append(replace(versions[-1], at=versions[-1].at + 60.0, message=late))


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (lambda played: change(played, "7", 0, deleted=True), "lacks r0w0"),
        (lambda played: change(played, "7", 1, text=played.platform.texts("7")[0]), "is there 2 times"),
        (lambda played: change(played, "8", 0, text=played.platform.texts("7")[0]), "of another chat"),
        (lambda played: reverse(played, "7"), "out of order"),
        (lambda played: change(played, "8", -1, text="gone"), "0 lines say so"),
        (lambda played: change(played, "7", 0, text=INTERRUPTED), "1 lines say so"),
        (lambda played: state(played, "7", 0, TurnState.ACCEPTED), "is accepted"),
        (lambda played: state(played, "8", 0, TurnState.CANCELLED), "was lost"),
        (lambda played: played.runs.append(played.runs[0]), "began 2 times"),
        (lambda played: played.runs.pop(0), "has no answer"),
        (lambda played: played.turns.pop(played.said["7"][0].message.turn_id), "is None"),
        (lambda played: played.said["7"].insert(0, played.said["7"].pop(1)), "in the order"),
        (say_late, "after the stop"),
    ],
)  # fmt: skip
def test_judge_finds(talk: Played, damage: Callable[[Played], object], problem: str) -> None:
    damage(talk)
    found = judge(talk)
    assert any(problem in each for each in found), found


def test_the_command_plays_scenes() -> None:
    command = [sys.executable, "-m", "random_chats.search", "--scenes", "2"]
    path = os.pathsep.join((str(TESTS), str(TESTS / "delivery")))
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("2 scenes, 0 broken; {")
