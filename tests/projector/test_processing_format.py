"""What a processing message says: in order, never over its limit, and only what is still true."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from event_strategies import any_event
from tailrace.events import (
    BlockFinal,
    ConfigReloaded,
    Error,
    Event,
    Media,
    ModelChanged,
    Notice,
    ReasoningDelta,
    Status,
    TextDelta,
    TextRetracted,
    ToolFinished,
    ToolInput,
    ToolOutput,
    ToolProgress,
    ToolStarted,
    TurnCancelled,
    TurnCompleted,
    TurnFailed,
)
from tailrace.markdown.graphemes import is_border
from tailrace.projector.processing_text import SMALLEST_LIMIT, ProcessingText

if TYPE_CHECKING:
    from collections.abc import Sequence

TRUNCATED = "[...earlier output truncated...]"
FAMILY = "👨‍👩‍👧‍👦"


def fed(*events: Event, limit: int = 4096, shows_outcomes: bool = False) -> ProcessingText:
    """The text after the events, one a second from 0 on."""
    text = ProcessingText(limit, shows_outcomes=shows_outcomes)
    for now, event in enumerate(events):
        text.feed(event, float(now))
    return text


def said(text: str) -> TextDelta:
    return TextDelta(text=text)


def bash(call_id: str = "1", command: str = "ls") -> ToolStarted:
    return ToolStarted(id=call_id, name="Bash", arguments={"command": command})


def test_tools_and_text_stand_in_order_and_the_last_line_says_how_long_it_runs() -> None:
    text = fed(
        said("Let me "), said("look."), bash(), ToolFinished(id="1", result="secret"), said("Found "), said("it.")
    )
    assert text.render(12.9) == "Let me look.\n🔧 Bash: ls\nFound it.\n⏳ Processing... (12s)"
    assert text.finished() == "Let me look.\n🔧 Bash: ls\nFound it."


def test_before_anything_is_said_there_is_only_the_last_line() -> None:
    assert ProcessingText().render(5.0) == "⏳ Processing... (0s)"
    assert ProcessingText().finished() == ProcessingText().tools_only() == ""


def test_the_time_runs_from_the_start_or_from_the_first_event() -> None:
    text = fed(bash(), said("a"))
    assert text.render(7.0).endswith("⏳ Processing... (7s)")
    text.start(100.0)
    text.feed(said("b"), 105.0)
    assert text.render(107.0).endswith("⏳ Processing... (7s)")


def test_the_seconds_are_those_of_the_latest_progress() -> None:
    text = fed(bash(), ToolProgress(id="1", elapsed_s=3.0), ToolProgress(elapsed_s=8.7))
    assert text.render(1000.0) == "🔧 Bash: ls\n⏳ Processing... (8s)"


@pytest.mark.parametrize("elapsed_s", [float("nan"), float("inf"), -1.0, 1e300])
def test_seconds_that_cannot_be_break_nothing(elapsed_s: float) -> None:
    assert len(fed(ToolProgress(elapsed_s=elapsed_s)).render(0.0)) < 32


@pytest.mark.parametrize("terminal", [TurnCompleted(text="answer"), TurnFailed(message="m"), TurnCancelled()])
def test_the_last_line_goes_with_the_end_of_the_turn(terminal: Event) -> None:
    text = fed(bash())
    before = text.version
    text.feed(terminal, 1.0)
    assert text.version != before
    assert text.render(2.0) == text.finished() == "🔧 Bash: ls"


def test_line_ends_around_text_do_not_tear_the_message_apart() -> None:
    text = fed(said("One.\n\n"), bash(), said("\n\n  two\n"), said("\n"), bash("2", "pwd"), said("\n"), bash("3", "id"))
    assert text.finished() == "One.\n🔧 Bash: ls\n  two\n🔧 Bash: pwd\n🔧 Bash: id"


def test_arguments_that_come_later_stand_on_the_line_of_their_call() -> None:
    text = fed(ToolStarted(id="1", name="Bash"), said("x"), ToolInput(id="1", arguments='{"command": "ls"}'))
    assert text.finished() == "🔧 Bash: ls\nx"


def test_an_id_that_is_used_again_is_another_call_and_an_unknown_one_is_none() -> None:
    text = fed(bash("tool", "a"), bash("tool", "b"), ToolInput(id="tool", arguments={"command": "c"}))
    text.feed(ToolInput(id="9", arguments={"command": "d"}), 9.0)
    text.feed(ToolFinished(id="9"), 9.0)
    assert text.finished() == "🔧 Bash: a\n🔧 Bash: c"


def test_how_calls_came_out_is_told_where_it_is_wished() -> None:
    events: list[Event] = [
        bash("1", "a"),
        bash("2", "b"),
        bash("3", "c"),
        ToolFinished(id="1"),
        ToolFinished(id="2", is_error=True),
    ]
    assert fed(*events).finished() == "🔧 Bash: a\n🔧 Bash: b\n🔧 Bash: c"
    text = fed(*events, shows_outcomes=True)
    assert text.finished() == "🔧 Bash: a ✓ 3.0s\n🔧 Bash: b ✗ 3.0s\n🔧 Bash: c"
    text.feed(TurnCompleted(), 5.0)
    assert text.finished().endswith("🔧 Bash: c …")
    before = text.version
    text.feed(ToolFinished(id="3"), 6.0)
    assert text.version != before
    assert text.finished().endswith("🔧 Bash: c ✓ 4.0s")


@pytest.mark.parametrize("event", [ReasoningDelta(text="hm"), Notice(text="n"), Error(message="e"), ConfigReloaded()])
def test_text_before_and_after_something_else_is_not_glued_together(event: Event) -> None:
    assert fed(said("Before."), event, said("After.")).finished() == "Before.\nAfter."


def test_what_is_neither_tool_nor_text_is_not_shown() -> None:
    quiet = (
        ReasoningDelta(text="hm"),
        Status(text="s"),
        Notice(text="n"),
        ModelChanged(model_id="m"),
        Error(message="e"),
        Media(url="u", caption="c"),
        ToolOutput(data="secret"),
        TurnCompleted(text="answer"),
    )
    assert fed(*quiet).finished() == ""


def test_of_a_subagent_only_the_tools_are_shown() -> None:
    text = fed(
        said("Hel"),
        TextDelta(text="chatter", parent_tool_id="1"),
        ReasoningDelta(text="hm", parent_tool_id="1"),
        Notice(text="n", parent_tool_id="1"),
        BlockFinal(text="chatter", parent_tool_id="1"),
        TextRetracted(scope="turn", parent_tool_id="1"),
        said("lo"),
        ToolStarted(id="2", name="Read", parent_tool_id="1"),
    )
    assert text.finished() == "Hello\n🔧 Read"


def test_a_complete_block_is_what_it_says_at_last() -> None:
    assert fed(said("abc"), BlockFinal(text="abc")).finished() == "abc"
    assert fed(said("abc"), BlockFinal(text="abcdef")).finished() == "abcdef"
    assert fed(said("abc"), BlockFinal(text="xyz")).finished() == "xyz"
    assert fed(said("abc"), BlockFinal(text="")).finished() == ""
    assert fed(said("abc"), BlockFinal(), said("def")).finished() == "abc\ndef"
    assert fed(BlockFinal(text="abc"), BlockFinal(text="abc")).finished() == "abc\nabc"
    assert fed(said("abc"), bash(), BlockFinal(text="abc")).finished() == "abc\n🔧 Bash: ls\nabc"
    assert fed(BlockFinal(), said("abc")).finished() == "abc"


def test_what_is_taken_back_does_not_stand() -> None:
    events: list[Event] = [said("a"), bash(), said("b"), BlockFinal(), said("c")]
    assert fed(*events, TextRetracted()).finished() == "a\n🔧 Bash: ls"
    assert fed(*events, TextRetracted(), TextRetracted()).finished() == "a\n🔧 Bash: ls"
    assert fed(*events, TextRetracted(scope="turn")).finished() == "🔧 Bash: ls"
    assert fed(*events, TextRetracted(), said("d")).finished() == "a\n🔧 Bash: ls\nd"
    assert fed(said("x" * 100_000), TextRetracted(), said("d")).finished() == "d"


def test_over_the_limit_the_oldest_lines_go_and_that_is_said() -> None:
    lines = [f"line {n:03}" for n in range(50)]
    text = fed(bash(), said("\n".join(lines)), limit=120)
    shown = text.render(2.0).split("\n")
    assert shown[0] == TRUNCATED
    assert shown[-1] == "⏳ Processing... (2s)"
    assert shown[1:-1] == lines[-len(shown[1:-1]) :]
    assert 120 - len("line 000\n") < len(text.render(2.0)) <= 120
    assert text.finished().split("\n")[1:] == lines[-9:]


def test_what_is_exactly_the_limit_is_whole() -> None:
    last = "\n⏳ Processing... (1s)"
    whole = fed(said("x" * (100 - len(last))), limit=100).render(1.0)
    assert whole == "x" * (100 - len(last)) + last
    assert fed(said("x" * (101 - len(last))), limit=100).render(1.0).startswith(f"{TRUNCATED}\nx")


def test_of_a_line_that_is_too_long_alone_the_end_stays() -> None:
    words = "".join(f"{n} " for n in range(10_000))
    text = fed(said(f"before\n{words}"), limit=100)
    assert len(text.finished()) == 100
    assert text.finished().startswith(f"{TRUNCATED}\n")
    assert text.finished().endswith(" 9998 9999 ")
    assert fed(said(f"{words}\nafter"), limit=100).finished() == f"{TRUNCATED}\nafter"


def test_no_cut_goes_through_what_people_see_as_one_character() -> None:
    for count in range(20, 60):
        shown = fed(said("x" + FAMILY * count), limit=100).finished()
        assert shown.startswith(f"{TRUNCATED}\n{FAMILY}")
        assert shown.removeprefix(f"{TRUNCATED}\n").replace(FAMILY, "") == ""


@pytest.mark.parametrize("limit", [100, 101, 102])
def test_flags_that_come_in_halves_are_not_cut_into_others(limit: int) -> None:
    halves = "x" + "\U0001f1e9\U0001f1ea" * 500
    text = fed(*map(said, halves), limit=limit)
    kept = text.finished().removeprefix(f"{TRUNCATED}\n")
    assert kept == "\U0001f1e9\U0001f1ea" * (len(kept) // 2)
    assert limit - len(kept) < 36


def test_a_line_that_just_fits_is_whole() -> None:
    first, last = "a" * 30, "b" * (100 - len(TRUNCATED) - 32)
    assert fed(bash(), said(f"{'x' * 100}\n{first}\n{last}"), limit=100).finished() == f"{TRUNCATED}\n{first}\n{last}"


def test_when_the_answer_has_gone_out_the_tools_are_left() -> None:
    text = fed(said("a"), bash("1", "x"), said("b" * 100_000), bash("2", "y"), said("c" * 100_000), shows_outcomes=True)
    assert text.render(9.0).startswith(TRUNCATED)
    assert text.tools_only() == "🔧 Bash: x\n🔧 Bash: y"
    text.feed(TurnCompleted(), 9.0)
    assert text.tools_only() == "🔧 Bash: x …\n🔧 Bash: y …"
    assert fed(said("a")).tools_only() == ""
    many = fed(*(bash(str(n), str(n)) for n in range(1000)), limit=100)
    assert many.tools_only() == f"{TRUNCATED}\n" + "\n".join(f"🔧 Bash: {n}" for n in range(995, 1000))


def test_only_what_is_new_makes_another_version() -> None:
    text = ProcessingText()
    news: list[Event] = [
        said("a"),
        bash(),
        ToolInput(id="1", arguments={"path": "p"}),
        ToolProgress(elapsed_s=1.0),
        TurnCompleted(),
    ]
    no_news: list[Event] = [
        said(""),
        Status(text="s"),
        ReasoningDelta(text="hm"),
        ToolInput(id="1", arguments={"path": "p"}),
        ToolOutput(data="x"),
        ToolFinished(id="1"),
        ToolFinished(id="9"),
        TextRetracted(),
        BlockFinal(),
    ]
    for event in news:
        before = text.version
        text.feed(event, 0.0)
        assert text.version != before, event
    for event in no_news:
        before = text.version
        text.feed(event, 0.0)
        text.render(100.0)
        assert text.version == before, event
    text = fed(said("abc"))
    before = text.version
    text.feed(BlockFinal(text="abc"), 1.0)
    assert text.version == before


PIECES = ["word ", "line\n", "\n", FAMILY, "🇩🇪", "e\u0301", "x" * 30, "\r\n", "字"]
pieces = st.lists(st.sampled_from(PIECES), max_size=60)


@settings(max_examples=150)
@given(st.lists(any_event | st.sampled_from(PIECES).map(said), max_size=60), st.integers(1, 130), st.booleans())
def test_nothing_is_ever_over_the_limit(events: Sequence[Event], limit: int, shows_outcomes: bool) -> None:
    text = ProcessingText(limit, shows_outcomes=shows_outcomes)
    for now, event in enumerate(events):
        text.feed(event, float(now))
        for shown in (text.render(float(now)), text.finished(), text.tools_only()):
            assert len(shown) <= limit


@settings(max_examples=150)
@given(pieces, st.integers(SMALLEST_LIMIT, 200))
def test_how_text_came_in_pieces_does_not_show_and_its_end_is_whole(parts: list[str], limit: int) -> None:
    whole = "".join(parts)
    text = fed(bash(), *map(said, parts), limit=limit)
    assert text.finished() == fed(bash(), said(whole), limit=limit).finished()
    head, _, kept = text.finished().partition("\n")
    if head == TRUNCATED:
        stripped = whole.rstrip("\n")
        assert stripped.endswith(kept)
        assert is_border(stripped, len(stripped) - len(kept))
    else:
        assert text.finished() == "\n".join(filter(str.strip, ("🔧 Bash: ls", whole.strip("\n"))))


def test_only_what_can_be_shown_is_kept() -> None:
    text = ProcessingText(100)
    for n in range(20_000):
        text.feed(said("a few words "), 0.0)
        text.feed(bash(str(n)), 0.0)
        assert text._size + 100 * len(text._calls) + 100 * len(text._open_calls) + len(text._blocks) < 20_000
