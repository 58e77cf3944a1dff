"""Real chat routes of the AI SDK, in `vercel_route.mjs`, with the scripted model. Needs: npm ai@5, ai@6 and ai@7"""

from __future__ import annotations

import os
import select
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from playing import LIMIT_S, leave, play, play_turns, said, shown, terminal, thoughts, tools

from tailrace.events import (
    Event,
    Notice,
    ReasoningEnd,
    Status,
    TextDelta,
    ToolInput,
    ToolProgress,
    TurnCompleted,
    TurnFailed,
    Usage,
)
from tailrace.runtimes.vercel import VercelRuntime
from tailrace.testing.scripted_scenarios import SIGNATURE, Call, say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tailrace.testing.scripted_model import ScriptedModel

_HERE = Path(__file__).parent
_AGENTS = Path(sys.prefix) / "agents"
_COMPLETED = TurnCompleted(stop_reason="stop")


@dataclass
class Route:
    """A server with the routes, in a process of its own."""

    version: int
    process: subprocess.Popen[bytes]

    def __post_init__(self) -> None:
        self.url = f"http://127.0.0.1:{self.hears()}"

    def hears(self) -> str:
        """The next line that the server says."""
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], LIMIT_S)
        assert ready, "the route says nothing"
        return self.process.stdout.readline().decode().strip()

    def agent(self, path: str = "/chat") -> VercelRuntime:
        """One of its routes."""
        return VercelRuntime(self.url + path, read_timeout_s=LIMIT_S)


@contextmanager
def serving(version: int, model: ScriptedModel) -> Iterator[Route]:
    node = str(Path(sys.prefix) / "bin" / "node")
    command = (node, str(_HERE / "vercel_route.mjs"), str(_AGENTS / "node_modules"), str(version), model.url)
    # Without a buffer: what is in one `select` does not see.
    with subprocess.Popen(
        command, env={"PATH": os.environ["PATH"]}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    ) as process:
        try:
            yield Route(version, process)
        finally:
            process.kill()


@pytest.fixture(params=[5, 6, 7], ids=lambda version: f"ai{version}")
def route(request: pytest.FixtureRequest, model: ScriptedModel) -> Iterator[Route]:
    """The routes, in each version of the SDK."""
    with serving(request.param, model) as started:
        yield started


def of_kind(kind: type[Event], events: list[Event]) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


def contents(model: ScriptedModel, role: str) -> list[Any]:
    """What the model was given with the last request as said by one side."""
    messages = model.requests[-1].body["messages"]
    return [block for message in messages if message["role"] == role for block in message["content"]]


def test_an_answer_comes_in_pieces_and_its_cost_is_told(route: Route) -> None:
    events = play(route.agent(), "[[scenario:hello]]")
    assert [event.text for event in of_kind(TextDelta, events)] == ["Hello", " from", " the scripted", " model."]
    assert [event.output_tokens for event in of_kind(Usage, events)] == [33]
    assert of_kind(Notice, events) == []
    assert terminal(events) == _COMPLETED


def test_thoughts_a_tool_its_result_and_the_answer_after_it(route: Route) -> None:
    events = play(route.agent(), "[[scenario:tool]]")
    assert shown(events) == ["Let me look.", "The tool has spoken."]
    assert thoughts(events) == "I should run something.Now I know."
    assert [event.metadata for event in of_kind(ReasoningEnd, events)] == [{"anthropic": {"signature": SIGNATURE}}] * 2
    assert [event.arguments["command"] for event in of_kind(ToolInput, events)] == ["echo the tool speaks"]
    assert list(tools(events).values()) == [("bash", "the tool speaks", False)]
    assert terminal(events) == _COMPLETED


def test_two_tools_at_once(route: Route) -> None:
    events = play(route.agent(), "[[scenario:parallel]]")
    assert shown(events) == ["Two at once.", "Both are done."]
    assert list(tools(events).values()) == [("bash", "first", False), ("bash", "second", False)]


