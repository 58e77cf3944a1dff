"""The fields of the SDK's events that the translator reads."""

from __future__ import annotations

from typing import Any

import msgspec


class ResponsePart(msgspec.Struct):
    """A part of a response, or the result of a call."""

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
    """The addition to a part. For some kinds of parts no field is read."""

    part_delta_kind: str
    content_delta: str | None = None


class PartDeltaEvent(msgspec.Struct):
    """A part grows."""

    index: int
    delta: _ResponsePartDelta


class ToolEvent(msgspec.Struct):
    """A tool is called, or has returned."""

    part: ResponsePart


class _DeferredRequests(msgspec.Struct):
    """Calls that wait for approval, or for a result from outside."""

    approvals: list[ResponsePart] = []
    calls: list[ResponsePart] = []


class DeferredRequestsEvent(msgspec.Struct):
    """The run stops for these calls."""

    requests: _DeferredRequests


class _RunUsage(msgspec.Struct):
    input_tokens: int = 0
    output_tokens: int = 0


class RunResultEvent(msgspec.Struct):
    """The run is complete."""

    output: Any = None
    usage: _RunUsage | None = None
