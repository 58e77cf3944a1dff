"""The three JSON vocabularies: what each of their events becomes, and which are refused."""

from __future__ import annotations

import types
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from event_strategies import json_values
from tailrace.assembler import append_event_to_chunks
from tailrace.chunks import Chunk, ToolBatchChunk
from tailrace.errors import ContractViolation, Diagnostic
from tailrace.events import (
    ConfigReloaded,
    Error,
    Event,
    ModelChanged,
    Notice,
    ReasoningDelta,
    ReasoningEnd,
    TextDelta,
    ToolFinished,
    ToolInput,
    ToolOutput,
    ToolProgress,
    ToolStarted,
    TurnCompleted,
    validate_event,
)
from tailrace.runtimes.dialects import DIALECTS, UNNAMED_TOOL, translate

CASES: dict[str, list[tuple[dict[str, Any], list[Event]]]] = {
    "bridge": [
        ({"type": "text", "text": "a"}, [TextDelta(text="a")]),
        (
            {"type": "tool_use", "id": "1", "name": "ls", "input": {"path": "."}},
            [ToolStarted(id="1", name="ls", arguments={"path": "."})],
        ),
        ({"type": "tool_result", "id": "1", "content": "ok"}, [ToolFinished(id="1", result="ok")]),
        (
            {"type": "tool_result", "id": "1", "content": [{"type": "text"}], "is_error": True},
            [ToolFinished(id="1", result=[{"type": "text"}], is_error=True)],
        ),
        ({"type": "error", "message": "m"}, [Error(message="m")]),
        ({"type": "done"}, [TurnCompleted()]),
    ],
    "chat": [
        ({"type": "text-delta", "delta": "a"}, [TextDelta(text="a")]),
        ({"type": "reasoning-delta", "delta": "a"}, [ReasoningDelta(text="a")]),
        ({"type": "reasoning-end", "metadata": {"s": 1}}, [ReasoningEnd(metadata={"s": 1})]),
        ({"type": "reasoning-end"}, [ReasoningEnd()]),
        (
            {"type": "tool-call", "toolCall": {"id": "1", "name": "ls", "arguments": {"a": 1}}},
            [ToolStarted(id="1", name="ls", arguments={"a": 1})],
        ),
        (
            {"type": "tool-result", "toolResult": {"toolCallId": "1", "result": None, "isError": True}},
            [ToolFinished(id="1", result=None, is_error=True)],
        ),
        (
            {"type": "tool-result", "toolResult": {"toolCallId": "1", "result": "r"}},
            [ToolFinished(id="1", result="r")],
        ),
        ({"type": "shell-output", "stream": "stderr", "data": "a"}, [ToolOutput(data="a", stream="stderr")]),
        ({"type": "error", "error": "m", "statusCode": 429}, [Error(message="m", status_code=429)]),
        ({"type": "error", "error": "m", "statusCode": None}, [Error(message="m")]),
        ({"type": "notice", "message": "n"}, [Notice(text="n")]),
        ({"type": "model-changed", "modelId": "m", "keyId": "k"}, [ModelChanged(model_id="m", key_id="k")]),
        ({"type": "config-reload"}, [ConfigReloaded()]),
        *[
            ({"type": tag, "anything": 1}, [])
            for tag in (
                *("status", "turn-start", "turn-sealed", "done", "usage", "task-list-update", "tab-created"),
                *("message-queued", "message-consumed", "message-cancelled"),
                *("compaction-started", "compaction-complete", "compaction-error"),
            )
        ],
    ],
    "stream": [
        ({"type": "tool_start", "toolName": "ls", "toolId": "1"}, [ToolStarted(id="1", name="ls")]),
        ({"type": "tool_start", "toolName": "ls"}, [ToolStarted(id=UNNAMED_TOOL, name="ls")]),
        ({"type": "tool_input", "input": {"a": 1}, "toolId": "1"}, [ToolInput(id="1", arguments={"a": 1})]),
        ({"type": "tool_input", "input": {"a": 1}}, [ToolInput(id=UNNAMED_TOOL, arguments={"a": 1})]),
        ({"type": "text_delta", "text": "a"}, [TextDelta(text="a")]),
        ({"type": "tool_progress", "elapsedSeconds": 3}, [ToolProgress(elapsed_s=3.0)]),
        ({"type": "tool_progress", "elapsedSeconds": 1.5}, [ToolProgress(elapsed_s=1.5)]),
        ({"type": "result", "response": "r"}, [TurnCompleted(text="r")]),
        ({"type": "result", "response": "r", "partial": False}, [TurnCompleted(text="r")]),
        (
            {"type": "result", "response": "r", "partial": True},
            [TurnCompleted(text="r", stop_reason="partial")],
        ),
        ({"type": "error", "error": "m"}, [Error(message="m")]),
    ],
}
ALL = [(dialect, event, canonical) for dialect, cases in CASES.items() for event, canonical in cases]


@pytest.mark.parametrize(("dialect", "event", "canonical"), ALL)
def test_each_event_of_each_dialect_is_translated(dialect: str, event: dict[str, Any], canonical: list[Event]) -> None:
    assert translate(dialect, event) == canonical
    assert translate(dialect, types.MappingProxyType(event)) == canonical
    assert translate(dialect, {**event, "unheard_of": 1}) == canonical


def test_every_type_of_the_tables_has_a_case() -> None:
    for dialect, table in DIALECTS.items():
        assert {event["type"] for event, _ in CASES[dialect]} == set(table)


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
