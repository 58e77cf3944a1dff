"""`parts`: messages that are sent as each is complete, and never edited."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from test_projector import Turn

from tailrace.capabilities import Capabilities, Unkeyed
from tailrace.events import (
    BlockFinal,
    Error,
    Event,
    ReasoningDelta,
    TextDelta,
    TextRetracted,
    ToolFinished,
    ToolStarted,
    TurnCompleted,
)
from tailrace.operations import Delete, Operation, Post

LIMITS = Capabilities(idempotency=Unkeyed(), limit=40)  # without edits
FIRST, SECOND = "The river turns the wheel.", "The wheel turns the stone."
STARTED, FINISHED = ToolStarted(id="1", name="grep"), ToolFinished(id="1", result="secret")


def texts(asked: list[Operation]) -> list[str]:
    assert all(isinstance(operation, Post) for operation in asked)
    return [operation.body.text for operation in asked if isinstance(operation, Post)]


def test_a_message_is_sent_as_soon_as_the_next_text_does_not_fit() -> None:
    turn = Turn(LIMITS, presentation="parts")
    assert texts(turn.say(FIRST)) == []
    assert texts(turn.after(60)) == [], "time makes no message complete"
    assert texts(turn.say("\n\n", *SECOND)) == [FIRST]
    assert texts(turn.end(TurnCompleted())) == [SECOND]


@pytest.mark.parametrize(
    ("before", "sends"),
    [
        ([FIRST, BlockFinal(), SECOND], FIRST),
        ([FIRST, BlockFinal(), BlockFinal(text=SECOND)], FIRST),
        ([FIRST, STARTED, FINISHED], FIRST),
        ([FIRST, Error(message="slow", code="busy")], FIRST),
        ([FIRST, STARTED], ""),
        ([FIRST, BlockFinal()], ""),
        (["One half", STARTED, "another", FINISHED], "One half"),
        ([FIRST, STARTED, ToolFinished(id="2", parent_tool_id="1", result="")], ""),
        ([FIRST, STARTED, TextDelta(text="a subagent", parent_tool_id="1")], ""),
        ([ReasoningDelta(text="Hm."), FIRST], ""),
    ],
)
def test_a_block_is_sent_before_the_next_one_and_when_a_tool_has_finished(
    before: list[Event | str], sends: str
) -> None:
    turn = Turn(LIMITS, presentation="parts")
    sent = texts(turn.say(*before))
    assert sent[:1] == ([sends] if sends else [])


def test_text_that_is_still_written_is_not_cut_by_a_tool_that_finishes() -> None:
    turn = Turn(LIMITS, presentation="parts")
    assert texts(turn.say(STARTED, "The river turns", FINISHED, " the wheel.")) == []
    assert texts(turn.end(TurnCompleted())) == [FIRST]


def test_what_is_taken_back_is_deleted_and_what_stands_is_not_sent_again() -> None:
    turn = Turn(replace(LIMITS, deletes=True), presentation="parts")
    assert texts(turn.say(FIRST, STARTED, SECOND, BlockFinal(), "More")) == [FIRST, SECOND]
    [deleted] = turn.say(TextRetracted())
    assert isinstance(deleted, Delete)
    assert texts(turn.end("Instead.", TurnCompleted())) == ["Instead."]