def test_a_tool_that_fails_has_failed_with_its_reason(route: Route) -> None:
    events = play(route.agent(), "[[scenario:toolfail]]")
    assert list(tools(events).values()) == [("bash", "went wrong", True)]
    assert shown(events) == ["Trying it.", "It went wrong."]
    assert terminal(events) == _COMPLETED


def test_calls_that_cannot_be_made_have_failed_once_and_can_be_talked_about(route: Route, model: ScriptedModel) -> None:
    wrong = (Call("bash", '{"comm'), Call("bash", {"command": 7}), Call("fly", {"to": "Oslo"}))
    model.scenarios["wrong"] = ((say("Trying."), *wrong), (say("None of it."),))
    first, second = play_turns(route.agent(), "[[scenario:wrong]]", "[[scenario:recall]]")
    assert [(name, is_error) for name, _, is_error in tools(first).values()] == [
        ("bash", True),
        ("bash", True),
        ("fly", True),
    ]
    reasons = [result.partition(":")[0] for _, result, _ in tools(first).values()]
    assert reasons[:2] == ["Invalid input for tool bash"] * 2
    assert shown(first) == ["Trying.", "None of it."]
    assert said(second) == "Before this: wrong."
    assert sum(block["type"] == "tool_result" for block in contents(model, "user")) == 3


def test_a_model_that_fails_in_the_middle_fails_the_turn_and_what_it_said_stands_once(route: Route) -> None:
    broken, after = play_turns(route.agent(), "[[scenario:errmid]]", "[[scenario:recall]]")
    assert shown(broken) == ["This is going to break"]
    assert terminal(broken) == TurnFailed(message="the scripted model fails here")
    assert terminal(after) == _COMPLETED


def test_a_model_that_is_cut_off_fails_the_turn_and_what_it_said_stands_once(route: Route) -> None:
    events = play(route.agent(), "[[scenario:cut]]")
    assert shown(events) == ["This is going to be cut"]
    assert isinstance(terminal(events), TurnFailed)


def test_a_refused_request_fails_the_turn_with_what_the_route_tells(route: Route) -> None:
    end = terminal(play(route.agent(), "[[scenario:http400]]"))
    assert end == TurnFailed(message="the scripted model refuses this request")
    assert terminal(play(route.agent("/masked"), "[[scenario:http400]]")) == TurnFailed(message="An error occurred.")


def test_a_session_remembers_and_another_does_not(route: Route) -> None:
    _, second = play_turns(route.agent(), "[[scenario:hello]]", "[[scenario:recall]]", session="a")
    assert said(second) == "Before this: hello."
    (third,) = play_turns(route.agent(), "[[scenario:recall]]", session="a")
    assert said(third) == "Before this: hello, recall."
    assert said(play(route.agent(), "[[scenario:recall]]", session="b")) == "Before this: nothing."


def test_the_model_is_given_its_calls_and_its_sealed_thoughts_again(route: Route, model: ScriptedModel) -> None:
    _, second = play_turns(route.agent(), "[[scenario:tool]]", "[[scenario:recall]]")
    assert said(second) == "Before this: tool."
    thought = {"type": "thinking", "signature": SIGNATURE}
    call = {"command": "echo the tool speaks", "description": "a command"}
    given = contents(model, "assistant")
    assert [block for block in given if block["type"] == "thinking"] == [
        thought | {"thinking": "I should run something."},
        thought | {"thinking": "Now I know."},
    ]
    assert [block["input"] for block in given if block["type"] == "tool_use"] == [call]
    assert [block["text"] for block in given if block["type"] == "text"] == ["Let me look.", "The tool has spoken."]
    (result,) = [block for block in contents(model, "user") if block["type"] == "tool_result"]
    assert "the tool speaks" in str(result["content"])


def test_leaving_in_the_middle_of_a_text_aborts_the_run(route: Route) -> None:
    leave(route.agent(), TextDelta, text="[[scenario:stall]]")
    assert route.hears() == "the run was aborted"


