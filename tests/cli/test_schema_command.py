"""`tailrace schema`: every event and chunk as JSON fits the schema, and other values do not."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable
from functools import cache
from pathlib import Path
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


ANNOTATIONS = {"$schema", "title", "description", "default", "discriminator", "$defs"}


@cache
def schema(name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(run_here("schema", name).out)
    return document


def has_type(value: Any, kind: str) -> bool:
    return isinstance(value, TYPES[kind]) and (not isinstance(value, bool) or kind == "boolean")


def object_fits(value: dict[str, Any], part: dict[str, Any], whole: dict[str, Any]) -> bool:
    properties, rest = part.get("properties", {}), part.get("additionalProperties", True)
    parts = [(item, properties.get(name, rest)) for name, item in value.items()]
    return all(other if isinstance(other, bool) else fits(item, other, whole) for item, other in parts)


RULES: dict[str, Callable[[Any, Any], bool]] = {
    "type": has_type,
    "enum": lambda value, options: value in options,
    "const": lambda value, constant: value == constant,
    "pattern": lambda value, pattern: not isinstance(value, str) or re.search(pattern, value) is not None,
    "required": lambda value, names: set(names) <= value.keys(),
    "exclusiveMinimum": lambda value, limit: value > limit,
    "exclusiveMaximum": lambda value, limit: value < limit,
    "maximum": lambda value, limit: value <= limit,
}


def fits(value: Any, part: dict[str, Any], whole: dict[str, Any]) -> bool:
    """Whether a value is valid by a schema. It knows the keywords that our schemas use, and refuses others."""
    for keyword, rule in part.items():
        match keyword:
            case "$ref":
                valid = fits(value, whole["$defs"][rule.removeprefix("#/$defs/")], whole)
            case "oneOf":
                valid = sum(fits(value, option, whole) for option in rule) == 1
            case "anyOf":
                valid = any(fits(value, option, whole) for option in rule)
            case "items":
                valid = all(fits(item, rule, whole) for item in value)
            case "properties" | "additionalProperties":
                valid = object_fits(value, part, whole)
            case _:
                valid = keyword in ANNOTATIONS or RULES[keyword](value, rule)
        if not valid:
            return False
    return True


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


DOCUMENTED = Path(__file__).parent.parent.parent / "docs" / "settings.md"


def documented_settings() -> dict[str, Any]:
    [toml] = re.findall(r"(?ms)^```toml\n(.*?)^```$", DOCUMENTED.read_text(encoding="utf-8"))
    return tomllib.loads(toml)


def test_the_settings_of_the_documentation_fit_the_schema() -> None:
    whole = schema("config")
    assert fits(documented_settings(), whole, whole)
    assert fits({}, whole, whole)


@pytest.mark.parametrize(
    "wrong",
    [
        "agent = 1",
        "[gatewy]",
        "[gateway]\nmax_queue_size = 0",
        "[gateway]\nledger = 'postgresql://h'",
        "[agents.main]",
        "[agents.main]\nuse = 'demo'\npermissions = 'yes'",
        "[agents.main]\nuse = 'demo'\nmiddleware = 'my_app'",
        "[channels.telegram]\nbusy = 'wait'",
        "[channels.telegram]\ntype = 'terminal'",
        "[channels.mine]\ntoken = 'env:T'",
        "[channels.mine]\ntype = 'terminal'\ntoken = 'env:T'",
        "[shadow]\nshare = 0.1",
        "[shadow]\npresentation = 'live'\nshare = 1.5",
        "[schedule.a]\nprompt = 'x'\nchannel = 'c'\nto = '1'",
        "[schedule.a]\nprompt = 'x'\nchannel = 'c'\nto = '1'\nevery = '1d'\ncron = '0 8 * * *'",
        "[schedule.a]\nprompt = 'x'\nchannel = 'c'\nto = '1'\nevery = '1 day'",
    ],
)
def test_wrong_settings_do_not_fit_the_schema(wrong: str) -> None:
    whole = schema("config")
    assert not fits(tomllib.loads(wrong), whole, whole)


def test_every_key_of_the_gateway_has_a_description() -> None:
    properties = schema("config")["properties"]["gateway"]["properties"]
    assert [key for key, part in properties.items() if not part.get("description")] == []
