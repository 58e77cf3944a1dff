"""Lost and doubled answers: failures reported elsewhere, checked on every chat platform."""

from __future__ import annotations

import asyncio
import re

import pytest
from scar_chat import (
    ANSWER,
    BASH,
    CHATS,
    PARAGRAPHS,
    SAMPLES,
    SENTENCES,
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

from tailrace.deliveries import Delivery, State, TurnState
from tailrace.delivery.recovery import INTERRUPTED
from tailrace.events import Error, Media, ToolFinished, ToolProgress, ToolStarted
from tailrace.operations import Edit, Post, Target
from tailrace.projector import Presentation
from tailrace.testing.faults import Cut, Fault, NoAnswer, Refuse, Reset, Rule, ServerError, TooMany, Unreachable

SLACK_STREAM = limits_of("slack", presentation="native")
LATER = ANSWER.replace("Sentence ", "Sentence 1000")
UNREACHABLE = Rule(fault=Unreachable(), times=None)


@presented()
def test_scar_19_unfinished_answer_survives_the_death_of_the_process(channel: str, presentation: Presentation) -> None:
    async def main(chat: Chat) -> None:
        await chat.present_until(12.0, [ANSWER, 60.0], presentation=presentation)
        await chat.recover()
        assert await chat.turn_state() is TurnState.INTERRUPTED

    *texts, last = in_chat(main, limits_of(channel), target=THREAD).texts
    assert " ".join(texts).split() == ANSWER.split()
    assert last == INTERRUPTED


@presented()
def test_scar_19_complete_answer_is_sent_after_the_death_of_the_process(
    channel: str, presentation: Presentation
) -> None:
    async def main(chat: Chat) -> None:
        asyncio.get_running_loop().call_later(7.5, lambda: chat.fail(UNREACHABLE))  # shortly before the end of the text
        await chat.present_until(37.5, [ANSWER], presentation=presentation)
        chat.platform.script.clear()
        await asyncio.sleep(60.0)
        await chat.recover()
        assert await chat.turn_state() is TurnState.DONE

    assert in_chat(main, limits_of(channel), target=THREAD).answer_words == ANSWER.split()


@presented("live", "native", "blocks", "parts", "final")
def test_scar_20_on_a_flaky_host_answers_arrive_or_a_notice_says_so(channel: str, presentation: Presentation) -> None:
    async def main(chat: Chat) -> None:
        faults: list[Fault] = [NoAnswer(), NoAnswer(applied=False), Reset(), Cut(), ServerError(502), Unreachable()]
        chat.fail(*(Rule(fault=fault, chance=0.04, times=None) for fault in faults))
        for number in range(12):
            chat.target = Target(channel="simulated", chat=f"chat {number}", thread="thread")
            deliveries = await chat.present([ANSWER], turn_id=str(number), presentation=presentation)
            await asyncio.sleep(60.0)
            missing = [delivery for delivery in deliveries if delivery.state is not State.DELIVERED]
            notices = [text for text in chat.texts if "may be missing" in text]
            assert bool(missing) == bool(notices), "a notice for each loss, and none without"
            if not missing:
                assert chat.answer_words == ANSWER.split()
            assert missing == [] or channel in ("telegram", "slack")

    in_chat(main, limits_of(channel, limit=600))


BRIEF_FAULTS = [ServerError(), Unreachable(), TooMany(5.0), TooMany()]


@pytest.mark.parametrize(("channel", "presentation", "fault", "at"), cases(SAMPLES, BRIEF_FAULTS, [2, 3, 2]))
def test_scar_21_failure_of_one_part_repeats_or_drops_no_other(
    channel: str, presentation: Presentation, fault: Fault, at: int
) -> None:
    faults = [Rule(kind="post", fault=fault, at=at, times=3), Rule(kind="open_stream", fault=fault, at=at)]
    limits = limits_of(channel, limit=300)
    chat = present_turn([ANSWER], limits, target=THREAD, faults=faults, presentation=presentation)
    assert any(call.fault for call in chat.platform.calls)
    assert chat.answer_words == ANSWER.split()


@chats
def test_scar_21_media_that_fail_for_a_moment_keep_their_position(channel: str) -> None:
    script: Script = [ANSWER, Media(url="https://a.example/one.png", caption="the picture"), "That was the picture."]
    chat = present_turn(script, limits_of(channel), faults=[Rule(kind="post_media", fault=ServerError(), times=2)])
    assert [message.media for message in chat.messages] == ["", "https://a.example/one.png", ""]
    assert chat.texts[1:] == ["the picture", "That was the picture."]


@chats
def test_scar_22_refused_block_does_not_stop_the_next_ones(channel: str) -> None:
    faults = [Rule(kind="post", fault=Refuse(400, "not this one"), at=2)]
    chat = present_turn([ANSWER], limits_of(channel), faults=faults, presentation="blocks", block_characters=10)
    first, _refused, *rest = PARAGRAPHS
    assert chat.texts == [first, "⚠️ Part 2 of this answer is missing.", *rest]


@presented()
def test_scar_23_shown_text_stays_behind_tools_and_errors(channel: str, presentation: Presentation) -> None:
    errors: Script = [ToolStarted(id="2", name="bash"), 5.0, ToolFinished(id="2", is_error=True), Error(message="oh")]
    script: Script = [ANSWER, *TOOL, 6.0, *errors, 3.0, LATER]
    limits = limits_of(channel, limit=7_500, lines=None)  # a smaller processing message shows only the end
    chat = present_turn(script, limits, target=THREAD, presentation=presentation, processing_every_s=1.0)
    before: set[str] = set()
    for at in sorted({call.at for call in chat.platform.calls}):
        screen = chat.platform.seen("here", at)
        numbers = set(re.findall(r"Sentence (\d+) of", " ".join(screen)))
        assert before <= numbers, f"at {at:.2f} people see less than before"
        before = numbers
    assert len(before) == 48


@chats
def test_scar_24_refused_edit_is_not_reported_as_delivered(channel: str) -> None:
    def has_end(delivery: Delivery) -> bool:
        return isinstance(delivery.operation, Post | Edit) and "The end of it." in delivery.operation.body.text

    async def main(chat: Chat) -> None:
        turn = asyncio.create_task(chat.present([ANSWER, 20.0, "The end of it."]))
        await asyncio.sleep(16.0)
        chat.fail(Rule(kind="edit", fault=Refuse(413, "the message is too long"), times=None))
        states = {delivery.state for delivery in await turn if has_end(delivery)}
        assert (State.DELIVERED in states) == any("The end of it." in text for text in chat.texts)

    chat = in_chat(main, limits_of(channel))
    assert any("The end of it." in text or text.startswith("⚠️") for text in chat.texts), "the text or a notice"


@presented()
def test_scar_24_no_cursor_stays_in_text_behind_a_tool(channel: str, presentation: Presentation) -> None:
    tool: Script = [BASH, 3.0, *(ToolProgress(id="1", elapsed_s=float(second)) for second in range(3)), 3.0]
    script: Script = ["Let me look at that for you.", *tool, ToolFinished(id="1"), ANSWER, *tool, "And that was it."]
    chat = present_turn(script, limits_of(channel), target=THREAD, presentation=presentation)
    answer = [text for text in chat.texts if "🔧" not in text]
    assert " ".join(answer).split() == f"Let me look at that for you. {ANSWER} And that was it.".split()
    assert not any(mark in text for text in answer for mark in ("⏳", "…", "▌", "💭"))
    assert len(chat.texts) - len(answer) == (1 if presentation == "processing" else 0)


def sentences_every(seconds: float) -> list[str | float]:
    return [line for sentence in SENTENCES for line in (f"{sentence} ", seconds)]


@pytest.mark.parametrize("minutes", [2, 4, 5, 6, 21])
def test_scar_25_stream_that_expires_loses_no_text(minutes: int) -> None:
    chat = present_turn(sentences_every(minutes * 60 / len(SENTENCES)), SLACK_STREAM, target=THREAD)
    assert chat.answer_words == " ".join(SENTENCES).split()
    assert not any(message.streaming for message in chat.messages)
    assert "not_streaming" not in {call.fault for call in chat.platform.calls}


FAULTS = [TooMany(30.0), NoAnswer(), NoAnswer(applied=False), Reset(), ServerError(), Cut()]


@presented("live", "native", "blocks", "parts")
@pytest.mark.parametrize("crash_s", [0.4, 1.0, 2.0, 3.05, 4.2, 6.0, 9.0, 13.0])
def test_scar_15_restart_sends_nothing_again_that_was_delivered(
    channel: str, presentation: Presentation, crash_s: float
) -> None:
    script: Script = [ANSWER, *TOOL, ANSWER]
    unknown: set[str] = set()

    async def main(chat: Chat) -> None:
        turn = asyncio.create_task(chat.present(script, presentation=presentation))
        await asyncio.wait({turn}, timeout=crash_s)
        await chat.crash()
        sent = await chat.present(script, presentation=presentation)
        unknown.update(_text(row) for row in sent if row.state is State.UNKNOWN)

    chat = in_chat(main, limits_of(channel, limit=400), target=THREAD)
    notices = [text for text in chat.texts if text.startswith("⚠️")]
    shown = [text for text in chat.texts if text not in notices]
    assert len(notices) == len(unknown) == 0 or channel == "telegram", "other platforms know whether it arrived"
    known = [text for text in shown if text not in unknown]
    # A part that is unknown was shown once, or twice, or never; a line says so.
    whole = " ".join(ANSWER.split() * 2)
    rest = whole
    for part in unknown:
        rest = rest.replace(" ".join(part.split()), "", 1)
    assert (
        whole.split() in (" ".join(shown).split(), " ".join(known).split()) or rest.split() == " ".join(shown).split()
    )


def _text(row: Delivery) -> str:
    assert isinstance(row.operation, Post)
    return row.operation.body.text


@pytest.mark.parametrize(("channel", "fault"), cases(CHATS, [*FAULTS, ServerError(502)]))
def test_scar_17_failed_edit_that_is_repeated_doubles_no_word(channel: str, fault: Fault) -> None:
    script: Script = [ANSWER[:600], 12.0, ANSWER[600:], 12.0]
    chat = present_turn(script, limits_of(channel), faults=[Rule(kind="edit", fault=fault, at=2, times=2)])
    assert chat.platform.script.unspent == ()
    assert chat.texts == [ANSWER]
    assert all(ANSWER.startswith(seen.rstrip()) for seen in chat.ever_shown())


@pytest.mark.parametrize("fault", [*FAULTS, Reset(applied=False)])
@pytest.mark.parametrize("at", [1, 3])
def test_scar_17_text_appended_again_to_a_stream_doubles_no_word(fault: Fault, at: int) -> None:
    faults = [Rule(kind="append_stream", fault=fault, at=at)]
    chat = present_turn([ANSWER], SLACK_STREAM, target=THREAD, faults=faults)
    [message] = chat.history
    assert chat.platform.script.unspent == ()
    assert message.text == ANSWER
    assert not message.streaming
    assert all(ANSWER.startswith(seen.rstrip()) for seen in chat.ever_shown())


TWICE = "I looked again, and it says the same as it did before, word by word."


@presented()
def test_scar_18_turn_that_is_presented_again_is_sent_once(channel: str, presentation: Presentation) -> None:
    async def main(chat: Chat) -> None:
        for _ in range(3):
            await chat.present([TWICE, "\n\n", TWICE], presentation=presentation)
        await chat.recover()
        await chat.present([TWICE], turn_id="another", presentation=presentation)
        assert await chat.turn_state() is TurnState.DONE

    chat = in_chat(main, limits_of(channel))
    assert chat.answer_words == TWICE.split() * 3
