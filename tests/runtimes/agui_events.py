"""Events of AG-UI, made by hand."""

from __future__ import annotations

from typing import Any

STARTED = {"type": "RUN_STARTED", "threadId": "t", "runId": "r"}
FINISHED = {"type": "RUN_FINISHED", "threadId": "t", "runId": "r"}


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
