"""The projector by examples: one turn in one chat, and the operations it asks for, step by step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

import pytest
from msgspec.structs import replace
from projected_turn import PLAIN, PRIVATE, Step, Turn, shown, text_of

from tailrace.capabilities import DISCORD, SLACK, TELEGRAM, TERMINAL, Capabilities, Unkeyed
from tailrace.deliveries import Policy, Snapshot, State, moved, plan, sending
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
    Entity,
    NotNow,
    OpenStream,
    Post,
    PostMedia,
    Receipt,
    Refused,
    Target,
    Typing,
)
from tailrace.projector import Presentation, WaitUntil, restored_messages

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


DONE = TurnCompleted()
LOOK = (ToolStarted(id="1", name="look"), ToolFinished(id="1"))
BROKEN = Error(message="broken", code="c1")
GROUP_CHAT: dict[str, Any] = {"limits": DRAFTS, "target": GROUP}
DRAFT: dict[str, Any] = {"limits": DRAFTS, "presentation": "native"}
STREAM: dict[str, Any] = {"limits": STREAMS, "target": THREAD, "presentation": "native"}
PROCESSING: dict[str, Any] = {"presentation": "processing"}
BLOCKS: dict[str, Any] = {"presentation": "blocks", "block_characters": 0}
WITHOUT_EDITS = Capabilities(idempotency=Unkeyed(), limit=40)
PARTS: dict[str, Any] = {"limits": WITHOUT_EDITS, "presentation": "parts"}
FIRST, SECOND = "The river turns the wheel.", "The wheel turns the stone."

# The settings of a turn, and its steps.
TURNS: dict[str, tuple[dict[str, Any], list[Step]]] = {
    # Live messages.
    "the first message waits for enough text": (
        {},
        [("He",), ("re is what I found out about it all.", f"Post {LONG}")],
    ),
    "a short first message waits for some time": ({}, [("Hi",), (1.5, "Post Hi")]),
    "scar 31: a message is edited at the interval of the channel": (
        {},
        [
            (LONG, f"Post {LONG}"),
            (" And",),
            (0.5,),
            (0.5, f"Edit {LONG} And"),
            ([" more.", DONE], f"Edit {LONG} And more."),
        ],
    ),
    "a message in a group is edited at the interval of groups": (
        GROUP_CHAT,
        [(LONG, f"Post {LONG}"), (" More",), (3.9,), (0.1, f"Edit {LONG} More")],
    ),
    "scar 14: a message that has the whole answer is not sent or edited again": ({}, [(LONG, f"Post {LONG}"), (DONE,)]),
    "scar 12: an answer over the limit continues in another message": (
        {"limits": SHORT},
        [(NUMBERS, "Post One two three four five six seven eight"), (DONE, "Post nine ten eleven twelve.")],
    ),
    "a message with retracted text waits for other text": (
        {},
        [(LONG, f"Post {LONG}"), (TextRetracted(),), (1, "Edit …"), (["Better.", DONE], "Edit Better.")],
    ),
    "a message with retracted text is deleted if no text follows": (
        {},
        [(LONG, f"Post {LONG}"), ([TextRetracted(), DONE], "Delete")],
    ),
    "a tool is shown below the text, and a silent turn leaves no message": (
        {},
        [(LOOK[0],), (1.5, "Post 🔧 look"), ([LOOK[1], "NO_REPLY", DONE], "Delete")],
    ),
    "a silent reply is silent although the last event has another text": (
        {},
        [(["NO_REPLY", TurnCompleted(text="Something else.")],)],
    ),
    "a cancelled turn finishes visible messages and begins none": (
        {"limits": SHORT},
        [
            ("One two three four five six seven", "Post One two three four five six seven"),
            ([" eight nine ten eleven twelve.", TurnCancelled()], "Edit One two three four five six seven eight"),
        ],
    ),
    # Drafts and streams.
    "a draft is renewed before it vanishes and becomes a message": (
        DRAFT,
        [("One", "Draft One"), (20,), (5, "Draft One"), (DONE, "Post One")],
    ),
    "a draft does not show retracted text": (
        DRAFT,
        [(LONG, f"Draft {LONG}"), (TextRetracted(),), (1, "Draft …"), (DONE,)],
    ),
    "a group has no drafts": ({**DRAFT, "target": GROUP}, [(LONG, f"Post {LONG}")]),
    "there are no streams outside of a thread": ({**STREAM, "target": PRIVATE}, [(LONG, f"Post {LONG}")]),
    "tokens become a live message if there are no streams": (
        {"limits": STREAMS, "presentation": "tokens"},
        [(LONG, f"Post {LONG}")],
    ),
    "a stream gets new text and at the end the whole": (
        STREAM,
        [
            (LONG, f"OpenStream {LONG}"),
            (" More",),
            (1, "AppendStream  More"),
            ([" words.", DONE], f"CloseStream {LONG} More words."),
        ],
    ),
    "a stream is closed between words before its time, and another begins": (
        STREAM,
        [
            ("One line that is said.\n\nAnother li", "OpenStream One line that is said.\n\nAnother li"),
            (241, "CloseStream One line that is said."),
            (1.5, "OpenStream Another li"),
            (["ne.", DONE], "CloseStream Another line."),
        ],
    ),
    "a single word is not cut when its stream is closed": (
        {**STREAM, "first_characters": 1},
        [
            ("Supercalifragil", "OpenStream Supercalifragil"),
            (241, "CloseStream Supercalifragil"),
            (["istic", DONE], "Edit Supercalifragilistic"),
        ],
    ),
    "a stream with retracted text does not append the new text": (
        STREAM,
        [(LONG, f"OpenStream {LONG}"), ([TextRetracted(), "Better so."], "CloseStream Better so."), (DONE,)],
    ),
    # Channels without edits.
    "a terminal gets the right text at the end": (
        {"limits": TERMINAL},
        [
            ("Wr", "OpenStream Wr"),
            ("ong.", "AppendStream ong."),
            ([BlockFinal(text="Right."), DONE], "CloseStream Right."),
        ],
    ),
    "a terminal shows retracted text no more": (
        {"limits": TERMINAL},
        [("Wrong.", "OpenStream Wrong."), ([TextRetracted(), DONE], "CloseStream …")],
    ),
    "a message that cannot be edited is followed by the right text": (
        {**BLOCKS, "limits": replace(PLAIN, edits=None, deletes=False)},
        [
            ("One.\n\nTwo.\n\nThr", "Post One.", "Post Two."),
            ([BlockFinal(text="One.\n\nTwo after all."), DONE], "Post Two after all."),
        ],
    ),
    # Blocks and parts.
    "each paragraph is a message, also behind an error": (
        BLOCKS,
        [
            ("One.\n\nTwo.\n\nThr", "Post One.", "Post Two."),
            (["ee.", BROKEN], "Post Three.", "Post ⚠️ broken [c1]"),
            ("Four.\n\nFi", "Post Four."),
            (["ve.", DONE], "Post Five."),
        ],
    ),
    "short paragraphs share a message or are sent after a pause": (
        {"presentation": "blocks", "block_characters": 10, "block_idle_s": 1.0},
        [("One.\n\nTwo.\n\nThree.\n\nFo", "Post One.\n\nTwo.\n\nThree."), ("ur.\n\nFi",), (1, "Post Four.")],
    ),
    "a part is sent once the next text does not fit, and time completes none": (
        PARTS,
        [(FIRST,), (60,), (["\n\n", *SECOND], f"Post {FIRST}"), (DONE, f"Post {SECOND}")],
    ),
    "a retracted part is deleted, and the others are not sent again": (
        {**PARTS, "limits": replace(WITHOUT_EDITS, deletes=True)},
        [
            ([FIRST, LOOK[0], SECOND, BlockFinal(), "More"], f"Post {FIRST}", f"Post {SECOND}"),
            (TextRetracted(), "Delete"),
            (["Instead.", DONE], "Post Instead."),
        ],
    ),
    # The processing message.
    "scar 32: the answer behind a processing message is a new message": (
        PROCESSING,
        [
            (["Let me see.", LOOK[0]],),
            (1.5, "Post Let me see.  \n🔧 look  \n⏳ Processing... (1s)"),
            ([LOOK[1], "Here it is.", DONE], "Post Let me see.\n\nHere it is.", "Edit 🔧 look ✓ 1.5s"),
        ],
    ),
    "a quick answer has no processing message": (PROCESSING, [("Here",), ([" it is.", DONE], "Post Here it is.")]),
    "a processing message without tools is deleted": (
        PROCESSING,
        [("Here",), (5, "Post Here  \n⏳ Processing... (5s)"), ([" it is.", DONE], "Post Here it is.", "Delete")],
    ),
    "a processing message keeps the interval of the channel": (
        {**GROUP_CHAT, **PROCESSING, "processing_every_s": 1.0},
        [
            (LOOK[0],),
            (1.5, "Post 🔧 look  \n⏳ Processing... (1s)"),
            ("More.",),
            (3.9,),
            (0.1, "Edit 🔧 look  \nMore.  \n⏳ Processing... (5s)"),
        ],
    ),
}


@pytest.mark.parametrize("name", TURNS)
def test_operations_of_a_turn_step_by_step(name: str) -> None:
    settings, steps = TURNS[name]
    Turn(**settings).play(*steps)


def test_processing_message_does_not_show_replaced_text() -> None:
    turn = Turn(**PROCESSING)
    turn.say("Wrong.", LOOK[0], "Also wrong.")
    turn.after(5)
    turn.say(BlockFinal(text="Right."))
    (edit,) = turn.after(5)
    assert "Also" not in text_of(edit)
    assert "Right." in text_of(edit)


def test_processing_message_keeps_the_limit_of_the_channel() -> None:
    turn = Turn(replace(PLAIN, limit=70), **PROCESSING)
    turn.say("[" * 200)
    (first,) = turn.after(5)
    assert 0 < len(text_of(first)) <= 70


def test_messages_that_a_shorter_text_does_not_need_are_deleted_at_once() -> None:
    turn = Turn(SHORT)
    turn.say(NUMBERS)
    turn.after(2)
    operations = turn.say(BlockFinal(text="Short after all."))
    assert [operation.message_id for operation in operations if isinstance(operation, Delete)] == ["2"]
    turn.play((DONE, "Edit Short after all."))


# Whole turns.

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
    "scar 16: a retraction removes all blocks since the last tool": (
        ["One.", *LOOK, "Two.", BlockFinal(), "Three.", BlockFinal(), TextRetracted(), "Four."],
        ["One.\n\nFour."],
    ),
    "scar 12: text before and after a tool stays apart": (
        ["Let me look.", *LOOK, "Found it."],
        ["Let me look.\n\nFound it."],
    ),
    "scar 16: an answer that the runtime repeats is shown once": (
        ["One.", BlockFinal(text="One. Two."), TurnCompleted(text="One. Two.")],
        ["One. Two."],
    ),
    "scar 18: a paragraph that is written twice is shown twice": (
        ["Same.\n\nSame.", BlockFinal(text="Same.\n\nSame."), *LOOK, "Same."],
        ["Same.\n\nSame.\n\nSame."],
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
    "scar 22: every error is shown although its text repeats": (
        ["broken", BROKEN, BROKEN, TurnFailed(message="broken")],
        ["broken", "⚠️ broken [c1]", "⚠️ broken [c1]", "⚠️ broken"],
    ),
    "a failed turn ends with its error": (["One.", TurnFailed(message="broken")], ["One.", "⚠️ broken"]),
}


@pytest.mark.parametrize("name", WHOLE_TURNS)
def test_messages_of_a_whole_turn(name: str) -> None:
    events, texts = WHOLE_TURNS[name]
    has_end = isinstance(events[-1], TurnCompleted | TurnFailed)
    turn = Turn(replace(PLAIN, caption_limit=5), presentation="final")
    operations = turn.end(*events, *([] if has_end else [DONE]))
    assert {type(operation) for operation in operations} <= {Post, PostMedia}
    assert [text_of(operation) for operation in operations] == texts


def test_caption_is_rendered_and_measured_as_people_see_it() -> None:
    turn = Turn(replace(TELEGRAM, caption_limit=6))
    [styled] = turn.say(Media(url="u", caption="A **mill**"))
    assert styled == PostMedia(
        target=PRIVATE, url="u", caption="A mill", entities=(Entity(type="bold", offset=2, length=4),)
    )
    assert shown(turn.say(Media(url="v", caption="The **mill**"))) == ["PostMedia", "Post The mill"]


def test_turn_without_a_terminal_event_says_that_it_was_cut_off() -> None:
    assert shown(Turn().end("One.")) == ["Post One.", "Post ⚠️ The answer ended before it was complete."]


@pytest.mark.parametrize("presentation", get_args(Presentation))
def test_scar_34_silent_word_cut_anywhere_leaves_no_trace(presentation: str) -> None:
    for at in range(len("NO_REPLY") + 1):
        # Each pause is longer than the one after which a message begins with however little text.
        before, after = "NO_REPLY"[:at], "NO_REPLY"[at:]
        Turn(presentation=presentation).play((before,), (1.6,), (after,), (1.6,), (DONE,))
    assert Turn(presentation=presentation).end(DONE) == [], "nor does a turn without text"


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
    Turn(**PARTS).play((events, *(f"Post {text}" for text in texts)))


# Calls that fail.


def test_nothing_is_asked_for_before_retry_after() -> None:
    turn = Turn()
    turn.say(LONG)
    turn.now += 1
    turn.say_and_answer(" More", Edit, NotNow("too many", retry_after=30.0))
    assert turn.say(DONE) == []
    turn.play((29.9,), (0.1, f"Edit {LONG} More"))


def test_message_whose_edit_is_refused_is_not_edited_before_the_end() -> None:
    turn = Turn()
    turn.say(LONG)
    turn.now += 1
    turn.say_and_answer(" More", Edit, NOT_HERE)
    turn.play((60,), (DONE, f"Edit {LONG} More"))


def test_message_refused_after_the_turn_was_cancelled_is_not_sent_again() -> None:
    turn = Turn()
    turn.feed(LONG)
    first = turn.next()
    assert isinstance(first, Post)
    turn.feed(" More.", TurnCancelled())
    turn.answer(first, NOT_HERE)
    assert turn.end() == []


def test_message_that_may_have_arrived_is_not_sent_again() -> None:
    turn = Turn(presentation="final")
    turn.feed("One.", BROKEN, DONE)
    first = turn.next()
    assert isinstance(first, Post)
    assert shown(turn.ask()) == ["Post ⚠️ broken [c1]"]
    turn.answer(first, NO_ANSWER)
    assert turn.end() == []


@pytest.mark.parametrize(("more", "posts"), [(" More.", [f"Post {LONG} More."]), ("", [])])
def test_first_preview_that_may_have_arrived_is_followed_only_by_new_text(more: str, posts: list[str]) -> None:
    turn = Turn()
    turn.say_and_answer(LONG, Post, NO_ANSWER)
    turn.play((more,), (DONE, *posts))


def test_message_that_may_have_arrived_stays_when_a_later_block_changes() -> None:
    turn = Turn(SHORT)
    turn.say_and_answer("One two three four five six seven eight nine ten", Post, NO_ANSWER)
    turn.after(2)
    operations = turn.end(BlockFinal(text="One two three four five six seven eight nine eleven."), DONE)
    assert "One two" not in "".join(shown(operations))


def test_refused_draft_becomes_a_live_message() -> None:
    turn = Turn(**DRAFT)
    turn.say_and_answer(LONG, Draft, NOT_HERE)
    turn.play((0, f"Post {LONG}"), (" More.",), (2, f"Edit {LONG} More."))


def test_stream_that_the_platform_closed_continues_by_edits() -> None:
    turn = Turn(**STREAM)
    turn.say(LONG)
    turn.now += 1
    turn.say_and_answer(" More", AppendStream, Refused("message_not_in_streaming_state"))
    turn.play((0, f"CloseStream {LONG} More"), (" words",), (2, f"Edit {LONG} More words"))


def test_stream_that_the_channel_posted_as_a_message_continues_by_edits() -> None:
    turn = Turn(**STREAM)
    turn.say_and_answer(LONG, OpenStream, Delivered(Receipt(message_id="1", degraded="no stream")))
    turn.play((" More",), (2, f"Edit {LONG} More"))


def test_append_is_within_the_limit_of_one_call_after_escaping() -> None:
    rules = replace(SLACK.native, per_call=20)  # type: ignore[type-var]  # it has one
    turn = Turn(replace(SLACK, native=rules), THREAD, presentation="native")
    turn.say(LONG)
    turn.say(" a & b & c & d")
    pieces = [text_of(operation) for _ in range(9) for operation in turn.after(1)]
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


# After a crash.


def resumed(*deliveries: Delivery, limits: Capabilities = PLAIN, target: Target = PRIVATE, **settings: Any) -> Turn:
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
    asked = resumed(*deliveries, limits=SHORT).end(*events, DONE)
    assert [(type(one).__name__, getattr(one, "message_id", ""), text_of(one)) for one in asked] == operations


def test_nothing_is_changed_before_as_much_text_was_fed_again() -> None:
    turn = resumed(ended(1, post(LONG), State.DELIVERED, "7"))
    rest = LONG.removeprefix("Here is")
    turn.play(("Here is",), (5,), ([rest, " More."], f"Edit {LONG} More."))


def test_stream_of_an_earlier_process_is_closed_with_the_new_text() -> None:
    stream = OpenStream(target=THREAD, body=Body(text=LONG))
    turn = resumed(ended(1, stream, State.DELIVERED, "7"), limits=STREAMS, target=THREAD, presentation="native")
    turn.play(([LONG, " More."], f"CloseStream {LONG} More."))


def test_processing_message_of_an_earlier_process_is_used_again() -> None:
    turn = resumed(ended(1, post("⏳", is_processing=True), State.DELIVERED, "7"), **PROCESSING)
    failed = TurnFailed(message="broken")
    turn.play((["Answer.", LOOK[0], failed], "Post Answer.", "Post ⚠️ broken", "Edit 🔧 look …"))


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
    assert turn.projector.next(turn.now) == WaitUntil(turn.now + 0.3), "an agent may answer at once"
    turn.now += 0.3
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
    turn.feed(".", DONE)
    last = turn.next()
    assert isinstance(last, Edit)
    assert turn.projector.is_durable(last)


def test_unsent_text_is_what_no_message_has_or_may_have() -> None:
    turn = Turn()
    turn.say(LONG, " More")
    assert turn.projector.unsent == Snapshot(text=f"{LONG} More", message_id="1")
    turn = Turn()
    turn.say_and_answer(LONG, Post, NO_ANSWER)
    turn.feed(" And more.")
    assert turn.projector.unsent == Snapshot(text=" And more.")
    turn = Turn(replace(PLAIN, limit=100), presentation="final")
    turn.feed("Something else.", BlockFinal(text=NUMBERS * 3))
    assert turn.projector.unsent == Snapshot(text=NUMBERS * 3)
