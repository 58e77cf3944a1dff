"""A 60 KB answer, streamed through the courier and the channel to the simulated Slack, with and without faults.

The pace is that of Slack. The time is virtual, so that many minutes of streaming take seconds.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace
from slack_streaming import STRICT, slack_streaming

from long_answer import long_answer
from tailrace.delivery.presenting import present
from tailrace.events import TextDelta, ToolFinished, ToolStarted, TurnCompleted, TurnStarted
from tailrace.projector import ProjectorSettings
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
from tailrace.testing.virtual_time import run

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tailrace.events import Event
    from tailrace.testing.virtual_time import Simulation

FAULTS: list[Fault] = [
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
]


@pytest.mark.parametrize("presentation", ["live", "native", "processing", "parts"])
def test_a_long_answer_arrives_whole_and_inside_the_pace(presentation: str) -> None:
    answer = long_answer()
    assert len(answer.text.encode()) >= 60_000

    async def scene(simulation: Simulation) -> None:
        async with slack_streaming(simulation) as play:
            await play.send(answer, presentation)
            play.check_no_refusal()
            play.check_whole(answer)
            play.check_settled()
            assert len(play.messages()) <= 8
            streams = [call for call in play.slack.calls if call.method == "chat.startStream"]
            assert presentation != "native" or len(streams) >= 2

    run(scene, sockets=True)


@pytest.mark.parametrize("presentation", ["live", "native", "processing", "parts"])
def test_with_a_tenth_of_the_calls_failing_all_is_there_once(presentation: str) -> None:
    answer = long_answer()

    async def scene(simulation: Simulation) -> None:
        async with slack_streaming(simulation, seed=7) as play:
            source = simulation.source
            play.slack.add_faults(
                *(Rule(fault=fault, at=source.randrange(1, 100), times=2, chance=0.5) for fault in FAULTS),
                *(Rule(fault=fault, times=None, chance=0.1 / len(FAULTS)) for fault in FAULTS),
            )
            deliveries = await play.send(answer, presentation)
            assert any(call.fault for call in play.slack.calls)
            play.check_exactly_once(answer, deliveries)

    run(scene, seed=7, sockets=True)


@pytest.mark.parametrize("fault", [*FAULTS, Refuse(200, "msg_too_long")], ids=lambda fault: type(fault).__name__)
@pytest.mark.parametrize("presentation", ["live", "native"])
def test_each_fault_alone_in_a_third_of_the_calls(fault: Fault, presentation: str) -> None:
    answer = long_answer(150)

    async def scene(simulation: Simulation) -> None:
        async with slack_streaming(simulation, seed=5) as play:
            play.slack.add_faults(Rule(fault=fault, times=None, chance=1 / 3))
            deliveries = await play.send(answer, presentation, tokens_per_s=200)
            play.check_exactly_once(answer, deliveries)

    run(scene, sockets=True)


@pytest.mark.parametrize(
    ("method", "error"),
    [
        ("chat.startStream", "method_not_supported_for_channel_type"),
        ("chat.appendStream", "message_not_in_streaming_state"),
    ],
)
def test_an_answer_is_whole_if_a_method_for_streams_never_works(method: str, error: str) -> None:
    answer = long_answer(150)

    async def scene(simulation: Simulation) -> None:
        async with slack_streaming(simulation) as play:
            play.slack.add_faults(Rule(fault=Refuse(200, error), kind=method, times=None))
            await play.send(answer, "native")
            assert any(call.method == method for call in play.slack.calls)
            play.check_whole(answer)

    run(scene, sockets=True)


async def slow_answer(words: list[str]) -> AsyncIterator[Event]:
    """A word in each five seconds, while a tool runs all the time."""
    yield TurnStarted(turn_id="turn")
    yield ToolStarted(id="t", name="build")
    for word in words:
        yield TextDelta(text=f"{word} ")
        await asyncio.sleep(5)
    yield ToolFinished(id="t", result="built")
    yield TurnCompleted()


def test_a_stream_that_gets_too_old_is_continued_in_a_second_one() -> None:
    words = [f"word{number}" for number in range(120)]

    async def scene(simulation: Simulation) -> None:
        async with slack_streaming(simulation) as play:
            turn = await play.courier.begin("turn", play.target)
            settings = ProjectorSettings(presentation="native")
            await present(slow_answer(words), turn, play.courier.capabilities(play.target), settings, clock=play.clock)
            play.check_no_refusal()
            play.check_settled()
            messages = play.messages()
            assert len(messages) == 3
            assert " ".join(message.text for message in messages).split() == words
            assert {status for message in messages for _, status in message.tasks} == {"complete"}

    run(scene, sockets=True)


def test_an_answer_is_whole_if_its_streams_end_too_early() -> None:
    answer = long_answer()

    async def scene(simulation: Simulation) -> None:
        async with slack_streaming(simulation, replace(STRICT, stream_lifetime_s=60.0)) as play:
            await play.send(answer, "native")
            assert sum(call.rule == "not_streaming" for call in play.slack.calls) >= 2
            play.check_whole(answer)

    run(scene, sockets=True)
