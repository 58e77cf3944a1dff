"""After a 429 no call of its scope comes before `retry_after` has passed, whether it concerns one chat or the bot."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace
from streaming_setup import STRICT, Streaming, streaming

from long_answer import long_answer
from tailrace.capabilities import Rate
from tailrace.operations import Target
from tailrace.testing.faults import Rule, TooMany
from tailrace.testing.platforms.telegram import FORUM
from tailrace.testing.platforms.telegram.world import TelegramUser
from tailrace.testing.virtual_time import run

if TYPE_CHECKING:
    from tailrace.testing.platforms.api_server import ApiCall
    from tailrace.testing.platforms.telegram import TelegramSettings
    from tailrace.testing.virtual_time import Simulation

CHATS = [str(5000 + number) for number in range(6)]
LIMITED_CALLS = [
    ("sendChatAction", 1),
    ("editMessageText", 1),
    ("editMessageText", 2),
    ("sendMessageDraft", 2),
    ("sendMessage", 2),
    ("sendMessage", 3),
]
RETRY_S = 9.0
SAME_LIMIT_S = 1.0
"""Telegram does not say what a 429 is for. Two chats within this time: it is for the whole bot."""


async def stream_to_all(play: Streaming, presentation: str = "live") -> None:
    """An answer of some messages to each of the chats at once."""
    for chat in CHATS:
        play.telegram.world.add_chat(int(chat), "private", "Person", TelegramUser(int(chat), "Person"))
    targets = [Target(channel="telegram", chat=chat) for chat in CHATS]
    answer = long_answer(100)
    await asyncio.gather(
        *(play.send(answer, presentation, target=target, turn_id=target.chat) for target in targets),
    )
    for target in targets:
        play.check_whole(answer, target)


def counted(calls: list[ApiCall]) -> list[ApiCall]:
    """The calls that concern a chat."""
    return [call for call in calls if call.chat]


def limited(calls: list[ApiCall]) -> list[ApiCall]:
    return [call for call in calls if call.status == 429]


def too_early(calls: list[ApiCall], refused: ApiCall, wait_s: float, *, in_chat: bool) -> list[ApiCall]:
    """The calls after this refusal that did not wait."""
    later = calls[calls.index(refused) + 1 :]
    # The calls of other chats that left in the same moment did not know of it.
    return [
        call
        for call in later
        if refused.at < call.at < refused.at + wait_s - 0.001 and (not in_chat or call.chat == refused.chat)
    ]


@pytest.mark.parametrize("presentation", ["live", "native", "processing", "parts"])
def test_a_chat_waits_as_long_as_it_was_asked_to(presentation: str) -> None:
    async def scene(simulation: Simulation) -> None:
        async with streaming(simulation) as play:
            chat = CHATS[0]
            play.telegram.add_faults(
                *(Rule(fault=TooMany(RETRY_S), kind=kind, chat=chat, at=at) for kind, at in LIMITED_CALLS)
            )
            await stream_to_all(play, presentation)
            calls = counted(play.telegram.calls)
            assert {call.chat for call in limited(calls)} == {chat}
            assert [early for call in limited(calls) if (early := too_early(calls, call, RETRY_S, in_chat=True))] == []
            assert too_early(calls, limited(calls)[0], RETRY_S, in_chat=False) != [], "the other chats need not wait"

    run(scene, sockets=True)


def test_all_topics_of_a_chat_wait() -> None:
    async def scene(simulation: Simulation) -> None:
        async with streaming(simulation) as play:
            topics = [Target(channel="telegram", chat=str(FORUM), thread=thread) for thread in ("4", "7")]
            play.telegram.add_faults(*(Rule(fault=TooMany(RETRY_S), chat=str(FORUM), at=at) for at in (3, 5)))
            await asyncio.gather(
                *(play.send(long_answer(100), target=topic, turn_id=str(topic.thread)) for topic in topics)
            )
            calls = counted(play.telegram.calls)
            assert len(limited(calls)) == 2
            assert [early for call in limited(calls) if (early := too_early(calls, call, RETRY_S, in_chat=True))] == []

    run(scene, sockets=True)


def test_all_chats_wait_if_the_limit_is_that_of_the_bot() -> None:
    async def scene(simulation: Simulation) -> None:
        async with streaming(simulation) as play:
            play.telegram.add_faults(
                *(Rule(fault=TooMany(RETRY_S), kind="sendMessage", at=at) for at in (3, 4)),
                *(Rule(fault=TooMany(RETRY_S), kind="editMessageText", at=at) for at in (10, 11)),
            )
            await stream_to_all(play)
            calls = counted(play.telegram.calls)
            first, second, third, fourth = limited(calls)
            for one, other in ((first, second), (third, fourth)):
                assert one.chat != other.chat
                assert other.at - one.at < SAME_LIMIT_S
                assert too_early(calls, one, RETRY_S, in_chat=True) == []
                assert too_early(calls, other, RETRY_S, in_chat=False) == []

    run(scene, sockets=True)


@pytest.mark.parametrize(
    "stricter",
    [
        replace(STRICT, per_chat=Rate(calls=1, per_s=3.0)),
        replace(STRICT, overall=Rate(calls=3, per_s=2.0)),
    ],
    ids=["chat", "bot"],
)
def test_a_platform_that_is_stricter_than_it_says(stricter: TelegramSettings) -> None:
    async def scene(simulation: Simulation) -> None:
        async with streaming(simulation, stricter) as play:
            await stream_to_all(play)
            calls = counted(play.telegram.calls)
            assert limited(calls)
            # Its shortest wait is a second.
            assert [early for call in limited(calls) if (early := too_early(calls, call, 1.0, in_chat=True))] == []

    run(scene, sockets=True)
