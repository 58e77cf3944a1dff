"""Order, pace, notifications and routing: failures reported elsewhere, checked on every chat platform."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest
from scar_chat import (
    ANSWER,
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
    present_turn,
    presented,
)

from tailrace.events import BlockFinal, Error, Media, ToolFinished, ToolOutput, ToolProgress, ToolStarted, TurnFailed
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
    ended: list[float] = []

    async def main(chat: Chat) -> None:
        await chat.present(LONG, presentation=presentation)
        ended.append(chat.clock.monotonic())
        await asyncio.sleep(600.0)

    chat = in_chat(main, limits_of(channel, limit=500), target=THREAD)
    assert max(call.at for call in chat.platform.calls) <= ended[0]


@chats
@pytest.mark.parametrize("kind", ["post", "edit"])
def test_scar_31_retry_after_holds_back_all_calls(channel: str, kind: str) -> None:
    chat = present_turn(LONG, limits_of(channel), faults=[Rule(kind=kind, fault=TooMany(30.0))])
    [refused] = [call.at for call in chat.platform.calls if call.fault]
    later = [call.at for call in chat.platform.calls if call.at > refused and call.kind != "typing"]
    assert min(later) >= refused + 30.0
    assert chat.answer_words == ANSWER.split() * 3


@chats
def test_scar_31_sends_and_edits_share_one_rate_limit(channel: str) -> None:
    async def main(chat: Chat) -> None:
        await asyncio.gather(*(chat.present([ANSWER], turn_id=str(number)) for number in range(3)))

    chat = in_chat(main, limits_of(channel))  # the platform would complain about a call that is too early
    assert chat.platform.counts["edit"] > 3
    assert sorted(chat.answer_words) == sorted(ANSWER.split() * 3)


@pytest.mark.parametrize(
    ("channel", "presentation", "length"),
    cases([shown for shown in SAMPLES if shown[1] in ("live", "native", "processing")], [1, 2, 5, 1]),
)
def test_scar_32_no_notification_shows_two_letters(channel: str, presentation: Presentation, length: int) -> None:
    chat = present_turn([ANSWER], limits_of(channel), target=THREAD, length=length, presentation=presentation)
    for message in chat.history:
        first = chat.platform.versions(message.message_id)[0].message
        assert len(first.text) >= 30


@pytest.mark.parametrize(("channel", "pause_s"), cases(CHATS, [1.0, 1.4]))
def test_scar_32_no_notification_shows_two_letters_of_a_slow_agent(channel: str, pause_s: float) -> None:
    chat = present_turn(["No", pause_s, ", that is not how it works. ", ANSWER], limits_of(channel))
    first = chat.platform.versions(chat.history[0].message_id)[0].message
    assert len(first.text) >= 26


@chats
def test_scar_32_answer_behind_a_processing_message_notifies(channel: str) -> None:
    script: Script = [*TOOL, 9.0, "Here is the answer to what you asked."]
    chat = present_turn(script, limits_of(channel), presentation="processing")
    assert chat.texts[0].startswith("🔧 bash: ls ✓")
    assert chat.texts[1:] == ["Here is the answer to what you asked."]
    assert chat.messages[-1].edits == 0


SECRET = "the secret of the company"


@pytest.mark.parametrize(("channel", "presentation", "target"), cases(SAMPLES, [GROUP, THREAD]))
def test_scar_33_output_of_a_tool_is_never_shown(channel: str, presentation: Presentation, target: Target) -> None:
    script: Script = [
        "Let me look at that for you now.",
        ToolStarted(id="1", name="bash", arguments={"command": "cat notes.txt"}),
        2.0,
        ToolOutput(data=SECRET, id="1"),
        ToolProgress(id="1", elapsed_s=2.0),
        6.0,
        ToolFinished(id="1", result=SECRET),
        ToolStarted(id="2", name="bash", arguments={"command": "ls"}),
        2.0,
        ToolFinished(id="2", result={"error": SECRET}, is_error=True),
        3.0,
        "That was all.",
    ]
    chat = present_turn(script, limits_of(channel), target=target, presentation=presentation)
    assert chat.answer_words == ["Let", "me", "look", "at", "that", "for", "you", "now.", "That", "was", "all."]
    assert not any(SECRET in seen for seen in chat.ever_shown())


UNSENT = [ServerError(), NoAnswer(applied=False), Refuse(400, "no")]


@pytest.mark.parametrize(("channel", "presentation", "fault"), cases([*SAMPLES, *SAMPLES[1:]], UNSENT))
def test_scar_33_retry_and_restart_keep_the_thread(channel: str, presentation: Presentation, fault: Fault) -> None:
    script: Script = [ANSWER, Media(url="https://a.example/one.png"), Error(message="a hiccup"), ANSWER]

    async def main(chat: Chat) -> None:
        chat.fail(*(Rule(kind=kind, fault=fault) for kind in ("post", "open_stream", "post_media")))
        turn = asyncio.create_task(chat.present(script, presentation=presentation))
        await asyncio.sleep(9.0)
        turn.cancel()
        await chat.crash()
        await chat.recover()

    chat = in_chat(main, limits_of(channel, limit=500), target=THREAD)
    assert {message.thread for message in chat.history} == {"thread"}
