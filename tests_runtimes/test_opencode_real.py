"""Real runs of `opencode serve` and `opencode run`, with the scripted model. Needs: npm opencode-ai@1.18.33"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from command_lines import cancel_in_tool, command, command_but_for
from command_turns import CommandTurns
from playing import Person, play, play_turns, said, shown, terminal, tools

from tailrace.events import Status, ToolStarted, TurnCompleted
from tailrace.runtimes.opencode import OpencodeRuntime
from tailrace.testing.scripted_scenarios import Fail, say

if TYPE_CHECKING:
    from command_lines import Place


def opencode(place: Place, person: Person | None = None, **permissions: str) -> OpencodeRuntime:
    env = place.opencode(**permissions)
    return OpencodeRuntime((command("opencode"),), env=env, cwd=place.work, permissions="ask", approver=person)


def opencode_run(place: Place) -> OpencodeRuntime:
    """An opencode without a server."""
    return OpencodeRuntime((command_but_for("serve", "opencode", place.work),), env=place.opencode(), cwd=place.work)


class TestOpencode(CommandTurns):
    shell = "bash"
    completed = TurnCompleted(stop_reason="stop")
    refused_status = 400

    def runtime(self, place: Place) -> OpencodeRuntime:
        return opencode(place)


def test_a_retry_replaces_the_text_of_the_failed_try(place: Place) -> None:
    place.model.scenarios["again"] = ((say("This is going ", "to break"), Fail()),)
    runtime = opencode(place)

    def mend_at(event: object) -> None:
        """Let the model work from the moment on at which its failure is known."""
        if isinstance(event, Status) and event.text.startswith("Asking the model again: the scripted model fails"):
            place.model.scenarios["again"] = ((say("This is going ", "well."),),)

    events = play(runtime, "[[scenario:again]]", at_event=mend_at)
    assert shown(events) == ["This is going well."]
    assert terminal(events) == TurnCompleted(stop_reason="stop")


def test_a_subagent_speaks_under_its_call(place: Place) -> None:
    events = play(opencode(place), "[[scenario:subagent]]")
    (call,) = [event.id for event in events if isinstance(event, ToolStarted) and event.name == "task"]
    assert said(events, parent=call) == "The child speaks.The child has a result."
    assert list(tools(events, parent=call).values()) == [("bash", "a child works", False)]
    assert shown(events) == ["I delegate.", "The parent is done."]
    assert "The child has a result." in tools(events)[call][1]


def test_opencode_without_a_server_sends_whole_blocks(place: Place) -> None:
    first, second = play_turns(opencode_run(place), "[[scenario:tool]]", "[[scenario:recall]]")
    assert shown(first) == ["Let me look.", "The tool has spoken."]
    assert list(tools(first).values()) == [("bash", "the tool speaks", False)]
    assert isinstance(terminal(first), TurnCompleted)
    assert shown(second) == ["Before this: tool."]


def test_cancelling_opencode_without_a_server_leaves_no_process(place: Place) -> None:
    cancel_in_tool(opencode_run(place), place)


def test_a_subagent_asks_the_person_too(place: Place) -> None:
    person = Person(True)
    events = play(opencode(place, person, bash="ask"), "[[scenario:subagent]]")
    (question,) = person.asked
    assert "echo a child works" in question.title
    (call,) = [event.id for event in events if isinstance(event, ToolStarted) and event.name == "task"]
    assert list(tools(events, parent=call).values()) == [("bash", "a child works", False)]


def test_the_server_ends_when_tailrace_is_killed(place: Place) -> None:
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
