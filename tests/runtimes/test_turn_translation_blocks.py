"""Blocks that are interrupted, interleaved or repeated by another try, and blocks of reasoning in a row."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from turns import turn_of

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


class Steps:
    """The events of calls like `text("a", "one")`, as a chain."""

    def __init__(self) -> None:
        self.turn = TurnTranslation("agent")
        self.events: list[Event] = []

    def text(self, key: str, piece: str) -> Steps:
        return self._add(self.turn.text_delta(key, piece))

    def whole(self, key: str, text: str) -> Steps:
        return self._add(self.turn.text_snapshot(key, text))

    def final(self, key: str, text: str | None = None) -> Steps:
        return self._add(self.turn.block_final(key, text))

    def tool(self, call: str = "1") -> Steps:
        return self._add(self.turn.tool_call(call, "look"))

    def unknown(self) -> Steps:
        return self._add(self.turn.unknown_event({"odd": 1}))

    def retry(self) -> Steps:
        return self._add(self.turn.retract_try("it broke"))

    def completed(self) -> Steps:
        self.turn.model_call_completed()
        return self

    def _add(self, events: list[Event]) -> Steps:
        self.events += events
        return self


@pytest.mark.parametrize(
    ("steps", "blocks"),
    [
        (Steps().text("a", "it breaks").final("a", "it breaks").retry().retry().text("a", "works"), ["works"]),
        (
            Steps()
            .final("a", "one")
            .text("b", "two")
            .final("b")
            .completed()
            .text("c", "thr")
            .retry()
            .text("d", "three"),
            ["one", "two", "three"],
        ),
        (Steps().text("a", "one").completed().retry(), ["one"]),
        (
            Steps().text("a", "one ").text("b", "two").retry().whole("a", "one again, ").text("c", "two again"),
            ["one again, ", "two again"],
        ),
        (
            Steps().text("a", "one ").completed().text("b", "tw").retry().text("c", "tw").retry().text("d", "two"),
            ["one ", "two"],
        ),
        (Steps().text("a", "before").tool().text("b", "aft").retry().text("c", "after"), ["before", "after"]),
    ],
    ids=["a final block", "a completed call", "nothing", "all blocks", "each of many tries", "behind a tool"],
)
def test_retry_retracts_the_blocks_of_the_failed_try(steps: Steps, blocks: list[str]) -> None:
    assert answer(steps.events) == blocks


@pytest.mark.parametrize(
    ("steps", "blocks"),
    [
        (Steps().text("a", "one ").tool().text("a", "two").final("a", "one two."), ["one ", "two."]),
        (Steps().text("a", "one ").tool().text("a", "two").final("a", "uno due"), ["one ", "two"]),
        (Steps().text("a", "one ").unknown().text("a", "two").final("a", "one two"), ["one ", "two"]),
        (
            Steps().whole("a", "one ").unknown().whole("a", "one two").whole("a", "one due").whole("a", "uno due"),
            ["one ", "due"],
        ),
        (
            Steps().text("a", "A1 ").text("b", "B1 ").text("a", "A2 ").text("b", "B2 ").final("a", "A1 A2 ").final("b"),
            ["A1 ", "B1 ", "A2 ", "B2 "],
        ),
    ],
    ids=["by a tool", "and changed", "by something unknown", "and snapshots", "by each other"],
)
def test_interrupted_block_continues_behind_the_interruption(steps: Steps, blocks: list[str]) -> None:
    assert answer(steps.events) == blocks


def test_each_speaker_retracts_only_its_own_text() -> None:
    turn = TurnTranslation("agent")
    turn.text_delta("a", "mine")
    turn.text_delta("b", "the child's", parent="call")
    assert turn.retract_try("it broke", parent="call") == [TextRetracted(reason="it broke", parent_tool_id="call")]
    assert turn.text_delta("a", " too") == [TextDelta(text=" too")]


def test_events_of_a_call_are_under_its_caller() -> None:
    turn = TurnTranslation("odd")
    events = [
        *turn.tool_call("t", "shell", parent="task"),
        *turn.tool_call("t", "shell", {"command": "ls"}),
        *turn.tool_output("t", "a"),
        *turn.tool_result("t", "a", parent="other"),
        *turn.tool_output("t", "late"),
    ]
    assert [getattr(event, "parent_tool_id", "") for event in events] == ["task"] * 5


def test_output_snapshot_without_its_beginning_is_ignored() -> None:
    turn = TurnTranslation("odd")
    turn.tool_call("t", "shell")
    wholes = ["one\n", "one\ntwo\n", "two\nthree\n", "one\ntwo\nthree\n"]
    printed = [event for whole in wholes for event in turn.tool_output_snapshot("t", whole)]
    assert [event.data for event in printed if isinstance(event, ToolOutput)] == ["one\n", "two\n", "three\n"]


def test_unknown_event_that_is_nested_too_deeply_is_not_shown() -> None:
    nested: list[object] = []
    for _ in range(5000):
        nested = [nested]
    assert TurnTranslation("odd").unknown_event({"type": "x", "y": nested}) == [
        Notice(text="odd sent an unknown event: nested too deeply to be shown")
    ]


def test_only_some_kinds_of_unknown_events_are_reported() -> None:
    turn = TurnTranslation("odd")
    assert len([event for number in range(1000) for event in turn.unknown_event({"type": f"log-{number}"})]) == 20


def test_each_kind_of_unknown_event_is_reported() -> None:
    turn = TurnTranslation("odd")
    odd = [{"type": "a"}, {"type": "b"}, {"x": 1}, {"y": 1}, ["a", 1], ["b", 1], "words", 7, None]
    assert len([event for _ in range(3) for value in odd for event in turn.unknown_event(value)]) == len(odd)


def test_blocks_of_reasoning_are_paragraphs() -> None:
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
def test_finals_of_interrupted_blocks_add_nothing(steps: list[tuple[str, str]]) -> None:
    turn = TurnTranslation("agent")
    events: list[Event] = []
    texts: dict[str, str] = {}
    order = ""
    for number, (key, kind) in enumerate(steps):
        if kind == "text":
            piece = f"{key}{number} "
            texts[key] = texts.get(key, "") + piece
            order += piece
            events += turn.text_delta(key, piece)
        elif kind == "tool":
            events += turn.tool_call(str(number), "look")
        else:
            events += turn.notice("by the way")
    finals = [event for key, whole in texts.items() for event in turn.block_final(key, whole)]
    assert all(event == BlockFinal() for event in finals)
    assert "".join(answer([*events, *finals])) == order


def test_text_of_a_subagent_stays_apart_from_other_speakers() -> None:
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