def test_leaving_while_a_tool_runs_aborts_it(route: Route, model: ScriptedModel) -> None:
    model.scenarios["wait"] = ((say("This takes long."), Call("wait")), (say("It is over."),))
    leave(route.agent(), ToolProgress, text="[[scenario:wait]]")
    assert {route.hears(), route.hears()} == {"the run was aborted", "the tool was aborted"}
    assert len(model.requests) == 1


def test_what_a_tool_says_on_its_way_is_progress_and_its_last_word_the_result(
    route: Route, model: ScriptedModel
) -> None:
    model.scenarios["count"] = ((say("Counting."), Call("count", {"to": 3})), (say("Three."),))
    events = play(route.agent(), "[[scenario:count]]")
    assert [event.text for event in of_kind(ToolProgress, events)] == [f'{{"number":{number}}}' for number in (1, 2, 3)]
    assert list(tools(events).values()) == [("count", "{'number': 3}", False)]
    assert shown(events) == ["Counting.", "Three."]


def test_what_the_application_says_beside_the_model_is_a_status_and_not_the_models(
    route: Route, model: ScriptedModel
) -> None:
    first, second = play_turns(route.agent("/data"), "[[scenario:hello]]", "[[scenario:recall]]")
    assert [event.text for event in of_kind(Status, first)] == [
        "looking",
        '{"city":"Oslo","sky":"unknown"}',
        '{"city":"Oslo","sky":"clear"}',
        "Source: Tides",
    ]
    assert shown(first) == ["Hello from the scripted model."]
    assert terminal(first) == _COMPLETED
    assert said(second) == "Before this: hello."
    assert [block["text"] for block in contents(model, "assistant")] == ["Hello from the scripted model."]


def test_a_tool_that_needs_approval_ends_the_turn_with_what_it_waits_for(route: Route, model: ScriptedModel) -> None:
    model.scenarios["transfer"] = ((say("I send it."), Call("transfer", {"amount": 5})), (say("Sent."),))
    first, second = play_turns(route.agent(), "[[scenario:transfer]]", "[[scenario:recall]]")
    if route.version == 5:  # which asks nobody
        assert list(tools(first).values()) == [("transfer", "sent 5", False)]
        assert shown(first) == ["I send it.", "Sent."]
    else:
        assert tools(first) == {}
        assert shown(first) == ["I send it.", "Waiting for approval: transfer"]
        assert terminal(first) == TurnCompleted(stop_reason="approval")
        assert [block["type"] for block in contents(model, "assistant")] == ["text"], "nobody will ever answer the call"
    assert said(second) == "Before this: transfer."


def test_a_call_that_a_rule_denies_has_failed_with_the_reason_and_the_model_is_told_again(model: ScriptedModel) -> None:
    model.scenarios["forget"] = ((say("I forget it."), Call("forget")), (say("I may not."),))
    with serving(7, model) as route:
        first, second = play_turns(route.agent(), "[[scenario:forget]]", "[[scenario:recall]]")
    assert list(tools(first).values()) == [("forget", "Nobody may do that.", True)]
    assert shown(first) == ["I forget it.", "I may not."]
    assert terminal(first) == _COMPLETED
    assert said(second) == "Before this: forget."
    (result,) = [block for block in contents(model, "user") if block["type"] == "tool_result"]
    assert "Nobody may do that." in str(result["content"])


def test_a_character_that_is_cut_in_two_is_whole(route: Route, model: ScriptedModel) -> None:
    model.scenarios["wave"] = ((say("Hi \ud83d", "\udc4b\ud83c", "\udffd!"),),)
    first, second = play_turns(route.agent(), "[[scenario:wave]]", "[[scenario:recall]]")
    assert shown(first) == ["Hi 👋🏽!"]
    assert said(second) == "Before this: wave."
    assert [block["text"] for block in contents(model, "assistant")] == ["Hi 👋🏽!"]
