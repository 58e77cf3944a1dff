"""Recorded lines of Claude Code and its like, and objects as its SDK makes them of such lines."""

from __future__ import annotations

import json
from typing import Any

from sdk_streams import RECORDINGS

from tailrace.runtimes.claude.sdk_runtime import line_from_message

Line = bytes | dict[str, Any]


def sdk_object(recorded: dict[str, Any]) -> object:
    """An object like the SDK's, of a class of that name."""
    made = type(recorded["__class__"], (), {})()
    for name, value in recorded.items():
        is_blocks = isinstance(value, list) and all(isinstance(item, dict) and "__class__" in item for item in value)
        vars(made)[name] = [sdk_object(item) for item in value] if is_blocks else value
    del vars(made)["__class__"]
    return made


def lines_of(name: str) -> list[Line]:
    """The lines of a recording, or of one of its turns; those of the SDK as they are made of its objects."""
    recording, _, nth = name.partition(" ")
    raw = (RECORDINGS / f"{recording}.ndjson").read_bytes().splitlines()[1:]
    if not recording.startswith("claude_sdk"):
        return list(raw)
    lines = [line_from_message(message) for message in sdk_objects(recording)]
    ends = [0, *(at + 1 for at, line in enumerate(lines) if line["type"] == "result")]
    return [*(lines[ends[int(nth) - 1] : ends[int(nth)]] if nth else lines)]


def sdk_objects(recording: str) -> list[object]:
    """What the SDK handed over, without the recorder's notes."""
    raw = (RECORDINGS / f"{recording}.ndjson").read_bytes().splitlines()[1:]
    recorded = [line["ev"] for line in map(json.loads, raw) if "ev" in line]
    return [sdk_object(message) for message in recorded if "__class__" in message]
