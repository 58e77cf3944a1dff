"""What was said once is there once: how it came to be there twice elsewhere, shown not to happen."""

from __future__ import annotations

import asyncio

import pytest
from chat_room import CHATS, PRESENTATIONS, THREAD, ChatRoom, Script, carried, in_a_room, limits_of, pieces

from tailrace.capabilities import Capabilities
from tailrace.deliveries import Delivery, State, TurnState
from tailrace.delivery import Recovery
from tailrace.events import BlockFinal, Event, TextRetracted, ToolFinished, ToolStarted, TurnCompleted
from tailrace.operations import Edit, Post
from tailrace.projector import Presentation
from tailrace.runtimes.dialects import translate
from tailrace.testing.faults import Cut, Fault, NoAnswer, Reset, Rule, ServerError, TooMany, Unreachable

chats = pytest.mark.parametrize("channel", CHATS)
presented = pytest.mark.parametrize("presentation", PRESENTATIONS)

SENTENCES = [f"Sentence {number} of the answer says a thing of its own." for number in range(24)]
ANSWER = "\n\n".join(" ".join(SENTENCES[at : at + 3]) for at in range(0, 24, 3))
TOOL: Script = [ToolStarted(id="1", name="bash", arguments={"command": "ls"}), 1.0, ToolFinished(id="1", result="x")]


def streaming(**changes: object) -> Capabilities:
    """Slack, as it is in a thread."""
    return limits_of("slack", presentation="native", **changes)


@chats
@presented
def test_scar_14_a_final_that_the_preview_already_shows_is_not_sent_again(
    channel: str, presentation: Presentation
) -> None:
    room = carried([ANSWER, 30.0], limits_of(channel), target=THREAD, presentation=presentation)
    assert room.said == ANSWER.split()
    if presentation not in ("blocks", "processing"):
        assert len(room.history) == 1, "neither a second message nor one that was taken away"


@chats
def test_scar_14_a_final_edit_that_changes_nothing_counts_as_done(channel: str) -> None:
    async def main(room: ChatRoom) -> None:
        *_, last = await room.carry([ANSWER, 30.0])
        assert isinstance(last.operation, Edit)
        assert last.state is State.DELIVERED
        assert last.attempt == 1

    room = in_a_room(main, limits_of(channel))
    [message] = room.history
    assert message.text.split() == ANSWER.split()
    versions = room.platform.versions(message.message_id)
    assert versions[-1].at < room.times("edit")[-1], "the platform answered that nothing was modified"


@chats
@pytest.mark.parametrize("fault", [TooMany(30.0), NoAnswer(), NoAnswer(applied=False), Reset(), ServerError(), Cut()])
def test_scar_14_a_last_edit_that_fails_leaves_one_whole_message_and_no_cursor(channel: str, fault: Fault) -> None:
    async def main(room: ChatRoom) -> None:
        carrying = asyncio.create_task(room.carry([ANSWER, *TOOL, 9.0, "That is all."]))
        await asyncio.sleep(0.03 * len(pieces(ANSWER)) + 8.0)  # all that is left is the end
        room.fail(Rule(kind="edit", fault=fault, times=2))
        await carrying
        assert room.platform.script.unspent == ()

    room = in_a_room(main, limits_of(channel))
    [message] = room.history
    assert message.text.split() == [*ANSWER.split(), "That", "is", "all."]


