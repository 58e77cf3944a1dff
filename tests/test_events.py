"""Events as values and on the wire: round trips, frozen classes, and a diagnostic that names the wrong field."""

from __future__ import annotations

import datetime
import types
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from event_strategies import any_event
from tailrace.errors import ContractViolation, Diagnostic
from tailrace.events import (
    EVENT_CLASSES,
    Error,
    Event,
    PlanItem,
    PlanUpdated,
    TextDelta,
    ToolFinished,
    ToolOutput,
    ToolProgress,
    TurnStarted,
    Usage,
    decode_event,
    encode_event,
    validate_event,
)


def refusal(data: Any) -> Diagnostic:
    with pytest.raises(ContractViolation) as caught:
        decode_event(data)
    assert str(caught.value) == caught.value.diagnostic.message
    return caught.value.diagnostic


@given(any_event)
def test_encoded_events_decode_to_the_same_event(event: Event) -> None:
    line = encode_event(event)
    assert b"\n" not in line
    assert decode_event(line) == event
    assert decode_event(line.decode()) == event
    assert decode_event(msgspec.json.decode(line)) == event
    validate_event(event)


def test_any_mapping_is_decoded() -> None:
    assert decode_event(types.MappingProxyType({"type": "text_delta", "text": "a"})) == TextDelta(text="a")


@pytest.mark.parametrize("cls", EVENT_CLASSES)
def test_events_are_frozen_and_made_by_keyword(cls: Any) -> None:
    assert cls.__struct_config__.frozen
    assert cls.__struct_config__.forbid_unknown_fields
    with pytest.raises(TypeError):
        cls("by position")


NO_OBJECTS = (b"", "", b"{", "nonsense", b"[1]", "5", b"\xff\xfe", "[" * 100_000, None, 5, ["text_delta"])


@pytest.mark.parametrize("data", [*NO_OBJECTS, b'{"type":"text_delta","text":"\xff"}'])
def test_data_that_is_not_a_json_object_is_refused(data: Any) -> None:
    assert refusal(data).code == "malformed_json"


@pytest.mark.parametrize("data", [{}, {"type": None}, {"type": 5}, {"type": ["text_delta"]}, {"type": "text"}])
def test_unknown_type_is_refused_with_the_known_types(data: dict[str, Any]) -> None:
    for form in (data, msgspec.json.encode(data)):
        diagnostic = refusal(form)
        assert (diagnostic.code, diagnostic.field) == ("unknown_type", "type")
        assert "text_delta" in diagnostic.message


LIKE_A_MESSAGE = "missing required field `q`"


@pytest.mark.parametrize(
    ("data", "code", "field"),
    [
        ({"type": "tool_started", "id": "1"}, "missing_field", "name"),
        ({"type": "text_delta", "text": "a", "txet": "b"}, "unknown_field", "txet"),
        ({"type": "status", "text": "a", LIKE_A_MESSAGE: 1}, "unknown_field", LIKE_A_MESSAGE),
        ({"type": "plan_updated", "items": [{"title": "a"}]}, "missing_field", "items[0].status"),
        (
            {"type": "plan_updated", "items": [{"title": "a", "status": "b", "done": True}]},
            "unknown_field",
            "items[0].done",
        ),
        ({"type": "plan_updated", "items": [{"title": "a", "status": 1}]}, "wrong_type", "items[0].status"),
        ({"type": "text_delta", "text": 5}, "wrong_type", "text"),
        ({"type": "text_delta", "text": None}, "wrong_type", "text"),
        ({"type": "tool_output", "data": "a", "stream": "stdin"}, "wrong_type", "stream"),
        ({"type": "usage", "input_tokens": "1", "output_tokens": 1, "scope": "turn"}, "wrong_type", "input_tokens"),
    ],
)
def test_wrong_field_is_named_with_its_path(data: dict[str, Any], code: str, field: str) -> None:
    for form in (data, msgspec.json.encode(data)):
        diagnostic = refusal(form)
        assert (diagnostic.code, diagnostic.event_type, diagnostic.field) == (code, data["type"], field)
        assert "$" not in diagnostic.message


