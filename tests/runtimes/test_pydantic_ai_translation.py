"""What the events of Pydantic AI become, and how the runtime runs an agent. Recordings: `test_recordings`."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from contract_streams import Native
from recorded_turns import SdkRun
from turns import Case, case, table

from tailrace.events import Event, Notice, Status, TextDelta, TurnCompleted, TurnStarted
from tailrace.ports import Prompt, Runtime
from tailrace.runtimes.pydantic_ai import PydanticAIRuntime, PydanticAITranslator

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


def translated(*natives: Any) -> list[Event]:
    """The events of a run that ends with a result after these."""
    run = SdkRun(PydanticAITranslator())
    return [*(event for native in (*natives, result("over")) for event in run.feed(native)), *run.close()]


def part(kind: str, *, index: int = 0, part_kind: str = "text", previous: str | None = None, **of: Any) -> Any:
    return {
        "event_kind": f"part_{kind}",
        "index": index,
        "part": {"part_kind": part_kind, **of},
        "previous_part_kind": previous,
    }


def start(text: str, *, index: int = 0, previous: str | None = None) -> Any:
    return part("start", content=text, index=index, previous=previous)


def end(text: str) -> Any:
    return part("end", content=text)


def delta(text: str) -> Any:
    return {"event_kind": "part_delta", "index": 0, "delta": {"part_delta_kind": "text", "content_delta": text}}


def tool(event: str, **of: Any) -> Any:
    kind = "tool-call" if event == "call" else "tool-return"
    named = {"part_kind": kind, "tool_name": "look", "tool_call_id": "c"}
    return {"event_kind": f"function_tool_{event}", "part": named | of}


def result(output: Any) -> Any:
    return {"event_kind": "agent_run_result", "output": output}


def search(kind: str, **of: Any) -> Any:
    index, previous = (0, None) if of["part_kind"] == "builtin-tool-call" else (1, "builtin-tool-call")
    return part(kind, index=index, previous=previous, tool_name="web_search", tool_call_id="w", **of)


CALL, RESULT = tool("call", args='{"at": 1}'), tool("result", content="so")
WIPE = {"part_kind": "tool-call", "tool_name": "wipe", "tool_call_id": "c"}
WAITS = {"event_kind": "deferred_tool_requests", "requests": {"approvals": [WIPE], "calls": []}}
WAITING = "Waiting for approval: wipe"
OUTPUT_CALL = {"part_kind": "tool-call", "tool_name": "final_result", "tool_call_id": "f", "args": {"city": "Oslo"}}


@table(
    case("the end corrects the deltas", start("teh "), delta("end"), end("the end"), answer=["the end"]),
    case(
        "an answer stays if the person has sent more",
        *[start("to the first"), end("to the first"), {"event_kind": "enqueued_messages", "messages": []}],
        start("to the second"),
        answer=["to the first", "to the second"],
    ),
    *(
        case(
            f"a tool that has {outcome}",
            *[CALL, tool("result", content="so", outcome=outcome)],
            tools=[("look", True)],
            calls=[("look", {"at": 1}, "so")],
        )
        for outcome in ("failed", "retried", "denied")
    ),
    case(
        "a tool of the provider",
        *[search("start", part_kind="builtin-tool-call", args="")],
        *[search("end", part_kind="builtin-tool-call", args='{"query": "tides"}')],
        *[search("start", part_kind="builtin-tool-return", content="")],
        *[search("end", part_kind="builtin-tool-return", content=["a", "b"])],
        calls=[("web_search", {"query": "tides"}, ["a", "b"])],
        tools=[("web_search", False)],
    ),
    case(
        "calls that wait for approval",
        *[tool("call", tool_name="wipe"), WAITS],
        status=[WAITING],
        answer=[WAITING],
        terminal=TurnCompleted(text=WAITING, stop_reason="approval"),
    ),
    case(
        "calls that were decided",
        *[tool("call", tool_name="wipe"), WAITS, {"event_kind": "deferred_tool_results", "results": {}}],
        status=[],
        answer=["over"],
    ),
    case(
        "a tool that carries the output is not shown",
        {"event_kind": "part_start", "index": 0, "part": OUTPUT_CALL},
        {"event_kind": "final_result", "tool_name": "final_result"},
        {"event_kind": "part_end", "index": 0, "part": OUTPUT_CALL},
        {"event_kind": "output_tool_call", "part": OUTPUT_CALL},
        {"event_kind": "output_tool_result", "part": OUTPUT_CALL},
        events=[TurnCompleted(text="over")],
    ),
    case(
        "an unknown event and an unknown part",
        *[{"event_kind": "new"}, part("end", part_kind="hologram")],
        notices=[
            'pydantic-ai sent an unknown event: {"event_kind": "new"}',
            'pydantic-ai sent an unknown event: {"part_kind": "hologram"}',
        ],
    ),
)
def test_events_of_a_run(case: Case) -> None:
    case.check(translated(*case.natives))


def test_custom_events_of_the_author_are_a_status() -> None:
    translator = PydanticAITranslator()
    custom = {"event_kind": "custom", "name": "progress", "tool_call_id": "c", "tool_name": "look"}
    assert translator.feed(custom) == [Status(text="progress")]
    assert translator.feed(custom | {"step": "reading"}) == [Status(text="reading")]
    assert translator.feed(custom | {"done": 1, "total": 2}) == [Status(text='{"done":1,"total":2}')]


# The runtime, with an agent that is not the SDK's but behaves like one


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


@pytest.fixture(autouse=True)
def data_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))


def play(runtime: Runtime, session_id: str = "") -> list[Event]:
    async def run() -> list[Event]:
        return [event async for event in runtime.run(Prompt(text="hi", session_id=session_id))]

    return asyncio.run(run())


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
