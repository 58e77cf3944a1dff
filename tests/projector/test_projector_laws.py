"""The laws of the projector under random runs: a share here, a hundred thousand by `random_turns.search`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from random_turns.expected import WORD, Account, visible
from random_turns.judge import verdict
from random_turns.scenes import PRESENTATIONS, Weather, scene_of
from random_turns.search import account_of
from random_turns.stage import perform
from random_turns.strict_platform import Chat
from tailrace.capabilities import CHANNELS, TELEGRAM
from tailrace.events import BlockFinal, Error, TextDelta
from tailrace.operations import Body, Post, Target

if TYPE_CHECKING:
    from random_turns.stage import Performance

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
