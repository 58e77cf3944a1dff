"""The three JSON dialects: what each of their events becomes, in `made_dialects`, and which are refused."""

from __future__ import annotations

import types
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from turns import marked

from event_strategies import json_values
from tailrace.assembler import append_event_to_chunks
from tailrace.chunks import Chunk, ToolBatchChunk
from tailrace.errors import ContractViolation, Diagnostic
from tailrace.events import Event, decode_event, validate_event
from tailrace.runtimes.dialects import DIALECTS, translate

CASES = [
    (path.stem, *marked(case, "> "), [decode_event(event) for event in marked(case, "< ")])
    for path in sorted((Path(__file__).parent / "made_dialects").iterdir())
    for case in path.read_text(encoding="utf-8").split("\n\n")
]


@pytest.mark.parametrize(("dialect", "event", "canonical"), CASES)
def test_each_event_of_each_dialect_is_translated(dialect: str, event: dict[str, Any], canonical: list[Event]) -> None:
    assert translate(dialect, event) == canonical
    assert translate(dialect, types.MappingProxyType(event)) == canonical
    assert translate(dialect, {**event, "unheard_of": 1}) == canonical


def test_every_type_of_the_tables_has_a_case() -> None:
    for dialect, table in DIALECTS.items():
        assert {event["type"] for name, event, _ in CASES if name == dialect} == set(table)


def refusal(dialect: str, event: Any) -> Diagnostic:
    with pytest.raises(ContractViolation) as caught:
        translate(dialect, event)
    return caught.value.diagnostic


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("event", [{}, {"type": None}, {"type": ["text"]}, {"type": "unheard_of"}])
def test_an_unknown_type_is_refused_with_the_known_types(dialect: str, event: dict[str, Any]) -> None:
    diagnostic = refusal(dialect, event)
    assert (diagnostic.code, diagnostic.field) == ("unknown_type", "type")
    assert all(tag in diagnostic.message for tag in DIALECTS[dialect])


@pytest.mark.parametrize(
    ("dialect", "event", "code", "field"),
    [
        ("bridge", {"type": "text"}, "missing_field", "text"),
        ("bridge", {"type": "text", "text": None}, "missing_field", "text"),
        ("bridge", {"type": "text", "text": 5}, "wrong_type", "text"),
        ("bridge", {"type": "tool_use", "id": 7, "name": "ls"}, "wrong_type", "id"),
        (
            "bridge",
            {"type": "tool_result", "id": "1", "content": "", "is_error": "yes"},
            "wrong_type",
            "is_error",
        ),
        ("chat", {"type": "tool-call"}, "missing_field", "toolCall.id"),
        ("chat", {"type": "tool-call", "toolCall": {"id": "1"}}, "missing_field", "toolCall.name"),
        ("chat", {"type": "tool-call", "toolCall": "1"}, "wrong_type", "toolCall"),
        (
            "chat",
            {"type": "tool-result", "toolResult": {"toolCallId": 1}},
            "wrong_type",
            "toolResult.toolCallId",
        ),
        ("chat", {"type": "shell-output", "stream": "stdin", "data": "a"}, "wrong_type", "stream"),
        ("chat", {"type": "error", "error": "m", "statusCode": "429"}, "wrong_type", "statusCode"),
        ("stream", {"type": "tool_start", "toolId": "1"}, "missing_field", "toolName"),
        ("stream", {"type": "tool_start", "toolName": "ls", "toolId": 1}, "wrong_type", "toolId"),
        ("stream", {"type": "tool_progress", "elapsedSeconds": "3"}, "wrong_type", "elapsedSeconds"),
        ("stream", {"type": "result", "response": "r", "partial": "yes"}, "wrong_type", "partial"),
    ],
)
def test_a_malformed_field_is_refused_with_its_foreign_name(
    dialect: str, event: dict[str, Any], code: str, field: str
) -> None:
    diagnostic = refusal(dialect, event)
    assert (diagnostic.code, diagnostic.event_type, diagnostic.field) == (code, event["type"], field)
    assert dialect in diagnostic.message


@pytest.mark.parametrize("thing", [None, "text", 5, [{"type": "text"}]])
def test_a_value_that_is_no_object_is_refused(thing: Any) -> None:
    assert refusal("bridge", thing).code == "not_an_event"


def test_an_unknown_dialect_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="bridge, chat, stream"):
        translate("klingon", {"type": "text"})


def test_input_without_an_id_belongs_to_the_tool_before_it() -> None:
    chunks: list[Chunk] = []
    for name in ("ls", "cat"):
        for event in (
            *translate("stream", {"type": "tool_start", "toolName": name}),
            *translate("stream", {"type": "tool_input", "input": {"for": name}}),
        ):
            append_event_to_chunks(chunks, event)
    [batch] = chunks
    assert isinstance(batch, ToolBatchChunk)
    assert [(call.name, call.arguments) for call in batch.calls] == [
        ("ls", {"for": "ls"}),
        ("cat", {"for": "cat"}),
    ]


@given(
    st.sampled_from([(dialect, tag) for dialect, table in DIALECTS.items() for tag in table]),
    st.dictionaries(
        st.sampled_from(
            [
                *("text", "id", "name", "input", "content", "is_error", "message", "delta", "metadata"),
                *("toolCall", "toolResult", "stream", "data", "error", "statusCode", "modelId", "keyId"),
                *("toolName", "toolId", "elapsedSeconds", "response", "partial"),
            ]
        ),
        json_values,
    ),
)
def test_random_fields_give_valid_events_or_a_refusal(known: tuple[str, str], fields: dict[str, Any]) -> None:
    dialect, tag = known
    try:
        events = translate(dialect, {**fields, "type": tag})
    except ContractViolation:
        return
    for event in events:
        validate_event(event)
