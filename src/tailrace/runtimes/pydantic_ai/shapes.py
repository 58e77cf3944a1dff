"""What the translator reads of the SDK's events, and no more of them than that."""

from __future__ import annotations

from typing import Any

import msgspec


class Part(msgspec.Struct):
    """A part of a response, or what a tool gave back."""

    part_kind: str
    content: Any = None
    signature: Any = None
    tool_name: str = ""
    tool_call_id: str = ""
    args: Any = None
    outcome: str = "success"


class Started(msgspec.Struct):
    """A part begins, with its first content."""

    index: int
    part: Part
    previous_part_kind: str | None = None


class Ended(msgspec.Struct):
    """A part is complete."""

    index: int
    part: Part


class Change(msgspec.Struct):
    """What is added to a part, which may be nothing that is read here."""

    part_delta_kind: str
    content_delta: str | None = None


class Grown(msgspec.Struct):
    """More of a part."""

    index: int
    delta: Change


class Called(msgspec.Struct):
    """A tool is called, or has answered."""

    part: Part


class Requests(msgspec.Struct):
    """Calls that wait: for somebody's approval, or for somebody to make them."""

    approvals: list[Part] = []
    calls: list[Part] = []


class Deferred(msgspec.Struct):
    """The run cannot go on without somebody."""

    requests: Requests


class Tokens(msgspec.Struct):
    """What the run has cost."""

    input_tokens: int = 0
    output_tokens: int = 0


class Result(msgspec.Struct):
    """The run is complete."""

    output: Any = None
    usage: Tokens | None = None
