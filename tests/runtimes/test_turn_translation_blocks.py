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
    turn = TurnTranslation("agent")
    events = [*turn.text_delta(1, "it breaks"), *turn.block_final(1, "it breaks"), *turn.retract_try("it broke")]
    assert events[-1] == TextRetracted(reason="it broke")
    assert turn.retract_try("it broke") == [], "there is nothing left to take back"
    assert answer([*events, *turn.text_delta(1, "it works")]) == ["it works"]


def test_what_a_completed_call_said_stands_when_the_next_one_is_tried_again() -> None:
    turn = TurnTranslation("agent")
    events = [*turn.block_final("a", "one"), *turn.text_delta("b", "two"), *turn.block_final("b")]
    turn.model_call_completed()
    events += [*turn.text_delta("c", "thr"), *turn.retract_try("it broke"), *turn.text_delta("d", "three")]
    assert answer(events) == ["one", "two", "three"]


def test_nothing_said_since_a_call_was_completed_is_nothing_to_take_back() -> None:
    turn = TurnTranslation("agent")
    turn.text_delta("a", "one")
    turn.model_call_completed()
    assert turn.retract_try("it broke") == []


def test_every_block_of_a_failed_try_is_forgotten_and_may_be_said_again() -> None:
    turn = TurnTranslation("agent")
    events = [*turn.text_delta("a", "one "), *turn.text_delta("b", "two"), *turn.retract_try("it broke")]
    events += [*turn.text_snapshot("a", "one again, "), *turn.text_delta("c", "two again")]
    assert answer(events) == ["one again, ", "two again"]


def test_what_stands_is_said_again_after_each_of_many_tries() -> None:
    turn = TurnTranslation("agent")
    events = turn.text_delta("a", "one ")
    turn.model_call_completed()
    for attempt in range(3):
        events += [*turn.text_delta(attempt, "tw"), *turn.retract_try("it broke")]
    assert answer([*events, *turn.text_delta("b", "two")]) == ["one ", "two"]


def test_what_was_said_before_a_tool_stands() -> None:
    turn = TurnTranslation("agent")
    events = [
        *turn.text_delta("a", "before"),
        *turn.tool_call("1", "look"),
        *turn.text_delta("b", "aft"),
        *turn.retract_try("it broke"),
    ]
    assert answer([*events, *turn.text_delta("c", "after")]) == ["before", "after"]


def test_each_voice_takes_back_its_own() -> None:
    turn = TurnTranslation("agent")
    turn.text_delta("a", "mine")
    turn.text_delta("b", "the child's", parent="call")
    assert turn.retract_try("it broke", parent="call") == [TextRetracted(reason="it broke", parent_tool_id="call")]
    assert turn.text_delta("a", " too") == [TextDelta(text=" too")]


def test_a_block_that_a_tool_interrupts_goes_on_behind_it() -> None:
    turn = TurnTranslation("agent")
    events = [
        *turn.text_delta("a", "one "),
        *turn.tool_call("1", "look"),
        *turn.text_delta("a", "two"),
        *turn.block_final("a", "one two."),
    ]
    assert answer(events) == ["one ", "two."]


def test_a_block_that_is_told_otherwise_than_it_stands_is_only_closed() -> None:
    turn = TurnTranslation("agent")
    events = [
        *turn.text_delta("a", "one "),
        *turn.tool_call("1", "look"),
        *turn.text_delta("a", "two"),
        *turn.block_final("a", "uno due"),
    ]
    assert answer(events) == ["one ", "two"]


def test_snapshots_go_on_behind_what_interrupts_them() -> None:
    turn = TurnTranslation("agent")
    events = [
        *turn.text_snapshot("a", "one "),
        *turn.notice("by the way"),
        *turn.text_snapshot("a", "one two"),
        *turn.text_snapshot("a", "one due"),
        *turn.text_snapshot("a", "uno due"),
    ]
    assert answer(events) == ["one ", "due"]


def test_blocks_that_are_said_in_turns_are_said_once() -> None:
    turn = TurnTranslation("agent")
    events = [
        *turn.text_delta("a", "A1 "),
        *turn.text_delta("b", "B1 "),
        *turn.text_delta("a", "A2 "),
        *turn.text_delta("b", "B2 "),
    ]
    events += [*turn.block_final("a", "A1 A2 "), *turn.block_final("b", "B1 B2 ")]
    assert answer(events) == ["A1 ", "B1 ", "A2 ", "B2 "]


