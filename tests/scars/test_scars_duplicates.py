"""Duplicates: texts that other systems sent twice, checked on every chat platform."""

from __future__ import annotations

import asyncio

import pytest
from scar_chat import (
    ANSWER,
    CHATS,
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
    streaming,
)

from tailrace.deliveries import Delivery, State, TurnState
from tailrace.delivery import Recovery
from tailrace.events import BlockFinal, Event, TextRetracted, TurnCompleted
from tailrace.operations import Edit, Post
from tailrace.projector import Presentation
from tailrace.testing.faults import Cut, Fault, NoAnswer, Reset, Rule, ServerError, TooMany, Unreachable


@presented()
def test_scar_14_final_text_that_the_preview_shows_is_not_sent_again(channel: str, presentation: Presentation) -> None:
    chat = present_turn([ANSWER, 30.0], limits_of(channel), target=THREAD, presentation=presentation)
    assert chat.answer_words == ANSWER.split()
    if presentation not in ("blocks", "processing"):
        assert len(chat.history) == 1, "no second message, not even a deleted one"


@chats
def test_scar_14_final_edit_that_changes_nothing_counts_as_delivered(channel: str) -> None:
    async def main(chat: Chat) -> None:
        *_, last = await chat.present([ANSWER, 30.0])
        assert isinstance(last.operation, Edit)
        assert last.state is State.DELIVERED
        assert last.attempt == 1

    chat = in_chat(main, limits_of(channel))
    [message] = chat.history
    assert message.text.split() == ANSWER.split()
    versions = chat.platform.versions(message.message_id)
    assert versions[-1].at < chat.call_times("edit")[-1], "the platform answered that nothing was modified"


FAULTS = [TooMany(30.0), NoAnswer(), NoAnswer(applied=False), Reset(), ServerError(), Cut()]


@pytest.mark.parametrize(("channel", "fault"), cases(CHATS, FAULTS))
def test_scar_14_last_edit_that_fails_leaves_one_whole_message(channel: str, fault: Fault) -> None:
    async def main(chat: Chat) -> None:
        turn = asyncio.create_task(chat.present([ANSWER, *TOOL, 9.0, "That is all."]))
        await asyncio.sleep(0.03 * len(pieces(ANSWER)) + 8.0)  # only the end is left
        chat.fail(Rule(kind="edit", fault=fault, times=2))
        await turn
        assert chat.platform.script.unspent == ()

    [message] = in_chat(main, limits_of(channel)).history
    assert message.text.split() == [*ANSWER.split(), "That", "is", "all."]


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
    assert ANSWER.split() * 2 in (" ".join(shown).split(), " ".join(known).split())


def _text(row: Delivery) -> str:
    assert isinstance(row.operation, Post)
    return row.operation.body.text


@pytest.mark.parametrize(("channel", "crash_s"), cases(CHATS, [4.2, 6.0]))
def test_scar_15_finished_message_never_becomes_shorter_after_a_restart(channel: str, crash_s: float) -> None:
    async def main(chat: Chat) -> None:
        turn = asyncio.create_task(chat.present([ANSWER]))
        await asyncio.wait({turn}, timeout=crash_s)
        lengths = [len(text) for text in chat.texts]
        await chat.crash()
        await chat.present([ANSWER])
        for message, before in zip(chat.history, lengths[:-1], strict=False):
            versions = chat.platform.versions(message.message_id)
            assert all(len(version.message.text) >= before for version in versions if version.at > crash_s)

    chat = in_chat(main, limits_of(channel, limit=400))
    assert chat.answer_words == ANSWER.split()


@chats
def test_scar_15_delivery_in_progress_is_not_recovered(channel: str) -> None:
    async def main(chat: Chat) -> None:
        chat.fail(Rule(kind="post", fault=Unreachable(), times=2))
        turn = asyncio.create_task(chat.present([ANSWER], presentation="final"))
        for _ in range(40):
            chat.courier.disconnect("simulated")
            await asyncio.sleep(0.1)
            chat.courier.connect(chat.channel)
            await Recovery(chat.courier).sweep()
        await turn

    chat = in_chat(main, limits_of(channel, limit=400))
    assert chat.answer_words == ANSWER.split()


@presented()
@pytest.mark.parametrize("at", [2, 3])
def test_scar_15_failure_in_a_batch_repeats_no_earlier_part(channel: str, presentation: Presentation, at: int) -> None:
    faults = [Rule(kind="post", fault=ServerError(), at=at, times=2)]
    chat = present_turn([ANSWER], limits_of(channel, limit=400), faults=faults, presentation=presentation)
    assert chat.answer_words == ANSWER.split()


REPEATED: list[list[Event]] = [
    [BlockFinal(text=ANSWER), TurnCompleted()],  # the whole block after its deltas
    [TurnCompleted(text=ANSWER)],  # the whole answer at the end
    [BlockFinal(text=ANSWER), TurnCompleted(text=ANSWER)],
    [TurnCompleted(text=ANSWER), TurnCompleted(text=ANSWER)],  # two ends
    [BlockFinal(text=f"{ANSWER} "), TurnCompleted()],  # a little more than the deltas
]


@pytest.mark.parametrize(("channel", "presentation", "repeated"), cases(SAMPLES, REPEATED))
def test_scar_16_answer_that_the_runtime_repeats_is_shown_once(
    channel: str, presentation: Presentation, repeated: list[Event]
) -> None:
    chat = present_turn([ANSWER, *repeated], limits_of(channel), target=THREAD, presentation=presentation)
    assert chat.answer_words == ANSWER.split()


@pytest.mark.parametrize(("channel", "presentation", "tries"), cases(SAMPLES, [1, 3]))
def test_scar_16_answer_that_the_runtime_restarts_is_shown_once(
    channel: str, presentation: Presentation, tries: int
) -> None:
    broken: list[str | float | Event] = [ANSWER[:700], TextRetracted(reason="the connection broke"), 1.0]
    script: Script = ["Let me see what it is.", *TOOL, *broken * tries, ANSWER, BlockFinal(text=ANSWER)]
    chat = present_turn(script, limits_of(channel, limit=500), target=THREAD, presentation=presentation)
    assert chat.answer_words == ["Let", "me", "see", "what", "it", "is.", *ANSWER.split()]


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
    chat = present_turn([ANSWER], streaming(), target=THREAD, faults=faults)
    [message] = chat.history
    assert chat.platform.script.unspent == ()
    assert message.text == ANSWER
    assert not message.streaming
    assert all(ANSWER.startswith(seen.rstrip()) for seen in chat.ever_shown())


TWICE = "I looked again, and it says the same as it did before, word by word."


@presented()
@pytest.mark.parametrize("between", [["\n\n"], TOOL], ids=["blank line", "tool"])
def test_scar_18_paragraph_written_twice_is_shown_twice(
    channel: str, presentation: Presentation, between: Script
) -> None:
    script: Script = [TWICE, *between, TWICE, BlockFinal(), TWICE]
    chat = present_turn(script, limits_of(channel), target=THREAD, presentation=presentation, block_characters=10)
    assert chat.answer_words == TWICE.split() * 3


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
