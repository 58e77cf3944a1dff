"""Real runs of the command `claude`, with the scripted model. Needs: claude-agent-sdk==0.2.182, which carries it"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from command_lines import claude_command
from command_turns import BreakingTurns
from playing import Person, play, said, shown, terminal, tools

from tailrace.events import TextDelta, ToolStarted, TurnCompleted
from tailrace.runtimes.claude import ClaudeRuntime
from tailrace.testing.scripted_scenarios import Call, Fail, say

if TYPE_CHECKING:
    from command_lines import Place

    from tailrace.events import Event


QUESTION = {
    "question": "Which colour?",
    "header": "Colour",
    "multiSelect": False,
    "options": [
        {"label": "Red", "description": "like a rose"},
        {"label": "Blue", "description": "like the sky"},
    ],
}


def claude(place: Place) -> ClaudeRuntime:
    command = (claude_command(), "--dangerously-skip-permissions")
    return ClaudeRuntime(command, env=place.claude(), cwd=place.work)


class TestClaude(BreakingTurns):
    shell = "Bash"
    completed = TurnCompleted(text="Hello from the scripted model.", stop_reason="end_turn")
    broken = "API Error"
    refused_status = 400

    def runtime(self, place: Place) -> ClaudeRuntime:
        return claude(place)


def test_another_process_continues_a_session(place: Place) -> None:
    play(claude(place), "[[scenario:hello]]", session="a")
    assert said(play(claude(place), "[[scenario:recall]]", session="a")) == "Before this: hello."


def test_a_tool_that_fails_has_failed(place: Place) -> None:
    events = play(claude(place), "[[scenario:toolfail]]")
    ((name, result, is_error),) = tools(events).values()
    assert (name, is_error) == ("Bash", True)
    assert "went wrong" in result
    assert shown(events) == ["Trying it.", "It went wrong."]


def test_a_second_try_replaces_the_text_of_the_first(place: Place) -> None:
    place.model.scenarios["again"] = ((say("This is going ", "to break"), Fail()),)

    def mend(event: Event) -> None:
        if isinstance(event, TextDelta):
            place.model.scenarios["again"] = ((say("This is ", "whole."),),)

    events = play(claude(place), "[[scenario:again]]", at_event=mend)
    assert "This is going to break" in said(events)
    assert shown(events) == ["This is whole."]
    assert isinstance(terminal(events), TurnCompleted)


@pytest.mark.parametrize(("choice", "answer"), [(1, '"Which colour?"="Blue"'), (2, "The person chose none of these.")])
def test_a_person_answers_a_question_of_claude(place: Place, choice: int, answer: str) -> None:
    call = Call("AskUserQuestion", {"questions": [QUESTION]})
    place.model.scenarios["ask"] = ((say("I ask."), call), (say("Thank you."),))
    person = Person(choice)
    events = play(
        ClaudeRuntime((claude_command(),), env=place.claude(), cwd=place.work, approver=person), "[[scenario:ask]]"
    )
    assert [question.title for question in person.asked] == ["Which colour?"]
    ((name, result, _),) = tools(events).values()
    assert name == "AskUserQuestion"
    assert answer in result
    assert shown(events) == ["I ask.", "Thank you."]


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
