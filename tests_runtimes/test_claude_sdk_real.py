"""Real runs of Claude's Python SDK with the command it carries. Needs: claude-agent-sdk==0.2.182"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from claude_agent_sdk import ClaudeAgentOptions, create_sdk_mcp_server, tool
from command_lines import cancel_in_tool
from playing import leave, play, play_turns, said, shown, terminal, thoughts, tools

from tailrace.events import TextDelta, ToolStarted, TurnCompleted, TurnFailed
from tailrace.runtimes.claude import ClaudeSdkRuntime
from tailrace.testing.scripted_scenarios import Call, say

if TYPE_CHECKING:
    from command_lines import Place


def claude(place: Place, **options: Any) -> ClaudeSdkRuntime:
    chosen = {"permission_mode": "bypassPermissions", **options}
    return ClaudeSdkRuntime(ClaudeAgentOptions(env=place.claude(), cwd=place.work, **chosen))


def test_an_answer_comes_in_pieces_and_a_session_remembers_it(place: Place) -> None:
    first, second = play_turns(claude(place), "[[scenario:hello]]", "[[scenario:recall]]", session="a")
    pieces = [event.text for event in first if isinstance(event, TextDelta)]
    assert pieces == ["Hello", " from", " the scripted", " model."]
    assert terminal(first) == TurnCompleted(text="Hello from the scripted model.", stop_reason="end_turn")
    assert said(second) == "Before this: hello."
    assert said(play(claude(place), "[[scenario:recall]]", session="b")) == "Before this: nothing."


def test_thoughts_a_tool_and_its_result(place: Place) -> None:
    events = play(claude(place), "[[scenario:tool]]")
    assert shown(events) == ["Let me look.", "The tool has spoken."]
    assert thoughts(events) == "I should run something.Now I know."
    assert list(tools(events).values()) == [("Bash", "the tool speaks", False)]


def test_a_tool_written_in_python(place: Place) -> None:
    @tool("weather", "Say what the weather is.", {"city": str})
    async def weather(arguments: dict[str, Any]) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": f"sunny in {arguments['city']}"}]}

    place.model.scenarios["weather"] = (
        (say("Let me look."), Call("mcp__here__weather", {"city": "Oslo"})),
        (say("It is sunny."),),
    )
    server = create_sdk_mcp_server("here", tools=[weather])
    events = play(claude(place, mcp_servers={"here": server}), "[[scenario:weather]]")
    assert list(tools(events).values()) == [("mcp__here__weather", "sunny in Oslo", False)]
    assert shown(events) == ["Let me look.", "It is sunny."]


def test_two_tools_at_once(place: Place) -> None:
    events = play(claude(place), "[[scenario:parallel]]")
    assert sorted(result for _, result, _ in tools(events).values()) == ["first", "second"]
    assert shown(events) == ["Two at once.", "Both are done."]


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


def test_a_refused_request_fails_the_turn_with_the_reason(place: Place) -> None:
    end = terminal(play(claude(place), "[[scenario:http400]]"))
    assert isinstance(end, TurnFailed)
    assert "400 the scripted model refuses this request" in end.message


def test_a_subagent_speaks_under_its_call(place: Place) -> None:
    events = play(claude(place), "[[scenario:subagent]]")
    (call,) = [event.id for event in events if isinstance(event, ToolStarted) and event.name in {"Agent", "Task"}]
    assert [result for _, result, _ in tools(events, parent=call).values()] == ["a child works"]
    assert shown(events)[0] == "I delegate."
    assert shown(events)[-1] == "The parent is done."
    assert isinstance(terminal(events), TurnCompleted)


def test_leaving_in_the_middle_of_a_text_leaves_nothing(place: Place) -> None:
    leave(claude(place), TextDelta, text="[[scenario:stall]]")
    assert place.processes() == []


def test_cancelling_while_a_tool_runs_leaves_nothing(place: Place) -> None:
    cancel_in_tool(claude(place), place)
