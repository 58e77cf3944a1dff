"""What the stream of a graph becomes, and how the runtime runs a graph. Recordings are in `test_recordings`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from recorded_turns import SdkRun
from turns import Case, case, table, turn_of

from tailrace.events import Event, TextDelta, ToolFinished, TurnCompleted, TurnStarted
from tailrace.ports import Prompt, Runtime
from tailrace.runtimes.langgraph import LangGraphRuntime, LangGraphTranslator

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


def translated(*natives: Any) -> list[Event]:
    """The events of a run that ends after these."""
    run = SdkRun(LangGraphTranslator())
    return [*(event for native in (*natives, {"_end": True}) for event in run.feed(native)), *run.close()]


def chunk(content: Any, *, run: str = "lc_run--1", task: str = "model:1", **fields: Any) -> Any:
    message = {"type": "AIMessageChunk", "content": content, "id": run, "chunk_position": None, **fields}
    return ["messages", [message, {"langgraph_checkpoint_ns": task}]]


def last(*, run: str = "lc_run--1") -> Any:
    return chunk("", run=run, chunk_position="last")


def arguments(text: str, *, index: int | None = 0, name: str | None = None, call: str | None = None) -> Any:
    return chunk("", tool_call_chunks=[{"name": name, "args": text, "id": call, "index": index}])


def update(*messages: Any) -> Any:
    return ["updates", {"model": {"messages": list(messages)}}]


def ai(text: Any, *, name: str | None = "lc_run--1") -> Any:
    return {"type": "ai", "content": text, "id": name, "tool_calls": []}


def tool_message(call: str = "c", *, task: str | None = None, **fields: Any) -> Any:
    metadata = {} if task is None else {"langgraph_checkpoint_ns": task}
    return ["messages", [{"type": "tool", "tool_call_id": call, "content": "seen", **fields}, metadata]]


def tool_task(task: str, call: str) -> Any:
    return ["tasks", {"id": task, "name": "tools", "input": [{"type": "tool_call", "name": "look", "id": call}]}]


TWO = {"run": "lc_run--2"}
HI = {"type": "human", "content": "hi", "id": "h"}
OLD, NEW = ai("old", name="o"), ai("new", name=None)
ERROR = {"event": "tool-error", "tool_call_id": "c", "message": "no"}


@table(
    case(
        "a message that was changed after it was streamed",
        *[chunk("write to me@"), chunk("x.example"), last()],
        *[update(ai("write to me@x.example")), update(ai("write to [mail]"))],
        answer=["write to [mail]"],
    ),
    case("a history that a node passes on", chunk("new"), last(), update(HI, OLD, ai("new")), answer=["new"]),
    case(
        "messages of the first state are older than the run",
        *[{"messages": [HI, OLD]}, {"messages": [HI, OLD, NEW]}, {"messages": [HI, OLD, NEW]}],
        answer=["new"],
    ),
    case(
        "the id changes within a message",
        *[chunk("", run="resp_1"), chunk("one "), chunk("two"), last(), update(ai("one two", name="resp_1"))],
        answer=["one two"],
    ),
    case(
        "a message ends where it says so, whatever its id",
        *[chunk("one", run="m"), last(run="m"), chunk("two", run="m"), last(run="m")],
        answer=["one", "two"],
    ),
    case(
        "a retry keeps the text of completed model calls",
        *[chunk("One."), last(), chunk("Tw", **TWO), chunk("Two.", run="lc_run--3")],
        answer=["One.", "Two."],
    ),
    case(
        "reasoning under its different names",
        chunk([{"type": "thinking", "thinking": "hm", "index": 0}]),
        chunk([{"type": "thinking", "signature": "s=", "index": 0}]),
        chunk("", additional_kwargs={"reasoning_content": "well"}),
        thoughts=["hm", "well"],
    ),
    case(
        "unknown modes are notices, but internals of the graph are ignored",
        *[["checkpoints", {"id": 1}], {"event": "on_chain_start", "run_id": "r", "data": {}}, ["new", 1]],
        notices=['langgraph sent an unknown event: ["new", 1]'],
    ),
)
def test_messages(case: Case) -> None:
    case.check(translated(*case.natives))


@table(
    *(
        case(
            f"a call in pieces with index {index}",
            arguments("", index=index, name="look", call="c"),
            *[arguments('{"at": ', index=index), arguments("1}", index=index), last(), tool_message()],
            calls=[("look", {"at": 1}, "seen")],
        )
        for index in (0, None)
    ),
    case("a failed result without a call", tool_message(name="look", status="error"), tools=[("look", True)]),
    case("a failure of version 3", {"method": "tools", "params": {"data": ERROR}}, tools=[("tool", True)]),
)
def test_tools(case: Case) -> None:
    case.check(translated(*case.natives))


def test_text_of_a_tool_s_task_belongs_to_its_call() -> None:
    natives = (
        *(arguments("{}", name="ask", call="c1"), last(), tool_task("t1", "c1")),
        *(chunk("under it", **TWO, task="tools:t1|model:m"), tool_task("t2", "c2")),
        *(tool_message("c2", task="tools:t1|tools:t2"), tool_message("c1", task="tools:t1")),
    )
    events = translated(*([[], *native] for native in natives))
    shown = [event for event in events if isinstance(event, TextDelta | ToolFinished)]
    assert [(type(event), event.parent_tool_id) for event in shown] == [
        (TextDelta, "c1"),
        (ToolFinished, "c1"),
        (ToolFinished, None),
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("really?", "really?"),
        ({"question": "really?"}, "really?"),
        ({"action_requests": [{"name": "wipe", "args": {}}]}, "wipe"),
    ],
)
def test_an_interrupt_ends_the_turn_with_its_question(value: Any, text: str) -> None:
    interrupts = [{"value": value, "id": "i"}]
    for native in (
        ["updates", {"__interrupt__": interrupts}],
        {"method": "values", "params": {"data": {"messages": []}, "interrupts": interrupts}},
    ):
        waiting = f"Waiting for an answer: {text}"
        turn = turn_of(translated(native, native))
        assert turn.status == turn.answer == [waiting]
        assert turn.terminal == TurnCompleted(text=waiting, stop_reason="interrupted")


# The runtime, with a graph that is not the SDK's but streams like one


class Graph:
    """Sends a word and then its end."""

    def __init__(self) -> None:
        self.runs: list[tuple[Any, Any, Any]] = []

    async def astream(self, given: Any, config: Any, **options: Any) -> AsyncIterator[Any]:
        self.runs.append((given, config, options))
        yield (), *chunk("hello")


def play(runtime: Runtime, prompt: Prompt) -> list[Event]:
    async def collect() -> list[Event]:
        return [event async for event in runtime.run(prompt)]

    return asyncio.run(collect())


def test_a_turn_is_one_run_of_the_graph_and_a_session_is_a_thread() -> None:
    graph = Graph()
    config = {"recursion_limit": 7, "configurable": {"model": "m"}}
    assert play(LangGraphRuntime(graph, config=config), Prompt(text="hi", session_id="s")) == [
        TurnStarted(runtime="langgraph", session_id="s"),
        TextDelta(text="hello"),
        TurnCompleted(),
    ]
    ((given, used, options),) = graph.runs
    assert given == {"messages": [{"role": "user", "content": "hi"}]}
    assert used == {"recursion_limit": 7, "configurable": {"model": "m", "thread_id": "s"}}
    assert options["subgraphs"]


def test_the_author_makes_the_input_and_a_turn_alone_has_its_own_thread() -> None:
    graph = Graph()
    runtime = LangGraphRuntime(graph, ask=lambda prompt: {"question": prompt.text})
    play(runtime, Prompt(text="hi"))
    play(runtime, Prompt(text="hi"))
    assert [given for given, _, _ in graph.runs] == [{"question": "hi"}] * 2
    assert len({config["configurable"]["thread_id"] for _, config, _ in graph.runs}) == 2
