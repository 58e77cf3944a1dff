"""Runs of Python SDKs: how they end, and how the runtimes start and save them. Single events are in `made_turns`.

The agents are not those of the SDKs; they have the one method that is called, and yield what the SDKs do.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from contract_streams import Native
from recorded_turns import natives, translated
from turns import CUT_OFF, turn_of

from tailrace.errors import UsageError
from tailrace.events import Event, Notice, TextDelta, TurnCancelled, TurnCompleted, TurnFailed, TurnStarted
from tailrace.ports import Prompt, Runtime
from tailrace.runtimes.langgraph import LangGraphRuntime, LangGraphTranslator
from tailrace.runtimes.openai_agents import OpenAIAgentsRuntime, OpenAIAgentsTranslator
from tailrace.runtimes.pydantic_ai import PydanticAIRuntime, PydanticAITranslator
from tailrace.runtimes.sdk import SdkFailure

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

FAILURE = SdkFailure(kind="RuntimeError", message="no", status_code=503)
FAILED = TurnFailed(message="no", code="runtime_raised", status_code=503)


def langgraph(_: Any) -> Any:
    translator = LangGraphTranslator()
    translator.finished()
    return translator


def openai_agents(output: Any) -> Any:
    translator = OpenAIAgentsTranslator()
    translator.finished(output=output)
    return translator


def pydantic_ai(output: Any) -> Any:
    translator = PydanticAITranslator()
    translator.feed({"event_kind": "agent_run_result", "output": output})
    return translator


EVERY = (langgraph, openai_agents, pydantic_ai)
WITH_OUTPUT = (openai_agents, pydantic_ai)
CUT = TurnFailed(message="openai-agents stopped before the turn was complete", code=CUT_OFF)


@pytest.mark.parametrize("is_cancelled", [True, False])
@pytest.mark.parametrize("finished", EVERY)
def test_a_cancellation_counts_before_a_failure(finished: Callable[[Any], Any], is_cancelled: bool) -> None:
    translator = finished("yes")
    translator.raised(FAILURE)
    assert translator.close(cancelled=is_cancelled) == [TurnCancelled() if is_cancelled else FAILED]


@pytest.mark.parametrize(
    ("finished", "output", "end"),
    [
        (langgraph, None, TurnCompleted()),
        *((finished, "yes", TurnCompleted(text="yes")) for finished in WITH_OUTPUT),
        *((finished, {"city": "Oslo"}, TurnCompleted(text='{"city":"Oslo"}')) for finished in WITH_OUTPUT),
        (openai_agents, None, CUT),
    ],
)
def test_a_run_is_complete_with_its_output(finished: Callable[[Any], Any], output: Any, end: Event) -> None:
    assert finished(output).close() == [end]


def test_a_graph_that_took_too_many_steps_has_failed() -> None:
    translator = langgraph(None)
    translator.raised(SdkFailure(kind="GraphRecursionError", message="no"))
    assert translator.close() == [TurnFailed(message="no", code="max_turns")]


def test_a_tool_is_known_after_its_approval() -> None:
    recording = "oai_approval_interrupt"
    lines = natives(recording)
    resumed = next(place for place, line in enumerate(lines) if "_client" in line)
    together = [line for line in lines if not {"_after", "_client"} & {*line}]
    assert turn_of(translated(recording, [*together, lines[-1]])).tools == [("danger", False)]
    apart = turn_of(translated(recording, lines[resumed + 1 :]))
    assert (apart.tools, apart.answer) == ([("tool", False)], ["approved and done"])


# The runtimes


@pytest.fixture(autouse=True)
def data_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))


def play(runtime: Runtime, session_id: str = "") -> list[Event]:
    async def run() -> list[Event]:
        return [event async for event in runtime.run(Prompt(text="hi", session_id=session_id))]

    return asyncio.run(run())


def test_without_the_sdk_the_error_says_what_to_install() -> None:
    with pytest.raises(UsageError, match=r"pip install -e '\.\[openai-agents\]'"):
        play(OpenAIAgentsRuntime(object()))


class Agent:
    """Sends a word and then its end."""

    def __init__(self) -> None:
        self.runs: list[tuple[str, dict[str, Any]]] = []

    @asynccontextmanager
    async def run_stream_events(self, text: str, **options: Any) -> AsyncIterator[AsyncIterator[Any]]:
        self.runs.append((text, options))
        yield self._events()

    async def _events(self) -> AsyncIterator[Any]:
        result = SimpleNamespace(output="hello", usage=None, all_messages_json=lambda: b"[]")
        part = {"part_kind": "text", "content": "hello"}
        yield Native(event_kind="part_start", index=0, part=part, previous_part_kind=None)
        yield Native(event_kind="agent_run_result", result=result)


def test_a_turn_is_one_run_of_the_agent() -> None:
    agent = Agent()
    assert play(PydanticAIRuntime(agent, deps="mine")) == [
        TurnStarted(runtime="pydantic-ai"),
        TextDelta(text="hello"),
        TurnCompleted(text="hello"),
    ]
    assert agent.runs == [("hi", {"deps": "mine"})]


def test_a_run_that_cannot_be_saved_answers_with_a_notice(tmp_path: Path) -> None:
    (tmp_path / "tailrace").write_text("a file, where a folder is needed", encoding="utf-8")
    *_, notice, terminal = play(PydanticAIRuntime(Agent()), "s")
    assert isinstance(notice, Notice)
    assert notice.text.startswith("This will not be remembered: ")
    assert terminal == TurnCompleted(text="hello")


def test_a_session_saves_a_completed_run_unless_it_should_not(tmp_path: Path) -> None:
    saved = tmp_path / "tailrace" / "sessions" / "pydantic-ai"
    play(PydanticAIRuntime(Agent(), remembers=False), "s")
    assert not saved.exists()
    play(PydanticAIRuntime(Agent()), "s")
    (file,) = saved.iterdir()
    assert file.read_bytes() == b"[]"


class Graph:
    """Sends a word and then its end."""

    def __init__(self) -> None:
        self.runs: list[tuple[Any, Any, Any]] = []

    async def astream(self, given: Any, config: Any, **options: Any) -> AsyncIterator[Any]:
        self.runs.append((given, config, options))
        message = {"type": "AIMessageChunk", "content": "hello", "id": "lc_run--1", "chunk_position": None}
        yield (), "messages", [message, {"langgraph_checkpoint_ns": "model:1"}]


def test_a_session_is_a_thread_of_the_graph() -> None:
    graph = Graph()
    config = {"recursion_limit": 7, "configurable": {"model": "m"}}
    assert play(LangGraphRuntime(graph, config=config), "s") == [
        TurnStarted(runtime="langgraph", session_id="s"),
        TextDelta(text="hello"),
        TurnCompleted(),
    ]
    ((given, used, options),) = graph.runs
    assert given == {"messages": [{"role": "user", "content": "hi"}]}
    assert used == {"recursion_limit": 7, "configurable": {"model": "m", "thread_id": "s"}}
    assert options["subgraphs"]


def test_custom_input_and_a_new_thread_without_a_session() -> None:
    graph = Graph()
    runtime = LangGraphRuntime(graph, ask=lambda prompt: {"question": prompt.text})
    play(runtime)
    play(runtime)
    assert [given for given, _, _ in graph.runs] == [{"question": "hi"}] * 2
    assert len({config["configurable"]["thread_id"] for _, config, _ in graph.runs}) == 2
