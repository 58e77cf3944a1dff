"""A small share of the kill test of the gateway, and its judge. `make kills-gateway` has 200 conversations."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from gateway_kills.agent import words_of
from gateway_kills.judge import Content, judge
from gateway_kills.people import Person, people, timetable
from gateway_kills.trial import Plan, trial
from tailrace.capabilities import Keyed, Unkeyed
from tailrace.deliveries import Delivery, Policy, State, Turn, TurnState, moved, plan, sending
from tailrace.delivery.recovery import INTERRUPTED
from tailrace.operations import Body, Post, Receipt, Target

if TYPE_CHECKING:
    from pathlib import Path

SMALL = Plan(people=12, messages=2, kills=4, every_s=(0.3, 0.9))


def test_messages_are_answered_once_although_the_gateway_is_killed(tmp_path: Path) -> None:
    result = asyncio.run(trial(SMALL, tmp_path))
    assert result.problems == []
    assert result.states.total() == SMALL.people * SMALL.messages
    assert result.ends["kill -9"] == 3
    assert result.states["done"]


def test_people_write_on_both_platforms_and_some_messages_wait_behind_others() -> None:
    everybody = people(200, 4, share=0.5, seed=7)
    assert Counter(person.channel for person in everybody) == {"telegram": 100, "simulated": 100}
    table = timetable(everybody, 60.0, seed=7)
    assert len(table) == 800
    assert table[-1][0] < 60.0


PERSON = Person(number=3, channel="simulated", messages=["text 3x0", "fail 3x1"])
HERE = Target(channel="simulated", chat=PERSON.chat)
FIRST, SECOND = (" ".join(words_of(*message.split())) for message in PERSON.messages)
LINE = "⚠️ the agent is broken"
WHOLE = [FIRST, SECOND, LINE]


def turn(index: int, state: TurnState) -> Turn:
    message = PERSON.message(index)
    return Turn(turn_id=message.turn_id, target=HERE, state=state, message=message)


def row(text: str, state: State, *, index: int = 0, ordinal: int = 1) -> Delivery:
    policy = Policy(idempotency=Unkeyed() if state is State.UNKNOWN else Keyed(window_s=1.0))
    post = Post(target=HERE, body=Body(text=text))
    tried = sending(
        plan(post, turn_id=turn(index, TurnState.DONE).turn_id, ordinal=ordinal, policy=policy, now=0.0), now=0.0
    )
    if state is State.DELIVERED:
        return moved(tried, state, now=1.0, receipt=Receipt(message_id="1"))
    return moved(moved(tried, State.AMBIGUOUS, now=1.0), state, now=1.0)


DONE = {
    message: turn(index, state)
    for index, (message, state) in enumerate(zip(PERSON.messages, (TurnState.DONE, TurnState.FAILED), strict=True))
}
RUNS = Counter({"3x0": 1, "3x1": 1})
CUT = {**DONE, "text 3x0": turn(0, TurnState.INTERRUPTED)}


def verdict(texts: list[str], turns: dict[str, Turn] = DONE, runs: Counter[str] = RUNS, *rows: Delivery) -> list[str]:
    return judge(PERSON, texts, Content(rows=list(rows), turns=turns), runs)


def test_judge_accepts_whole_and_interrupted_answers() -> None:
    assert verdict(WHOLE) == []
    assert verdict([FIRST[:15], INTERRUPTED, SECOND, LINE], CUT) == []
    held = "⚠️ Part 1 of this answer may be missing: it is not known whether it arrived."
    assert verdict([held, SECOND, LINE], DONE, RUNS, row(FIRST, State.UNKNOWN)) == []


@pytest.mark.parametrize(
    ("texts", "turns", "runs", "rows", "problem"),
    [
        ([FIRST, FIRST, SECOND], DONE, RUNS, [], "is there 2 times"),
        ([SECOND, FIRST], DONE, RUNS, [], "out of order"),
        ([FIRST[:15], SECOND], DONE, RUNS, [], "lacks"),
        ([FIRST, SECOND, "a4x0x000"], DONE, RUNS, [], "another conversation"),
        ([FIRST, SECOND], {"text 3x0": DONE["text 3x0"]}, RUNS, [], "never accepted"),
        (WHOLE, DONE, RUNS + Counter(["3x0"]), [], "began 2 times"),
        (WHOLE, DONE, Counter({"3x1": 1}), [], "began 0 times"),
        ([FIRST[:15], SECOND], CUT, RUNS, [], "0 lines say so"),
        ([FIRST[:15], INTERRUPTED, INTERRUPTED, SECOND], CUT, RUNS, [], "2 lines say so"),
        ([INTERRUPTED, SECOND], CUT, RUNS, [row(FIRST, State.DELIVERED)], "lacks"),
        ([*WHOLE, INTERRUPTED], DONE, RUNS, [], "1 lines say so"),
        (WHOLE, {**DONE, "text 3x0": turn(0, TurnState.CANCELLED)}, RUNS, [], "is cancelled"),
        ([SECOND], DONE, RUNS, [row(FIRST, State.UNKNOWN)], "0 lines say so"),
    ],
)  # fmt: skip
def test_judge_finds(
    texts: list[str], turns: dict[str, Turn], runs: Counter[str], rows: list[Delivery], problem: str
) -> None:
    found = verdict(texts, turns, runs, *rows)
    assert any(problem in each for each in found), found


def test_what_is_open_in_the_ledger_is_a_problem() -> None:
    waiting = plan(
        Post(target=HERE, body=Body(text="x")), turn_id="t", ordinal=1, policy=Policy(idempotency=Unkeyed()), now=0.0
    )
    content = Content(rows=[replace(waiting, state=State.RETRY)], turns={"text 3x0": turn(0, TurnState.ACCEPTED)})
    assert len(content.open) == 2
