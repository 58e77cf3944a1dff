"""A thousand chats at once on one bot: fair, inside the overall limit, with flat memory, and stopped in time."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from typing import TYPE_CHECKING

from streaming_setup import Streaming, streaming

from tailrace.deliveries import OPEN, Query
from tailrace.delivery.presenting import present
from tailrace.events import TextDelta, TurnCompleted, TurnStarted
from tailrace.operations import Target
from tailrace.projector import ProjectorSettings
from tailrace.testing.platforms.telegram.world import TelegramUser
from tailrace.testing.virtual_time import run

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tailrace.events import Event
    from tailrace.testing.virtual_time import Simulation

CHATS = 1000
GREEDY = 20
PER_S = 30
WORDS = [f"word{number}" for number in range(12)]
_OWN = ("tailrace.delivery", "tailrace.channels", "tailrace.projector", "tailrace.markdown")


async def answer(name: str, words: list[str]) -> AsyncIterator[Event]:
    """An answer of some words, one in each half second."""
    yield TurnStarted(turn_id=name)
    for word in words:
        yield TextDelta(text=f"{word} for {name} ")
        await asyncio.sleep(0.5)
    yield TurnCompleted()


async def talk(play: Streaming, chat: str, name: str, words: list[str]) -> None:
    target = Target(channel="telegram", chat=chat)
    turn = await play.courier.begin(name, target)
    settings = ProjectorSettings(presentation="live")
    await present(answer(name, words), turn, play.courier.capabilities(target), settings, clock=play.clock)


def add_chats(play: Streaming, first: int, count: int = CHATS) -> list[str]:
    for number in range(first, first + count):
        play.telegram.world.add_chat(number, "private", "Person", TelegramUser(number, "Person"))
    return [str(number) for number in range(first, first + count)]


async def talk_to_all(play: Streaming, chats: list[str]) -> None:
    """A short answer to each chat at once; the first ones get one that is much longer."""
    longer = WORDS * 12
    await asyncio.gather(
        *(talk(play, chat, f"turn{chat}", longer if place < GREEDY else WORDS) for place, chat in enumerate(chats))
    )


def own_objects() -> int:
    """How many objects of the delivery there are."""
    gc.collect()
    return sum(type(each).__module__.startswith(_OWN) for each in gc.get_objects())


def test_a_thousand_chats_at_once() -> None:
    async def scene(simulation: Simulation) -> None:
        async with streaming(simulation) as play:
            began = simulation.clock.wall()
            chats = add_chats(play, 10_000)
            await talk_to_all(play, chats)
            play.check_no_refusal()
            for place, chat in enumerate(chats):
                words = WORDS * 12 if place < GREEDY else WORDS
                assert "".join(play.telegram.texts(int(chat))).split() == [
                    part for word in words for part in (word, "for", f"turn{chat}")
                ]
            check_rate([call.at for call in play.calls()])
            check_fair(play, chats, began)
            after_first = own_objects()
            await talk_to_all(play, add_chats(play, 20_000, CHATS // 4))
            assert own_objects() <= after_first * 1.1 + 100

    run(scene, sockets=True)


def check_rate(times: list[float]) -> None:
    """No second has more than 30 calls. The simulator checks this too; here are all calls, also those to it."""
    for first, one_too_many in zip(times, times[PER_S:], strict=False):
        assert one_too_many - first >= 1.0 - 0.002


def check_fair(play: Streaming, chats: list[str], began: float) -> None:
    """All people see the first words as soon as the pace of the bot allows, and none gets more calls than another."""
    first = {chat: min(call.at for call in play.calls("sendMessage") if call.chat == chat) - began for chat in chats}
    assert max(first.values()) <= 1.2 * CHATS / PER_S, "some capacity is for the final texts of others"
    calls = Counter(call.chat for call in play.calls())
    short = [calls[chat] for chat in chats[GREEDY:]]
    assert max(short) <= 2 + min(short)
    ended = {chat: max(call.at for call in play.calls() if call.chat == chat) - began for chat in chats[GREEDY:]}
    assert max(ended.values()) <= 2.3 * CHATS / PER_S, "a post and a final edit for each"


def test_the_bot_stops_in_time_while_a_thousand_chats_get_answers() -> None:
    async def scene(simulation: Simulation) -> None:
        async with streaming(simulation) as play:
            talking = [asyncio.create_task(talk(play, chat, f"turn{chat}", WORDS)) for chat in add_chats(play, 10_000)]
            await asyncio.sleep(5.0)
            began, sent = simulation.clock.monotonic(), len(play.calls())
            await play.courier.drain(10.0)
            assert simulation.clock.monotonic() - began <= 1.0, "the platform answers at once"
            assert len(play.calls()) <= sent + 1
            for task in talking:
                task.cancel()
            await asyncio.gather(*talking, return_exceptions=True)
            left = await play.courier.ledger.find(Query(states=OPEN), limit=2 * CHATS)
            shown = sum(bool(play.telegram.texts(int(f"{10_000 + number}"))) for number in range(CHATS))
            assert len(left) + shown >= CHATS * 0.9, "what was not sent is recorded"

    run(scene, sockets=True)
