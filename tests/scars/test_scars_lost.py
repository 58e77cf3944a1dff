"""Nothing is lost, and nothing is lost in silence: how answers vanished elsewhere, shown not to happen."""

from __future__ import annotations

import asyncio
import re

import pytest
from chat_room import CHATS, HERE, PRESENTATIONS, THREAD, ChatRoom, Script, carried, in_a_room, limits_of

from tailrace.capabilities import Capabilities, StreamRules
from tailrace.deliveries import Delivery, State, TurnState
from tailrace.delivery.recovery import INTERRUPTED
from tailrace.events import Error, Media, ToolFinished, ToolProgress, ToolStarted, TurnFailed
from tailrace.operations import Edit, Post, Target
from tailrace.projector import Presentation
from tailrace.testing.faults import Cut, Fault, NoAnswer, Refuse, Reset, Rule, ServerError, TooMany, Unreachable

chats = pytest.mark.parametrize("channel", CHATS)
presented = pytest.mark.parametrize("presentation", PRESENTATIONS)

SENTENCES = [f"Sentence {number} of the answer says a thing of its own." for number in range(24)]
ANSWER = "\n\n".join(" ".join(SENTENCES[at : at + 3]) for at in range(0, 24, 3))
LATER = ANSWER.replace("Sentence ", "Sentence 1000")
TOOL: Script = [ToolStarted(id="1", name="bash", arguments={"command": "ls"}), 1.0, ToolFinished(id="1", result="x")]


def streaming() -> Capabilities:
    """Slack, as it is in a thread."""
    return limits_of("slack", presentation="native")


@chats
@presented
def test_scar_19_an_answer_that_was_being_written_when_the_process_died_does_not_vanish(
    channel: str, presentation: Presentation
) -> None:
    async def main(room: ChatRoom) -> None:
        going_on = asyncio.create_task(room.carry([ANSWER, 60.0], presentation=presentation))
        await asyncio.sleep(12.0)
        going_on.cancel()
        await room.crash()
        await room.recover()
        assert await room.state_of() is TurnState.INTERRUPTED

    room = in_a_room(main, limits_of(channel), target=THREAD)
    *said, last = room.texts
    assert " ".join(said).split() == ANSWER.split()
    assert last == INTERRUPTED


@chats
@presented
def test_scar_19_an_answer_that_was_complete_when_the_process_died_is_sent_whole(
    channel: str, presentation: Presentation
) -> None:
    async def main(room: ChatRoom) -> None:
        going_on = asyncio.create_task(room.carry([ANSWER], presentation=presentation))
        await asyncio.sleep(7.5)  # all of it is about to be said
        room.fail(Rule(fault=Unreachable(), times=None))
        await asyncio.sleep(30.0)
        going_on.cancel()
        await room.crash()
        room.platform.script.clear()
        await asyncio.sleep(60.0)
        await room.recover()
        assert await room.state_of() is TurnState.DONE

    room = in_a_room(main, limits_of(channel), target=THREAD)
    assert room.said == ANSWER.split()


def test_scar_19_what_is_said_while_the_platform_is_out_of_reach_does_not_vanish_with_the_process() -> None:
    async def main(room: ChatRoom) -> None:
        room.fail(Rule(fault=Unreachable(), times=None))
        going_on = asyncio.create_task(room.carry([ANSWER]))
        await asyncio.sleep(30.0)
        going_on.cancel()
        await room.crash()
        room.platform.script.clear()
        await asyncio.sleep(60.0)
        await room.recover()

    for channel in CHATS:
        room = in_a_room(main, limits_of(channel))
        assert " ".join(room.texts).replace(INTERRUPTED, "").split() == ANSWER.split()


@chats
@pytest.mark.parametrize("presentation", ["live", "native", "blocks", "final"])
def test_scar_20_on_a_flaky_host_every_answer_arrives_once_or_people_are_told(
    channel: str, presentation: Presentation
) -> None:
    async def main(room: ChatRoom) -> None:
        faults: list[Fault] = [NoAnswer(), NoAnswer(applied=False), Reset(), Cut(), ServerError(502), Unreachable()]
        room.fail(*(Rule(fault=fault, chance=0.04, times=None) for fault in faults))
        for number in range(12):
            turn = Target(channel="simulated", chat=f"chat {number}", thread="thread")
            room.target = turn
            deliveries = await room.carry([ANSWER], turn_id=str(number), presentation=presentation)
            await asyncio.sleep(60.0)
            missing = [delivery for delivery in deliveries if delivery.state is not State.DELIVERED]
            told = [text for text in room.texts if "may be missing" in text]
            assert bool(missing) == bool(told), "nothing is given up in silence, and nothing is told that is not so"
            if not missing:
                assert room.said == ANSWER.split()
            assert missing == [] or channel in ("telegram", "slack")

    in_a_room(main, limits_of(channel, limit=600))


