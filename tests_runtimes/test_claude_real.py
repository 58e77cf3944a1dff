"""Real runs of the command `claude`, with the scripted model. Needs: claude-agent-sdk==0.2.182, which carries it"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from command_lines import Chooses, cancel_in_tool, claude_command
from playing import commands, leave, play, play_turns, said, shown, terminal, thoughts, tools

from tailrace.events import ReasoningEnd, TextDelta, ToolStarted, TurnCompleted, TurnFailed
from tailrace.runtimes.claude import ClaudeRuntime
from tailrace.testing.scripted_scenarios import SIGNATURE, Call, Fail, say

if TYPE_CHECKING:
    from command_lines import Place

    from tailrace.events import Event


COLOURS = {
    "questions": [
        {
            "question": "Which colour?",
            "header": "Colour",
            "multiSelect": False,
            "options": [
                {"label": "Red", "description": "like a rose"},
                {"label": "Blue", "description": "like the sky"},
            ],
        }
    ]
}


def claude(place: Place) -> ClaudeRuntime:
    command = (claude_command(), "--dangerously-skip-permissions")
    return ClaudeRuntime(command, env=place.claude(), cwd=place.work)


def test_an_answer_comes_in_pieces(place: Place) -> None:
    events = play(claude(place), "[[scenario:hello]]")
    assert [event.text for event in events if isinstance(event, TextDelta)] == [
        "Hello",
        " from",
        " the scripted",
        " model.",
    ]
    assert terminal(events) == TurnCompleted(text="Hello from the scripted model.", stop_reason="end_turn")


def test_thoughts_a_tool_and_its_result(place: Place) -> None:
    events = play(claude(place), "[[scenario:tool]]")
    assert shown(events) == ["Let me look.", "The tool has spoken."]
    assert thoughts(events) == "I should run something.Now I know."
    assert {"signature": SIGNATURE} in [event.metadata for event in events if isinstance(event, ReasoningEnd)]
    assert commands(events) == ["echo the tool speaks"]
    assert list(tools(events).values()) == [("Bash", "the tool speaks", False)]
    assert isinstance(terminal(events), TurnCompleted)


def test_two_tools_at_once(place: Place) -> None:
    events = play(claude(place), "[[scenario:parallel]]")
    assert commands(events) == ["echo first", "echo second"]
    assert sorted(result for _, result, _ in tools(events).values()) == ["first", "second"]
    assert shown(events) == ["Two at once.", "Both are done."]


def test_a_tool_that_fails_is_told_as_failed(place: Place) -> None:
    events = play(claude(place), "[[scenario:toolfail]]")
    ((name, result, is_error),) = tools(events).values()
    assert (name, is_error) == ("Bash", True)
    assert "went wrong" in result
    assert shown(events) == ["Trying it.", "It went wrong."]


@pytest.mark.parametrize(
    ("scenario", "spoken"), [("errmid", "This is going to break"), ("cut", "This is going to be cut")]
)
def test_a_failure_in_the_middle_leaves_what_was_said_once(place: Place, scenario: str, spoken: str) -> None:
    events = play(claude(place), f"[[scenario:{scenario}]]")
    kept = "".join(shown(events))
    # A connection that breaks may take with it what came just before.
    assert kept == spoken or (scenario == "cut" and spoken.startswith(kept))
    end = terminal(events)
    assert isinstance(end, TurnFailed)
    assert "API Error" in end.message


def test_a_second_try_that_succeeds_is_all_that_stands(place: Place) -> None:
    place.model.scenarios["again"] = ((say("This is going ", "to break"), Fail()),)

    def mend(event: Event) -> None:
        if isinstance(event, TextDelta):
            place.model.scenarios["again"] = ((say("This is ", "whole."),),)

    events = play(claude(place), "[[scenario:again]]", at_event=mend)
    assert "This is going to break" in said(events)
    assert shown(events) == ["This is whole."]
    assert isinstance(terminal(events), TurnCompleted)


@pytest.mark.parametrize(("wanted", "told"), [(1, '"Which colour?"="Blue"'), (2, "The person chose none of these.")])
def test_a_person_answers_what_claude_wants_to_know(place: Place, wanted: int, told: str) -> None:
    place.model.scenarios["ask"] = ((say("I ask."), Call("AskUserQuestion", COLOURS)), (say("Thank you."),))
    person = Chooses(wanted)
    events = play(
        ClaudeRuntime((claude_command(),), env=place.claude(), cwd=place.work, approver=person), "[[scenario:ask]]"
    )
    assert [question.title for question in person.asked] == ["Which colour?"]
    ((name, result, _),) = tools(events).values()
    assert name == "AskUserQuestion"
    assert told in result
    assert shown(events) == ["I ask.", "Thank you."]


def test_a_refused_request_fails_the_turn_with_the_reason(place: Place) -> None:
    events = play(claude(place), "[[scenario:http400]]")
    end = terminal(events)
    assert isinstance(end, TurnFailed)
    assert (end.message, end.status_code) == ("API Error: 400 the scripted model refuses this request", 400)
    assert said(events) == ""


def test_a_session_remembers_its_turns_and_only_its_own(place: Place) -> None:
    runtime = claude(place)
    _, second = play_turns(runtime, "[[scenario:hello]]", "[[scenario:recall]]", session="a")
    assert said(second) == "Before this: hello."
    assert said(play(claude(place), "[[scenario:recall]]", session="a")) == "Before this: hello, recall."
    assert said(play(claude(place), "[[scenario:recall]]", session="b")) == "Before this: nothing."


def test_a_subagent_speaks_under_its_call(place: Place) -> None:
    events = play(claude(place), "[[scenario:subagent]]")
    (call,) = [event.id for event in events if isinstance(event, ToolStarted) and event.name in {"Agent", "Task"}]
    assert "The child speaks." in said(events, parent=call)
    assert "The child has a result." in said(events, parent=call)
    assert [result for _, result, _ in tools(events, parent=call).values()] == ["a child works"]
    assert shown(events)[0] == "I delegate."
    assert shown(events)[-1] == "The parent is done."
    assert tools(events)[call][1].startswith("The child has a result.")
    assert isinstance(terminal(events), TurnCompleted)


def test_leaving_in_the_middle_of_a_text_leaves_nothing(place: Place) -> None:
    leave(claude(place), TextDelta, text="[[scenario:stall]]")
    assert place.processes() == []


def test_cancelling_while_a_tool_runs_leaves_nothing(place: Place) -> None:
    cancel_in_tool(claude(place), place)
