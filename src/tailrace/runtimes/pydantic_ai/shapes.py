"""The fields of the SDK's events that the translator reads."""

from __future__ import annotations

from typing import Any

import msgspec


class ResponsePart(msgspec.Struct):
    """A part of a model's response (text, reasoning or a tool call), or the result of a tool call."""

    part_kind: str
    content: Any = None
    signature: Any = None
    tool_name: str = ""
    tool_call_id: str = ""
    args: Any = None
    outcome: str = "success"


class PartStartEvent(msgspec.Struct):
    """A part starts, with its first content."""

    index: int
    part: ResponsePart
    previous_part_kind: str | None = None


class PartEndEvent(msgspec.Struct):
    """A part is complete."""

    index: int
    part: ResponsePart


class _ResponsePartDelta(msgspec.Struct):
    """What is added to a part of a response. Only text is read; for other parts, `content_delta` is None."""

    part_delta_kind: str
    content_delta: str | None = None


class PartDeltaEvent(msgspec.Struct):
    """A part of a response grows."""

    index: int
    delta: _ResponsePartDelta


class ToolEvent(msgspec.Struct):
    """A tool is called, or has returned."""

    part: ResponsePart


class _DeferredRequests(msgspec.Struct):
    """The tool calls for which a run stops: `approvals` wait for approval, `calls` for a result from outside."""

    approvals: list[ResponsePart] = []
    calls: list[ResponsePart] = []


class DeferredRequestsEvent(msgspec.Struct):
    """The run stops, because tool calls wait."""

    requests: _DeferredRequests


class _RunUsage(msgspec.Struct):
    input_tokens: int = 0
    output_tokens: int = 0


class RunResultEvent(msgspec.Struct):
    """The run is complete."""

    output: Any = None
    usage: _RunUsage | None = None
