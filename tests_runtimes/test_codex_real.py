"""Real runs of `codex app-server` and `codex exec`, with the scripted model. Needs: npm @openai/codex@0.166.0"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from command_lines import Answers, cancel_in_tool, command, command_but_for, let_codex_delegate
from playing import commands, leave, play, play_turns, said, shown, terminal, thoughts, tools

from tailrace.events import Notice, Status, TextDelta, ToolStarted, TurnCompleted, TurnFailed
from tailrace.runtimes.codex import CodexRuntime
from tailrace.testing.scripted_scenarios import Call, Scenario, say

if TYPE_CHECKING:
    from pathlib import Path

    from command_lines import Place


def codex(place: Place) -> CodexRuntime:
    return CodexRuntime((command("codex"),), env=place.codex(), cwd=place.work)


def codex_exec(place: Place) -> CodexRuntime:
    """One that has no server, as those of last year."""
    return CodexRuntime((command_but_for("app-server", "codex", place.work),), env=place.codex(), cwd=place.work)


def test_an_answer_comes_in_pieces(place: Place) -> None:
    events = play(codex(place), "[[scenario:hello]]")
    pieces = [event.text for event in events if isinstance(event, TextDelta)]
    assert pieces == ["Hello", " from", " the scripted", " model."]
    assert terminal(events) == TurnCompleted(text="Hello from the scripted model.")


def test_thoughts_a_tool_and_its_result(place: Place) -> None:
    events = play(codex(place), "[[scenario:tool]]")
    assert shown(events) == ["Let me look.", "The tool has spoken."]
    assert thoughts(events) == "I should run something.Now I know."
    assert commands(events) == ["echo the tool speaks"]
    assert list(tools(events).values()) == [("shell", "the tool speaks", False)]
    assert isinstance(terminal(events), TurnCompleted)


def test_two_tools_at_once(place: Place) -> None:
    events = play(codex(place), "[[scenario:parallel]]")
    assert sorted(commands(events)) == ["echo first", "echo second"]
    assert sorted(result for _, result, _ in tools(events).values()) == ["first", "second"]
    assert shown(events) == ["Two at once.", "Both are done."]


def test_a_tool_that_fails_is_told_as_failed(place: Place) -> None:
    events = play(codex(place), "[[scenario:toolfail]]")
    ((name, result, is_error),) = tools(events).values()
    assert (name, is_error) == ("shell", True)
    assert sorted(result.split("\n")) == ["on its way", "went wrong"]  # two pipes: codex reads them in any order
    assert shown(events) == ["Trying it.", "It went wrong."]


@pytest.mark.parametrize(
    ("scenario", "kept"), [("errmid", "This is going to break"), ("cut", "This is going to be cut")]
)
def test_a_failure_in_the_middle_leaves_what_was_said_once(place: Place, scenario: str, kept: str) -> None:
    events = play(codex(place), f"[[scenario:{scenario}]]")
    assert shown(events) == [kept]
    assert "Reconnecting... 1/1" in [event.text for event in events if isinstance(event, Status)]
    end = terminal(events)
    assert isinstance(end, TurnFailed)
    assert end.message.startswith("stream disconnected before completion")
    assert len(place.model.asked(scenario)) == 2


def test_a_refused_request_fails_the_turn_with_the_reason(place: Place) -> None:
    events = play(codex(place), "[[scenario:http400]]")
    end = terminal(events)
    assert isinstance(end, TurnFailed)
    assert end.message == "the scripted model refuses this request"
    assert said(events) == ""


def test_a_session_remembers_its_turns_and_only_its_own(place: Place) -> None:
    first, second = play_turns(codex(place), "[[scenario:hello]]", "[[scenario:recall]]", session="a")
    assert said(second) == "Before this: hello."
    # It knows nothing of the model, which it says each time; people are told once.
    warnings = [[event.text for event in turn if isinstance(event, Notice)] for turn in (first, second)]
    assert warnings[0]
    assert warnings[1] == []
    assert said(play(codex(place), "[[scenario:recall]]", session="a")) == "Before this: hello, recall."
    assert said(play(codex(place), "[[scenario:recall]]", session="b")) == "Before this: nothing."


def asking_to_make(path: Path) -> Scenario:
    """A command that the model wants to be run outside of the sandbox."""
    wanted = {"cmd": f"touch {path}", "sandbox_permissions": "require_escalated", "justification": "May I make a file?"}
    return ((say("I make a file."), Call("exec_command", wanted)), (say("That is that."),))


def codex_that_asks(place: Place, person: Answers | None = None) -> CodexRuntime:
    env = place.codex(approval_policy="on-request", sandbox_mode="read-only")
    return CodexRuntime((command("codex"),), env=env, cwd=place.work, permissions="ask", approver=person)


@pytest.mark.parametrize("allow", [True, False])
def test_what_it_asks_for_is_done_only_if_it_is_allowed(place: Place, allow: bool) -> None:
    person = Answers(allow=allow)
    made = place.root / "made"
    place.model.scenarios["ask"] = asking_to_make(made)
    events = play(codex_that_asks(place, person), "[[scenario:ask]]")
    (question,) = person.asked
    assert question.title == f"Run touch {made}"
    assert made.exists() == allow
    ((_, _, is_error),) = tools(events).values()
    assert is_error != allow
    assert shown(events) == ["I make a file.", "That is that."]
    assert isinstance(terminal(events), TurnCompleted)


def test_without_anybody_to_ask_nothing_is_allowed_and_that_is_told(place: Place) -> None:
    made = place.root / "made"
    place.model.scenarios["ask"] = asking_to_make(made)
    events = play(codex_that_asks(place), "[[scenario:ask]]")
    assert not made.exists()
    assert any(event.text.startswith("Not allowed: Run touch") for event in events if isinstance(event, Notice))


def test_settings_that_it_cannot_take_are_told_in_its_words_without_a_trace(place: Place) -> None:
    runtime = CodexRuntime((command("codex"),), env=place.codex(approval_policy="untrusted"), cwd=place.work)
    end = terminal(play(runtime, "[[scenario:hello]]"))
    assert isinstance(end, TurnFailed)
    assert end.message.endswith("remove this setting")


def test_leaving_in_the_middle_of_a_text_leaves_nothing(place: Place) -> None:
    leave(codex(place), TextDelta, text="[[scenario:stall]]")
    assert place.processes() == []


def test_cancelling_while_a_tool_runs_leaves_nothing(place: Place) -> None:
    cancel_in_tool(codex(place), place)


def test_one_without_a_server_says_its_answer_block_by_block(place: Place) -> None:
    runtime = codex_exec(place)
    first, second = play_turns(runtime, "[[scenario:tool]]", "[[scenario:recall]]")
    assert shown(first) == ["Let me look.", "The tool has spoken."]
    assert list(tools(first).values()) == [("shell", "the tool speaks", False)]
    assert isinstance(terminal(first), TurnCompleted)
    assert shown(second) == ["Before this: tool."]


@pytest.mark.parametrize("scenario", ["errmid", "http400"])
def test_one_without_a_server_fails_with_the_reason(place: Place, scenario: str) -> None:
    events = play(codex_exec(place), f"[[scenario:{scenario}]]")
    end = terminal(events)
    assert isinstance(end, TurnFailed)
    assert "the scripted model" in end.message
    assert "{" not in end.message


def test_cancelling_one_without_a_server_leaves_nothing(place: Place) -> None:
    cancel_in_tool(codex_exec(place), place)


def test_a_subagent_speaks_under_its_call(place: Place) -> None:
    let_codex_delegate(place)
    events = play(codex(place), "[[scenario:subagent]]")
    (call,) = [event.id for event in events if isinstance(event, ToolStarted) and event.name == "spawnAgent"]
    assert said(events, parent=call).startswith("The child speaks.The child has a result.")
    assert ("shell", "a child works", False) in tools(events, parent=call).values()
    # The parent is asked once more where it hears of the child's end before its own.
    assert shown(events)[0] == "I delegate."
    assert set(shown(events)[1:]) == {"The parent is done."}
    known = {event.id for event in events if isinstance(event, ToolStarted)}
    assert {event.parent_tool_id for event in events if isinstance(event, Notice)} <= {None, *known}
