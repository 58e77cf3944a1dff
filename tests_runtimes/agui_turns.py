"""Tests that hold for every real AG-UI server, as a class. The file of a framework says what is different.

Needs uvicorn in the environment of the framework.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from agui_serving import LIMIT_S, Served, Tool
from playing import in_time, leave, play, play_turns, said, shown, terminal, thoughts, tools

from tailrace.events import (
    Event,
    Notice,
    ReasoningEnd,
    TextDelta,
    ToolInput,
    ToolStarted,
    TurnCompleted,
    TurnFailed,
    Usage,
)
from tailrace.ports import Prompt
from tailrace.runtimes.agui import AguiRuntime
from tailrace.testing.scripted_scenarios import Call, say

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tailrace.ports import Runtime
    from tailrace.testing.scripted_model import ScriptedModel

COMPLETED = TurnCompleted()
# The reasoning of the scripted model in its scenario `tool`, before the tool and after it.
THOUGHTS = "I should run something.Now I know."


def of_kind(kind: type[Event], events: list[Event]) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


def turns_of(application: Any, *texts: str, path: str = "/") -> list[list[Event]]:
    """The turns of one session with a served application."""
    with Served(application, path) as served:
        return play_turns(AguiRuntime(served.url, read_timeout_s=LIMIT_S), *texts)


def wiping(model: ScriptedModel) -> tuple[Callable[[str], str], list[str]]:
    """A tool for the scenario `wipe`, and the disks that it has wiped."""
    model.scenarios["wipe"] = ((say("I wipe it."), Call("wipe", {"disk": "a"})), (say("Then not."),))
    wiped: list[str] = []

    def wipe(disk: str) -> str:
        """Wipe a disk."""
        wiped.append(disk)
        return "wiped"

    return wipe, wiped


class Turns:
    """The turns that all frameworks have. `serving` serves one; the attributes say how its turns look."""

    path: ClassVar[str] = "/"
    # The reasoning that the framework sends, and the metadata at the end of each.
    thoughts: ClassVar[str] = THOUGHTS
    seals: ClassVar[tuple[Any, ...]] = (None, None)
    # The tokens of one model call, if the framework sends them.
    usage: ClassVar[tuple[int, int] | None] = (100, 33)
    # The result of a tool that raised. None if that fails the whole run.
    failed_tool: ClassVar[str | None] = None
    # The failures for a refused request and for a model that fails in the middle.
    refused: ClassVar[TurnFailed] = TurnFailed(message="the scripted model refuses this request", status_code=400)
    broken: ClassVar[TurnFailed] = TurnFailed(message="the scripted model fails here")
    # Whether the server stores the conversation itself, and so failed turns too.
    keeps_threads: ClassVar[bool] = False
    # Whether the run ends with the connection, and the number of requests to the model after all.
    stops: ClassVar[bool] = True
    asked_after_leaving: ClassVar[int] = 1

    def serving(self, model: ScriptedModel, tool: Tool) -> Any:
        """An application that serves an agent with this model and this tool."""
        raise NotImplementedError

    @pytest.fixture
    def tool(self) -> Tool:
        return Tool()

    @pytest.fixture
    def served(self, model: ScriptedModel, tool: Tool) -> Iterator[Served]:
        with Served(self.serving(model, tool), self.path) as served:
            yield served

    @pytest.fixture
    def agent(self, served: Served) -> AguiRuntime:
        return AguiRuntime(served.url, read_timeout_s=LIMIT_S)

    def test_text_comes_in_pieces_with_the_usage(self, agent: Runtime) -> None:
        events = play(agent, "[[scenario:hello]]")
        assert [event.text for event in of_kind(TextDelta, events)] == ["Hello", " from", " the scripted", " model."]
        counted = [(event.input_tokens, event.output_tokens) for event in of_kind(Usage, events)]
        assert counted == ([] if self.usage is None else [self.usage])
        assert of_kind(Notice, events) == []
        assert terminal(events) == COMPLETED

    def test_reasoning_a_tool_its_result_and_the_answer_once(self, agent: Runtime) -> None:
        events = play(agent, "[[scenario:tool]]")
        assert shown(events) == ["Let me look.", "The tool has spoken."]
        assert thoughts(events) == self.thoughts
        assert [event.metadata for event in of_kind(ReasoningEnd, events)] == [*self.seals]
        (given,) = of_kind(ToolInput, events)
        assert given.arguments == {"command": "echo the tool speaks", "description": "a command"}
        assert list(tools(events).values()) == [("bash", "the tool speaks", False)]
        assert of_kind(Notice, events) == []
        assert terminal(events) == COMPLETED

    def test_two_tools_at_once(self, agent: Runtime) -> None:
        events = play(agent, "[[scenario:parallel]]")
        assert shown(events) == ["Two at once.", "Both are done."]
        assert list(tools(events).values()) == [("bash", "first", False), ("bash", "second", False)]

    def test_a_tool_that_raises_has_a_result_or_fails_the_turn(self, agent: Runtime) -> None:
        events = play(agent, "[[scenario:toolfail]]")
        if self.failed_tool is None:
            assert shown(events) == ["Trying it."]
            end = terminal(events)
            assert isinstance(end, TurnFailed)
            assert end.message == "went wrong"
        else:
            # AG-UI does not mark failed results.
            assert [(result, failed) for _, result, failed in tools(events).values()] == [(self.failed_tool, False)]
            assert shown(events) == ["Trying it.", "It went wrong."]
            assert terminal(events) == COMPLETED

    def test_a_model_that_fails_in_the_middle_keeps_the_text_once(self, agent: Runtime) -> None:
        broken, after = play_turns(agent, "[[scenario:errmid]]", "[[scenario:hello]]")
        assert shown(broken) == ["This is going to break"]
        assert terminal(broken) == self.broken
        assert shown(after) == ["Hello from the scripted model."]
        assert terminal(after) == COMPLETED

    def test_a_model_that_is_cut_off_keeps_the_text_once(self, agent: Runtime) -> None:
        events = play(agent, "[[scenario:cut]]")
        assert shown(events) == ["This is going to be cut"]
        assert isinstance(terminal(events), TurnFailed)

    def test_a_refused_request_fails_the_turn_with_the_reason(self, agent: Runtime) -> None:
        events = play(agent, "[[scenario:http400]]")
        assert shown(events) == []
        assert terminal(events) == self.refused

    def test_a_session_remembers_only_its_own_turns(self, agent: Runtime) -> None:
        _, second = play_turns(agent, "[[scenario:hello]]", "[[scenario:recall]]", session="a")
        assert said(second) == "Before this: hello."
        (third,) = play_turns(agent, "[[scenario:recall]]", session="a")
        assert said(third) == "Before this: hello, recall."
        assert said(play(agent, "[[scenario:recall]]", session="b")) == "Before this: nothing."
        assert said(play(agent, "[[scenario:recall]]")) == "Before this: nothing."

    def test_a_failed_turn_is_not_saved_by_tailrace(self, agent: Runtime) -> None:
        _, _, after = play_turns(agent, "[[scenario:hello]]", "[[scenario:http400]]", "[[scenario:recall]]")
        assert said(after) == ("Before this: hello, http400." if self.keeps_threads else "Before this: hello.")

    def test_the_model_gets_its_call_and_the_result_again(self, agent: Runtime, model: ScriptedModel) -> None:
        _, second = play_turns(agent, "[[scenario:tool]]", "[[scenario:recall]]")
        assert said(second) == "Before this: tool."
        given = str(model.requests[-1].body)
        # The command is in the call, its output in the call and in the result.
        assert (given.count("echo the tool speaks"), given.count("the tool speaks")) == (1, 2)
        assert (given.count("Let me look."), given.count("The tool has spoken.")) == (1, 1)

    def test_leaving_in_the_middle_of_a_text(self, agent: Runtime, served: Served, model: ScriptedModel) -> None:
        leave(agent, TextDelta, text="[[scenario:stall]]")
        assert not self.stops or served.left_running() == []
        assert len(model.requests) == 1

    def test_leaving_while_a_tool_runs(self, agent: Runtime, served: Served, tool: Tool, model: ScriptedModel) -> None:
        async def begin_and_leave() -> None:
            async with aclosing(agent.run(Prompt(text="[[scenario:longtool]]", session_id="s"))) as events:
                async for event in events:
                    if isinstance(event, ToolStarted):
                        break
                await tool.wait()

        asyncio.run(in_time(begin_and_leave()))
        if not self.stops:
            tool.end()
        assert served.left_running() == []
        assert tool.was_stopped.is_set() == self.stops
        assert len(model.requests) == self.asked_after_leaving
