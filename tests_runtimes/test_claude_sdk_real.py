"""Real runs of Claude's Python SDK with the command it carries. Needs: claude-agent-sdk==0.2.182"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from claude_agent_sdk import ClaudeAgentOptions, create_sdk_mcp_server, tool
from command_turns import BreakingTurns
from playing import play, shown, tools

from tailrace.events import TurnCompleted
from tailrace.runtimes.claude import ClaudeSdkRuntime
from tailrace.testing.scripted_scenarios import Call, say

if TYPE_CHECKING:
    from command_lines import Place


def claude(place: Place, **options: Any) -> ClaudeSdkRuntime:
    chosen = {"permission_mode": "bypassPermissions", **options}
    return ClaudeSdkRuntime(ClaudeAgentOptions(env=place.claude(), cwd=place.work, **chosen))


class TestClaudeSdk(BreakingTurns):
    shell = "Bash"
    completed = TurnCompleted(text="Hello from the scripted model.", stop_reason="end_turn")
    broken = "API Error"

    def runtime(self, place: Place) -> ClaudeSdkRuntime:
        return claude(place)


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
