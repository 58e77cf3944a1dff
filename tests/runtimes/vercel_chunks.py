"""Chunks of a UI message stream of the AI SDK, made by hand."""

from __future__ import annotations

from typing import Any

STEP, FINISH, DONE = {"type": "start-step"}, {"type": "finish", "finishReason": "stop"}, "[DONE]"


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