@chats
@pytest.mark.parametrize("dies_after_s", [0.4, 1.0, 2.0, 3.05, 4.2, 6.0, 9.0, 13.0])
@pytest.mark.parametrize("presentation", ["live", "native", "blocks"])
def test_scar_15_a_restart_sends_nothing_again_that_was_delivered(
    channel: str, presentation: Presentation, dies_after_s: float
) -> None:
    script: Script = [ANSWER, *TOOL, ANSWER]
    unknown: set[str] = set()

    async def main(room: ChatRoom) -> None:
        going_on = asyncio.create_task(room.carry(script, presentation=presentation))
        await asyncio.wait({going_on}, timeout=dies_after_s)
        await room.crash()
        said = await room.carry(script, presentation=presentation)
        unknown.update(_text(row) for row in said if row.state is State.UNKNOWN)

    room = in_a_room(main, limits_of(channel, limit=400), target=THREAD)
    told = [text for text in room.texts if text.startswith("⚠️")]
    shown = [text for text in room.texts if text not in told]
    assert len(told) == len(unknown) == 0 or channel == "telegram", "the others can tell whether a message arrived"
    known = [text for text in shown if text not in unknown]
    assert ANSWER.split() * 2 in (" ".join(shown).split(), " ".join(known).split())


def _text(row: Delivery) -> str:
    assert isinstance(row.operation, Post)
    return row.operation.body.text


@chats
@pytest.mark.parametrize("dies_after_s", [4.2, 6.0])
def test_scar_15_what_was_finished_is_not_written_anew_before_peoples_eyes(channel: str, dies_after_s: float) -> None:
    async def main(room: ChatRoom) -> None:
        going_on = asyncio.create_task(room.carry([ANSWER]))
        await asyncio.wait({going_on}, timeout=dies_after_s)
        seen = [len(text) for text in room.texts]
        await room.crash()
        await room.carry([ANSWER])
        for message, before in zip(room.history, seen[:-1], strict=False):
            versions = room.platform.versions(message.message_id)
            later = [len(version.message.text) for version in versions if version.at > dies_after_s]
            assert all(length >= before for length in later), "a message that was whole is never less again"

    room = in_a_room(main, limits_of(channel, limit=400))
    assert room.said == ANSWER.split()


@chats
def test_scar_15_an_entry_that_is_on_its_way_is_not_driven_by_anybody_else(channel: str) -> None:
    async def main(room: ChatRoom) -> None:
        room.fail(Rule(kind="post", fault=Unreachable(), times=2))
        carrying = asyncio.create_task(room.carry([ANSWER], presentation="final"))
        for _ in range(40):
            room.courier.disconnect("simulated")
            await asyncio.sleep(0.1)
            room.courier.connect(room.channel)
            await Recovery(room.courier).sweep()
        await carrying

    room = in_a_room(main, limits_of(channel, limit=400))
    assert room.said == ANSWER.split()


@chats
@presented
def test_scar_15_a_failure_in_the_middle_of_a_batch_repeats_nothing_before_it(
    channel: str, presentation: Presentation
) -> None:
    for at in (2, 3):
        faults = [Rule(kind="post", fault=ServerError(), at=at, times=2)]
        room = carried([ANSWER], limits_of(channel, limit=400), faults=faults, presentation=presentation)
        assert room.said == ANSWER.split()


REPEATED: dict[str, list[Event]] = {
    "the whole block after its deltas": [BlockFinal(text=ANSWER), TurnCompleted()],
    "the whole answer at the end": [TurnCompleted(text=ANSWER)],
    "both": [BlockFinal(text=ANSWER), TurnCompleted(text=ANSWER)],
    "two ends": [TurnCompleted(text=ANSWER), TurnCompleted(text=ANSWER)],
    "a block that says a little more": [BlockFinal(text=f"{ANSWER} ")],
}


@chats
@presented
@pytest.mark.parametrize("name", REPEATED)
def test_scar_16_an_answer_that_is_told_again_as_a_whole_is_said_once(
    channel: str, presentation: Presentation, name: str
) -> None:
    room = carried([ANSWER, *REPEATED[name]], limits_of(channel), target=THREAD, presentation=presentation)
    assert room.said == ANSWER.split()