def test_all_that_is_told_of_a_call_is_under_who_made_it() -> None:
    turn = TurnTranslation("odd")
    events = [
        *turn.tool_call("t", "shell", parent="task"),
        *turn.tool_call("t", "shell", {"command": "ls"}),
        *turn.tool_output("t", "a"),
        *turn.tool_result("t", "a", parent="other"),
        *turn.tool_output("t", "late"),
    ]
    assert [getattr(event, "parent_tool_id", "") for event in events] == ["task"] * 5


def test_what_an_unheard_of_tool_prints_after_the_end_is_no_matter() -> None:
    turn = TurnTranslation("odd")
    turn.end()
    turn.tool_result("t", "late")
    assert [type(event) for event in turn.tool_output("t", "later")] == [ToolOutput]


def test_what_a_tool_has_printed_is_not_printed_again_when_its_snapshot_has_lost_the_beginning() -> None:
    turn = TurnTranslation("odd")
    turn.tool_call("t", "shell")
    wholes = ["one\n", "one\ntwo\n", "two\nthree\n", "one\ntwo\nthree\n"]
    printed = [event for whole in wholes for event in turn.tool_output_snapshot("t", whole)]
    assert [event.data for event in printed if isinstance(event, ToolOutput)] == ["one\n", "two\n", "three\n"]


def test_what_is_unknown_and_nested_without_end_is_told_without_it() -> None:
    nested: list[object] = []
    for _ in range(5000):
        nested = [nested]
    assert TurnTranslation("odd").unknown_event({"type": "x", "y": nested}) == [
        Notice(text="odd sent an unknown event: nested too deeply to be shown")
    ]


def test_an_agent_that_says_ever_other_unknown_things_is_not_told_of_without_end() -> None:
    turn = TurnTranslation("odd")
    assert len([event for number in range(1000) for event in turn.unknown_event({"type": f"log-{number}"})]) == 20


def test_unknown_things_of_another_kind_are_told_each() -> None:
    turn = TurnTranslation("odd")
    odd = [{"type": "a"}, {"type": "b"}, {"x": 1}, {"y": 1}, ["a", 1], ["b", 1], "words", 7, None]
    assert len([event for _ in range(3) for value in odd for event in turn.unknown_event(value)]) == len(odd)


def test_what_is_unknown_interrupts_and_costs_no_text() -> None:
    turn = TurnTranslation("agent")
    events = [
        *turn.text_delta("a", "one "),
        *turn.unknown_event({"odd": 1}),
        *turn.text_delta("a", "two"),
        *turn.block_final("a", "one two"),
    ]
    assert answer(events) == ["one ", "two"]


def test_thoughts_that_follow_each_other_do_not_run_together() -> None:
    turn = TurnTranslation("agent")
    events = [
        *turn.reasoning_delta("one"),
        *turn.reasoning_end(),
        *turn.reasoning_delta("t"),
        *turn.reasoning_delta("wo"),
    ]
    assert "".join(event.text for event in events if isinstance(event, ReasoningDelta)) == "one\n\ntwo"
    assert turn.text_delta("a", "said") == [TextDelta(text="said")]
    turn.reasoning_end()
    assert turn.reasoning_delta("three") == [ReasoningDelta(text="three")]
    turn.reasoning_end({"signature": "x"})
    assert turn.reasoning_delta("four") == [ReasoningDelta(text="four")], "a sealed thought ends by itself"


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["text", "tool", "notice"])), max_size=20))
def test_however_blocks_are_interrupted_their_finals_add_nothing(steps: list[tuple[str, str]]) -> None:
    turn = TurnTranslation("agent")
    events: list[Event] = []
    said: dict[str, str] = {}
    order = ""
    for number, (key, kind) in enumerate(steps):
        if kind == "text":
            piece = f"{key}{number} "
            said[key] = said.get(key, "") + piece
            order += piece
            events += turn.text_delta(key, piece)
        elif kind == "tool":
            events += turn.tool_call(str(number), "look")
        else:
            events += turn.notice("by the way")
    finals = [event for key, whole in said.items() for event in turn.block_final(key, whole)]
    assert all(event == BlockFinal() for event in finals)
    assert "".join(answer([*events, *finals])) == order


def test_what_a_subagent_says_does_not_run_into_what_others_say() -> None:
    turn = TurnTranslation("r")
    events = [
        *turn.text_delta("child", "Child", parent="c"),
        *turn.text_delta("main", "Main"),
        *turn.text_delta("other", "Other", parent="o"),
        *turn.text_delta("child", ", still.", parent="c"),
        *turn.text_delta("main", ", too."),
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
    assert turn.block_final("main", "Main, too.") == [BlockFinal()], "the agent's own block was never broken"
    assert turn.block_final("child", "Child, still.", parent="c") == []
