"""Real runs of `codex app-server` and `codex exec`, with the scripted model. Needs: npm @openai/codex@0.166.0"""

from __future__ import annotations

from typing import TYPE_CHECKING

from command_lines import cancel_in_tool, command, command_but_for, let_codex_delegate
from command_turns import BreakingTurns
from playing import play, play_turns, said, shown, terminal, tools

from tailrace.events import Notice, ToolStarted, TurnCompleted, TurnFailed
from tailrace.runtimes.codex import CodexRuntime

if TYPE_CHECKING:
    from command_lines import Place


def codex(place: Place) -> CodexRuntime:
    return CodexRuntime((command("codex"),), env=place.codex(), cwd=place.work)


def codex_exec(place: Place) -> CodexRuntime:
    """An older codex, which has no server."""
    return CodexRuntime((command_but_for("app-server", "codex", place.work),), env=place.codex(), cwd=place.work)


class TestCodex(BreakingTurns):
    shell = "shell"
    completed = TurnCompleted(text="Hello from the scripted model.")
    broken = "stream disconnected before completion"

    def runtime(self, place: Place) -> CodexRuntime:
        return codex(place)


def test_a_tool_that_fails_has_failed(place: Place) -> None:
    events = play(codex(place), "[[scenario:toolfail]]")
    ((name, result, is_error),) = tools(events).values()
    assert (name, is_error) == ("shell", True)
    assert sorted(result.split("\n")) == ["on its way", "went wrong"]  # two pipes: codex reads them in any order
    assert shown(events) == ["Trying it.", "It went wrong."]


def test_a_warning_is_shown_once_in_a_session(place: Place) -> None:
    first, second = play_turns(codex(place), "[[scenario:hello]]", "[[scenario:recall]]", session="a")
    assert said(second) == "Before this: hello."
    # codex warns in each turn that it does not know the model; people see that once.
    warnings = [[event.text for event in turn if isinstance(event, Notice)] for turn in (first, second)]
    assert warnings[0]
    assert warnings[1] == []
    assert said(play(codex(place), "[[scenario:recall]]", session="a")) == "Before this: hello, recall."


def test_invalid_settings_fail_the_turn_with_codex_s_own_words(place: Place) -> None:
    runtime = CodexRuntime((command("codex"),), env=place.codex(approval_policy="untrusted"), cwd=place.work)
    end = terminal(play(runtime, "[[scenario:hello]]"))
    assert isinstance(end, TurnFailed)
    assert end.message.endswith("remove this setting")


def test_codex_without_a_server_sends_whole_blocks(place: Place) -> None:
    runtime = codex_exec(place)
    first, second = play_turns(runtime, "[[scenario:tool]]", "[[scenario:recall]]")
    assert shown(first) == ["Let me look.", "The tool has spoken."]
    assert list(tools(first).values()) == [("shell", "the tool speaks", False)]
    assert isinstance(terminal(first), TurnCompleted)
    assert shown(second) == ["Before this: tool."]


def test_cancelling_codex_without_a_server_leaves_no_process(place: Place) -> None:
    cancel_in_tool(codex_exec(place), place)


def test_a_subagent_speaks_under_its_call(place: Place) -> None:
    let_codex_delegate(place)
    events = play(codex(place), "[[scenario:subagent]]")
    (call,) = [event.id for event in events if isinstance(event, ToolStarted) and event.name == "spawnAgent"]
    assert said(events, parent=call).startswith("The child speaks.The child has a result.")
    assert ("shell", "a child works", False) in tools(events, parent=call).values()
    # The parent answers once more if the end of the child reaches it before its own end.
    assert shown(events)[0] == "I delegate."
    assert set(shown(events)[1:]) == {"The parent is done."}
    known = {event.id for event in events if isinstance(event, ToolStarted)}
    assert {event.parent_tool_id for event in events if isinstance(event, Notice)} <= {None, *known}