@chats
@presented
@pytest.mark.parametrize("tries", [1, 3])
def test_scar_16_an_answer_that_a_runtime_begins_again_is_said_once(
    channel: str, presentation: Presentation, tries: int
) -> None:
    broken: list[str | float | Event] = [ANSWER[:700], TextRetracted(reason="the connection broke"), 1.0]
    script: Script = ["Let me see what it is.", *TOOL, *broken * tries, ANSWER, BlockFinal(text=ANSWER)]
    limits = limits_of(channel, limit=500)
    room = carried(script, limits, target=THREAD, presentation=presentation)
    assert room.said == ["Let", "me", "see", "what", "it", "is.", *ANSWER.split()]


@chats
def test_scar_16_a_block_that_says_something_else_after_all_replaces_what_was_shown(channel: str) -> None:
    script: Script = [ANSWER, 3.0, BlockFinal(text="Sentence 0 of the answer says something else after all.")]
    room = carried(script, limits_of(channel, limit=500))
    assert room.texts == ["Sentence 0 of the answer says something else after all."]


@chats
def test_scar_16_the_result_that_a_command_line_prints_at_its_end_is_not_a_second_answer(channel: str) -> None:
    lines = [{"type": "text_delta", "text": sentence} for sentence in ("It is ", "done.")]
    events = [event for line in [*lines, {"type": "result", "response": "It is done."}] for event in _stream(line)]
    assert carried(events, limits_of(channel)).texts == ["It is done."]


def _stream(line: dict[str, str]) -> list[Event]:
    return translate("stream", line)


@chats
@pytest.mark.parametrize("fault", [NoAnswer(), NoAnswer(applied=False), Reset(), Cut(), TooMany(3.0), ServerError(502)])
def test_scar_17_an_edit_that_failed_and_is_made_again_doubles_no_word(channel: str, fault: Fault) -> None:
    script: Script = [ANSWER[:600], 12.0, ANSWER[600:], 12.0]
    room = carried(script, limits_of(channel), faults=[Rule(kind="edit", fault=fault, at=2, times=2)])
    assert room.platform.script.unspent == ()
    assert room.texts == [ANSWER]
    assert all(is_beginning(seen) for seen in room.ever_seen())


@pytest.mark.parametrize(
    "fault", [NoAnswer(), NoAnswer(applied=False), Reset(), Reset(applied=False), Cut(), TooMany(3.0), ServerError()]
)
@pytest.mark.parametrize("at", [1, 3])
def test_scar_17_text_that_is_appended_again_to_a_stream_doubles_no_word(fault: Fault, at: int) -> None:
    room = carried([ANSWER], streaming(), target=THREAD, faults=[Rule(kind="append_stream", fault=fault, at=at)])
    [message] = room.history
    assert room.platform.script.unspent == ()
    assert message.text == ANSWER
    assert not message.streaming
    assert all(is_beginning(seen) for seen in room.ever_seen())


def is_beginning(seen: str) -> bool:
    """Whether this is how the answer begins, and nothing in it stands twice or is left out."""
    return ANSWER.startswith(seen.rstrip())


TWICE = "I looked again, and it says the same as it did before, word by word."


@chats
@presented
@pytest.mark.parametrize("between", ["\n\n", "tool"])
def test_scar_18_a_paragraph_that_is_really_said_twice_is_there_twice(
    channel: str, presentation: Presentation, between: str
) -> None:
    script: Script = [TWICE, *(TOOL if between == "tool" else [between]), TWICE, BlockFinal(), TWICE]
    room = carried(script, limits_of(channel), target=THREAD, presentation=presentation, block_characters=10)
    assert room.said == TWICE.split() * 3


@chats
@pytest.mark.parametrize("presentation", ["live", "processing", "blocks", "final"])
def test_scar_18_a_turn_that_is_carried_twice_is_said_once(channel: str, presentation: Presentation) -> None:
    async def main(room: ChatRoom) -> None:
        for _ in range(3):
            await room.carry([TWICE, "\n\n", TWICE], presentation=presentation)
        await room.recover()
        await room.carry([TWICE], turn_id="another", presentation=presentation)
        assert await room.state_of() is TurnState.DONE

    room = in_a_room(main, limits_of(channel))
    assert room.said == TWICE.split() * 3
