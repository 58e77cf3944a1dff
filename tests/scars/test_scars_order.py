"""Order, pace and noise: what annoyed people elsewhere, shown not to happen on any chat platform."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest
from chat_room import CHATS, GROUP, HERE, PRESENTATIONS, THREAD, ChatRoom, Script, carried, in_a_room, limits_of

from tailrace.events import (
    BlockFinal,
    Error,
    Media,
    ToolFinished,
    ToolOutput,
    ToolProgress,
    ToolStarted,
    TurnFailed,
)
from tailrace.operations import Target
from tailrace.projector import Presentation
from tailrace.testing.faults import Delayed, Fault, NoAnswer, Refuse, Rule, ServerError, TooMany, Unreachable

chats = pytest.mark.parametrize("channel", CHATS)
presented = pytest.mark.parametrize("presentation", PRESENTATIONS)

SENTENCES = [f"Sentence {number} of the answer says a thing of its own." for number in range(24)]
PARAGRAPHS = [" ".join(SENTENCES[at : at + 3]) for at in range(0, 24, 3)]
ANSWER = "\n\n".join(PARAGRAPHS)
TOOL: Script = [ToolStarted(id="1", name="bash", arguments={"command": "ls"}), 1.0, ToolFinished(id="1", result="x")]


@chats
@pytest.mark.parametrize("fault", [Delayed(by_s=9.0), TooMany(7.0), ServerError(), Unreachable()])
def test_scar_30_paragraphs_keep_their_order_however_long_one_of_them_takes(channel: str, fault: Fault) -> None:
    faults = [Rule(kind="post", fault=fault, at=at) for at in (1, 3)]
    room = carried([ANSWER], limits_of(channel), faults=faults, presentation="blocks", block_characters=10)
    assert room.platform.script.unspent == ()
    assert room.texts == PARAGRAPHS


@chats
@presented
def test_scar_30_text_pictures_errors_and_the_end_come_in_the_order_they_happened(
    channel: str, presentation: Presentation
) -> None:
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
    room = carried(script, limits_of(channel), target=THREAD, presentation=presentation)
    shown = [message.media or message.text for message in room.messages if "🔧" not in message.text]
    assert shown == [
        "I take a picture of it first.",
        "https://a.example/one.png",
        "That is the picture. Now the other one.",
        "https://a.example/two.png",
        "⚠️ the camera broke",
        "Done.",
        "⚠️ the end",
    ]


@chats
@pytest.mark.parametrize("presentation", ["live", "native", "processing", "blocks"])
def test_scar_30_what_was_said_before_a_tool_is_seen_before_the_tool_is_done(
    channel: str, presentation: Presentation
) -> None:
    script: Script = [
        "Let me look.",
        BlockFinal(),
        ToolStarted(id="1", name="bash"),
        30.0,
        ToolFinished(id="1"),
        "Done.",
    ]
    room = carried(script, limits_of(channel), target=THREAD, presentation=presentation)
    assert any("Let me look." in text for text in room.platform.seen("here", 10.0))


LONG: Script = [ANSWER, *TOOL, 20.0, ANSWER, "\n\n", 40.0, ANSWER]


@chats
@pytest.mark.parametrize("target", [HERE, GROUP], ids=["alone", "group"])
def test_scar_31_the_interval_between_edits_applies_to_the_end(channel: str, target: Target) -> None:
    room = carried(LONG, limits_of(channel), target=target, length=2)
    rules = room.limits.edits
    assert rules is not None
    every_s = rules.every_s_in_groups if target.group and rules.every_s_in_groups else rules.every_s
    edits = room.times("edit")
    assert len(edits) > 4
    in_between = edits[:-1]  # the last one waits for the chat's budget alone
    assert min(after - before for before, after in pairwise(in_between)) >= every_s - 1e-6


@chats
@presented
def test_scar_31_nothing_is_shown_any_more_once_the_turn_is_over(channel: str, presentation: Presentation) -> None:
    ended: list[float] = []

    async def main(room: ChatRoom) -> None:
        await room.carry(LONG, presentation=presentation)
        ended.append(room.clock.monotonic())
        await asyncio.sleep(600.0)

    room = in_a_room(main, limits_of(channel, limit=500), target=THREAD)
    assert max(call.at for call in room.platform.calls) <= ended[0]


@chats
@pytest.mark.parametrize("kind", ["post", "edit"])
def test_scar_31_how_long_a_platform_asked_to_wait_is_obeyed_by_all_calls(channel: str, kind: str) -> None:
    room = carried(LONG, limits_of(channel), faults=[Rule(kind=kind, fault=TooMany(30.0))])
    [asked] = [call.at for call in room.platform.calls if call.fault]
    later = [call.at for call in room.platform.calls if call.at > asked and call.kind != "typing"]
    assert min(later) >= asked + 30.0
    assert room.said == ANSWER.split() * 3


@chats
def test_scar_31_sends_and_edits_share_one_budget(channel: str) -> None:
    async def main(room: ChatRoom) -> None:
        turns = (room.carry([ANSWER], turn_id=str(number)) for number in range(3))
        await asyncio.gather(*turns)

    room = in_a_room(main, limits_of(channel))  # where the platform would complain of a call too early
    assert room.platform.counts["edit"] > 3
    assert sorted(room.said) == sorted(ANSWER.split() * 3)


@chats
@pytest.mark.parametrize("presentation", ["live", "native", "processing"])
@pytest.mark.parametrize("length", [1, 2, 5])
def test_scar_32_nobody_is_notified_of_two_letters(channel: str, presentation: Presentation, length: int) -> None:
    room = carried([ANSWER], limits_of(channel), target=THREAD, length=length, presentation=presentation)
    for message in room.history:
        first = room.platform.versions(message.message_id)[0].message
        assert len(first.text) >= 30


@chats
@pytest.mark.parametrize("pause_s", [1.0, 1.4])
def test_scar_32_nobody_is_notified_of_two_letters_of_an_agent_that_hesitates(channel: str, pause_s: float) -> None:
    room = carried(["No", pause_s, ", that is not how it works. ", ANSWER], limits_of(channel))
    first = room.platform.versions(room.history[0].message_id)[0].message
    assert len(first.text) >= 26


@chats
def test_scar_32_the_answer_behind_a_processing_message_is_a_message_that_notifies(channel: str) -> None:
    script: Script = [*TOOL, 9.0, "Here is the answer to what you asked."]
    room = carried(script, limits_of(channel), presentation="processing")
    assert room.texts[0].startswith("🔧 bash: ls ✓")
    assert room.texts[1:] == ["Here is the answer to what you asked."]
    assert room.messages[-1].edits == 0


SECRET = "the secret of the house"


@chats
@presented
@pytest.mark.parametrize("target", [GROUP, THREAD], ids=["group", "thread"])
def test_scar_33_what_a_tool_prints_is_never_seen(channel: str, presentation: Presentation, target: Target) -> None:
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
    room = carried(script, limits_of(channel), target=target, presentation=presentation)
    assert room.said == ["Let", "me", "look", "at", "that", "for", "you", "now.", "That", "was", "all."]
    assert not any(SECRET in seen for seen in room.ever_seen())


@chats
@presented
@pytest.mark.parametrize("fault", [ServerError(), NoAnswer(applied=False), Refuse(400, "no")])
def test_scar_33_nothing_lands_in_another_thread_after_a_retry_or_a_crash(
    channel: str, presentation: Presentation, fault: Fault
) -> None:
    script: Script = [ANSWER, Media(url="https://a.example/one.png"), Error(message="a hiccup"), ANSWER]

    async def main(room: ChatRoom) -> None:
        room.fail(*(Rule(kind=kind, fault=fault) for kind in ("post", "open_stream", "post_media")))
        going_on = asyncio.create_task(room.carry(script, presentation=presentation))
        await asyncio.sleep(9.0)
        going_on.cancel()
        await room.crash()
        await room.recover()

    room = in_a_room(main, limits_of(channel, limit=500), target=THREAD)
    assert {message.thread for message in room.history} == {"thread"}


@pytest.mark.parametrize("fault", [Refuse(400, "no streams here"), Refuse(404, "unknown method")])
def test_scar_33_a_native_stream_that_is_rejected_becomes_a_message(fault: Fault) -> None:
    limits = limits_of("slack", presentation="native")
    room = carried([ANSWER], limits, target=THREAD, faults=[Rule(kind="open_stream", fault=fault, times=None)])
    assert room.platform.counts["open_stream"] == 1
    [message] = room.messages
    assert message.text == ANSWER


def test_scar_33_a_draft_that_is_rejected_becomes_a_message() -> None:
    limits = limits_of("telegram", presentation="native")
    room = carried([ANSWER], limits, faults=[Rule(kind="draft", fault=Refuse(400, "no drafts"), times=None)])
    [message] = room.messages
    assert message.text == ANSWER
    assert message.edits > 2
