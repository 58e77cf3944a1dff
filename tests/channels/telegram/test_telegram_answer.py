"""A 60 KB answer, streamed through the courier and the channel to the simulated Telegram, with and without faults.

The pace is that of Telegram. The time is virtual, so that five minutes of streaming take seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from streaming_setup import PRIVATE_CHAT, TOPIC, flickers, streaming

from long_answer import CODE_BLOCKS, LINES, TABLES, long_answer
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
    SlowBody,
    TooMany,
    Unreachable,
)
from tailrace.testing.platforms.telegram import TelegramSettings
from tailrace.testing.virtual_time import run

if TYPE_CHECKING:
    import random

    from tailrace.operations import Target
    from tailrace.testing.virtual_time import Simulation

FAULTS: list[Fault] = [
    Refuse(),
    TooMany(3.0),
    ServerError(503),
    ServerError(502, applied=True),
    Unreachable(),
    Reset(applied=True),
    Reset(applied=False),
    Cut(applied=True),
    Cut(applied=False),
    NoAnswer(applied=True),
    NoAnswer(applied=False),
    Delayed(by_s=4.0),
    SlowBody(by_s=4.0),
    Late(after_s=3.0, answered=True),
    Late(after_s=8.0, answered=False),
]


@pytest.mark.parametrize(
    ("presentation", "target", "tokens_per_s"),
    [
        ("live", PRIVATE_CHAT, 50),
        ("live", TOPIC, 50),
        ("native", PRIVATE_CHAT, 200),
        ("processing", PRIVATE_CHAT, 200),
        ("parts", PRIVATE_CHAT, 200),
        ("parts", TOPIC, 200),
    ],
)
def test_a_long_answer_arrives_whole_and_inside_the_pace(presentation: str, target: Target, tokens_per_s: int) -> None:
    answer = long_answer()
    assert len(answer.text.encode()) >= 60_000
    assert (len(answer.marks), len(answer.code), answer.text.count("|---|---|---|")) == (LINES, CODE_BLOCKS, TABLES)

    async def scene(simulation: Simulation) -> None:
        async with streaming(simulation) as play:
            await play.send(answer, presentation, target=target, tokens_per_s=tokens_per_s)
            play.check_no_refusal()
            play.check_whole(answer, target)
            assert len(play.messages(target)) <= 18
            assert [flickers(message) for message in play.messages(target) if flickers(message)] == []
            assert presentation != "native" or play.calls("sendMessageDraft")
            notified = [message.notified for message in play.telegram.seen(int(target.chat)).messages if message.is_bot]
            assert {len(lines) for lines in notified} == {1}, "an edit notifies nobody"
            assert min(len(lines[0].strip()) for lines in notified) >= len("Section 0")

    run(scene, sockets=True)


@pytest.mark.parametrize(
    ("presentation", "tokens_per_s", "seed"),
    [("live", 50, 1), ("live", 50, 2), ("live", 200, 3), ("processing", 200, 4), ("parts", 200, 5)],
)
def test_with_a_tenth_of_the_calls_failing_all_is_there_or_reported(
    presentation: str, tokens_per_s: int, seed: int
) -> None:
    answer = long_answer()

    async def scene(simulation: Simulation) -> None:
        async with streaming(simulation, TelegramSettings(), seed=seed) as play:
            play.telegram.add_faults(*a_tenth_fails(simulation.source))
            deliveries = await play.send(answer, presentation, tokens_per_s=tokens_per_s)
            calls = play.calls()
            assert sum(bool(call.fault) for call in calls) >= len(calls) / 15
            assert {call.rule for call in play.telegram.calls} <= {"", "not_modified", "bot_blocked"}
            play.check_reported(answer, deliveries)
            assert [flickers(message) for message in play.messages() if flickers(message)] == []

    run(scene, seed=seed, sockets=True)


def a_tenth_fails(source: random.Random) -> list[Rule]:
    """Each fault once in every 150 calls, at a random one of them."""
    every = len(FAULTS) * 10
    rules = []
    for begin in range(0, 3 * every, every):
        places = source.sample(range(begin, begin + every), len(FAULTS))
        rules += [Rule(fault=fault, at=at + 1) for fault, at in zip(FAULTS, places, strict=True)]
    return rules


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: type(fault).__name__)
def test_each_fault_alone_in_a_third_of_the_calls(fault: Fault) -> None:
    answer = long_answer(150)

    async def scene(simulation: Simulation) -> None:
        async with streaming(simulation, TelegramSettings(), seed=5) as play:
            play.telegram.add_faults(Rule(fault=fault, times=None, chance=1 / 3))
            deliveries = await play.send(answer, tokens_per_s=200)
            assert {call.rule for call in play.telegram.calls} <= {"", "not_modified", "bot_blocked"}
            play.check_reported(answer, deliveries)

    run(scene, sockets=True)