def test_misspelt_field_is_refused_with_the_known_fields() -> None:
    assert "parent_tool_id, text" in refusal(b'{"type":"text_delta","text":"a","txet":"b"}').message


def unsound(cls: Any, **fields: Any) -> Event:
    """An event with values that its class does not allow, as only an unchecked author makes them."""
    event: Event = cls(**fields)
    return event


ITSELF: list[Any] = []
ITSELF.append(ITSELF)


@pytest.mark.parametrize(
    ("event", "code", "field"),
    [
        (unsound(TextDelta, text=5), "wrong_type", "text"),
        (unsound(TextDelta, text=b"a"), "wrong_type", "text"),
        (unsound(TextDelta, text=datetime.date(2020, 1, 1)), "wrong_type", "text"),
        (unsound(TextDelta, text="a", parent_tool_id=7), "wrong_type", "parent_tool_id"),
        (unsound(ToolOutput, data="a", stream="stdin"), "wrong_type", "stream"),
        (unsound(Usage, input_tokens=True, output_tokens=1, scope="turn"), "wrong_type", "input_tokens"),
        (unsound(PlanUpdated, items="abc"), "wrong_type", "items"),
        (unsound(PlanUpdated, items=({"title": "a", "status": 1},)), "wrong_type", "items[0].status"),
        (unsound(PlanUpdated, items=(PlanItem(title="a", status="b"), 5)), "wrong_type", "items[1]"),
        (unsound(ToolFinished, id="1", result=object()), "not_json", None),
        (unsound(ToolFinished, id="1", result=ITSELF), "not_json", None),
    ],
)
def test_field_types_of_an_event_made_in_python_are_checked(event: Event, code: str, field: str | None) -> None:
    with pytest.raises(ContractViolation) as caught:
        validate_event(event)
    found = caught.value.diagnostic
    assert (found.code, found.event_type, found.field) == (code, type(event).__struct_config__.tag, field)


def test_integer_is_accepted_for_seconds() -> None:
    validate_event(ToolProgress(elapsed_s=3))


def test_values_that_json_cannot_represent_are_refused() -> None:
    unsendable = (ToolFinished(id="1", result=object()), ToolFinished(id="1", result=ITSELF), TextDelta(text="\ud83d"))
    for event in unsendable:
        with pytest.raises(ContractViolation) as caught:
            encode_event(event)
        assert caught.value.diagnostic.code == "not_json"


def test_defaults_are_those_of_the_contract() -> None:
    assert TurnStarted() == TurnStarted(turn_id="", runtime="", session_id=None, parent_turn_id=None)
    assert ToolFinished(id="1") == ToolFinished(id="1", result="", is_error=False)
    assert ToolOutput(data="a") == ToolOutput(data="a", stream="stdout", id=None)
    assert Error(message="m") == Error(message="m", status_code=None, code=None)


@given(st.text(), st.dictionaries(st.text(), st.text()))
def test_random_data_gives_an_event_or_a_contract_violation(line: str, mapping: dict[str, str]) -> None:
    for data in (line, line.encode(errors="surrogatepass"), mapping, {"type": "media", **mapping}):
        with suppress(ContractViolation):
            decode_event(data)


def test_halves_of_characters_in_json_are_kept_for_the_contract_to_join() -> None:
    assert decode_event(rb'{"type": "text_delta", "text": "a\ud83d"}') == TextDelta(text="a\ud83d")
    assert decode_event('{"type": "text_delta", "text": "\\ud83d\\ude00"}') == TextDelta(text="\U0001f600")
    with pytest.raises(ContractViolation, match="unknown field"):
        decode_event(rb'{"type": "text_delta", "txt": "\ud83d"}')
    with pytest.raises(ContractViolation, match="not one JSON object"):
        decode_event(rb'["\ud83d"]')
