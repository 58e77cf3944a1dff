"""The projector by examples: one turn in one place, and what the channel is asked for, step by step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from tailrace.capabilities import DISCORD, SLACK, TELEGRAM, TERMINAL, Capabilities, EditRules, Unkeyed
from tailrace.deliveries import Policy, State, moved, plan, sending
from tailrace.events import (
    BlockFinal,
    Error,
    Media,
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
    CloseStream,
    Delete,
    Delivered,
    Draft,
    Edit,
    NotNow,
    OpenStream,
    Operation,
    Post,
    PostMedia,
    Receipt,
    Refused,
    Target,
    Typing,
)
from tailrace.projector import IDLE, Idle, Projector, ProjectorSettings, WaitUntil, restored_messages

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tailrace.deliveries import Delivery
    from tailrace.events import Event
    from tailrace.operations import Durable, Outcome
    from tailrace.projector import NextAction
    from tailrace.projector.message import TurnMessage

PRIVATE = Target(channel="c", chat="1")
GROUP = Target(channel="c", chat="1", group=True)
THREAD = Target(channel="c", chat="1", thread="7")
LONG = "Here is what I found out about it all."
NOT_HERE = Refused("not here")
PLAIN = Capabilities(idempotency=Unkeyed(), edits=EditRules(every_s=1.0), deletes=True, presentation="live")


class Turn:
    """One turn, whose clock stands still unless it is told otherwise; what is asked for is answered at once."""

    def __init__(
        self,
        limits: Capabilities = PLAIN,
        target: Target = PRIVATE,
        *,
        earlier: Iterable[TurnMessage] = (),
        **wishes: object,
    ) -> None:
        self.projector = Projector(target, limits, ProjectorSettings(**wishes), earlier=earlier)  # type: ignore[arg-type]
        self.now = 100.0
        self._messages = 0

    def say(self, *events: Event | str) -> list[Operation]:
        """Feed these, texts as pieces of the answer, and give what is asked for."""
        for event in events:
            self.projector.feed(TextDelta(text=event) if isinstance(event, str) else event, self.now)
        return self.ask()

    def after(self, seconds: float) -> list[Operation]:
        """Let time pass, and give what is asked for then."""
        self.now += seconds
        return self.ask()

    def end(self, *events: Event | str) -> list[Operation]:
        """Feed the last events, and give all that is asked for."""
        asked = self.say(*events)
        self.projector.close(self.now)
        asked += self.ask()
        assert self.projector.is_finished
        assert self.projector.next(self.now + 1e6) is IDLE
        return asked

    def ask(self) -> list[Operation]:
        """All that is asked for now, without typing; each is done."""
        asked: list[Operation] = []
        for _ in range(100):
            step = self.step()
            if isinstance(step, Idle) or (isinstance(step, WaitUntil) and step.at > self.now):
                return asked
            if not isinstance(step, WaitUntil):
                asked.append(step)
                self.answer(step)
        raise AssertionError("it asks for ever")

    def step(self) -> NextAction:
        """The next step that is not typing; nothing is answered."""
        while isinstance(step := self.projector.next(self.now), Typing):
            self.answer(step)
        return step

    def answer(self, operation: Operation, outcome: Outcome | None = None) -> None:
        """What came of it: it is there, where nothing else is said."""
        if outcome is None:
            outcome = Delivered(Receipt(message_id=self._id_of(operation)))
        self.projector.receipt(operation, outcome, self.now)

    def _id_of(self, operation: Operation) -> str:
        if isinstance(operation, Edit | Delete):
            return operation.message_id
        if isinstance(operation, AppendStream | CloseStream):
            return operation.stream_id
        if isinstance(operation, Post | PostMedia | OpenStream):
            self._messages += 1
            return str(self._messages)
        return ""


def shown(asked: Iterable[Operation]) -> list[tuple[str, str]]:
    """The kinds of operations, and what they say."""
    return [(type(operation).__name__, text_of(operation)) for operation in asked]


def text_of(operation: Operation) -> str:
    match operation:
        case Post() | Edit() | OpenStream() | CloseStream() | Draft():
            return operation.body.text
        case AppendStream():
            return operation.text
        case PostMedia():
            return operation.caption
        case _:
            return ""


def ended(ordinal: int, operation: Durable, state: State, message_id: str = "") -> Delivery:
    delivery = plan(operation, turn_id="t", ordinal=ordinal, policy=Policy(idempotency=Unkeyed()), now=0.0)
    delivery = sending(delivery, now=0.0)
    if state is State.UNKNOWN:
        delivery = moved(delivery, State.AMBIGUOUS, now=0.0)
    return moved(delivery, state, now=0.0, receipt=Receipt(message_id=message_id) if message_id else None)


def post(text: str, *, is_processing: bool = False) -> Post:
    return Post(target=PRIVATE, body=Body(text=text), is_processing=is_processing)


# Live messages.


def test_the_first_message_waits_for_enough_to_read() -> None:
    turn = Turn()
    assert turn.say("He") == []
    assert shown(turn.say("re is what I found out about it all.")) == [("Post", LONG)]


def test_the_first_message_comes_after_a_while_however_little_it_says() -> None:
    turn = Turn()
    assert turn.say("Hi") == []
    assert shown(turn.after(1.5)) == [("Post", "Hi")]


def test_a_message_grows_at_the_pace_of_the_channel_and_ends_in_place() -> None:
    turn = Turn()
    turn.say(LONG)
    assert turn.say(" And") == []
    assert turn.after(0.5) == []
    assert shown(turn.after(0.5)) == [("Edit", f"{LONG} And")]
    assert shown(turn.end(" more.", TurnCompleted())) == [("Edit", f"{LONG} And more.")]


def test_an_answer_that_is_shown_already_is_not_sent_again() -> None:
    turn = Turn()
    turn.say(LONG)
    assert turn.end(TurnCompleted()) == []


def test_in_groups_messages_are_edited_less_often() -> None:
    turn = Turn(replace(TELEGRAM, dialect="markdown"), GROUP)
    turn.say(LONG)
    turn.say(" More")
    assert turn.after(3.9) == []
    assert shown(turn.after(0.1)) == [("Edit", f"{LONG} More")]


def test_nothing_is_asked_for_before_the_platform_takes_anything() -> None:
    turn = Turn()
    turn.say(LONG)
    turn.now += 1
    turn.projector.feed(TextDelta(text=" More"), turn.now)
    edit = turn.step()
    assert isinstance(edit, Edit)
    turn.answer(edit, NotNow("too many", retry_after=30.0))
    assert turn.say(TurnCompleted()) == []
    assert turn.after(29.9) == []
    assert shown(turn.after(0.1)) == [("Edit", f"{LONG} More")]


def test_an_edit_that_is_refused_leaves_the_message_to_its_end() -> None:
    turn = Turn()
    turn.say(LONG)
    turn.now += 1
    turn.projector.feed(TextDelta(text=" More"), turn.now)
    edit = turn.step()
    assert isinstance(edit, Edit)
    turn.answer(edit, NOT_HERE)
    assert turn.after(60) == []
    assert shown(turn.end(TurnCompleted())) == [("Edit", f"{LONG} More")]


def test_an_answer_past_the_limit_goes_on_in_another_message() -> None:
    turn = Turn(replace(PLAIN, limit=40))
    first = turn.say("One two three four five six seven eight nine ten eleven twelve.")
    assert shown(first) == [("Post", "One two three four five six seven eight")]
    assert shown(turn.end(TurnCompleted())) == [("Post", "nine ten eleven twelve.")]


def test_blocks_stand_apart_and_no_block_stands_in_the_code_of_another() -> None:
    turn = Turn(presentation="final")
    asked = turn.end("One.", BlockFinal(), "```\ncode", BlockFinal(), "Two.", TurnCompleted())
    assert shown(asked) == [("Post", "One.\n\n```\ncode\n```\n\nTwo.")]


def test_errors_and_media_come_behind_what_was_said_before_them() -> None:
    turn = Turn(presentation="final")
    asked = turn.end(
        "One.", Error(message="broken", code="c1"), "Two.", Media(url="u", caption="seen"), TurnCompleted()
    )
    assert shown(asked) == [("Post", "One."), ("Post", "⚠️ broken [c1]"), ("Post", "Two."), ("PostMedia", "seen")]


def test_a_caption_that_is_too_long_comes_as_a_message() -> None:
    turn = Turn(replace(PLAIN, caption_limit=5))
    asked = turn.end(Media(url="u", caption="a view"), Media(url="v", caption="small"), TurnCompleted())
    assert shown(asked) == [("PostMedia", ""), ("Post", "a view"), ("PostMedia", "small")]


def test_a_turn_that_was_cut_off_says_so_behind_what_it_said() -> None:
    turn = Turn()
    assert shown(turn.end("One.")) == [("Post", "One."), ("Post", "⚠️ The answer ended before it was complete.")]


# Text that is taken back, replaced, thought or kept silent.


def test_a_message_whose_text_was_taken_back_waits_for_other_text() -> None:
    turn = Turn()
    turn.say(LONG)
    turn.say(TextRetracted())
    assert shown(turn.after(1)) == [("Edit", "…")]
    assert shown(turn.end("Better.", TurnCompleted())) == [("Edit", "Better.")]


def test_a_message_whose_text_was_taken_back_is_taken_away_where_none_follows() -> None:
    turn = Turn()
    turn.say(LONG)
    assert [type(asked) for asked in turn.end(TextRetracted(), TurnCompleted())] == [Delete]


def test_all_blocks_since_a_tool_are_taken_back_and_none_before_it() -> None:
    turn = Turn(presentation="final")
    tool = (ToolStarted(id="1", name="look"), ToolFinished(id="1"))
    retracted = ("One.", *tool, "Two.", BlockFinal(), "Three.", BlockFinal(), TextRetracted())
    assert shown(turn.end(*retracted, "Four.", TurnCompleted())) == [("Post", "One.\n\nFour.")]


def test_text_before_a_tool_stands_when_something_is_taken_back_behind_it() -> None:
    turn = Turn(presentation="final")
    asked = turn.end("One.", ToolStarted(id="1", name="look"), TextRetracted(), TurnCompleted())
    assert shown(asked) == [("Post", "One.")]


def test_messages_that_a_shorter_text_does_not_need_are_taken_away_at_once() -> None:
    turn = Turn(replace(PLAIN, limit=40))
    turn.say("One two three four five six seven eight nine ten eleven twelve.")
    turn.after(2)
    asked = turn.say(BlockFinal(text="Short after all."))
    assert [operation.message_id for operation in asked if isinstance(operation, Delete)] == ["2"]
    assert shown(turn.end(TurnCompleted())) == [("Edit", "Short after all.")]


def test_the_text_of_the_end_is_the_answer_where_none_stands() -> None:
    assert shown(Turn().end("Wrong.", TextRetracted(), TurnCompleted(text="Right."))) == [("Post", "Right.")]
    assert shown(Turn().end("thoughts\n</think>\n", TurnCompleted(text="Right."))) == [("Post", "Right.")]
    assert shown(Turn().end("Said.", TurnCompleted(text="Ignored."))) == [("Post", "Said.")]


def test_a_silent_reply_stays_silent_though_the_end_repeats_it() -> None:
    for at in range(len("NO_REPLY")):
        assert Turn().end("NO_REPLY"[:at], "NO_REPLY"[at:], TurnCompleted(text="NO_REPLY")) == []
    assert Turn().end("NO_REPLY", TurnCompleted(text="Something else.")) == []


def test_a_block_that_ends_in_a_closing_tag_was_all_thought() -> None:
    turn = Turn(presentation="final")
    asked = turn.end("thoughts ", BlockFinal(text="thoughts </think>"), "The answer.", TurnCompleted())
    assert shown(asked) == [("Post", "The answer.")]


def test_a_tool_is_shown_below_the_text_and_a_silent_turn_leaves_no_message() -> None:
    turn = Turn()
    turn.say(ToolStarted(id="1", name="look"))
    assert shown(turn.after(1.5)) == [("Post", "🔧 look")]
    assert [type(asked) for asked in turn.end(ToolFinished(id="1"), "NO_REPLY", TurnCompleted())] == [Delete]


# Turns that are stopped.


def test_a_stopped_turn_finishes_what_is_seen_and_begins_nothing() -> None:
    turn = Turn(replace(PLAIN, limit=40))
    turn.say("One two three four five six seven")
    asked = turn.end(" eight nine ten eleven twelve.", TurnCancelled())
    assert shown(asked) == [("Edit", "One two three four five six seven eight")]


def test_a_message_that_was_on_its_way_when_the_turn_was_stopped_and_is_refused_does_not_come_again() -> None:
    turn = Turn()
    turn.projector.feed(TextDelta(text=LONG), turn.now)
    first = turn.step()
    assert isinstance(first, Post)
    turn.projector.feed(TextDelta(text=" More."), turn.now)
    turn.projector.feed(TurnCancelled(), turn.now)
    turn.answer(first, NOT_HERE)
    assert turn.end() == []


# What may be there.


def test_a_part_that_may_be_there_is_not_said_again_and_what_follows_is() -> None:
    turn = Turn(presentation="final")
    turn.projector.feed(TextDelta(text="One."), turn.now)
    turn.projector.feed(Error(message="broken"), turn.now)
    turn.projector.feed(TurnCompleted(), turn.now)
    first = turn.step()
    assert shown([first]) == [("Post", "One.")]  # type: ignore[list-item]  # or this fails
    assert shown(turn.ask()) == [("Post", "⚠️ broken")]
    turn.answer(first, Ambiguous("no answer"))  # type: ignore[arg-type]  # it is the post
    assert turn.end() == []


def test_a_first_preview_that_may_be_there_is_followed_by_the_whole_answer() -> None:
    turn = Turn()
    turn.projector.feed(TextDelta(text=LONG), turn.now)
    first = turn.step()
    assert isinstance(first, Post)
    turn.answer(first, Ambiguous("no answer"))
    assert turn.say(" More.") == []
    assert shown(turn.end(TurnCompleted())) == [("Post", f"{LONG} More.")]


def test_a_first_preview_that_may_be_there_and_says_all_is_not_sent_again() -> None:
    turn = Turn()
    turn.projector.feed(TextDelta(text=LONG), turn.now)
    first = turn.step()
    assert isinstance(first, Post)
    turn.answer(first, Ambiguous("no answer"))
    assert turn.end(TurnCompleted()) == []


def test_a_part_that_may_be_there_is_not_said_again_though_another_block_is_replaced() -> None:
    turn = Turn(replace(PLAIN, limit=40))
    turn.projector.feed(TextDelta(text="One two three four five six seven eight nine ten"), turn.now)
    first = turn.step()
    assert isinstance(first, Post)
    turn.answer(first, Ambiguous("no answer"))
    turn.after(2)
    asked = turn.end(BlockFinal(text="One two three four five six seven eight nine eleven."), TurnCompleted())
    assert "One two" not in "".join(text for _, text in shown(asked))


# Drafts and streams.


def test_a_draft_is_renewed_before_it_vanishes_and_becomes_a_message() -> None:
    turn = Turn(replace(TELEGRAM, dialect="markdown"), presentation="native")
    assert shown(turn.say("One")) == [("Draft", "One")]
    assert turn.after(20) == []
    assert shown(turn.after(5)) == [("Draft", "One")]
    assert shown(turn.end(TurnCompleted())) == [("Post", "One")]


def test_where_drafts_are_refused_the_answer_is_a_live_message() -> None:
    turn = Turn(replace(TELEGRAM, dialect="markdown"), presentation="native")
    turn.projector.feed(TextDelta(text=LONG), turn.now)
    draft = turn.step()
    assert isinstance(draft, Draft)
    turn.answer(draft, NOT_HERE)
    assert shown(turn.ask()) == [("Post", LONG)]
    turn.say(" More.")
    assert shown(turn.after(2)) == [("Edit", f"{LONG} More.")]


def test_a_draft_whose_text_was_taken_back_shows_it_no_more() -> None:
    turn = Turn(replace(TELEGRAM, dialect="markdown"), presentation="native")
    turn.say(LONG)
    turn.say(TextRetracted())
    assert shown(turn.after(1)) == [("Draft", "…")]
    assert turn.end(TurnCompleted()) == []


def test_in_a_group_there_are_no_drafts() -> None:
    turn = Turn(replace(TELEGRAM, dialect="markdown"), GROUP, presentation="native")
    assert shown(turn.say(LONG)) == [("Post", LONG)]


def test_a_stream_is_given_what_is_new_and_set_to_the_whole_in_the_end() -> None:
    turn = Turn(replace(SLACK, dialect="markdown"), THREAD, presentation="native")
    assert shown(turn.say(LONG)) == [("OpenStream", LONG)]
    turn.say(" More")
    assert shown(turn.after(1)) == [("AppendStream", " More")]
    assert shown(turn.end(" words.", TurnCompleted())) == [("CloseStream", f"{LONG} More words.")]


def test_no_call_gives_a_stream_more_than_it_takes_however_it_is_escaped() -> None:
    rules = replace(SLACK.native, per_call=20)  # type: ignore[type-var]  # it has one
    turn = Turn(replace(SLACK, native=rules), THREAD, presentation="native")
    turn.say(LONG)
    turn.say(" a & b & c & d")
    pieces = [text for _ in range(9) for _, text in shown(turn.after(1))]
    assert max(map(len, pieces)) <= 20
    assert "".join(pieces) == " a &amp; b &amp; c &amp; d"


def test_a_stream_is_never_given_what_the_next_message_will_say() -> None:
    turn = Turn(replace(SLACK, limit=200, dialect="markdown"), THREAD, presentation="native")
    said = (
        "".join(f"{number:03} " for number in range(30))
        + "\n\n- item\n\n"
        + "  ```\n  a line of code\n"
        + "  x\n" * 30
        + "  ```\n"
    )
    streams: list[str] = []
    for at in range(0, 2 * len(said), 7):
        for operation in turn.say((said + said)[at : at + 7]) + turn.after(1.5):
            if isinstance(operation, OpenStream):
                streams.append("")
            if isinstance(operation, OpenStream | AppendStream):
                streams[-1] += text_of(operation)
                assert len(streams[-1].rstrip()) <= 200
    assert len(streams) > 2


def test_a_stream_that_the_platform_ended_goes_on_as_a_message_that_is_edited() -> None:
    turn = Turn(replace(SLACK, dialect="markdown"), THREAD, presentation="native")
    turn.say(LONG)
    turn.now += 1
    turn.projector.feed(TextDelta(text=" More"), turn.now)
    append = turn.step()
    assert isinstance(append, AppendStream)
    turn.answer(append, Refused("message_not_in_streaming_state"))
    assert shown(turn.ask()) == [("CloseStream", f"{LONG} More")]
    turn.say(" words")
    assert shown(turn.after(2)) == [("Edit", f"{LONG} More words")]
    assert shown(turn.end(".", TurnCompleted())) == [("Edit", f"{LONG} More words.")]


def test_a_stream_is_ended_between_words_before_its_time_and_another_one_goes_on() -> None:
    turn = Turn(replace(SLACK, dialect="markdown"), THREAD, presentation="native")
    turn.say("One line that is said.\n\nAnother li")
    assert shown(turn.after(241)) == [("CloseStream", "One line that is said.")]
    assert shown(turn.after(1.5)) == [("OpenStream", "Another li")]
    assert shown(turn.end("ne.", TurnCompleted())) == [("CloseStream", "Another line.")]


def test_a_stream_whose_only_word_is_open_is_not_torn_when_its_time_ends() -> None:
    turn = Turn(replace(SLACK, dialect="markdown"), THREAD, presentation="native", first_characters=1)
    turn.say("Supercalifragil")
    assert shown(turn.after(241)) == [("CloseStream", "Supercalifragil")]
    assert shown(turn.end("istic", TurnCompleted())) == [("Edit", "Supercalifragilistic")]


def test_a_stream_whose_text_was_taken_back_does_not_say_the_new_text_behind_it() -> None:
    turn = Turn(replace(SLACK, dialect="markdown"), THREAD, presentation="native")
    turn.say(LONG)
    assert shown(turn.say(TextRetracted(), "Better so.")) == [("CloseStream", "Better so.")]
    assert turn.end(TurnCompleted()) == []


def test_where_no_stream_is_taken_the_answer_is_a_live_message() -> None:
    turn = Turn(replace(SLACK, dialect="markdown"), THREAD, presentation="native")
    turn.projector.feed(TextDelta(text=LONG), turn.now)
    stream = turn.step()
    assert isinstance(stream, OpenStream)
    turn.answer(stream, Delivered(Receipt(message_id="1", degraded="no stream")))
    turn.say(" More")
    assert shown(turn.after(2)) == [("Edit", f"{LONG} More")]


def test_outside_of_threads_slack_is_asked_for_no_stream() -> None:
    for presentation in ("native", "tokens"):
        turn = Turn(replace(SLACK, dialect="markdown"), PRIVATE, presentation=presentation)
        assert shown(turn.say(LONG)) == [("Post", LONG)]


# Where nothing can be edited.


def test_a_terminal_is_never_asked_to_edit_and_gets_the_right_text_in_the_end() -> None:
    turn = Turn(TERMINAL)
    assert shown(turn.say("Wr")) == [("OpenStream", "Wr")]
    assert shown(turn.say("ong.")) == [("AppendStream", "ong.")]
    assert shown(turn.end(BlockFinal(text="Right."), TurnCompleted())) == [("CloseStream", "Right.")]


def test_a_terminals_stream_that_says_nothing_in_the_end_is_closed() -> None:
    turn = Turn(TERMINAL)
    turn.say("Wrong.")
    assert shown(turn.end(TextRetracted(), TurnCompleted())) == [("CloseStream", "…")]


def test_a_message_that_cannot_be_changed_is_followed_by_what_it_should_say() -> None:
    limits = replace(PLAIN, edits=None, deletes=False)
    turn = Turn(limits, presentation="blocks", block_characters=0)
    turn.say("One.\n\nTwo.\n\nThr")
    asked = turn.end(BlockFinal(text="One.\n\nTwo after all."), TurnCompleted())
    assert shown(asked) == [("Post", "Two after all.")]


# Blocks.


def test_paragraphs_come_as_messages_also_behind_an_error() -> None:
    turn = Turn(presentation="blocks", block_characters=0)
    assert shown(turn.say("One.\n\nTwo.\n\nThr")) == [("Post", "One."), ("Post", "Two.")]
    assert shown(turn.say("ee.", Error(message="broken"))) == [("Post", "Three."), ("Post", "⚠️ broken")]
    assert shown(turn.say("Four.\n\nFi")) == [("Post", "Four.")]
    assert shown(turn.end("ve.", TurnCompleted())) == [("Post", "Five.")]


def test_small_paragraphs_go_out_together_or_after_a_pause() -> None:
    turn = Turn(presentation="blocks", block_characters=10, block_idle_s=1.0)
    assert shown(turn.say("One.\n\nTwo.\n\nThree.\n\nFo")) == [("Post", "One.\n\nTwo.\n\nThree.")]
    assert turn.say("ur.\n\nFi") == []
    assert shown(turn.after(1)) == [("Post", "Four.")]


# The processing message.


def test_the_processing_message_says_how_the_work_goes_and_keeps_only_the_tools() -> None:
    turn = Turn(presentation="processing")
    turn.say("Let me see.", ToolStarted(id="1", name="look"))
    assert shown(turn.after(1.5)) == [("Post", "Let me see.  \n🔧 look  \n⏳ Processing... (1s)")]
    asked = turn.end(ToolFinished(id="1"), "Here it is.", TurnCompleted())
    assert shown(asked) == [("Post", "Let me see.\n\nHere it is."), ("Edit", "🔧 look ✓ 1.5s")]


def test_a_quick_turn_without_tools_has_no_processing_message() -> None:
    turn = Turn(presentation="processing")
    turn.say("Here ")
    assert shown(turn.end("it is.", TurnCompleted())) == [("Post", "Here it is.")]


def test_a_processing_message_without_tools_is_taken_away() -> None:
    turn = Turn(presentation="processing")
    turn.say("Here ")
    assert [type(asked) for asked in turn.after(5)] == [Post]
    asked = turn.end("it is.", TurnCompleted())
    assert [type(operation) for operation in asked] == [Post, Delete]


def test_the_processing_message_says_no_more_what_was_replaced() -> None:
    turn = Turn(presentation="processing")
    turn.say("Wrong.", ToolStarted(id="1", name="look"), "Also wrong.")
    turn.after(5)
    turn.say(BlockFinal(text="Right."))
    (edit,) = turn.after(5)
    assert "Also" not in text_of(edit)
    assert "Right." in text_of(edit)


def test_the_processing_message_keeps_the_pace_of_the_channel() -> None:
    turn = Turn(replace(TELEGRAM, dialect="markdown"), GROUP, presentation="processing", processing_every_s=1.0)
    turn.say(ToolStarted(id="1", name="look"))
    assert [type(asked) for asked in turn.after(1.5)] == [Post]
    turn.say("More.")
    assert turn.after(3.9) == []
    assert [type(asked) for asked in turn.after(0.1)] == [Edit]


def test_a_line_that_is_too_long_for_the_processing_message_is_cut() -> None:
    turn = Turn(replace(PLAIN, limit=70), presentation="processing")
    turn.say("[" * 200)
    (first,) = turn.after(5)
    assert 0 < len(text_of(first)) <= 70


# After a crash.


def again(*deliveries: Delivery, limits: Capabilities = PLAIN, **wishes: object) -> Turn:
    turn = Turn(limits, PRIVATE, earlier=restored_messages(deliveries), **wishes)
    turn._messages = 100
    return turn


def test_the_same_message_becomes_the_answer_and_nothing_is_said_twice() -> None:
    turn = again(ended(1, post("One."), State.DELIVERED, "7"), limits=replace(PLAIN, limit=40))
    asked = turn.end("One. Two.", TurnCompleted())
    assert shown(asked) == [("Edit", "One. Two.")]
    assert [operation.message_id for operation in asked if isinstance(operation, Edit)] == ["7"]


def test_nothing_is_changed_before_as_much_was_said_again() -> None:
    turn = again(ended(1, post(LONG), State.DELIVERED, "7"))
    assert turn.say("Here is") == []
    assert turn.after(5) == []
    assert shown(turn.say(LONG.removeprefix("Here is"), " More.")) == [("Edit", f"{LONG} More.")]


def test_what_a_message_was_made_to_show_last_is_set_right_though_it_said_all_before() -> None:
    turn = again(ended(1, post(LONG), State.DELIVERED, "7"))
    assert shown(turn.end(LONG, TurnCompleted())) == [("Edit", LONG)]


def test_a_stream_of_a_former_process_is_not_given_its_text_again() -> None:
    stream = OpenStream(target=THREAD, body=Body(text=LONG))
    earlier = restored_messages([ended(1, stream, State.DELIVERED, "7")])
    turn = Turn(replace(SLACK, dialect="markdown"), THREAD, presentation="native", earlier=earlier)
    assert shown(turn.say(LONG, " More.")) == [("CloseStream", f"{LONG} More.")]


def test_a_medium_that_may_be_there_is_not_sent_again() -> None:
    media = PostMedia(target=PRIVATE, url="u")
    turn = again(ended(1, post("One."), State.DELIVERED, "7"), ended(2, media, State.UNKNOWN))
    asked = turn.end("One.", Media(url="u"), "Two.", TurnCompleted())
    assert shown(asked) == [("Post", "Two.")]


def test_a_message_that_took_the_place_of_one_that_was_gone_is_known() -> None:
    turn = again(
        ended(1, post("One."), State.DELIVERED, "7"),
        ended(2, Edit(target=PRIVATE, message_id="7", body=Body(text="One. Two.")), State.SUPERSEDED),
        ended(-2, post("One. Two."), State.DELIVERED, "8"),
    )
    (edit,) = turn.end("One. Two. Three.", TurnCompleted())
    assert isinstance(edit, Edit)
    assert edit.message_id == "8"


def test_messages_that_are_not_needed_any_more_are_taken_away() -> None:
    turn = again(ended(1, post("One."), State.DELIVERED, "7"), ended(2, post("Two."), State.DELIVERED, "8"))
    asked = turn.end("Only one.", TurnCompleted())
    assert shown(asked) == [("Edit", "Only one."), ("Delete", "")]


def test_the_processing_message_of_a_former_process_is_gone_on_with() -> None:
    turn = again(ended(1, post("⏳", is_processing=True), State.DELIVERED, "7"), presentation="processing")
    asked = turn.end("Answer.", ToolStarted(id="1", name="look"), TurnFailed(message="broken"))
    assert shown(asked) == [("Post", "Answer."), ("Post", "⚠️ broken"), ("Edit", "🔧 look …")]


def test_what_was_said_behind_a_new_message_comes_again_behind_it() -> None:
    media = PostMedia(target=PRIVATE, url="u")
    turn = again(
        ended(1, post("One."), State.DELIVERED, "7"),
        ended(2, media, State.DELIVERED, "8"),
        limits=replace(PLAIN, limit=40),
    )
    longer = "One two three four five six seven eight nine ten."
    asked = turn.end(longer, Media(url="u"), TurnCompleted())
    assert [type(operation) for operation in asked] == [Edit, Post, Delete, PostMedia]
    assert [operation.message_id for operation in asked if isinstance(operation, Delete)] == ["8"]


def test_a_line_of_ours_that_may_be_there_is_known_though_text_before_it_was_taken_back_since() -> None:
    turn = again(ended(1, post("⚠️ broken"), State.UNKNOWN))
    assert turn.end("Wrong.", Error(message="broken"), TextRetracted(scope="turn"), TurnCompleted()) == []


def test_a_medium_is_not_taken_for_text_that_is_taken_back_behind_it() -> None:
    turn = again(ended(1, PostMedia(target=PRIVATE, url="u"), State.DELIVERED, "7"))
    assert turn.say("Wrong.", Media(url="u"), TextRetracted(scope="turn")) == []
    assert turn.end(TurnCompleted()) == []


def test_a_processing_message_that_had_to_come_again_is_still_one() -> None:
    sheets = restored_messages(
        [
            ended(1, post("⏳", is_processing=True), State.DELIVERED, "7"),
            ended(2, Edit(target=PRIVATE, message_id="7", body=Body(text="🔧")), State.SUPERSEDED),
            ended(-2, post("🔧"), State.DELIVERED, "8"),
        ]
    )
    assert [(sheet.message_id, sheet.is_processing) for sheet in sheets] == [("8", True)]


# The rest.


def test_typing_is_shown_until_people_see_a_message_and_not_after_the_end() -> None:
    turn = Turn(DISCORD)
    first = turn.projector.next(turn.now)
    assert isinstance(first, Typing)
    turn.answer(first)
    assert isinstance(turn.projector.next(turn.now), WaitUntil)
    assert isinstance(turn.projector.next(turn.now + 8), Typing)
    quiet = Turn(DISCORD)
    quiet.say(LONG)
    assert not isinstance(quiet.projector.next(quiet.now + 60), Typing)


@pytest.mark.parametrize("presentation", ["tokens", "live", "native", "processing", "parts", "blocks", "final"])
def test_a_turn_that_says_nothing_leaves_nothing(presentation: str) -> None:
    assert Turn(presentation=presentation).end(TurnCompleted()) == []


def test_an_edit_alone_does_not_tell_whether_it_stays() -> None:
    turn = Turn()
    turn.say(LONG)
    turn.now += 1
    turn.projector.feed(TextDelta(text=" More"), turn.now)
    interim = turn.step()
    assert isinstance(interim, Edit)
    assert not turn.projector.is_durable(interim)
    turn.answer(interim)
    turn.projector.feed(TextDelta(text="."), turn.now)
    turn.projector.feed(TurnCompleted(), turn.now)
    last = turn.step()
    assert isinstance(last, Edit)
    assert turn.projector.is_durable(last)


def test_what_is_unsaid_is_kept_with_the_message_that_shows_it() -> None:
    turn = Turn()
    turn.say(LONG, " More")
    assert turn.projector.unsent.text == f"{LONG} More"
    assert turn.projector.unsent.message_id == "1"
