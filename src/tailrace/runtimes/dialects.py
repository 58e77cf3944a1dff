"""Three JSON event formats that other programs use, each as a table that maps its events to the canonical events.

`translate` looks at one event and keeps no state. `tailrace.contract` checks whether the events make a turn.

A row names the canonical event and says where the foreign event has each of its fields. A foreign field is required if
the canonical field has no default. Fields that no row names are ignored, because these formats get new ones.

Where a format leaves something open, the tables decide:

- In all three, `error` means that something went wrong, not that the turn has ended. It becomes `error`. - `chat` does
not say how a turn ends: its `done` and `turn-sealed` have no content. The reader of such a stream adds the terminal
event. - `stream` may leave out the id of a tool. Such calls share the id `UNNAMED_TOOL`. An input belongs to the newest
call with its id, which is right as long as each input follows its own start. - `stream` ends a turn with `result`. A
partial result means that the run was cut short: the turn is completed with the stop reason `partial`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec

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
)

UNNAMED_TOOL = "tool"


class _Row(msgspec.Struct, frozen=True):
    """How one foreign event becomes the canonical `event`.

    `fields` maps each field of `event` to its path in the foreign event. `fallbacks` maps a field to its value if the
    foreign event does not have it. `words` maps a foreign boolean to a text.
    """

    event: type[Event]
    fields: dict[str, str] = {}
    fallbacks: dict[str, str] = {}
    words: dict[str, dict[bool, str]] = {}


_NO_CONTENT = None
_Table: TypeAlias = dict[str, _Row | None]

_BRIDGE: _Table = {
    "text": _Row(TextDelta, {"text": "text"}),
    "tool_use": _Row(ToolStarted, {"id": "id", "name": "name", "arguments": "input"}),
    "tool_result": _Row(ToolFinished, {"id": "id", "result": "content", "is_error": "is_error"}),
    "error": _Row(Error, {"message": "message"}),
    "done": _Row(TurnCompleted),
}

_CHAT: _Table = {
    "text-delta": _Row(TextDelta, {"text": "delta"}),
    "reasoning-delta": _Row(ReasoningDelta, {"text": "delta"}),
    "reasoning-end": _Row(ReasoningEnd, {"metadata": "metadata"}),
    "tool-call": _Row(ToolStarted, {"id": "toolCall.id", "name": "toolCall.name", "arguments": "toolCall.arguments"}),
    "tool-result": _Row(
        ToolFinished,
        {"id": "toolResult.toolCallId", "result": "toolResult.result", "is_error": "toolResult.isError"},
    ),
    "shell-output": _Row(ToolOutput, {"stream": "stream", "data": "data"}),
    "error": _Row(Error, {"message": "error", "status_code": "statusCode"}),
    "notice": _Row(Notice, {"text": "message"}),
    "model-changed": _Row(ModelChanged, {"model_id": "modelId", "key_id": "keyId"}),
    "config-reload": _Row(ConfigReloaded),
    "status": _NO_CONTENT,
    "turn-start": _NO_CONTENT,
    "turn-sealed": _NO_CONTENT,
    "done": _NO_CONTENT,
    "usage": _NO_CONTENT,
    "task-list-update": _NO_CONTENT,
    "tab-created": _NO_CONTENT,
    "message-queued": _NO_CONTENT,
    "message-consumed": _NO_CONTENT,
    "message-cancelled": _NO_CONTENT,
    "compaction-started": _NO_CONTENT,
    "compaction-complete": _NO_CONTENT,
    "compaction-error": _NO_CONTENT,
}

_STREAM: _Table = {
    "tool_start": _Row(ToolStarted, {"id": "toolId", "name": "toolName"}, {"id": UNNAMED_TOOL}),
    "tool_input": _Row(ToolInput, {"id": "toolId", "arguments": "input"}, {"id": UNNAMED_TOOL}),
    "text_delta": _Row(TextDelta, {"text": "text"}),
    "tool_progress": _Row(ToolProgress, {"elapsed_s": "elapsedSeconds"}),
    "result": _Row(
        TurnCompleted,
        {"text": "response", "stop_reason": "partial"},
        words={"stop_reason": {True: "partial", False: ""}},
    ),
    "error": _Row(Error, {"message": "error"}),
}

DIALECTS: dict[str, _Table] = {"bridge": _BRIDGE, "chat": _CHAT, "stream": _STREAM}


def translate(dialect: str, event: Mapping[str, Any]) -> list[Event]:
    """Translate one event. The list is empty if the event has no content.

    Raises `ContractViolation` for an unknown type and for a field that is missing or has the wrong type. Raises
    `ValueError` for an unknown dialect.
    """
    table = DIALECTS.get(dialect)
    if table is None:
        raise ValueError(f"there is no dialect {dialect!r}. Use one of: {', '.join(DIALECTS)}.")
    if not isinstance(event, Mapping):
        raise ContractViolation(
            Diagnostic(
                code="not_an_event",
                message=f"an event of `{dialect}` is a JSON object, and this is a {type(event).__name__}.",
            )
        )
    tag = event.get("type")
    if not isinstance(tag, str) or tag not in table:
        raise ContractViolation(
            Diagnostic(
                code="unknown_type",
                event_type=tag if isinstance(tag, str) else None,
                field="type",
                message=f"{tag!r} is no event type of `{dialect}`. It has: {', '.join(table)}.",
            )
        )
    row = table[tag]
    if row is None:
        return []
    return [_translated(row, event, f"`{tag}` of `{dialect}`")]


def _translated(row: _Row, event: Mapping[str, Any], where: str) -> Event:
    values: dict[str, Any] = dict(row.fallbacks)
    for field in msgspec.structs.fields(row.event):
        path = row.fields.get(field.name)
        if path is None:
            continue
        value = _value_at(event, path, where)
        if value is msgspec.UNSET or (value is None and field.type is not Any):
            if field.required and field.name not in row.fallbacks:
                raise _violation("missing_field", event, path, f"{where} lacks its field `{path}`. Add it.")
            continue
        expected = bool if field.name in row.words else field.type
        try:
            value = msgspec.convert(value, expected)
        except msgspec.ValidationError as error:
            raise _violation("wrong_type", event, path, f"{where}, field `{path}`: {error}.") from error
        values[field.name] = row.words[field.name][value] if field.name in row.words else value
    return row.event(**values)


def _value_at(event: Mapping[str, Any], path: str, where: str) -> Any:
    """The value at a dotted path, UNSET if there is none."""
    value: Any = event
    for step in path.split("."):
        if value is msgspec.UNSET:
            break
        if not isinstance(value, Mapping):
            holder = path.rpartition(".")[0]
            raise _violation("wrong_type", event, holder, f"{where}, field `{holder}`: Expected `object`.")
        value = value.get(step, msgspec.UNSET)
    return value


def _violation(code: str, event: Mapping[str, Any], field: str, message: str) -> ContractViolation:
    return ContractViolation(Diagnostic(code=code, event_type=str(event["type"]), field=field, message=message))
