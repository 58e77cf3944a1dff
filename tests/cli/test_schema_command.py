from __future__ import annotations

import json
from functools import cache
from typing import Any

import msgspec
import pytest

from command_runs import run_here
from tailrace import chunks, events

FULL_EVENTS: list[events.Event] = [
    events.TurnStarted(turn_id="t", runtime="r", session_id="s", parent_turn_id="p"),
    events.TextDelta(text="a", parent_tool_id="p"),
    events.BlockFinal(text="a"),
    events.TextRetracted(reason="r", scope="turn"),
    events.ReasoningDelta(text="a"),
    events.ReasoningEnd(metadata={"signature": [1, None]}),
    events.ToolStarted(id="1", name="n", arguments={"a": 1}),
    events.ToolInput(id="1", arguments=[1]),
    events.ToolProgress(id="1", elapsed_s=1.5, text="a"),
    events.ToolOutput(id="1", data="a", stream="stderr"),
    events.ToolFinished(id="1", result={"a": [True]}, is_error=True),
    events.Status(text="a"),
    events.Notice(text="a"),
    events.ModelChanged(model_id="m", key_id="k"),
    events.ConfigReloaded(),
    events.PlanUpdated(items=(events.PlanItem(title="t", status="s"),)),
    events.Usage(input_tokens=1, output_tokens=2, scope="session"),
    events.Media(url="u", path="p", mime="m", caption="c"),
    events.Error(message="m", status_code=500, code="c"),
    events.TurnCompleted(text="a", stop_reason="r"),
    events.TurnFailed(message="m", code="c", status_code=500, retryable=True),
    events.TurnCancelled(reason="r"),
]
FULL_CHUNKS: list[chunks.Chunk] = [
    chunks.TextChunk("a"),
    chunks.ThinkingChunk("a", metadata={"b": 1}),
    chunks.ToolBatchChunk(
        [
            chunks.ToolCall("1", "n", {}),
            chunks.ToolCall("2", "n", {}, "r", True, chunks.ShellOutput("out", "err")),
        ]
    ),
    chunks.ErrorChunk("m", 500),
    chunks.SystemChunk("notice", "a"),
]
TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}


@cache
@cache
def schema(vocabulary: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(run_here("schema", vocabulary).out)
    return document


def fits(value: Any, part: dict[str, Any], whole: dict[str, Any]) -> bool:
    """Whether a value is valid by a schema of the few words that ours are made of."""
    if "$ref" in part:
        return fits(value, whole["$defs"][part["$ref"].removeprefix("#/$defs/")], whole)
    if "oneOf" in part:
        return sum(fits(value, option, whole) for option in part["oneOf"]) == 1
    if "anyOf" in part:
        return any(fits(value, option, whole) for option in part["anyOf"])
    if "enum" in part:
        return value in part["enum"]
    known = {
        "type",
        "properties",
        "required",
        "additionalProperties",
        "items",
        "title",
        "description",
        "default",
    }
    assert part.keys() <= known
    return is_of_type(value, part.get("type")) and holds(value, part, whole)


def is_of_type(value: Any, name: str | None) -> bool:
    return name is None or (isinstance(value, TYPES[name]) and (name == "boolean" or not isinstance(value, bool)))


def holds(value: Any, part: dict[str, Any], whole: dict[str, Any]) -> bool:
    """Whether what is inside a list or an object is valid."""
    if isinstance(value, list):
        return all(fits(item, part.get("items", {}), whole) for item in value)
    if not isinstance(value, dict) or "properties" not in part:
        return True
    properties = part["properties"]
    return (
        all(name in value for name in part.get("required", ()))
        and (part.get("additionalProperties", True) or value.keys() <= properties.keys())
        and all(fits(item, properties[name], whole) for name, item in value.items() if name in properties)
    )


def test_the_wire_form_of_every_event_fits_the_schema() -> None:
    whole = schema("events")
    assert whole["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert tuple(whole["discriminator"]["mapping"]) == events.TAGS
    assert {type(event) for event in FULL_EVENTS} == set(events.EVENT_CLASSES)
    for event in FULL_EVENTS:
        assert fits(json.loads(events.encode_event(event)), whole, whole), event


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"type": "text"},
        {"type": "text_delta"},
        {"text": "a"},
        {"type": "text_delta", "text": 1},
        {"type": "text_delta", "text": "a", "more": 1},
        {"type": "tool_output", "data": "a", "stream": "stdin"},
        {"type": "usage", "input_tokens": 1.5, "output_tokens": 1, "scope": "turn"},
        {"type": "usage", "input_tokens": True, "output_tokens": 1, "scope": "turn"},
    ],
)
def test_what_is_no_event_does_not_fit(wrong: dict[str, Any]) -> None:
    whole = schema("events")
    assert not fits(wrong, whole, whole)


def test_the_wire_form_of_every_chunk_fits_the_schema() -> None:
    whole = schema("chunks")
    assert list(whole["discriminator"]["mapping"]) == ["text", "thinking", "tool-batch", "error", "system"]
    for chunk in FULL_CHUNKS:
        assert fits(json.loads(msgspec.json.encode(chunk)), whole, whole), chunk
    assert not fits({"text": "a"}, whole, whole)


def test_wrong_use_ends_with_2() -> None:
    for arguments in (["schema"], ["schema", "nothing"], ["nothing"]):
        done = run_here(*arguments)
        assert (done.exit_code, done.out) == (2, "")
