"""Blocks that are interrupted, interleaved, or said again by another try; and thoughts that follow each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st
from sdk_streams import turn_of

from tailrace.events import (
    BlockFinal,
    Event,
    Notice,
    ReasoningDelta,
    TextDelta,
    TextRetracted,
    ToolOutput,
    TurnCompleted,
)
from tailrace.runtimes.turn_translation import TurnTranslation

if TYPE_CHECKING:
    from collections.abc import Iterable


def answer(events: Iterable[Event]) -> list[str]:
    return turn_of([*events, TurnCompleted()]).answer


def test_a_try_is_taken_back_also_when_its_block_was_final() -> None:
    told = TurnTranslation("agent")
    events = [*told.text(1, "it breaks"), *told.final(1, "it breaks"), *told.retry("it broke")]
    assert events[-1] == TextRetracted(reason="it broke")
    assert told.retry("it broke") == [], "there is nothing left to take back"
    assert answer([*events, *told.text(1, "it works")]) == ["it works"]


def test_what_a_completed_call_said_stands_when_the_next_one_is_tried_again() -> None:
    told = TurnTranslation("agent")
    events = [*told.final("a", "one"), *told.text("b", "two"), *told.final("b")]
    told.settle()
    events += [*told.text("c", "thr"), *told.retry("it broke"), *told.text("d", "three")]
    assert answer(events) == ["one", "two", "three"]


def test_nothing_said_since_a_call_was_completed_is_nothing_to_take_back() -> None:
    told = TurnTranslation("agent")
    told.text("a", "one")
    told.settle()
    assert told.retry("it broke") == []


def test_every_block_of_a_failed_try_is_forgotten_and_may_be_said_again() -> None:
    told = TurnTranslation("agent")
    events = [*told.text("a", "one "), *told.text("b", "two"), *told.retry("it broke")]
    events += [*told.snapshot("a", "one again, "), *told.text("c", "two again")]
    assert answer(events) == ["one again, ", "two again"]


def test_what_stands_is_said_again_after_each_of_many_tries() -> None:
    told = TurnTranslation("agent")
    events = told.text("a", "one ")
    told.settle()
    for attempt in range(3):
        events += [*told.text(attempt, "tw"), *told.retry("it broke")]
    assert answer([*events, *told.text("b", "two")]) == ["one ", "two"]


def test_what_was_said_before_a_tool_stands() -> None:
    told = TurnTranslation("agent")
    events = [*told.text("a", "before"), *told.tool("1", "look"), *told.text("b", "aft"), *told.retry("it broke")]
    assert answer([*events, *told.text("c", "after")]) == ["before", "after"]


def test_each_voice_takes_back_its_own() -> None:
    told = TurnTranslation("agent")
    told.text("a", "mine")
    told.text("b", "the child's", parent="call")
    assert told.retry("it broke", parent="call") == [TextRetracted(reason="it broke", parent_tool_id="call")]
    assert told.text("a", " too") == [TextDelta(text=" too")]


def test_a_block_that_a_tool_interrupts_goes_on_behind_it() -> None:
    told = TurnTranslation("agent")
    events = [*told.text("a", "one "), *told.tool("1", "look"), *told.text("a", "two"), *told.final("a", "one two.")]
    assert answer(events) == ["one ", "two."]


def test_a_block_that_is_told_otherwise_than_it_stands_is_only_closed() -> None:
    told = TurnTranslation("agent")
    events = [*told.text("a", "one "), *told.tool("1", "look"), *told.text("a", "two"), *told.final("a", "uno due")]
    assert answer(events) == ["one ", "two"]


def test_snapshots_go_on_behind_what_interrupts_them() -> None:
    told = TurnTranslation("agent")
    events = [
        *told.snapshot("a", "one "),
        *told.notice("by the way"),
        *told.snapshot("a", "one two"),
        *told.snapshot("a", "one due"),
        *told.snapshot("a", "uno due"),
    ]
    assert answer(events) == ["one ", "due"]


def test_blocks_that_are_said_in_turns_are_said_once() -> None:
    told = TurnTranslation("agent")
    events = [*told.text("a", "A1 "), *told.text("b", "B1 "), *told.text("a", "A2 "), *told.text("b", "B2 ")]
    events += [*told.final("a", "A1 A2 "), *told.final("b", "B1 B2 ")]
    assert answer(events) == ["A1 ", "B1 ", "A2 ", "B2 "]


def test_all_that_is_told_of_a_call_is_under_who_made_it() -> None:
    told = TurnTranslation("odd")
    events = [
        *told.tool("t", "shell", parent="task"),
        *told.tool("t", "shell", {"command": "ls"}),
        *told.output("t", "a"),
        *told.result("t", "a", parent="other"),
        *told.output("t", "late"),
    ]
    assert [getattr(event, "parent_tool_id", "") for event in events] == ["task"] * 5


def test_what_an_unheard_of_tool_prints_after_the_end_is_no_matter() -> None:
    told = TurnTranslation("odd")
    told.end()
    told.result("t", "late")
    assert [type(event) for event in told.output("t", "later")] == [ToolOutput]


def test_what_a_tool_has_printed_is_not_printed_again_when_its_snapshot_has_lost_the_beginning() -> None:
    told = TurnTranslation("odd")
    told.tool("t", "shell")
    wholes = ["one\n", "one\ntwo\n", "two\nthree\n", "one\ntwo\nthree\n"]
    printed = [event for whole in wholes for event in told.output_snapshot("t", whole)]
    assert [event.data for event in printed if isinstance(event, ToolOutput)] == ["one\n", "two\n", "three\n"]


def test_what_is_unknown_and_nested_without_end_is_told_without_it() -> None:
    nested: list[object] = []
    for _ in range(5000):
        nested = [nested]
    assert TurnTranslation("odd").unknown({"type": "x", "y": nested}) == [
        Notice(text="odd said something unknown: too deep to be shown")
    ]


def test_an_agent_that_says_ever_other_unknown_things_is_not_told_of_without_end() -> None:
    told = TurnTranslation("odd")
    assert len([event for number in range(1000) for event in told.unknown({"type": f"log-{number}"})]) == 20


def test_unknown_things_of_another_kind_are_told_each() -> None:
    told = TurnTranslation("odd")
    odd = [{"type": "a"}, {"type": "b"}, {"x": 1}, {"y": 1}, ["a", 1], ["b", 1], "words", 7, None]
    assert len([event for _ in range(3) for value in odd for event in told.unknown(value)]) == len(odd)


def test_what_is_unknown_interrupts_and_costs_no_text() -> None:
    told = TurnTranslation("agent")
    events = [*told.text("a", "one "), *told.unknown({"odd": 1}), *told.text("a", "two"), *told.final("a", "one two")]
    assert answer(events) == ["one ", "two"]


def test_thoughts_that_follow_each_other_do_not_run_together() -> None:
    told = TurnTranslation("agent")
    events = [*told.reasoning("one"), *told.reasoning_end(), *told.reasoning("t"), *told.reasoning("wo")]
    assert "".join(event.text for event in events if isinstance(event, ReasoningDelta)) == "one\n\ntwo"
    assert told.text("a", "said") == [TextDelta(text="said")]
    told.reasoning_end()
    assert told.reasoning("three") == [ReasoningDelta(text="three")]
    told.reasoning_end({"signature": "x"})
    assert told.reasoning("four") == [ReasoningDelta(text="four")], "a sealed thought ends by itself"


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["text", "tool", "notice"])), max_size=20))
def test_however_blocks_are_interrupted_their_finals_add_nothing(steps: list[tuple[str, str]]) -> None:
    told = TurnTranslation("agent")
    events: list[Event] = []
    said: dict[str, str] = {}
    order = ""
    for number, (key, kind) in enumerate(steps):
        if kind == "text":
            piece = f"{key}{number} "
            said[key] = said.get(key, "") + piece
            order += piece
            events += told.text(key, piece)
        elif kind == "tool":
            events += told.tool(str(number), "look")
        else:
            events += told.notice("by the way")
    finals = [event for key, whole in said.items() for event in told.final(key, whole)]
    assert all(event == BlockFinal() for event in finals)
    assert "".join(answer([*events, *finals])) == order


def test_what_a_subagent_says_does_not_run_into_what_others_say() -> None:
    told = TurnTranslation("r")
    events = [
        *told.text("child", "Child", parent="c"),
        *told.text("main", "Main"),
        *told.text("other", "Other", parent="o"),
        *told.text("child", ", still.", parent="c"),
        *told.text("main", ", too."),
    ]
    assert [(type(event), event.parent_tool_id) for event in events if isinstance(event, TextDelta | BlockFinal)] == [
        (TextDelta, "c"),
        (BlockFinal, "c"),
        (TextDelta, None),
        (TextDelta, "o"),
        (BlockFinal, "o"),
        (TextDelta, "c"),
        (BlockFinal, "c"),
        (TextDelta, None),
    ]
    assert told.final("main", "Main, too.") == [BlockFinal()], "the agent's own block was never broken"
    assert told.final("child", "Child, still.", parent="c") == []