@chats
@presented
@pytest.mark.parametrize("fault", [ServerError(), Unreachable(), TooMany(5.0), TooMany()])
def test_scar_21_what_comes_behind_a_part_that_failed_for_a_moment_is_not_dropped(
    channel: str, presentation: Presentation, fault: Fault
) -> None:
    faults = [Rule(kind="post", fault=fault, at=2, times=3), Rule(kind="open_stream", fault=fault, at=2)]
    limits = limits_of(channel, limit=300)
    room = carried([ANSWER], limits, target=THREAD, faults=faults, presentation=presentation)
    assert any(call.fault for call in room.platform.calls)
    assert room.said == ANSWER.split()


@chats
def test_scar_22_a_block_that_is_refused_suppresses_neither_the_next_one_nor_the_last(channel: str) -> None:
    faults = [Rule(kind="post", fault=Refuse(400, "not this one"), at=2)]
    room = carried([ANSWER], limits_of(channel), faults=faults, presentation="blocks", block_characters=10)
    first, _refused, *rest = ANSWER.split("\n\n")
    assert room.texts == [first, "⚠️ Part 2 of this answer is missing.", *rest]


@chats
@pytest.mark.parametrize("presentation", ["live", "native", "final"])
def test_scar_22_a_message_that_is_refused_is_told_of_and_what_follows_it_is_there(
    channel: str, presentation: Presentation
) -> None:
    async def main(room: ChatRoom) -> None:
        room.fail(*(Rule(kind=kind, fault=Refuse(400, "no"), at=1) for kind in ("edit", "post", "open_stream")))
        await room.carry([ANSWER], presentation=presentation)
        await room.carry(["This is another answer."], turn_id="another", presentation=presentation)

    room = in_a_room(main, limits_of(channel, limit=300), target=THREAD)
    assert "This is another answer." in room.texts
    assert "Sentence 23 of the answer says a thing of its own." in " ".join(room.texts)
    said = [text for text in room.texts if text.startswith("⚠️")]
    assert said or set(ANSWER.split()) <= set(room.said)


@chats
@presented
def test_scar_22_an_error_is_shown_however_often_it_was_and_whatever_was_said(
    channel: str, presentation: Presentation
) -> None:
    script: Script = ["a hiccup", Error(message="a hiccup"), Error(message="a hiccup"), TurnFailed(message="a hiccup")]
    room = carried(script, limits_of(channel), target=THREAD, presentation=presentation)
    assert room.texts == ["a hiccup", "⚠️ a hiccup", "⚠️ a hiccup", "⚠️ a hiccup"]


@chats
@presented
@pytest.mark.parametrize("late", [Error(message="the tool broke"), ToolFinished(id="2", result="no", is_error=True)])
def test_scar_23_what_went_wrong_later_takes_no_reply_away(
    channel: str, presentation: Presentation, late: Error | ToolFinished
) -> None:
    script: Script = [ANSWER, 5.0, ToolStarted(id="2", name="bash"), 5.0, late]
    room = carried(script, limits_of(channel), target=THREAD, presentation=presentation)
    words = ANSWER.split() + (["⚠️", "the", "tool", "broke"] if isinstance(late, Error) else [])
    assert room.said == words
    if presentation != "processing":
        assert not any(message.deleted for message in room.history)


@chats
@presented
def test_scar_23_nothing_that_people_read_is_taken_away_before_its_replacement_is_there(
    channel: str, presentation: Presentation
) -> None:
    script: Script = [ANSWER, *TOOL, 6.0, LATER]
    limits = limits_of(channel, limit=7_500, lines=None)  # a processing message of less shows the last of it
    room = carried(script, limits, target=THREAD, presentation=presentation, processing_every_s=1.0)
    before: set[str] = set()
    for at, screen in room.screens():
        numbers = set(re.findall(r"Sentence (\d+) of", " ".join(screen)))
        assert before <= numbers, f"at {at:.2f} people see less than they did"
        before = numbers
    assert len(before) == 48


@chats
@pytest.mark.parametrize("presentation", ["live", "native"])
@pytest.mark.parametrize("length", [3, 100])
def test_scar_24_an_edit_over_the_limit_becomes_another_message_and_is_not_truncated(
    channel: str, presentation: Presentation, length: int
) -> None:
    limits = limits_of(channel, limit=250)
    room = carried([ANSWER], limits, target=THREAD, length=length, presentation=presentation)
    assert room.said == ANSWER.split()
    assert len(room.messages) > 4
    assert not any("…" in text for text in room.texts)


def words_of(delivery: Delivery) -> str:
    return delivery.operation.body.text if isinstance(delivery.operation, Post | Edit) else ""


