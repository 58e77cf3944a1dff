"""Recorded runs of AG-UI agents with what a reader expects of each, and events made by hand."""

from __future__ import annotations

from typing import Any

from sdk_streams import Expected, lines_of

from tailrace.events import TurnFailed
from tailrace.runtimes.endpoint import frame_value
from tailrace.runtimes.sse import FrameDecoder

STARTED = {"type": "RUN_STARTED", "threadId": "t", "runId": "r"}
FINISHED = {"type": "RUN_FINISHED", "threadId": "t", "runId": "r"}
CHECK, SAID_HI, SUNNY = "Let me check.", "The tool said hi.", "It is sunny."
RUN_IT, RUN_TOOL, KNOW = "I should run a command.", "I should run a tool.", "Now I know."
WEATHER = ("get_weather", False)

EXPECTED = [
    Expected(
        "agui_langgraph_errmid",
        ["This will break"],
        terminal=TurnFailed,
        errors=["fake failure mid-stream"],
        status=["model"],
        notes="the message is open when the run fails",
    ),
    Expected(
        "agui_langgraph_interrupt",
        ["Which Springfield?"],
        status=["model"],
        notes="the graph stops to ask, which a custom event says",
    ),
    Expected(
        "agui_langgraph_tool",
        [CHECK, SAID_HI],
        [WEATHER],
        [RUN_IT, KNOW],
        status=["model", "tools", "model"],
        notes="the snapshot at the end repeats everything, under other ids",
    ),
    Expected(
        "agui_langgraph_unstreamed",
        ["plain answer, 1 messages"],
        status=["model"],
        notes="the answer is in the snapshots and nowhere else",
    ),
    Expected(
        "agui_strands_tool",
        [CHECK, SAID_HI],
        [WEATHER],
        [RUN_IT, KNOW],
        notes="a snapshot follows every block; the result is text in quotes",
    ),
    Expected(
        "agui_types_full",
        [CHECK, "child text", "Chunk form."],
        [WEATHER, ("get_time", False), ("child", False), ("x", None)],
        ["I should act."],
        status=["model", "PLAN", "model_changed: b"],
        notes="one of everything, also in chunks; `child` is a subagent",
    ),
    Expected("pydantic_ai_agui_errmid", ["partial text"], terminal=TurnFailed, errors=["provider died mid-stream"]),
    Expected("pydantic_ai_agui_tool", [CHECK, SUNNY], [WEATHER], [RUN_TOOL, KNOW]),
]

GARBAGE: list[Any] = [
    None,
    7,
    "event",
    [],
    {},
    {"type": 7},
    {"type": "NEVER_HEARD_OF"},
    {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m1", "delta": 7},
    {"type": "TEXT_MESSAGE_CHUNK", "delta": "of nothing"},
    {"type": "TEXT_MESSAGE_CHUNK", "messageId": 7, "delta": "x"},
    {"type": "TOOL_CALL_START", "toolCallId": "c9"},
    {"type": "TOOL_CALL_RESULT", "content": "of nothing"},
    {"type": "MESSAGES_SNAPSHOT", "messages": "none"},
    {"type": "CUSTOM", "value": 1},
]


def natives_of(recording: str) -> list[Any]:
    """The events of a recording. Where bytes were recorded too, they must decode to the same events."""
    natives: list[Any] = []
    for line in lines_of(recording):
        natives.append(line["ev"])
        if "sse" in line:
            assert [frame_value(frame.data) for frame in FrameDecoder().feed(line["sse"].encode())] == [line["ev"]]
    return natives


def text(message: str, *pieces: str, **more: Any) -> list[dict[str, Any]]:
    """The events of a streamed message."""
    return [
        {"type": "TEXT_MESSAGE_START", "messageId": message, "role": "assistant", **more},
        *({"type": "TEXT_MESSAGE_CONTENT", "messageId": message, "delta": piece} for piece in pieces),
        {"type": "TEXT_MESSAGE_END", "messageId": message},
    ]


def call(name: str, tool: str = "look", **more: Any) -> dict[str, Any]:
    return {"type": "TOOL_CALL_START", "toolCallId": name, "toolCallName": tool, **more}


def arguments(name: str, *pieces: str) -> list[dict[str, Any]]:
    """The arguments of a call, and their end."""
    return [
        *({"type": "TOOL_CALL_ARGS", "toolCallId": name, "delta": piece} for piece in pieces),
        {"type": "TOOL_CALL_END", "toolCallId": name},
    ]


def result(name: str, content: Any = "found") -> dict[str, Any]:
    return {"type": "TOOL_CALL_RESULT", "messageId": f"r-{name}", "toolCallId": name, "content": content}
