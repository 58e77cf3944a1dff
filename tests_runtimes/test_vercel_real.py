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
    """A process that serves the routes."""

    version: int
    process: subprocess.Popen[bytes]

    def __post_init__(self) -> None:
        self.url = f"http://127.0.0.1:{self.read_line()}"

    def read_line(self) -> str:
        """The next line that the server prints."""
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], LIMIT_S)
        assert ready, "the route prints nothing"
        return self.process.stdout.readline().decode().strip()

    def agent(self, path: str = "/chat") -> VercelRuntime:
        """One of its routes."""
        return VercelRuntime(self.url + path, read_timeout_s=LIMIT_S)


@contextmanager
def serving(version: int, model: ScriptedModel) -> Iterator[Route]:
    node = str(Path(sys.prefix) / "bin" / "node")
    command = (node, str(_HERE / "vercel_route.mjs"), str(_AGENTS / "node_modules"), str(version), model.url)
    # No buffer, because `select` does not see what is in one.
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
    """The content blocks of one role in the last request to the model."""
    messages = model.requests[-1].body["messages"]
    return [block for message in messages if message["role"] == role for block in message["content"]]


def test_text_comes_in_pieces_with_the_usage(route: Route) -> None:
    events = play(route.agent(), "[[scenario:hello]]")
    assert [event.text for event in of_kind(TextDelta, events)] == ["Hello", " from", " the scripted", " model."]
    assert [event.output_tokens for event in of_kind(Usage, events)] == [33]
    assert of_kind(Notice, events) == []
    assert terminal(events) == _COMPLETED


def test_reasoning_a_tool_its_result_and_the_answer(route: Route) -> None:
    events = play(route.agent(), "[[scenario:tool]]")
    assert shown(events) == ["Let me look.", "The tool has spoken."]
    assert thoughts(events) == "I should run something.Now I know."
    assert [event.metadata for event in of_kind(ReasoningEnd, events)] == [{"anthropic": {"signature": SIGNATURE}}] * 2
    assert [event.arguments["command"] for event in of_kind(ToolInput, events)] == ["echo the tool speaks"]
    assert list(tools(events).values()) == [("bash", "the tool speaks", False)]
    assert terminal(events) == _COMPLETED


def test_a_tool_that_fails_has_failed_with_its_reason(route: Route) -> None:
    events = play(route.agent(), "[[scenario:toolfail]]")
    assert list(tools(events).values()) == [("bash", "went wrong", True)]
    assert shown(events) == ["Trying it.", "It went wrong."]
    assert terminal(events) == _COMPLETED


def test_invalid_calls_have_failed_once_and_stay_in_the_history(route: Route, model: ScriptedModel) -> None:
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


def test_a_model_that_fails_in_the_middle_keeps_the_text_once(route: Route) -> None:
    broken, after = play_turns(route.agent(), "[[scenario:errmid]]", "[[scenario:recall]]")
    assert shown(broken) == ["This is going to break"]
    assert terminal(broken) == TurnFailed(message="the scripted model fails here")
    assert terminal(after) == _COMPLETED


def test_a_refused_request_fails_the_turn_with_the_route_s_text(route: Route) -> None:
    end = terminal(play(route.agent(), "[[scenario:http400]]"))
    assert end == TurnFailed(message="the scripted model refuses this request")
    assert terminal(play(route.agent("/masked"), "[[scenario:http400]]")) == TurnFailed(message="An error occurred.")


def test_a_session_remembers_only_its_own_turns(route: Route) -> None:
    _, second = play_turns(route.agent(), "[[scenario:hello]]", "[[scenario:recall]]", session="a")
    assert said(second) == "Before this: hello."
    (third,) = play_turns(route.agent(), "[[scenario:recall]]", session="a")
    assert said(third) == "Before this: hello, recall."
    assert said(play(route.agent(), "[[scenario:recall]]", session="b")) == "Before this: nothing."


def test_the_model_gets_its_calls_and_signed_reasoning_again(route: Route, model: ScriptedModel) -> None:
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
    assert route.read_line() == "the run was aborted"


def test_leaving_while_a_tool_runs_aborts_it(route: Route, model: ScriptedModel) -> None:
    model.scenarios["wait"] = ((say("This takes long."), Call("wait")), (say("It is over."),))
    leave(route.agent(), ToolProgress, text="[[scenario:wait]]")
    assert {route.read_line(), route.read_line()} == {"the run was aborted", "the tool was aborted"}
    assert len(model.requests) == 1


def test_preliminary_output_is_progress(route: Route, model: ScriptedModel) -> None:
    model.scenarios["count"] = ((say("Counting."), Call("count", {"to": 3})), (say("Three."),))
    events = play(route.agent(), "[[scenario:count]]")
    assert [event.text for event in of_kind(ToolProgress, events)] == [f'{{"number":{number}}}' for number in (1, 2, 3)]
    assert list(tools(events).values()) == [("count", "{'number': 3}", False)]
    assert shown(events) == ["Counting.", "Three."]


def test_data_of_the_application_is_a_status(route: Route, model: ScriptedModel) -> None:
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


def test_a_tool_that_needs_approval_ends_the_turn(route: Route, model: ScriptedModel) -> None:
    model.scenarios["transfer"] = ((say("I send it."), Call("transfer", {"amount": 5})), (say("Sent."),))
    first, second = play_turns(route.agent(), "[[scenario:transfer]]", "[[scenario:recall]]")
    if route.version == 5:  # it has no approvals
        assert list(tools(first).values()) == [("transfer", "sent 5", False)]
        assert shown(first) == ["I send it.", "Sent."]
    else:
        assert tools(first) == {}
        assert shown(first) == ["I send it.", "Waiting for approval: transfer"]
        assert terminal(first) == TurnCompleted(stop_reason="approval")
        assert [block["type"] for block in contents(model, "assistant")] == ["text"], "the call has no result"
    assert said(second) == "Before this: transfer."


def test_a_call_that_a_rule_denies_has_failed_with_the_reason(model: ScriptedModel) -> None:
    model.scenarios["forget"] = ((say("I forget it."), Call("forget")), (say("I may not."),))
    with serving(7, model) as route:
        first, second = play_turns(route.agent(), "[[scenario:forget]]", "[[scenario:recall]]")
    assert list(tools(first).values()) == [("forget", "Nobody may do that.", True)]
    assert shown(first) == ["I forget it.", "I may not."]
    assert terminal(first) == _COMPLETED
    assert said(second) == "Before this: forget."
    (result,) = [block for block in contents(model, "user") if block["type"] == "tool_result"]
    assert "Nobody may do that." in str(result["content"])
