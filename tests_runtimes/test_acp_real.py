"""Real runs of agents of the Agent Client Protocol, with the scripted model.

Needs: npm @agentclientprotocol/claude-agent-acp@0.99.1 @agentclientprotocol/codex-acp@2.6.0 @google/gemini-cli@0.61.0
opencode-ai@1.18.33
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from command_lines import cancel_in_tool, command, let_it_make_a_file
from playing import Person, leave, play, play_turns, said, shown, terminal, thoughts, tools

from tailrace.events import Notice, Status, TextDelta, ToolStarted, TurnCompleted, TurnFailed
from tailrace.runtimes.acp import AcpRuntime
from tailrace.runtimes.acp.opening import AcpOptions
from tailrace.testing.scripted_scenarios import Fail, say

if TYPE_CHECKING:
    from command_lines import Place

    from tailrace.runtimes.permissions import Policy

AGENTS = {
    "claude": ("claude-agent-acp",),
    "codex": ("codex-acp",),
    "gemini": ("gemini", "--acp", "-m", "gemini-2.5-flash"),
    "opencode": ("opencode", "acp"),
}
every_agent = pytest.mark.parametrize("name", AGENTS)


def agent(
    place: Place, name: str, *, permissions: Policy = "allow", person: Person | None = None, retention_s: float = 60.0
) -> AcpRuntime:
    asks = permissions != "allow"
    env = {
        "claude": place.claude,
        "codex": place.codex,
        "gemini": place.gemini,
        "opencode": lambda: place.opencode(**({"bash": "ask"} if asks else {})),
    }[name]()
    words = (command(AGENTS[name][0]), *AGENTS[name][1:])
    mode = ("read-only" if asks else "agent-full-access") if name == "codex" else None
    options = AcpOptions(env=env, cwd=place.work, retention_s=retention_s, mode=mode)
    return AcpRuntime(words, permissions=permissions, approver=person, options=options)


@every_agent
def test_turns_of_a_session_and_a_tool(place: Place, name: str) -> None:
    runtime = agent(place, name)
    first, second, third = play_turns(runtime, "[[scenario:hello]]", "[[scenario:tool]]", "[[scenario:recall]]")
    pieces = [event.text for event in first if isinstance(event, TextDelta)]
    assert pieces == ["Hello", " from", " the scripted", " model."]
    assert terminal(first) == TurnCompleted(stop_reason="end_turn")
    assert shown(second) == ["Let me look.", "The tool has spoken."]
    assert "I should run something." in thoughts(second)
    ((_, result, is_error),) = tools(second).values()
    # gemini-cli does not send the output of its tools.
    assert (result, is_error) == ("" if name == "gemini" else "the tool speaks", False)
    assert said(third) == "Before this: hello, tool."


@every_agent
def test_another_process_continues_a_session(place: Place, name: str) -> None:
    play(agent(place, name, retention_s=0), "[[scenario:tool]]", session="a")
    place.let_a_minute_pass()
    second = play(agent(place, name, retention_s=0), "[[scenario:recall]]", session="a")
    assert [event for event in second if isinstance(event, Notice) and "new conversation" in event.text] == []
    assert (said(second), tools(second)) == ("Before this: tool.", {})
    assert said(play(agent(place, name, retention_s=0), "[[scenario:recall]]", session="b")) == "Before this: nothing."


@pytest.mark.parametrize("name", ["claude", "codex", "gemini"])
def test_a_failure_in_the_middle_keeps_the_text_once(place: Place, name: str) -> None:
    events = play(agent(place, name), "[[scenario:errmid]]")
    assert shown(events) == ["This is going to break"]
    assert isinstance(terminal(events), TurnFailed)


def test_the_text_of_a_second_try_is_shown_once(place: Place) -> None:
    place.model.scenarios["again"] = ((say("This is going ", "to break"), Fail()),)

    def mend_at(event: object) -> None:
        if isinstance(event, TextDelta):
            place.model.scenarios["again"] = ((say("This is going ", "to break", " no more."),),)

    events = play(agent(place, "opencode"), "[[scenario:again]]", at_event=mend_at)
    assert shown(events) == ["This is going to break no more."]
    assert terminal(events) == TurnCompleted(stop_reason="end_turn")


@every_agent
def test_a_refused_request_fails_the_turn_with_the_reason(place: Place, name: str) -> None:
    events = play(agent(place, name), "[[scenario:http400]]")
    end = terminal(events)
    assert isinstance(end, TurnFailed)
    assert end.message.endswith("the scripted model refuses this request")
    assert shown(events) == []


@pytest.mark.parametrize("name", ["claude", "opencode"])
def test_a_subagent_works_under_its_call(place: Place, name: str) -> None:
    events = play(agent(place, name), "[[scenario:subagent]]")
    calls = [event.id for event in events if isinstance(event, ToolStarted) and event.parent_tool_id is None]
    assert len(calls) == 1
    ((_, result, _),) = tools(events).values()
    if name == "claude":
        assert result == "Started in the background."
        assert [result for _, result, _ in tools(events, parent=calls[0]).values()] == ["a child works"]
    else:
        assert "The child has a result." in result
    assert shown(events)[0] == "I delegate."
    assert shown(events)[-1] == "The parent is done."


@every_agent
@pytest.mark.parametrize("allow", [True, False])
def test_a_call_is_made_only_if_the_person_allows_it(place: Place, name: str, allow: bool) -> None:
    person = Person(allow)
    made = place.root / "work" / "made"
    let_it_make_a_file(place, name, str(made))
    events = play(agent(place, name, permissions="ask", person=person), "[[scenario:ask]]")
    (question,) = person.asked
    assert f"touch {made}" in f"{question.title} {question.arguments}"
    assert any(isinstance(event, Status) and "Waiting for permission" in event.text for event in events)
    assert made.exists() == allow
    assert shown(events)[0] == "I make a file."


@every_agent
def test_leaving_in_the_middle_of_a_text_leaves_no_process(place: Place, name: str) -> None:
    leave(agent(place, name), TextDelta, text="[[scenario:stall]]")
    assert place.processes() == []


@every_agent
def test_cancelling_while_a_tool_runs_leaves_no_process(place: Place, name: str) -> None:
    cancel_in_tool(agent(place, name), place)
