"""Order, pace, routing, silence and stops: failures reported elsewhere, checked on every chat platform."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest
from scar_chat import (
    ANSWER,
    BASH,
    CHATS,
    GROUP,
    HERE,
    PARAGRAPHS,
    SAMPLES,
    THREAD,
    TOOL,
    Chat,
    Script,
    cases,
    chats,
    in_chat,
    limits_of,
    pieces,
    present_turn,
    presented,
)

from tailrace.capabilities import Capabilities
from tailrace.deliveries import TurnState
from tailrace.events import BlockFinal, Error, Media, ToolFinished, ToolOutput, ToolStarted, TurnCancelled, TurnFailed
from tailrace.operations import Target
from tailrace.projector import Presentation
from tailrace.testing.faults import Delayed, Fault, NoAnswer, Refuse, Rule, ServerError, TooMany, Unreachable

SLOW = [Delayed(by_s=9.0), TooMany(7.0), ServerError(), Unreachable()]


@pytest.mark.parametrize(("channel", "fault"), cases(CHATS, SLOW))
def test_scar_30_paragraphs_keep_their_order_when_one_takes_long(channel: str, fault: Fault) -> None:
    faults = [Rule(kind="post", fault=fault, at=at) for at in (1, 3)]
    chat = present_turn([ANSWER], limits_of(channel), faults=faults, presentation="blocks", block_characters=10)
    assert chat.platform.script.unspent == ()
    assert chat.texts == PARAGRAPHS


@presented()
def test_scar_30_text_media_and_errors_keep_their_order(channel: str, presentation: Presentation) -> None:
    script: Script = [
        "I take a picture of it first.",
        *TOOL,
        Media(url="https://a.example/one.png"),
        "That is the picture. Now the other one.",
        Media(url="https://a.example/two.png"),
        Error(message="the camera broke"),
        "Done.",
        TurnFailed(message="the end"),
    ]
    chat = present_turn(script, limits_of(channel), target=THREAD, presentation=presentation)
    assert [message.media or message.text for message in chat.messages if "🔧" not in message.text] == [
        "I take a picture of it first.",
        "https://a.example/one.png",
        "That is the picture. Now the other one.",
        "https://a.example/two.png",
        "⚠️ the camera broke",
        "Done.",
        "⚠️ the end",
    ]


@presented("live", "native", "processing", "blocks")
def test_scar_30_text_before_a_tool_is_shown_before_the_tool_is_done(channel: str, presentation: Presentation) -> None:
    tool: Script = [ToolStarted(id="1", name="bash"), 30.0, ToolFinished(id="1")]
    script: Script = ["Let me look.", BlockFinal(), *tool, "Done."]
    chat = present_turn(script, limits_of(channel), target=THREAD, presentation=presentation)
    assert any("Let me look." in text for text in chat.platform.seen("here", 10.0))


LONG: Script = [ANSWER, *TOOL, 20.0, ANSWER, "\n\n", 40.0, ANSWER]


@chats
@pytest.mark.parametrize("target", [HERE, GROUP], ids=["private", "group"])
def test_scar_31_interval_between_edits_holds_until_the_end(channel: str, target: Target) -> None:
    chat = present_turn(LONG, limits_of(channel), target=target, length=2)
    rules = chat.limits.edits
    assert rules is not None
    every_s = rules.every_s_in_groups if target.group and rules.every_s_in_groups else rules.every_s
    edits = chat.call_times("edit")
    assert len(edits) > 4
    interim = edits[:-1]  # the last one waits only for the rate limit of the chat
    assert min(after - before for before, after in pairwise(interim)) >= every_s - 1e-6


@presented()
def test_scar_31_nothing_is_sent_once_the_turn_is_over(channel: str, presentation: Presentation) -> None:
    chat, ended = present_and_wait(LONG, limits_of(channel, limit=500), presentation)
    assert max(call.at for call in chat.platform.calls) <= ended


def present_and_wait(script: Script, limits: Capabilities, presentation: Presentation) -> tuple[Chat, float]:
    """The chat a while after a turn, and the time when the turn was over."""
    ended: list[float] = []

    async def main(chat: Chat) -> None:
        await chat.present(script, presentation=presentation)
        ended.append(chat.clock.monotonic())
        await asyncio.sleep(600.0)

    return in_chat(main, limits, target=THREAD), ended[0]


@chats
@pytest.mark.parametrize("kind", ["post", "edit"])
def test_scar_31_retry_after_holds_back_all_calls(channel: str, kind: str) -> None:
    chat = present_turn(LONG, limits_of(channel), faults=[Rule(kind=kind, fault=TooMany(30.0))])
    [refused] = [call.at for call in chat.platform.calls if call.fault]
    later = [call.at for call in chat.platform.calls if call.at > refused and call.kind != "typing"]
    assert min(later) >= refused + 30.0
    assert chat.answer_words == ANSWER.split() * 3


@pytest.mark.parametrize(
    ("channel", "presentation", "length"),
    cases([shown for shown in SAMPLES if shown[1] in ("live", "native", "processing")], [1, 2, 5, 1]),
)
def test_scar_32_no_notification_shows_two_letters(channel: str, presentation: Presentation, length: int) -> None:
    chat = present_turn([ANSWER], limits_of(channel), target=THREAD, length=length, presentation=presentation)
    for message in chat.history:
        first = chat.platform.versions(message.message_id)[0].message
        assert len(first.text) >= 30


UNSENT = [ServerError(), NoAnswer(applied=False), Refuse(400, "no")]


@pytest.mark.parametrize(("channel", "presentation", "fault"), cases([*SAMPLES, *SAMPLES[1:]], UNSENT))
def test_scar_33_retry_and_restart_keep_the_thread(channel: str, presentation: Presentation, fault: Fault) -> None:
    script: Script = [ANSWER, Media(url="https://a.example/one.png"), Error(message="a hiccup"), ANSWER]

    async def main(chat: Chat) -> None:
        chat.fail(*(Rule(kind=kind, fault=fault) for kind in ("post", "open_stream", "post_media")))
        await chat.present_until(9.0, script, presentation=presentation)
        await chat.recover()

    chat = in_chat(main, limits_of(channel, limit=500), target=THREAD)
    assert {message.thread for message in chat.history} == {"thread"}


# The samples, and the channels that are no chat platforms.
EVERYWHERE = (*SAMPLES, ("terminal", "tokens"), ("web", "tokens"), ("telegram_rich", "live"))


@pytest.mark.parametrize(("channel", "presentation"), EVERYWHERE)
@pytest.mark.parametrize("text", ["NO_REPLY", ANSWER], ids=["silent", "answer"])
def test_scar_34_typing_ends_with_the_turn(channel: str, presentation: Presentation, text: str) -> None:
    chat, ended = present_and_wait([20.0, text], limits_of(channel), presentation)
    assert all(at <= ended for at in chat.call_times("typing"))
    if chat.limits.typing_s is not None:
        assert chat.call_times("typing"), "it is shown while people see nothing else"


def stop_turn(
    script: Script, limits: Capabilities, *faults: Rule, target: Target = HERE, **settings: Any
) -> tuple[Chat, list[str], float]:
    """Cancel a turn behind its script. Returns the chat, the messages posted after that, and the seconds to its end."""
    times: list[float] = []

    async def main(chat: Chat) -> None:
        chat.fail(*faults)
        turn = asyncio.create_task(chat.present([*script, TurnCancelled(reason="enough")], **settings))
        await asyncio.sleep(length_of(script))
        times.append(chat.clock.monotonic())
        await turn
        times.append(chat.clock.monotonic())
        assert await chat.turn_state() is TurnState.CANCELLED

    chat = in_chat(main, limits, target=target)
    return chat, posted_after(chat, times[0]), times[1] - times[0]


def length_of(script: Script) -> float:
    """The duration of the script in seconds."""
    texts = sum(0.03 * len(pieces(line)) for line in script if isinstance(line, str))
    return texts + sum(line for line in script if isinstance(line, int | float))


def posted_after(chat: Chat, at: float) -> list[str]:
    return [message.text for message in chat.history if message.at > at]


HALF = ANSWER[:500]


@chats
@pytest.mark.parametrize(("kind", "pause_s"), [("post", 0.0), ("edit", 3.0)])
def test_scar_35_stop_during_a_call_posts_nothing_new(channel: str, kind: str, pause_s: float) -> None:
    chat, posted, took = stop_turn([HALF, pause_s], limits_of(channel), Rule(kind=kind, fault=Delayed(by_s=4.5)))
    begun = next(call.at for call in chat.platform.calls if call.fault)
    assert begun < length_of([HALF, pause_s]) < begun + 4.5
    assert posted == []
    assert chat.texts == [HALF]
    assert took < 6.0


# The script before the stop, the faults of its calls, and the settings.
STOPS: dict[str, tuple[Script, list[Rule], dict[str, Any]]] = {
    "between two calls": ([HALF], [], {}),
    "a live edit waits": ([HALF], [Rule(kind="edit", fault=TooMany(30.0))], {"presentation": "live"}),
    "a first message waits": ([HALF], [Rule(kind=kind, fault=TooMany(30.0)) for kind in ("post", "open_stream")], {}),
    "before the first word": ([BASH, 3.0], [], {}),
    "in a human delay": ([ANSWER], [], {"presentation": "blocks", "block_characters": 10, "human_delay_s": 10.0}),
}


@presented()
@pytest.mark.parametrize("name", STOPS)
def test_scar_35_stop_at_any_time_posts_nothing_new(channel: str, presentation: Presentation, name: str) -> None:
    script, faults, settings = STOPS[name]
    settings = {"presentation": presentation, **settings}
    chat, posted, took = stop_turn(script, limits_of(channel), *faults, target=THREAD, **settings)
    assert posted == []
    assert name != "in a human delay" or chat.texts == PARAGRAPHS[:1]
    assert ANSWER.startswith("".join(chat.texts).partition("🔧")[0])
    assert not any("⏳" in text for text in chat.texts)
    assert took < 36.0 if name == "a live edit waits" else took < 6.0


FAULTS = [Refuse(400, "no"), NoAnswer(), NoAnswer(applied=False), ServerError(), TooMany(9.0)]


@pytest.mark.parametrize(("channel", "fault"), cases(CHATS, FAULTS))
@pytest.mark.parametrize("kind", ["edit", "delete"])
def test_scar_35_failing_last_call_after_a_stop_does_no_harm(channel: str, kind: str, fault: Fault) -> None:
    async def main(chat: Chat) -> None:
        script: Script = [HALF if kind == "edit" else BASH, 6.0, TurnCancelled(reason="enough")]
        turn = asyncio.create_task(chat.present(script))
        await asyncio.sleep(length_of(script) - 0.2)
        assert chat.texts
        chat.fail(Rule(kind=kind, fault=fault))
        await turn
        assert chat.platform.script.unspent == ()

    assert posted_after(in_chat(main, limits_of(channel)), length_of([HALF, 6.0])) == []


@chats
def test_scar_35_late_tool_output_is_not_shown_after_a_stop(channel: str) -> None:
    late: Script = [TurnCancelled(reason="enough"), 2.0, ToolOutput(data="late", id="1"), ToolFinished(id="1")]
    assert present_turn([HALF, BASH, 3.0, *late], limits_of(channel)).texts == [HALF]
