"""The projector by examples: one turn in one chat, and the operations it asks for, step by step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace
from projected_turn import PLAIN, PRIVATE, Turn, kinds, shown, text_of

from tailrace.capabilities import DISCORD, SLACK, TELEGRAM, TERMINAL, Capabilities, Unkeyed
from tailrace.deliveries import Policy, State, moved, plan, sending
from tailrace.events import (
    BlockFinal,
    Error,
    Media,
    ReasoningDelta,
    TextDelta,
    TextRetracted,
    ToolFinished,
    ToolStarted,
    TurnCancelled,
    TurnCompleted,
    TurnFailed,
)
from tailrace.operations import (
    Ambiguous,
    AppendStream,
    Body,
    Delete,
    Delivered,
    Draft,
    Edit,
    NotNow,
    OpenStream,
    Post,
    PostMedia,
    Receipt,
    Refused,
    Target,
    Typing,
)
from tailrace.projector import WaitUntil, restored_messages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tailrace.deliveries import Delivery
    from tailrace.events import Event
    from tailrace.operations import Durable

GROUP = Target(channel="c", chat="1", group=True)
THREAD = Target(channel="c", chat="1", thread="7")
LONG = "Here is what I found out about it all."
NUMBERS = "One two three four five six seven eight nine ten eleven twelve."
NOT_HERE = Refused("not here")
NO_ANSWER = Ambiguous("no answer")
SHORT = replace(PLAIN, limit=40)
DRAFTS = replace(TELEGRAM, dialect="markdown")
STREAMS = replace(SLACK, dialect="markdown")


def ended(ordinal: int, operation: Durable, state: State, message_id: str = "") -> Delivery:
    delivery = plan(operation, turn_id="t", ordinal=ordinal, policy=Policy(idempotency=Unkeyed()), now=0.0)
    delivery = sending(delivery, now=0.0)
    if state is State.UNKNOWN:
        delivery = moved(delivery, State.AMBIGUOUS, now=0.0)
    return moved(delivery, state, now=0.0, receipt=Receipt(message_id=message_id) if message_id else None)


def post(text: str, *, is_processing: bool = False) -> Post:
    return Post(target=PRIVATE, body=Body(text=text), is_processing=is_processing)


def media() -> PostMedia:
    return PostMedia(target=PRIVATE, url="u")


# Live messages.


def test_first_message_waits_for_enough_text_or_some_time() -> None:
    turn = Turn()
    assert turn.say("He") == []
    assert shown(turn.say("re is what I found out about it all.")) == [("Post", LONG)]
    turn = Turn()
    assert turn.say("Hi") == []
    assert shown(turn.after(1.5)) == [("Post", "Hi")]


def test_message_is_edited_at_the_interval_of_the_channel() -> None:
    turn = Turn()
    turn.say(LONG)
    assert turn.say(" And") == []
    assert turn.after(0.5) == []
    assert shown(turn.after(0.5)) == [("Edit", f"{LONG} And")]
    assert shown(turn.end(" more.", TurnCompleted())) == [("Edit", f"{LONG} And more.")]
    in_group = Turn(DRAFTS, GROUP)
    in_group.say(LONG)
    in_group.say(" More")
    assert in_group.after(3.9) == []
    assert shown(in_group.after(0.1)) == [("Edit", f"{LONG} More")]
    whole = Turn()
    whole.say(LONG)
    assert whole.end(TurnCompleted()) == [], "the message has the whole answer"


def test_nothing_is_asked_for_before_retry_after() -> None:
    turn = Turn()
    turn.say(LONG)
    turn.now += 1
    turn.say_and_answer(" More", Edit, NotNow("too many", retry_after=30.0))
    assert turn.say(TurnCompleted()) == []
    assert turn.after(29.9) == []
    assert shown(turn.after(0.1)) == [("Edit", f"{LONG} More")]


def test_message_whose_edit_is_refused_is_not_edited_before_the_end() -> None:
    turn = Turn()
    turn.say(LONG)
    turn.now += 1
    turn.say_and_answer(" More", Edit, NOT_HERE)
    assert turn.after(60) == []
    assert shown(turn.end(TurnCompleted())) == [("Edit", f"{LONG} More")]


def test_answer_over_the_limit_continues_in_another_message() -> None:
    turn = Turn(SHORT)
    assert shown(turn.say(NUMBERS)) == [("Post", "One two three four five six seven eight")]
    assert shown(turn.end(TurnCompleted())) == [("Post", "nine ten eleven twelve.")]


def test_message_with_retracted_text_waits_for_other_text() -> None:
    turn = Turn()
    turn.say(LONG)
    turn.say(TextRetracted())
    assert shown(turn.after(1)) == [("Edit", "…")]
    assert shown(turn.end("Better.", TurnCompleted())) == [("Edit", "Better.")]
    turn = Turn()
    turn.say(LONG)
    assert kinds(turn.end(TextRetracted(), TurnCompleted())) == [Delete], "no text follows"


def test_messages_that_a_shorter_text_does_not_need_are_deleted_at_once() -> None:
    turn = Turn(SHORT)
    turn.say(NUMBERS)
    turn.after(2)
    operations = turn.say(BlockFinal(text="Short after all."))
    assert [operation.message_id for operation in operations if isinstance(operation, Delete)] == ["2"]
    assert shown(turn.end(TurnCompleted())) == [("Edit", "Short after all.")]


def test_tool_is_shown_below_the_text_and_a_silent_turn_leaves_no_message() -> None:
    turn = Turn()
    turn.say(ToolStarted(id="1", name="look"))
    assert shown(turn.after(1.5)) == [("Post", "🔧 look")]
    assert kinds(turn.end(ToolFinished(id="1"), "NO_REPLY", TurnCompleted())) == [Delete]


def test_silent_reply_is_silent_although_the_last_event_repeats_it() -> None:
    for at in range(len("NO_REPLY")):
        assert Turn().end("NO_REPLY"[:at], "NO_REPLY"[at:], TurnCompleted(text="NO_REPLY")) == []
    assert Turn().end("NO_REPLY", TurnCompleted(text="Something else.")) == []


# Whole turns.

LOOK = (ToolStarted(id="1", name="look"), ToolFinished(id="1"))
BROKEN = Error(message="broken", code="c1")
PICTURES = (Media(url="u", caption="a long view"), Media(url="v", caption="small"))
WHOLE_TURNS: dict[str, tuple[Sequence[Event | str], list[str]]] = {
    "a blank line stands between blocks, and code of a block is closed": (
        ["One.", BlockFinal(), "```\ncode", BlockFinal(), "Two."],
        ["One.\n\n```\ncode\n```\n\nTwo."],
    ),
    "errors and media come behind the text before them": (
        ["One.", BROKEN, "Two.", Media(url="u", caption="seen")],
        ["One.", "⚠️ broken [c1]", "Two.", "seen"],
    ),
    "a caption that is too long is a message": (PICTURES, ["", "a long view", "small"]),
    "a retraction removes all blocks since the last tool": (
        ["One.", *LOOK, "Two.", BlockFinal(), "Three.", BlockFinal(), TextRetracted(), "Four."],
        ["One.\n\nFour."],
    ),
    "a retraction behind a tool keeps the text before it": (["One.", LOOK[0], TextRetracted()], ["One."]),
    "text that ends with a closing tag was reasoning": (
        ["thoughts ", BlockFinal(text="thoughts </think>"), "The answer."],
        ["The answer."],
    ),
    "the last event has the answer if the text was retracted": (
        ["Wrong.", TextRetracted(), TurnCompleted(text="Right.")],
        ["Right."],
    ),
    "the last event has the answer if the text was reasoning": (
        ["thoughts\n</think>\n", TurnCompleted(text="Right.")],
        ["Right."],
    ),
    "the answer of the last event is ignored behind other text": (["Said.", TurnCompleted(text="Ignored.")], ["Said."]),
    "a failed turn ends with its error": (["One.", TurnFailed(message="broken")], ["One.", "⚠️ broken"]),
}


@pytest.mark.parametrize("name", WHOLE_TURNS)
def test_messages_of_a_whole_turn(name: str) -> None:
    events, texts = WHOLE_TURNS[name]
    has_end = isinstance(events[-1], TurnCompleted | TurnFailed)
    turn = Turn(replace(PLAIN, caption_limit=5), presentation="final")
    operations = turn.end(*events, *([] if has_end else [TurnCompleted()]))
    assert set(kinds(operations)) <= {Post, PostMedia}
    assert [text_of(operation) for operation in operations] == texts


def test_turn_without_a_terminal_event_says_that_it_was_cut_off() -> None:
    turn = Turn()
    assert shown(turn.end("One.")) == [("Post", "One."), ("Post", "⚠️ The answer ended before it was complete.")]


@pytest.mark.parametrize("presentation", ["tokens", "live", "native", "processing", "parts", "blocks", "final"])
def test_turn_without_text_leaves_no_message(presentation: str) -> None:
    assert Turn(presentation=presentation).end(TurnCompleted()) == []


# Turns that are cancelled.


def test_cancelled_turn_finishes_visible_messages_and_begins_none() -> None:
    turn = Turn(SHORT)
    turn.say("One two three four five six seven")
    operations = turn.end(" eight nine ten eleven twelve.", TurnCancelled())
    assert shown(operations) == [("Edit", "One two three four five six seven eight")]


def test_message_refused_after_the_turn_was_cancelled_is_not_sent_again() -> None:
    turn = Turn()
    turn.feed(LONG)
    first = turn.next()
    assert isinstance(first, Post)
    turn.feed(" More.", TurnCancelled())
    turn.answer(first, NOT_HERE)
    assert turn.end() == []


# Messages that may have arrived.


def test_message_that_may_have_arrived_is_not_sent_again() -> None:
    turn = Turn(presentation="final")
    turn.feed("One.", Error(message="broken"), TurnCompleted())
    first = turn.next()
    assert isinstance(first, Post)
    assert shown(turn.ask()) == [("Post", "⚠️ broken")]
    turn.answer(first, NO_ANSWER)
    assert turn.end() == []


@pytest.mark.parametrize(("more", "posts"), [(" More.", [("Post", f"{LONG} More.")]), ("", [])])
def test_first_preview_that_may_have_arrived_is_followed_only_by_new_text(
    more: str, posts: list[tuple[str, str]]
) -> None:
    turn = Turn()
    turn.say_and_answer(LONG, Post, NO_ANSWER)
    assert turn.say(more) == []
    assert shown(turn.end(TurnCompleted())) == posts


def test_message_that_may_have_arrived_stays_when_a_later_block_changes() -> None:
    turn = Turn(SHORT)
    turn.say_and_answer("One two three four five six seven eight nine ten", Post, NO_ANSWER)
    turn.after(2)
    operations = turn.end(BlockFinal(text="One two three four five six seven eight nine eleven."), TurnCompleted())
    assert "One two" not in "".join(text for _, text in shown(operations))


# Drafts and streams.


def test_draft_is_renewed_before_it_vanishes_and_becomes_a_message() -> None:
    turn = Turn(DRAFTS, presentation="native")
    assert shown(turn.say("One")) == [("Draft", "One")]
    assert turn.after(20) == []
    assert shown(turn.after(5)) == [("Draft", "One")]
    assert shown(turn.end(TurnCompleted())) == [("Post", "One")]


def test_refused_draft_becomes_a_live_message() -> None:
    turn = Turn(DRAFTS, presentation="native")
    turn.say_and_answer(LONG, Draft, NOT_HERE)
    assert shown(turn.ask()) == [("Post", LONG)]
    turn.say(" More.")
    assert shown(turn.after(2)) == [("Edit", f"{LONG} More.")]


def test_draft_does_not_show_retracted_text() -> None:
    turn = Turn(DRAFTS, presentation="native")
    turn.say(LONG)
    turn.say(TextRetracted())
    assert shown(turn.after(1)) == [("Draft", "…")]
    assert turn.end(TurnCompleted()) == []


@pytest.mark.parametrize(
    ("limits", "target", "presentation"),
    [(DRAFTS, GROUP, "native"), (STREAMS, PRIVATE, "native"), (STREAMS, PRIVATE, "tokens")],
)
def test_chat_without_drafts_or_streams_gets_a_live_message(
    limits: Capabilities, target: Target, presentation: str
) -> None:
    assert shown(Turn(limits, target, presentation=presentation).say(LONG)) == [("Post", LONG)]


def test_stream_gets_new_text_and_at_the_end_the_whole() -> None:
    turn = Turn(STREAMS, THREAD, presentation="native")
    assert shown(turn.say(LONG)) == [("OpenStream", LONG)]
    turn.say(" More")
    assert shown(turn.after(1)) == [("AppendStream", " More")]
    assert shown(turn.end(" words.", TurnCompleted())) == [("CloseStream", f"{LONG} More words.")]


def test_append_is_within_the_limit_of_one_call_after_escaping() -> None:
    rules = replace(SLACK.native, per_call=20)  # type: ignore[type-var]  # it has one
    turn = Turn(replace(SLACK, native=rules), THREAD, presentation="native")
    turn.say(LONG)
    turn.say(" a & b & c & d")
    pieces = [text for _ in range(9) for _, text in shown(turn.after(1))]
    assert max(map(len, pieces)) <= 20
    assert "".join(pieces) == " a &amp; b &amp; c &amp; d"


def test_stream_never_gets_the_text_of_the_next_message() -> None:
    turn = Turn(replace(STREAMS, limit=200), THREAD, presentation="native")
    numbers = "".join(f"{number:03} " for number in range(30))
    text = 2 * (numbers + "\n\n- item\n\n  ```\n  a line of code\n" + "  x\n" * 30 + "  ```\n")
    streams: list[str] = []
    for at in range(0, len(text), 7):
        for operation in turn.say(text[at : at + 7]) + turn.after(1.5):
            if isinstance(operation, OpenStream):
                streams.append("")
            if isinstance(operation, OpenStream | AppendStream):
                streams[-1] += text_of(operation)
                assert len(streams[-1].rstrip()) <= 200
    assert len(streams) > 2


def test_stream_that_the_platform_closed_continues_by_edits() -> None:
    turn = Turn(STREAMS, THREAD, presentation="native")
    turn.say(LONG)
    turn.now += 1
    turn.say_and_answer(" More", AppendStream, Refused("message_not_in_streaming_state"))
    assert shown(turn.ask()) == [("CloseStream", f"{LONG} More")]
    turn.say(" words")
    assert shown(turn.after(2)) == [("Edit", f"{LONG} More words")]
    turn = Turn(STREAMS, THREAD, presentation="native")
    turn.say_and_answer(LONG, OpenStream, Delivered(Receipt(message_id="1", degraded="no stream")))
    turn.say(" More")
    assert shown(turn.after(2)) == [("Edit", f"{LONG} More")], "the channel posted a message instead"


def test_stream_is_closed_between_words_before_its_time_and_another_begins() -> None:
    turn = Turn(STREAMS, THREAD, presentation="native")
    turn.say("One line that is said.\n\nAnother li")
    assert shown(turn.after(241)) == [("CloseStream", "One line that is said.")]
    assert shown(turn.after(1.5)) == [("OpenStream", "Another li")]
    assert shown(turn.end("ne.", TurnCompleted())) == [("CloseStream", "Another line.")]
    turn = Turn(STREAMS, THREAD, presentation="native", first_characters=1)
    turn.say("Supercalifragil")
    assert shown(turn.after(241)) == [("CloseStream", "Supercalifragil")], "a single word is not cut"
    assert shown(turn.end("istic", TurnCompleted())) == [("Edit", "Supercalifragilistic")]


def test_stream_with_retracted_text_does_not_append_the_new_text() -> None:
    turn = Turn(STREAMS, THREAD, presentation="native")
    turn.say(LONG)
    assert shown(turn.say(TextRetracted(), "Better so.")) == [("CloseStream", "Better so.")]
    assert turn.end(TurnCompleted()) == []


# Channels without edits.


def test_terminal_gets_the_right_text_without_edits() -> None:
    turn = Turn(TERMINAL)
    assert shown(turn.say("Wr")) == [("OpenStream", "Wr")]
    assert shown(turn.say("ong.")) == [("AppendStream", "ong.")]
    assert shown(turn.end(BlockFinal(text="Right."), TurnCompleted())) == [("CloseStream", "Right.")]
    turn = Turn(TERMINAL)
    turn.say("Wrong.")
    assert shown(turn.end(TextRetracted(), TurnCompleted())) == [("CloseStream", "…")]


def test_message_that_cannot_be_edited_is_followed_by_the_right_text() -> None:
    turn = Turn(replace(PLAIN, edits=None, deletes=False), presentation="blocks", block_characters=0)
    turn.say("One.\n\nTwo.\n\nThr")
    operations = turn.end(BlockFinal(text="One.\n\nTwo after all."), TurnCompleted())
    assert shown(operations) == [("Post", "Two after all.")]


# Blocks.


def test_each_paragraph_is_a_message_also_behind_an_error() -> None:
    turn = Turn(presentation="blocks", block_characters=0)
    assert shown(turn.say("One.\n\nTwo.\n\nThr")) == [("Post", "One."), ("Post", "Two.")]
    assert shown(turn.say("ee.", Error(message="broken"))) == [("Post", "Three."), ("Post", "⚠️ broken")]
    assert shown(turn.say("Four.\n\nFi")) == [("Post", "Four.")]
    assert shown(turn.end("ve.", TurnCompleted())) == [("Post", "Five.")]


def test_short_paragraphs_share_a_message_or_go_out_after_a_pause() -> None:
    turn = Turn(presentation="blocks", block_characters=10, block_idle_s=1.0)
    assert shown(turn.say("One.\n\nTwo.\n\nThree.\n\nFo")) == [("Post", "One.\n\nTwo.\n\nThree.")]
    assert turn.say("ur.\n\nFi") == []
    assert shown(turn.after(1)) == [("Post", "Four.")]


# Parts.

WITHOUT_EDITS = Capabilities(idempotency=Unkeyed(), limit=40)
FIRST, SECOND = "The river turns the wheel.", "The wheel turns the stone."


def test_part_is_sent_once_the_next_text_does_not_fit() -> None:
    turn = Turn(WITHOUT_EDITS, presentation="parts")
    assert turn.say(FIRST) == []
    assert turn.after(60) == [], "time completes no part"
    assert shown(turn.say("\n\n", *SECOND)) == [("Post", FIRST)]
    assert shown(turn.end(TurnCompleted())) == [("Post", SECOND)]


@pytest.mark.parametrize(
    ("events", "texts"),
    [
        ([FIRST, BlockFinal(), SECOND], [FIRST]),
        ([FIRST, BlockFinal(), BlockFinal(text=SECOND)], [FIRST]),
        ([FIRST, *LOOK], [FIRST]),
        ([FIRST, Error(message="slow", code="busy")], [FIRST, "⚠️ slow [busy]"]),
        ([FIRST, LOOK[0]], []),
        ([FIRST, BlockFinal()], []),
        (["One half", LOOK[0], "another", LOOK[1]], ["One half"]),
        ([LOOK[0], "The river turns", LOOK[1], " the wheel."], []),
        ([FIRST, LOOK[0], ToolFinished(id="2", parent_tool_id="1", result="")], []),
        ([FIRST, LOOK[0], TextDelta(text="a subagent", parent_tool_id="1")], []),
        ([ReasoningDelta(text="Hm."), FIRST], []),
    ],
)
def test_part_ends_with_its_block(events: list[Event | str], texts: list[str]) -> None:
    turn = Turn(WITHOUT_EDITS, presentation="parts")
    assert shown(turn.say(*events)) == [("Post", text) for text in texts]


def test_retracted_part_is_deleted_and_the_others_are_not_sent_again() -> None:
    turn = Turn(replace(WITHOUT_EDITS, deletes=True), presentation="parts")
    assert shown(turn.say(FIRST, LOOK[0], SECOND, BlockFinal(), "More")) == [("Post", FIRST), ("Post", SECOND)]
    assert kinds(turn.say(TextRetracted())) == [Delete]
    assert shown(turn.end("Instead.", TurnCompleted())) == [("Post", "Instead.")]


# The processing message.


def test_processing_message_shows_the_work_and_keeps_the_tools() -> None:
    turn = Turn(presentation="processing")
    turn.say("Let me see.", ToolStarted(id="1", name="look"))
    assert shown(turn.after(1.5)) == [("Post", "Let me see.  \n🔧 look  \n⏳ Processing... (1s)")]
    operations = turn.end(ToolFinished(id="1"), "Here it is.", TurnCompleted())
    assert shown(operations) == [("Post", "Let me see.\n\nHere it is."), ("Edit", "🔧 look ✓ 1.5s")]


def test_processing_message_comes_after_a_while_and_goes_without_tools() -> None:
    turn = Turn(presentation="processing")
    turn.say("Here ")
    assert shown(turn.end("it is.", TurnCompleted())) == [("Post", "Here it is.")]
    turn = Turn(presentation="processing")
    turn.say("Here ")
    assert kinds(turn.after(5)) == [Post]
    assert kinds(turn.end("it is.", TurnCompleted())) == [Post, Delete]


def test_processing_message_does_not_show_replaced_text() -> None:
    turn = Turn(presentation="processing")
    turn.say("Wrong.", ToolStarted(id="1", name="look"), "Also wrong.")
    turn.after(5)
    turn.say(BlockFinal(text="Right."))
    (edit,) = turn.after(5)
    assert "Also" not in text_of(edit)
    assert "Right." in text_of(edit)


def test_processing_message_keeps_interval_and_limit_of_the_channel() -> None:
    turn = Turn(DRAFTS, GROUP, presentation="processing", processing_every_s=1.0)
    turn.say(ToolStarted(id="1", name="look"))
    assert kinds(turn.after(1.5)) == [Post]
    turn.say("More.")
    assert turn.after(3.9) == []
    assert kinds(turn.after(0.1)) == [Edit]
    turn = Turn(replace(PLAIN, limit=70), presentation="processing")
    turn.say("[" * 200)
    (first,) = turn.after(5)
    assert 0 < len(text_of(first)) <= 70


# After a crash.


def resumed(*deliveries: Delivery, limits: Capabilities = PLAIN, target: Target = PRIVATE, **settings: object) -> Turn:
    return Turn(limits, target, earlier=restored_messages(deliveries), first_id=101, **settings)


def edit(message_id: str, text: str) -> Edit:
    return Edit(target=PRIVATE, message_id=message_id, body=Body(text=text))


# The deliveries of the earlier process, the events fed again, and the operations: kind, message, text.
RESUMED: dict[str, tuple[list[Delivery], list[Event | str], list[tuple[str, str, str]]]] = {
    "the same message becomes the answer": (
        [ended(1, post("One."), State.DELIVERED, "7")],
        ["One. Two."],
        [("Edit", "7", "One. Two.")],
    ),
    "an interim edit before the crash is corrected": (
        [ended(1, post(LONG), State.DELIVERED, "7")],
        [LONG],
        [("Edit", "7", LONG)],
    ),
    "a medium that may have arrived is not sent again": (
        [ended(1, post("One."), State.DELIVERED, "7"), ended(2, media(), State.UNKNOWN)],
        ["One.", Media(url="u"), "Two."],
        [("Post", "", "Two.")],
    ),
    "a message that replaced a deleted one is known": (
        [
            ended(1, post("One."), State.DELIVERED, "7"),
            ended(2, edit("7", "One. Two."), State.SUPERSEDED),
            ended(-2, post("One. Two."), State.DELIVERED, "8"),
        ],
        ["One. Two. Three."],
        [("Edit", "8", "One. Two. Three.")],
    ),
    "messages that are not needed any more are deleted": (
        [ended(1, post("One."), State.DELIVERED, "7"), ended(2, post("Two."), State.DELIVERED, "8")],
        ["Only one."],
        [("Edit", "7", "Only one."), ("Delete", "8", "")],
    ),
    "media behind a new message are sent again behind it": (
        [ended(1, post("One."), State.DELIVERED, "7"), ended(2, media(), State.DELIVERED, "8")],
        [NUMBERS, Media(url="u")],
        [
            ("Edit", "7", "One two three four five six seven eight"),
            ("Post", "", "nine ten eleven twelve."),
            ("Delete", "8", ""),
            ("PostMedia", "", ""),
        ],
    ),
    "an error note that may have arrived is known behind retracted text": (
        [ended(1, post("⚠️ broken"), State.UNKNOWN)],
        ["Wrong.", Error(message="broken"), TextRetracted(scope="turn")],
        [],
    ),
    "a medium is not taken for the retracted text before it": (
        [ended(1, media(), State.DELIVERED, "7")],
        ["Wrong.", Media(url="u"), TextRetracted(scope="turn")],
        [],
    ),
}


@pytest.mark.parametrize("name", RESUMED)
def test_turn_continues_after_a_crash(name: str) -> None:
    deliveries, events, operations = RESUMED[name]
    asked = resumed(*deliveries, limits=SHORT).end(*events, TurnCompleted())
    assert [(type(one).__name__, getattr(one, "message_id", ""), text_of(one)) for one in asked] == operations


def test_nothing_is_changed_before_as_much_text_was_fed_again() -> None:
    turn = resumed(ended(1, post(LONG), State.DELIVERED, "7"))
    assert turn.say("Here is") == []
    assert turn.after(5) == []
    assert shown(turn.say(LONG.removeprefix("Here is"), " More.")) == [("Edit", f"{LONG} More.")]


def test_stream_of_an_earlier_process_is_closed_with_the_new_text() -> None:
    stream = OpenStream(target=THREAD, body=Body(text=LONG))
    turn = resumed(ended(1, stream, State.DELIVERED, "7"), limits=STREAMS, target=THREAD, presentation="native")
    assert shown(turn.say(LONG, " More.")) == [("CloseStream", f"{LONG} More.")]


def test_processing_message_of_an_earlier_process_is_used_again() -> None:
    turn = resumed(ended(1, post("⏳", is_processing=True), State.DELIVERED, "7"), presentation="processing")
    operations = turn.end("Answer.", ToolStarted(id="1", name="look"), TurnFailed(message="broken"))
    assert shown(operations) == [("Post", "Answer."), ("Post", "⚠️ broken"), ("Edit", "🔧 look …")]


def test_processing_message_that_was_posted_again_is_known() -> None:
    deliveries = [
        ended(1, post("⏳", is_processing=True), State.DELIVERED, "7"),
        ended(2, edit("7", "🔧"), State.SUPERSEDED),
        ended(-2, post("🔧"), State.DELIVERED, "8"),
    ]
    messages = restored_messages(deliveries)
    assert [(message.message_id, message.is_processing) for message in messages] == [("8", True)]


# Typing, and what callers ask.


def test_typing_is_shown_until_people_see_a_message() -> None:
    turn = Turn(DISCORD)
    first = turn.projector.next(turn.now)
    assert isinstance(first, Typing)
    turn.answer(first)
    assert isinstance(turn.projector.next(turn.now), WaitUntil)
    assert isinstance(turn.projector.next(turn.now + 8), Typing)
    visible = Turn(DISCORD)
    visible.say(LONG)
    assert not isinstance(visible.projector.next(visible.now + 60), Typing)


def test_only_the_projector_knows_whether_an_edit_is_durable() -> None:
    turn = Turn()
    turn.say(LONG)
    turn.now += 1
    turn.feed(" More")
    interim = turn.next()
    assert isinstance(interim, Edit)
    assert not turn.projector.is_durable(interim)
    turn.answer(interim)
    turn.feed(".", TurnCompleted())
    last = turn.next()
    assert isinstance(last, Edit)
    assert turn.projector.is_durable(last)


def test_unsent_text_is_what_no_message_has_or_may_have() -> None:
    turn = Turn()
    turn.say(LONG, " More")
    assert turn.projector.unsent.text == f"{LONG} More"
    assert turn.projector.unsent.message_id == "1"
    turn = Turn()
    turn.say_and_answer(LONG, Post, NO_ANSWER)
    turn.feed(" And more.")
    assert turn.projector.unsent.text == " And more."
    turn = Turn(replace(PLAIN, limit=100), presentation="final")
    turn.feed("Something else.", BlockFinal(text=NUMBERS * 3))
    assert turn.projector.unsent.text == NUMBERS * 3