@chats
def test_scar_24_an_edit_that_the_platform_refuses_is_not_reported_as_done(channel: str) -> None:
    async def main(room: ChatRoom) -> None:
        carrying = asyncio.create_task(room.carry([ANSWER, 20.0, "The end of it."]))
        await asyncio.sleep(16.0)
        room.fail(Rule(kind="edit", fault=Refuse(413, "the message is too long"), times=None))
        deliveries = await carrying
        ends = {delivery.state for delivery in deliveries if "The end of it." in words_of(delivery)}
        assert (State.DELIVERED in ends) == any("The end of it." in text for text in room.texts)

    room = in_a_room(main, limits_of(channel))
    assert any("The end of it." in text or text.startswith("⚠️") for text in room.texts), "it is there, or it is told"


@chats
@presented
def test_scar_24_text_behind_a_tool_is_not_frozen_behind_a_cursor(channel: str, presentation: Presentation) -> None:
    progress = [ToolProgress(id="1", elapsed_s=float(second)) for second in range(3)]
    tool: Script = [ToolStarted(id="1", name="bash", arguments={"command": "ls"}), 3.0, *progress, 3.0]
    script: Script = ["Let me look at that for you.", *tool, ToolFinished(id="1"), ANSWER, *tool, "And that was it."]
    room = carried(script, limits_of(channel), target=THREAD, presentation=presentation)
    answer = [text for text in room.texts if "🔧" not in text]
    assert " ".join(answer).split() == f"Let me look at that for you. {ANSWER} And that was it.".split()
    assert not any(mark in text for text in answer for mark in ("⏳", "…", "▌", "💭"))
    assert len(room.texts) - len(answer) == (1 if presentation == "processing" else 0)


@pytest.mark.parametrize("minutes", [2, 4, 5, 6, 21])
def test_scar_25_a_stream_that_expires_loses_nothing_of_what_follows(minutes: int) -> None:
    script: list[str | float] = []
    for sentence in SENTENCES:
        script += [f"{sentence} ", minutes * 60 / len(SENTENCES)]
    room = carried(script, streaming(), target=THREAD)
    assert room.said == " ".join(SENTENCES).split()
    assert not any(message.streaming for message in room.messages)
    assert "not_streaming" not in {call.fault for call in room.platform.calls}


@pytest.mark.parametrize("ends_after_s", [3.0, 30.0, 100.0])
def test_scar_25_a_stream_that_ends_sooner_than_anybody_said_loses_nothing(ends_after_s: float) -> None:
    limits = limits_of(
        "slack",
        presentation="native",
        native=StreamRules(every_s=1.0, lifetime_s=300.0, per_call=12_000, tasks=True, in_threads_only=True),
    )
    script: list[str | float] = []
    for sentence in SENTENCES:
        script += [f"{sentence} ", 6.0]

    async def main(room: ChatRoom) -> None:
        carrying = asyncio.create_task(room.carry(script))
        await asyncio.sleep(ends_after_s)
        room.fail(Rule(kind="append_stream", fault=Refuse(400, "message_not_in_streaming_state"), times=None))
        await carrying

    room = in_a_room(main, limits, target=THREAD)
    assert room.said == " ".join(SENTENCES).split()
    assert len(room.messages) == 1
    assert [call.kind for call in room.platform.calls if call.fault] == ["append_stream"]
    assert room.messages[0].edits > 3, "it goes on before people's eyes"


def test_scar_25_a_stream_that_a_person_stopped_still_says_in_the_end_what_was_said() -> None:
    faults = [Rule(kind="append_stream", fault=Refuse(400, "stopped_by_user"), at=2, times=None)]
    room = carried([ANSWER], streaming(), target=THREAD, faults=faults)
    assert room.said == ANSWER.split()


def test_scar_25_a_draft_does_not_vanish_while_the_agent_is_at_work() -> None:
    limits = limits_of("telegram", presentation="native")
    script: Script = ["Let me look at that for you.", ToolStarted(id="1", name="bash"), 200.0, " Here it is."]
    room = carried(script, limits, target=HERE)
    drafts = room.times("draft")
    ends = room.times("post")[-1]
    assert all(room.platform.seen("here", at) for at in range(int(drafts[0]) + 1, int(ends)))
    assert room.said == ["Let", "me", "look", "at", "that", "for", "you.", "Here", "it", "is."]


def test_scar_21_media_that_fail_for_a_moment_come_where_they_were_said() -> None:
    script: Script = [ANSWER, Media(url="https://a.example/one.png", caption="the picture"), "That was the picture."]
    for channel in CHATS:
        faults = [Rule(kind="post_media", fault=ServerError(), times=2)]
        room = carried(script, limits_of(channel), faults=faults)
        assert [message.media for message in room.messages] == ["", "https://a.example/one.png", ""]
        assert room.texts[1:] == ["the picture", "That was the picture."]
