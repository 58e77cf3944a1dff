"""The laws of the projector under random runs: a share here, a hundred thousand by `random_turns.projection`."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from random_turns.projection import account_of
from random_turns.stage import perform
from random_turns.stage_account import WORD, Account, visible
from random_turns.stage_chat import Chat
from random_turns.stage_scenes import PRESENTATIONS, Weather, scene_of
from random_turns.stage_turns import Speech
from random_turns.stage_verdict import verdict
from tailrace.capabilities import CHANNELS, DISCORD, MATRIX, SLACK, TELEGRAM, TERMINAL, Capabilities
from tailrace.events import BlockFinal, Error, TextDelta, TurnCompleted, TurnStarted
from tailrace.markdown.dialects import RENDERERS, Renderer
from tailrace.operations import Body, Delivered, Post, Receipt, Target, Typing
from tailrace.projector import Idle, Projector, ProjectorSettings, WaitUntil

if TYPE_CHECKING:
    from collections.abc import Iterator

    from random_turns.stage import Performance
    from tailrace.events import Event

RUNS = 10  # of each presentation on each channel
HERE = Target(channel="here", chat="1")


@pytest.mark.parametrize("channel", CHANNELS)
@pytest.mark.parametrize("presentation", PRESENTATIONS)
def test_random_turns_keep_the_laws_whatever_happens(presentation: str, channel: str) -> None:
    for seed in range(RUNS):
        performance = perform(seed, presentation, channel)
        if breaches := verdict(performance):
            pytest.fail("\n".join(account_of(performance, breaches)))


def calm(presentation: str, channel: str) -> Performance:
    """The first run there in which nothing goes wrong, and whose turn says some text in several messages."""
    for seed in range(1000):
        scene = scene_of(seed, presentation, channel)
        if scene.weather != Weather(latency_s=scene.weather.latency_s):
            continue
        performance = perform(seed, presentation, channel)
        texts = [message.text for message in performance.chat.seen]
        if len(texts) > 2 and all(WORD.search(text) for text in texts):
            assert verdict(performance) == []
            return performance
    raise AssertionError("no such run")


def test_a_lost_message_is_found() -> None:
    performance = calm("final", "discord")
    performance.chat.seen[1].is_there = False
    assert verdict(performance)[0].startswith("lost")


def test_a_message_that_says_something_twice_is_found() -> None:
    performance = calm("final", "discord")
    performance.chat.seen[1].text += performance.chat.seen[0].text
    assert verdict(performance)[0].startswith("said twice")


def test_messages_out_of_order_are_found() -> None:
    performance = calm("final", "discord")
    first, second, *_ = performance.chat.seen
    first.text, second.text = second.text, first.text
    assert verdict(performance)[0].startswith("out of order")


def test_what_was_taken_back_and_stands_all_the_same_is_found() -> None:
    performance = calm("final", "discord")
    performance.chat.seen[0].text += " w999999z"
    assert verdict(performance)[0].startswith("never said")


def test_a_message_that_differs_in_a_single_mark_is_found() -> None:
    performance = calm("final", "discord")
    performance.chat.seen[0].text += "."
    assert verdict(performance)[0].startswith("the messages are")


def test_the_stage_complains_about_a_message_that_is_too_long() -> None:
    chat = Chat(HERE, TELEGRAM)
    chat.take(Post(target=HERE, body=Body(text="x" * 4096)))
    assert chat.complaints == []
    chat.take(Post(target=HERE, body=Body(text="x" * 4097)))
    assert "4097" in chat.complaints[0]


def test_the_same_seed_is_the_same_run() -> None:
    first, second = perform(3), perform(3)
    assert first.moments == second.moments
    scene = scene_of(3)
    assert scene_of(3, scene.presentation, scene.channel) == scene


def test_runs_meet_everything_that_can_go_wrong() -> None:
    performances = [perform(seed) for seed in range(60)]
    met = {name for performance in performances for name, count in performance.trouble.counts.items() if count}
    assert met == {"operations", "refused", "not_now", "ambiguous"}
    assert max(performance.lives for performance in performances) > 2
    assert any(performance.trouble.orphans for performance in performances)


def test_the_account_reads_thoughts_silence_and_open_code() -> None:
    assert visible("<think>s1z</think>\n\nw2z") == "w2z"
    assert visible("w1z\n<think>s2") == "w1z\n"
    assert visible("w1z\n</think>\nw2z") == "w2z"
    assert visible("w1z\nNO_REPLY") == "w1z\n"
    account = Account()
    for event in (TextDelta(text="```\nw1z"), BlockFinal(), TextDelta(text="w2z"), Error(message="e3z")):
        account.feed(event)
    assert [item.text for item in account.items] == ["```\nw1z\n```\n\nw2z", "⚠️ e3z"]
    assert account.words == ["w1z", "w2z", "e3z"]


def pieces_of(text: str, cuts: list[int]) -> list[str]:
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    return [text[start:end] for start, end in pairwise(places)]


def finished(events: list[Event], limits: Capabilities, presentation: str) -> list[Body]:
    """What the messages say in the end, on a platform that answers at once."""
    projector = Projector(HERE, limits, ProjectorSettings(presentation=presentation))  # type: ignore[arg-type]
    chat: dict[str, Body] = {}
    now = 0.0
    for event in [*events, None]:
        now += 0.7
        if event is None:
            projector.close(now)
        else:
            projector.feed(event, now)
        while not isinstance(step := projector.next(now), WaitUntil | Idle):
            message_id = getattr(step, "message_id", None) or str(len(chat) + 1)
            if not isinstance(step, Typing):
                chat[message_id] = step.body  # type: ignore[union-attr]  # posts and edits have one
            projector.receipt(step, Delivered(Receipt(message_id=message_id)), now)
    assert projector.is_finished
    return list(chat.values())


@pytest.mark.parametrize("presentation", ["final", "live"])
@pytest.mark.parametrize("limits", [TELEGRAM, SLACK, DISCORD, MATRIX], ids=lambda limits: limits.dialect)
@settings(max_examples=12)
@given(seed=st.integers(0, 2**32), cuts=st.lists(st.integers(0, 1000), max_size=20))
def test_messages_are_the_same_however_the_text_came(
    limits: Capabilities, presentation: str, seed: int, cuts: list[int]
) -> None:
    small = replace(limits, limit=200, lines=None)
    text = Speech(Random(seed)).markdown()

    def events(pieces: list[str]) -> list[Event]:
        return [TurnStarted(), *(TextDelta(text=piece) for piece in pieces), TurnCompleted()]

    whole = finished(events([text]), small, presentation)
    assert [word for body in whole for word in WORD.findall(body.text)] == WORD.findall(text)
    assert finished(events(pieces_of(text, cuts)), small, presentation) == whole


@pytest.fixture
def rendered() -> Iterator[list[int]]:
    """The sizes of all texts that are rendered for the dialect `counted`."""
    sizes: list[int] = []

    def counted(source: str) -> Body:
        sizes.append(len(source))
        return Body(text=source)

    RENDERERS["counted"] = Renderer(counted)
    try:
        yield sizes
    finally:
        del RENDERERS["counted"]


def words(count: int) -> list[Event]:
    return [TextDelta(text=f"word{nth} " + "\n\n" * (nth % 40 == 39)) for nth in range(count)]


@pytest.mark.parametrize("presentation", ["live", "parts", "blocks", "final"])
def test_twice_the_text_costs_about_twice_the_rendering(presentation: str, rendered: list[int]) -> None:
    limits = replace(TELEGRAM, dialect="counted")
    costs = []
    for count in (2_000, 4_000, 8_000):
        rendered.clear()
        finished([TurnStarted(), *words(count), TurnCompleted()], limits, presentation)
        costs.append(sum(rendered))
    assert costs[2] < 2.6 * costs[1] < 2.6 * 2.6 * costs[0]


def test_a_stream_is_given_each_character_once() -> None:
    appended = 0
    projector = Projector(HERE, TERMINAL)
    for nth, event in enumerate([TurnStarted(), *words(3_000)]):
        projector.feed(event, nth / 100)
        while not isinstance(step := projector.next(nth / 100), WaitUntil | Idle):
            body = getattr(step, "body", None)
            appended += len(body.text) if body is not None else len(getattr(step, "text", ""))
            projector.receipt(step, Delivered(Receipt(message_id="1")), nth / 100)
    assert appended <= sum(len(event.text) for event in words(3_000) if isinstance(event, TextDelta))
