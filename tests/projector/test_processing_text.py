"""The text of a processing message: in order, never over its limit, and without retracted text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from event_strategies import any_event
from example_counts import examples
from stable_strategies import integers
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
from tailrace.markdown.graphemes import is_boundary
from tailrace.projector.processing_text import SMALLEST_LIMIT, ProcessingText

if TYPE_CHECKING:
    from collections.abc import Sequence

TRUNCATED = "[...earlier output truncated...]"
FAMILY = "👨‍👩‍👧‍👦"


def fed(*events: Event | str, limit: int = 4096, shows_outcomes: bool = False) -> ProcessingText:
    """The text after the events, one a second from 0 on; a string is a delta."""
    text = ProcessingText(limit, shows_outcomes=shows_outcomes)
    for now, event in enumerate(events):
        text.feed(TextDelta(text=event) if isinstance(event, str) else event, float(now))
    return text


def bash(call_id: str = "1", command: str = "ls") -> ToolStarted:
    return ToolStarted(id=call_id, name="Bash", arguments={"command": command})


def test_tools_and_text_come_in_order_and_the_last_line_counts_seconds() -> None:
    text = fed("Let me ", "look.", bash(), ToolFinished(id="1", result="secret"), "Found ", "it.")
    assert text.render(12.9) == "Let me look.\n🔧 Bash: ls\nFound it.\n⏳ Processing... (12s)"
    assert text.finished() == "Let me look.\n🔧 Bash: ls\nFound it."
    assert ProcessingText().render(5.0) == "⏳ Processing... (0s)"
    assert ProcessingText().finished() == ProcessingText().tools_only() == ""


def test_time_counts_from_the_start_or_from_the_first_event() -> None:
    text = fed(bash(), "a")
    assert text.render(7.0).endswith("⏳ Processing... (7s)")
    text.start(100.0)
    text.feed(TextDelta(text="b"), 105.0)
    assert text.render(107.0).endswith("⏳ Processing... (7s)")


def test_seconds_of_the_latest_progress_count() -> None:
    text = fed(bash(), ToolProgress(id="1", elapsed_s=3.0), ToolProgress(elapsed_s=8.7))
    assert text.render(1000.0) == "🔧 Bash: ls\n⏳ Processing... (8s)"
    for impossible in (float("nan"), float("inf"), -1.0, 1e300):
        assert len(fed(ToolProgress(elapsed_s=impossible)).render(0.0)) < 32


@pytest.mark.parametrize("terminal", [TurnCompleted(text="answer"), TurnFailed(message="m"), TurnCancelled()])
def test_end_of_the_turn_removes_the_last_line(terminal: Event) -> None:
    text = fed(bash())
    before = text.version
    text.feed(terminal, 1.0)
    assert text.version != before
    assert text.render(2.0) == text.finished() == "🔧 Bash: ls"


HIDDEN = [ReasoningDelta(text="hm"), Notice(text="n"), ModelChanged(model_id="m"), ConfigReloaded(), Error(message="e")]
RETRACTED: list[Event | str] = ["a", bash(), "b", BlockFinal(), "c"]


@pytest.mark.parametrize(
    ("events", "text"),
    [
        # Blank lines around text are removed.
        (["One.\n\n", bash(), "\n\n  two\n", "\n", bash("2", "pwd")], "One.\n🔧 Bash: ls\n  two\n🔧 Bash: pwd"),
        (["\n", bash(), "\n", bash("2", "id")], "🔧 Bash: ls\n🔧 Bash: id"),
        # Later arguments replace those of the call; a repeated id is another call, an unknown one is ignored.
        ([ToolStarted(id="1", name="B"), "x", ToolInput(id="1", arguments='{"command": "ls"}')], "🔧 B: ls\nx"),
        ([bash("t", "a"), bash("t", "b"), ToolInput(id="t", arguments={"path": "c"})], "🔧 Bash: a\n🔧 Bash: c"),
        ([bash(), ToolInput(id="9", arguments={"command": "d"}), ToolFinished(id="9")], "🔧 Bash: ls"),
        # Other events are not shown, but divide blocks.
        *((["Before.", event, "After."], "Before.\nAfter.") for event in HIDDEN),
        (
            [
                *HIDDEN,
                Status(text="s"),
                Media(url="u", caption="c"),
                ToolOutput(data="secret"),
                TurnCompleted(text="a"),
            ],
            "",
        ),
        # A final block has the last word.
        (["abc", BlockFinal(text="abc")], "abc"),
        (["abc", BlockFinal(text="abcdef")], "abcdef"),
        (["abc", BlockFinal(text="xyz")], "xyz"),
        (["abc", BlockFinal(text="")], ""),
        (["abc", BlockFinal(), "def"], "abc\ndef"),
        ([BlockFinal(text="abc"), BlockFinal(text="abc")], "abc\nabc"),
        (["abc", bash(), BlockFinal(text="abc")], "abc\n🔧 Bash: ls\nabc"),
        ([BlockFinal(), "abc"], "abc"),
        # Retracted text goes.
        ([*RETRACTED, TextRetracted()], "a\n🔧 Bash: ls"),
        ([*RETRACTED, TextRetracted(), TextRetracted()], "a\n🔧 Bash: ls"),
        ([*RETRACTED, TextRetracted(scope="turn")], "🔧 Bash: ls"),
        ([*RETRACTED, TextRetracted(), "d"], "a\n🔧 Bash: ls\nd"),
        (["x" * 100_000, TextRetracted(), "d"], "d"),
    ],
)
def test_finished_text(events: list[Event | str], text: str) -> None:
    assert fed(*events).finished() == text


def test_only_the_tools_of_a_subagent_are_shown() -> None:
    text = fed(
        "Hel",
        TextDelta(text="chatter", parent_tool_id="1"),
        ReasoningDelta(text="hm", parent_tool_id="1"),
        Notice(text="n", parent_tool_id="1"),
        BlockFinal(text="chatter", parent_tool_id="1"),
        TextRetracted(scope="turn", parent_tool_id="1"),
        "lo",
        ToolStarted(id="2", name="Read", parent_tool_id="1"),
    )
    assert text.finished() == "Hello\n🔧 Read"


def test_outcomes_of_calls_are_shown_if_asked_for() -> None:
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


def test_oldest_lines_over_the_limit_are_cut_and_the_first_line_says_so() -> None:
    lines = [f"line {n:03}" for n in range(50)]
    text = fed(bash(), "\n".join(lines), limit=120)
    shown = text.render(2.0).split("\n")
    assert (shown[0], shown[-1]) == (TRUNCATED, "⏳ Processing... (2s)")
    assert shown[1:-1] == lines[-len(shown[1:-1]) :]
    assert 120 - len("line 000\n") < len(text.render(2.0)) <= 120
    assert text.finished().split("\n")[1:] == lines[-9:]


def test_text_of_exactly_the_limit_is_whole() -> None:
    last = "\n⏳ Processing... (1s)"
    whole = fed("x" * (100 - len(last)), limit=100).render(1.0)
    assert whole == "x" * (100 - len(last)) + last
    assert fed("x" * (101 - len(last)), limit=100).render(1.0).startswith(f"{TRUNCATED}\nx")
    first, second = "a" * 30, "b" * (100 - len(TRUNCATED) - 32)
    lines = fed(bash(), f"{'x' * 100}\n{first}\n{second}", limit=100)
    assert lines.finished() == f"{TRUNCATED}\n{first}\n{second}"


def test_line_that_is_too_long_alone_keeps_its_end() -> None:
    words = "".join(f"{n} " for n in range(10_000))
    text = fed(f"before\n{words}", limit=100).finished()
    assert len(text) == 100
    assert text.startswith(f"{TRUNCATED}\n")
    assert text.endswith(" 9998 9999 ")
    assert fed(f"{words}\nafter", limit=100).finished() == f"{TRUNCATED}\nafter"


def test_tools_are_left_when_the_answer_was_sent() -> None:
    text = fed("a", bash("1", "x"), "b" * 100_000, bash("2", "y"), "c" * 100_000, shows_outcomes=True)
    assert text.render(9.0).startswith(TRUNCATED)
    assert text.tools_only() == "🔧 Bash: x\n🔧 Bash: y"
    text.feed(TurnCompleted(), 9.0)
    assert text.tools_only() == "🔧 Bash: x …\n🔧 Bash: y …"
    assert fed("a").tools_only() == ""
    many = fed(*(bash(str(n), str(n)) for n in range(1000)), limit=100)
    assert many.tools_only() == f"{TRUNCATED}\n" + "\n".join(f"🔧 Bash: {n}" for n in range(995, 1000))


def test_version_changes_only_with_something_new_to_show() -> None:
    text = ProcessingText()
    arguments = ToolInput(id="1", arguments={"path": "p"})
    news: list[Event] = [TextDelta(text="a"), bash(), arguments, ToolProgress(elapsed_s=1.0), TurnCompleted()]
    no_news: list[Event] = [
        *(TextDelta(text=""), Status(text="s"), ReasoningDelta(text="hm"), arguments, ToolOutput(data="x")),
        *(ToolFinished(id="1"), ToolFinished(id="9"), TextRetracted(), BlockFinal()),
    ]
    for event, is_new in [*((event, True) for event in news), *((event, False) for event in no_news)]:
        before = text.version
        text.feed(event, 0.0)
        text.render(100.0)
        assert (text.version != before) is is_new, event
    text = fed("abc")
    before = text.version
    text.feed(BlockFinal(text="abc"), 1.0)
    assert text.version == before


PIECES = ["word ", "line\n", "\n", FAMILY, "\U0001f1e9", "\U0001f1ea", "e\u0301", "x" * 30, "\r\n", "字"]
pieces = st.lists(st.sampled_from(PIECES), max_size=60)


@settings(max_examples=examples(100, search=1_000))
@given(st.lists(any_event | st.sampled_from(PIECES), max_size=60), integers(1, 130), st.booleans())
def test_text_is_never_over_the_limit(events: Sequence[Event | str], limit: int, shows_outcomes: bool) -> None:
    text = ProcessingText(limit, shows_outcomes=shows_outcomes)
    for now, event in enumerate(events):
        text.feed(TextDelta(text=event) if isinstance(event, str) else event, float(now))
        for shown in (text.render(float(now)), text.finished(), text.tools_only()):
            assert len(shown) <= limit


@settings(max_examples=examples(100, search=1_000))
@given(pieces, integers(SMALLEST_LIMIT, 200))
def test_text_does_not_depend_on_its_pieces_and_its_end_is_whole(parts: list[str], limit: int) -> None:
    whole = "".join(parts)
    text = fed(bash(), *parts, limit=limit)
    assert text.finished() == fed(bash(), whole, limit=limit).finished()
    head, _, kept = text.finished().partition("\n")
    if head == TRUNCATED:
        stripped = whole.rstrip("\n")
        assert stripped.endswith(kept)
        assert is_boundary(stripped, len(stripped) - len(kept))
    else:
        assert text.finished() == "\n".join(filter(str.strip, ("🔧 Bash: ls", whole.strip("\n"))))


def test_only_what_can_be_shown_is_kept() -> None:
    text = ProcessingText(100)
    for n in range(20_000):
        text.feed(TextDelta(text="a few words "), 0.0)
        text.feed(bash(str(n)), 0.0)
        assert text._size + 100 * len(text._calls) + 100 * len(text._open_calls) + len(text._blocks) < 20_000
