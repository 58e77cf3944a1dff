"""Real runs of `opencode serve` and `opencode run`, with the scripted model. Needs: npm opencode-ai@1.18.33"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from command_lines import Answers, cancel_in_tool, command, command_but_for
from playing import commands, leave, play, play_turns, said, shown, terminal, thoughts, tools

from tailrace.events import Notice, Status, TextDelta, ToolStarted, TurnCompleted, TurnFailed
from tailrace.runtimes.opencode import OpencodeRuntime
from tailrace.testing.scripted_scenarios import Fail, Scenario, Shell, say

if TYPE_CHECKING:
    from command_lines import Place


def opencode(place: Place, person: Answers | None = None, **permissions: str) -> OpencodeRuntime:
    env = place.opencode(**permissions)
    return OpencodeRuntime((command("opencode"),), env=env, cwd=place.work, permissions="ask", approver=person)


def opencode_run(place: Place) -> OpencodeRuntime:
    """One that cannot be a server."""
    return OpencodeRuntime((command_but_for("serve", "opencode", place.work),), env=place.opencode(), cwd=place.work)


def test_an_answer_comes_in_pieces_and_a_session_remembers_it(place: Place) -> None:
    first, second = play_turns(opencode(place), "[[scenario:hello]]", "[[scenario:recall]]", session="a")
    pieces = [event.text for event in first if isinstance(event, TextDelta)]
    assert pieces == ["Hello", " from", " the scripted", " model."]
    assert terminal(first) == TurnCompleted(stop_reason="stop")
    assert said(second) == "Before this: hello."
    assert said(play(opencode(place), "[[scenario:recall]]", session="b")) == "Before this: nothing."


def test_thoughts_a_tool_and_its_result(place: Place) -> None:
    events = play(opencode(place), "[[scenario:tool]]")
    assert shown(events) == ["Let me look.", "The tool has spoken."]
    assert thoughts(events) == "I should run something.Now I know."
    assert commands(events) == ["echo the tool speaks"]
    assert list(tools(events).values()) == [("bash", "the tool speaks", False)]


def test_two_tools_at_once(place: Place) -> None:
    events = play(opencode(place), "[[scenario:parallel]]")
    assert commands(events) == ["echo first", "echo second"]
    assert sorted(result for _, result, _ in tools(events).values()) == ["first", "second"]
    assert shown(events) == ["Two at once.", "Both are done."]


def test_a_model_that_fails_in_the_middle_is_asked_again_and_its_text_stands_once(place: Place) -> None:
    place.model.scenarios["again"] = ((say("This is going ", "to break"), Fail()),)
    runtime = opencode(place)

    def mend_at(event: object) -> None:
        """As soon as it is known that it failed, it will not the next time."""
        if isinstance(event, Status) and event.text.startswith("Asking the model again: the scripted model fails"):
            place.model.scenarios["again"] = ((say("This is going ", "well."),),)

    events = play(runtime, "[[scenario:again]]", at_event=mend_at)
    assert shown(events) == ["This is going well."]
    assert terminal(events) == TurnCompleted(stop_reason="stop")


def test_a_refused_request_fails_the_turn_with_the_reason(place: Place) -> None:
    end = terminal(play(opencode(place), "[[scenario:http400]]"))
    assert isinstance(end, TurnFailed)
    assert (end.message, end.status_code) == ("the scripted model refuses this request", 400)


def test_a_subagent_speaks_under_its_call(place: Place) -> None:
    events = play(opencode(place), "[[scenario:subagent]]")
    (call,) = [event.id for event in events if isinstance(event, ToolStarted) and event.name == "task"]
    assert said(events, parent=call) == "The child speaks.The child has a result."
    assert list(tools(events, parent=call).values()) == [("bash", "a child works", False)]
    assert shown(events) == ["I delegate.", "The parent is done."]
    assert "The child has a result." in tools(events)[call][1]


def asking_to_make(path: Path) -> Scenario:
    return ((say("I make a file."), Shell(f"touch {path}")), (say("That is that."),))


@pytest.mark.parametrize("allow", [True, False])
def test_what_it_asks_for_is_done_only_if_it_is_allowed(place: Place, allow: bool) -> None:
    person = Answers(allow=allow)
    made = place.root / "work" / "made"
    place.model.scenarios["ask"] = asking_to_make(made)
    events = play(opencode(place, person, bash="ask"), "[[scenario:ask]]")
    (question,) = person.asked
    assert f"touch {made}" in question.title
    assert made.exists() == allow
    ((_, _, is_error),) = tools(events).values()
    assert is_error != allow
    assert isinstance(terminal(events), TurnCompleted)


def test_without_anybody_to_ask_nothing_is_allowed_and_that_is_told(place: Place) -> None:
    made = place.root / "work" / "made"
    place.model.scenarios["ask"] = asking_to_make(made)
    events = play(opencode(place, bash="ask"), "[[scenario:ask]]")
    assert not made.exists()
    assert any(event.text.startswith("Not allowed: ") for event in events if isinstance(event, Notice))


def test_leaving_in_the_middle_of_a_text_leaves_nothing(place: Place) -> None:
    leave(opencode(place), TextDelta, text="[[scenario:stall]]")
    assert place.processes() == []


def test_cancelling_while_a_tool_runs_leaves_nothing(place: Place) -> None:
    cancel_in_tool(opencode(place), place)


def test_one_that_cannot_serve_says_its_answer_block_by_block(place: Place) -> None:
    first, second = play_turns(opencode_run(place), "[[scenario:tool]]", "[[scenario:recall]]")
    assert shown(first) == ["Let me look.", "The tool has spoken."]
    assert list(tools(first).values()) == [("bash", "the tool speaks", False)]
    assert isinstance(terminal(first), TurnCompleted)
    assert shown(second) == ["Before this: tool."]


def test_one_that_cannot_serve_fails_with_the_reason(place: Place) -> None:
    end = terminal(play(opencode_run(place), "[[scenario:http400]]"))
    assert isinstance(end, TurnFailed)
    assert end.message == "the scripted model refuses this request"


def test_cancelling_one_that_cannot_serve_leaves_nothing(place: Place) -> None:
    cancel_in_tool(opencode_run(place), place)


def test_what_a_subagent_asks_for_is_asked_too(place: Place) -> None:
    person = Answers(allow=True)
    events = play(opencode(place, person, bash="ask"), "[[scenario:subagent]]")
    (question,) = person.asked
    assert "echo a child works" in question.title
    (call,) = [event.id for event in events if isinstance(event, ToolStarted) and event.name == "task"]
    assert list(tools(events, parent=call).values()) == [("bash", "a child works", False)]


def test_the_server_does_not_outlive_whoever_is_killed(place: Place) -> None:
    env = place.opencode()
    env["PATH"] = f"{Path(command('opencode')).parent}{os.pathsep}{env['PATH']}"
    chat = (str(Path(sys.prefix) / "bin" / "tailrace"), "chat", "opencode", "--json")
    with subprocess.Popen(
        chat, env={**os.environ, **env}, cwd=place.work, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as killed:
        assert killed.stdin is not None
        assert killed.stdout is not None
        killed.stdin.write("[[scenario:stall]]\n")
        killed.stdin.flush()
        assert any('"text_delta"' in line for line in killed.stdout)
        assert any(" serve " in line for line in place.processes())
        killed.kill()
    place.wait_until_all_are_gone()
