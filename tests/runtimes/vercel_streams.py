"""Recorded UI message streams of the AI SDK with what a reader expects of each, and chunks made by hand.

`SNAPSHOTS` are no streams: the SDK's client makes them from a stream. Saved histories are compared with them.
"""

from __future__ import annotations

from typing import Any

from sdk_streams import Expected, lines_of

from tailrace.events import TurnCancelled, TurnFailed
from tailrace.runtimes.endpoint import frame_value
from tailrace.runtimes.sse import FrameDecoder

STEP, FINISH, DONE = {"type": "start-step"}, {"type": "finish", "finishReason": "stop"}, "[DONE]"
CHECK, SUNNY = "Let me check.", "It is sunny."
RUN_TOOL, KNOW = "I should run a tool.", "Now I know."
WEATHER = ("get_weather", False)
FOUR = [WEATHER, WEATHER, ("boom", True), ("get_weather", True)]
DATA = ["loading", "model changed", "ready", "Source: X"]
WORDS = "w0 w1 w2 w3 w4 "
MASKED = "masked: provider died mid-stream"

EXPECTED = [
    Expected("pydantic_ai_vercel_errmid", ["partial text"], terminal=TurnFailed, errors=["provider died mid-stream"]),
    Expected("pydantic_ai_vercel_tool", [CHECK, SUNNY], [WEATHER], [RUN_TOOL, KNOW]),
    Expected("vercel5_custom_data", ["hi"], status=DATA),
    Expected("vercel5_ui_errmid", ["partial "], terminal=TurnFailed, errors=[MASKED]),
    Expected(
        "vercel5_ui_parallel",
        ["Two.", "Done."],
        FOUR,
        notes="the input of the last call is invalid, which version 5 reports a second time without the reason",
    ),
    Expected("vercel5_ui_prelim", ["Done."], [("progress", False)]),
    Expected(
        "vercel5_ui_tool",
        [CHECK, SUNNY],
        [WEATHER],
        [RUN_TOOL],
        notes="the second step reuses ids, and its reasoning has metadata but no text",
    ),
    Expected("vercel6_custom_data", ["hi"], status=DATA),
    Expected("vercel6_ui_abort", [WORDS], terminal=TurnCancelled, notes="the text is open when it is aborted"),
    Expected("vercel6_ui_tool", [CHECK, SUNNY], [WEATHER], [RUN_TOOL]),
    Expected("vercel7_ui_abort", [WORDS], terminal=TurnCancelled),
    Expected("vercel7_ui_errmid", ["partial "], terminal=TurnFailed, errors=[MASKED]),
    Expected("vercel7_ui_parallel", ["Two.", "Done."], FOUR),
    Expected("vercel7_ui_tool", [CHECK, SUNNY], [WEATHER], [RUN_TOOL]),
]
SNAPSHOTS = [f"vercel{version}_reader_snapshots" for version in (5, 6, 7)]
GARBAGE: list[Any] = [
    None,
    7,
    "chunk",
    [],
    {},
    {"type": 7},
    {"type": "never-heard-of"},
    {"type": "text-delta", "delta": "of nothing"},
    {"type": "text-delta", "id": "0", "delta": 7},
    {"type": "tool-input-available", "toolName": "x"},
    {"type": "data-status"},
    {"type": "file"},
]


def natives_of(recording: str) -> list[Any]:
    """The chunks of a recording, decoded from its bytes where those were recorded."""
    lines = lines_of(recording)
    stream = "".join(f"{line['sse']}\n\n" for line in lines if "sse" in line).encode()
    recorded = [line["ev"] for line in lines if "ev" in line and "_response_headers" not in line["ev"]]
    return recorded + [frame_value(frame.data) for frame in FrameDecoder().feed(stream)]


def text(block: str, *pieces: str) -> list[dict[str, Any]]:
    """The chunks of a streamed text."""
    return [
        {"type": "text-start", "id": block},
        *({"type": "text-delta", "id": block, "delta": piece} for piece in pieces),
        {"type": "text-end", "id": block},
    ]


def called(call: str, tool: str = "look", given: Any = None) -> dict[str, Any]:
    return {"type": "tool-input-available", "toolCallId": call, "toolName": tool, "input": given or {}}


def output(call: str, given: Any = "found", **more: Any) -> dict[str, Any]:
    return {"type": "tool-output-available", "toolCallId": call, "output": given, **more}
