"""Real runs of gemini-cli, with the scripted model. Needs: npm @google/gemini-cli@0.61.0"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from command_lines import cancel_in_tool, command
from playing import commands, leave, play, play_turns, said, shown, terminal, tools

from tailrace.events import Event, Notice, TextDelta, TurnCompleted, TurnFailed
from tailrace.runtimes.gemini import GeminiRuntime
from tailrace.runtimes.restart_detector import MAY_BE_RESTARTED
from tailrace.testing.scripted_scenarios import Fail, Shell, say

if TYPE_CHECKING:
    from command_lines import Place


def gemini(place: Place, *options: str) -> GeminiRuntime:
    named = (command("gemini"), "-m", "gemini-2.5-flash", *(options or ("--approval-mode", "yolo")))
    return GeminiRuntime(named, env=place.gemini(), cwd=place.work)


def test_an_answer_comes_in_pieces_and_a_session_remembers_it(place: Place) -> None:
    first, second = play_turns(gemini(place), "[[scenario:hello]]", "[[scenario:recall]]", session="a")
    pieces = [event.text for event in first if isinstance(event, TextDelta)]
    assert pieces == ["Hello", " from", " the scripted", " model."]
    assert terminal(first) == TurnCompleted()
    assert said(second) == "Before this: hello."
    assert said(play(gemini(place), "[[scenario:recall]]", session="b")) == "Before this: nothing."


def test_a_tool_and_its_result(place: Place) -> None:
    events = play(gemini(place), "[[scenario:tool]]")
    assert shown(events) == ["Let me look.", "The tool has spoken."]
    assert commands(events) == ["echo the tool speaks"]
    assert list(tools(events).values()) == [("run_shell_command", "the tool speaks", False)]
    assert terminal(events) == TurnCompleted()


def test_two_tools_at_once(place: Place) -> None:
    events = play(gemini(place), "[[scenario:parallel]]")
    assert commands(events) == ["echo first", "echo second"]
    assert [result for _, result, _ in tools(events).values()] == ["first", "second"]
    assert shown(events) == ["Two at once.", "Both are done."]


def test_what_its_mode_does_not_allow_is_not_done(place: Place) -> None:
    made = place.root / "made"
    place.model.scenarios["ask"] = ((say("I make a file."), Shell(f"touch {made}")), (say("That is that."),))
    events = play(gemini(place, "--approval-mode", "default"), "[[scenario:ask]]")
    assert not made.exists()
    assert tools(events) == {}
    assert said(events) == "I make a file.I have no tool for that."


def test_a_failure_in_the_middle_leaves_what_was_said_once(place: Place) -> None:
    events = play(gemini(place), "[[scenario:errmid]]")
    assert shown(events) == ["This is going to break"]
    assert isinstance(terminal(events), TurnFailed)
    assert len(place.model.asked("errmid")) == 4


@pytest.mark.parametrize(
    ("second", "stands"),
    [
        (("This is going ", "to break, but it holds."), ["This is going to break, but it holds."]),
        # It says something else in its second try: which of the two counts nobody can know.
        (("This is going ", "to be whole."), ["This is going to break", "This is going to be whole."]),
    ],
)
def test_a_second_try_that_succeeds_is_never_glued_to_the_first(
    place: Place, second: tuple[str, ...], stands: list[str]
) -> None:
    place.model.scenarios["again"] = ((say("This is going ", "to break"), Fail()),)

    def mend(event: Event) -> None:
        if isinstance(event, TextDelta):
            place.model.scenarios["again"] = ((say(*second),),)

    events = play(gemini(place), "[[scenario:again]]", at_event=mend)
    assert shown(events) == stands
    assert (Notice(text=MAY_BE_RESTARTED) in events) == (len(stands) > 1)
    assert terminal(events) == TurnCompleted()


def test_an_answer_that_is_cut_off_has_failed(place: Place) -> None:
    events = play(gemini(place), "[[scenario:cut]]")
    assert shown(events) == ["This is going to be cut"]
    assert terminal(events) == TurnFailed(message="API Error: terminated")


def test_a_refused_request_fails_the_turn_with_the_reason(place: Place) -> None:
    events = play(gemini(place), "[[scenario:http400]]")
    assert terminal(events) == TurnFailed(message="API Error: the scripted model refuses this request", status_code=400)
    assert said(events) == ""


def test_leaving_in_the_middle_of_a_text_leaves_nothing(place: Place) -> None:
    leave(gemini(place), TextDelta, text="[[scenario:stall]]")
    assert place.processes() == []


def test_cancelling_while_a_tool_runs_leaves_nothing(place: Place) -> None:
    cancel_in_tool(gemini(place), place)
