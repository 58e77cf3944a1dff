"""Tests that hold for every agent that is a command, as classes. The file of a command says what is different."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import pytest
from command_lines import cancel_in_tool
from playing import commands, leave, play, play_turns, said, shown, terminal, thoughts, tools

from tailrace.events import TextDelta, TurnCompleted, TurnFailed

if TYPE_CHECKING:
    from command_lines import Place

    from tailrace.ports import Runtime


class CommandTurns:
    """The turns that all of them have, with the scripted model."""

    shell: ClassVar[str]  # the name of its tool that runs commands
    thoughts: ClassVar[str | None] = "I should run something.Now I know."  # None if it does not send its reasoning
    completed: ClassVar[TurnCompleted] = TurnCompleted()
    refused_status: ClassVar[int | None] = None  # of a refused request; None if it is not checked

    def runtime(self, place: Place) -> Runtime:
        """The command with permission for everything."""
        raise NotImplementedError

    def test_text_is_streamed_and_sessions_are_separate(self, place: Place) -> None:
        first, second = play_turns(self.runtime(place), "[[scenario:hello]]", "[[scenario:recall]]", session="a")
        pieces = [event.text for event in first if isinstance(event, TextDelta)]
        assert pieces == ["Hello", " from", " the scripted", " model."]
        assert terminal(first) == self.completed
        assert said(second) == "Before this: hello."
        assert said(play(self.runtime(place), "[[scenario:recall]]", session="b")) == "Before this: nothing."

    def test_reasoning_a_tool_and_its_result(self, place: Place) -> None:
        events = play(self.runtime(place), "[[scenario:tool]]")
        assert shown(events) == ["Let me look.", "The tool has spoken."]
        assert self.thoughts is None or thoughts(events) == self.thoughts
        assert commands(events) == ["echo the tool speaks"]
        assert list(tools(events).values()) == [(self.shell, "the tool speaks", False)]
        assert isinstance(terminal(events), TurnCompleted)

    def test_two_tools_at_once(self, place: Place) -> None:
        events = play(self.runtime(place), "[[scenario:parallel]]")
        assert sorted(commands(events)) == ["echo first", "echo second"]
        assert sorted(result for _, result, _ in tools(events).values()) == ["first", "second"]
        assert shown(events) == ["Two at once.", "Both are done."]

    def test_a_refused_request_fails_the_turn_with_the_reason(self, place: Place) -> None:
        events = play(self.runtime(place), "[[scenario:http400]]")
        end = terminal(events)
        assert isinstance(end, TurnFailed)
        assert "the scripted model refuses this request" in end.message
        assert self.refused_status in {None, end.status_code}
        assert said(events) == ""

    def test_leaving_in_the_middle_of_a_text_leaves_no_process(self, place: Place) -> None:
        leave(self.runtime(place), TextDelta, text="[[scenario:stall]]")
        assert place.processes() == []

    def test_cancelling_while_a_tool_runs_leaves_no_process(self, place: Place) -> None:
        cancel_in_tool(self.runtime(place), place)


class BreakingTurns(CommandTurns):
    """The same for those that give up when their model fails in the middle of a text."""

    broken: ClassVar[str]  # what the message of the failure contains

    @pytest.mark.parametrize(
        ("scenario", "text"), [("errmid", "This is going to break"), ("cut", "This is going to be cut")]
    )
    def test_a_failure_in_the_middle_keeps_the_text_once(self, place: Place, scenario: str, text: str) -> None:
        events = play(self.runtime(place), f"[[scenario:{scenario}]]")
        kept = "".join(shown(events))
        # A connection that breaks may lose the text just before that.
        assert kept == text or (scenario == "cut" and text.startswith(kept))
        end = terminal(events)
        assert isinstance(end, TurnFailed)
        assert self.broken in end.message
