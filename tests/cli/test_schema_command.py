"""`tailrace schema`: every event and chunk as JSON fits the schema, and other values do not."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from command_runs import run_here
from event_strategies import any_event
from tailrace import chunks, events
from tailrace.assembler import append_event_to_chunks

TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}


KEYWORDS = {"type", "properties", "required", "additionalProperties", "items", "title", "description", "default"}


@cache
def schema(name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(run_here("schema", name).out)
    return document


def fits(value: Any, part: dict[str, Any], whole: dict[str, Any]) -> bool:
    """Whether a value is valid by a schema. It knows the keywords that our schemas use, and refuses others."""
    if "$ref" in part:
        part = whole["$defs"][part["$ref"].removeprefix("#/$defs/")]
    if options := part.get("oneOf", part.get("anyOf")):
        fitting = sum(fits(value, option, whole) for option in options)
        return fitting == 1 if "oneOf" in part else fitting > 0
    if "enum" in part:
        return value in part["enum"]
    assert part.keys() <= KEYWORDS
    kind = part.get("type")
    if kind and (not isinstance(value, TYPES[kind]) or (isinstance(value, bool) and kind != "boolean")):
        return False
    if isinstance(value, list):
        return all(fits(item, part.get("items", {}), whole) for item in value)
    if not isinstance(value, dict) or "properties" not in part:
        return True
    properties = part["properties"]
    return (
        set(part.get("required", ())) <= value.keys()
        and (part.get("additionalProperties", True) or value.keys() <= properties.keys())
        and all(fits(item, properties[name], whole) for name, item in value.items() if name in properties)
    )


def test_schema_of_events_is_a_union_tagged_by_type() -> None:
    whole = schema("events")
    assert whole["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert tuple(whole["discriminator"]["mapping"]) == events.TAGS


@given(any_event)
def test_every_event_fits_the_schema(event: events.Event) -> None:
    whole = schema("events")
    assert fits(json.loads(events.encode_event(event)), whole, whole)


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
def test_other_values_do_not_fit(wrong: dict[str, Any]) -> None:
    whole = schema("events")
    assert not fits(wrong, whole, whole)


@given(st.lists(any_event, max_size=6))
def test_every_chunk_fits_the_schema(of_a_turn: list[events.Event]) -> None:
    whole = schema("chunks")
    assert list(whole["discriminator"]["mapping"]) == ["text", "thinking", "tool-batch", "error", "system"]
    folded: list[chunks.Chunk] = []
    for event in of_a_turn:
        append_event_to_chunks(folded, event)
    for chunk in folded:
        assert fits(json.loads(msgspec.json.encode(chunk)), whole, whole), chunk
    assert not fits({"text": "a"}, whole, whole)
