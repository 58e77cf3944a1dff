"""The canonical events, which every runtime emits: one closed tagged union.

Every runtime adapter translates its agent into these values. Every later stage reads only these. This module owns the
fields and their types; `tailrace.contract` owns which event may follow which.

On the wire an event is one JSON object with its tag in `type`. Unknown fields are refused: if a misspelt field were
ignored, the answer would be wrong without an error.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, get_args

import msgspec

from tailrace.errors import ContractViolation, Diagnostic
from tailrace.surrogates import loads_surrogates, replace_surrogates


class _Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", forbid_unknown_fields=True):
    """Base of all events: frozen, keyword-only, tagged by `type`, no unknown fields."""


class _Content(_Event, frozen=True, kw_only=True):
    """An event of the agent or a subagent. `parent_tool_id` is the call that runs the subagent; None: the agent."""

    parent_tool_id: str | None = None


class TurnStarted(_Event, frozen=True, kw_only=True, tag="turn_started"):
    """The first event of every turn. `tailrace.contract` adds it if the runtime leaves it out."""

    turn_id: str = ""
    runtime: str = ""
    session_id: str | None = None
    parent_turn_id: str | None = None


class TextDelta(_Content, frozen=True, kw_only=True, tag="text_delta"):
    """The next piece of the answer, of any length."""

    text: str


class BlockFinal(_Content, frozen=True, kw_only=True, tag="block_final"):
    """Completes and seals the open text block: later text begins another block.

    If `text` is given, it is the whole text of the block and replaces what came before.
    """

    text: str | None = None


class TextRetracted(_Content, frozen=True, kw_only=True, tag="text_retracted"):
    """Removes text from the answer, for example because the model starts its answer again.

    With `scope="turn"`, all text of the turn is removed; with `"block"`, the text since the last event that made a
    chunk of another kind, such as a tool call.
    """

    reason: str = ""
    scope: Literal["block", "turn"] = "block"


class ReasoningDelta(_Content, frozen=True, kw_only=True, tag="reasoning_delta"):
    """The next piece of the model's reasoning."""

    text: str


class ReasoningEnd(_Content, frozen=True, kw_only=True, tag="reasoning_end"):
    """The reasoning is complete. `metadata` belongs to the provider and is returned to it unchanged."""

    metadata: Any = None


MAIN_ARGUMENTS = (
    *("command", "file_path", "path", "pattern", "query", "url"),
    *("description", "prompt", "title", "name"),
)
"""The arguments that describe a call best. The first one that a call has is shown beside its name."""


class ToolStarted(_Content, frozen=True, kw_only=True, tag="tool_started"):
    """A tool call begins. Its arguments may follow in a `tool_input`."""

    id: str
    name: str
    arguments: Any = None


class ToolInput(_Content, frozen=True, kw_only=True, tag="tool_input"):
    """The complete arguments of a tool call. They replace the arguments of its `tool_started`."""

    id: str
    arguments: Any


class ToolProgress(_Content, frozen=True, kw_only=True, tag="tool_progress"):
    """A tool is still running, for `elapsed_s` seconds so far. `id` None: the newest call."""

    id: str | None = None
    elapsed_s: float = 0.0
    text: str | None = None


class ToolOutput(_Content, frozen=True, kw_only=True, tag="tool_output"):
    """The next piece of output of a running tool."""

    data: str
    stream: Literal["stdout", "stderr"] = "stdout"
    id: str | None = None


class ToolFinished(_Content, frozen=True, kw_only=True, tag="tool_finished"):
    """A tool call ends. `result` is any JSON value and is shown as text."""

    id: str
    result: Any = ""
    is_error: bool = False


class Status(_Content, frozen=True, kw_only=True, tag="status"):
    """The agent's current activity, for a status line. It is not part of the answer."""

    text: str


class Notice(_Content, frozen=True, kw_only=True, tag="notice"):
    """A system message that stays in the conversation."""

    text: str


class ModelChanged(_Event, frozen=True, kw_only=True, tag="model_changed"):
    """From now on another model answers, or the same model with another API key."""

    model_id: str
    key_id: str = ""


class ConfigReloaded(_Event, frozen=True, kw_only=True, tag="config_reloaded"):
    """The agent's settings were loaded again."""


class PlanItem(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One step of a plan and its state."""

    title: str
    status: str


class PlanUpdated(_Content, frozen=True, kw_only=True, tag="plan_updated"):
    """The whole plan in its current state."""

    items: tuple[PlanItem, ...]


class Usage(_Content, frozen=True, kw_only=True, tag="usage"):
    """Tokens used by one request, by the turn so far, or by the session so far."""

    input_tokens: int
    output_tokens: int
    scope: Literal["request", "turn", "session"]


class Media(_Content, frozen=True, kw_only=True, tag="media"):
    """A picture, a sound or a file, given by URL or by path."""

    url: str | None = None
    path: str | None = None
    mime: str = ""
    caption: str = ""


class Error(_Content, frozen=True, kw_only=True, tag="error"):
    """An error that does not end the turn."""

    message: str
    status_code: int | None = None
    code: str | None = None


class TurnCompleted(_Event, frozen=True, kw_only=True, tag="turn_completed"):
    """The turn succeeded. `text` is the whole answer; it is used only if no text came before."""

    text: str | None = None
    stop_reason: str = ""


class TurnFailed(_Event, frozen=True, kw_only=True, tag="turn_failed"):
    """The turn failed. The text that came before stays in the answer."""

    message: str
    code: str | None = None
    status_code: int | None = None
    retryable: bool = False


class TurnCancelled(_Event, frozen=True, kw_only=True, tag="turn_cancelled"):
    """The turn ended because a person or a program stopped it."""

    reason: str = ""


Event: TypeAlias = (
    TurnStarted
    | TextDelta
    | BlockFinal
    | TextRetracted
    | ReasoningDelta
    | ReasoningEnd
    | ToolStarted
    | ToolInput
    | ToolProgress
    | ToolOutput
    | ToolFinished
    | Status
    | Notice
    | ModelChanged
    | ConfigReloaded
    | PlanUpdated
    | Usage
    | Media
    | Error
    | TurnCompleted
    | TurnFailed
    | TurnCancelled
)

EVENT_CLASSES: tuple[type[Event], ...] = get_args(Event)
TAGS: tuple[str, ...] = tuple(str(cls.__struct_config__.tag) for cls in EVENT_CLASSES)

_CLASS_OF_TAG: dict[str, type[Event]] = dict(zip(TAGS, EVENT_CLASSES, strict=True))

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)


def encode_event(event: Event) -> bytes:
    """Encode an event as one line of JSON, without the newline."""
    try:
        return _encoder.encode(event)
    except (TypeError, RecursionError, UnicodeEncodeError, msgspec.ValidationError) as error:
        raise ContractViolation(_not_json(event, error)) from error


def decode_event(data: bytes | str | Mapping[str, Any]) -> Event:
    """Decode an event from one line of JSON, or from a mapping with the same content.

    Raises `ContractViolation`. Its diagnostic names the event type and the wrong field.
    """
    try:
        if isinstance(data, Mapping):
            tag = data.get("type")
            cls = _CLASS_OF_TAG.get(tag) if isinstance(tag, str) else None
            # Use the class if it is known: msgspec analyses a union in every call, but a class only once.
            event: Event = msgspec.convert(data, Event if cls is None else cls)
            return event
        return _decode_line(data)
    except (msgspec.MsgspecError, UnicodeError, RecursionError, TypeError) as error:
        raise ContractViolation(_diagnose(data, error)) from error


def _decode_line(line: bytes | str) -> Event:
    try:
        return _decoder.decode(line)
    except msgspec.DecodeError:
        try:
            value = loads_surrogates(line)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict):
            raise
        # A JavaScript agent may write half a character as an escape. `tailrace.contract` joins the two halves.
        return decode_event(value)


def without_surrogates(event: Event) -> Event:
    """The event with each lone surrogate in it replaced by U+FFFD."""
    try:
        _encoder.encode(event)
    except UnicodeEncodeError:
        repaired: Event = msgspec.convert(replace_surrogates(msgspec.to_builtins(event)), type(event))
        return repaired
    except (TypeError, RecursionError):
        pass  # not JSON, such as a mapping with the key None: `encode_event` reports it
    return event


def validate_event(event: Event) -> None:
    """Check the field types of an event that was made in Python, because the constructor does not check them.

    Raises `ContractViolation` like `decode_event`. The code is `not_json` if a value cannot be written as JSON.
    """
    cls = type(event)
    fields = msgspec.structs.asdict(event)
    try:
        # Check twice. The first check takes the values, because in JSON a date becomes a string. The second
        # check takes the JSON form, because it also checks the content of lists and mappings.
        msgspec.convert(fields, cls)
        msgspec.convert(msgspec.to_builtins(event), cls)
    except (TypeError, RecursionError) as error:
        raise ContractViolation(_not_json(event, error)) from error
    except msgspec.ValidationError as error:
        raise ContractViolation(_diagnose({"type": cls.__struct_config__.tag, **fields}, error)) from error


def _not_json(event: Event, error: Exception) -> Diagnostic:
    return Diagnostic(
        code="not_json",
        event_type=str(type(event).__struct_config__.tag),
        message=f"{type(event).__name__} holds a value that JSON cannot represent: {error}. "
        "Arguments, results and metadata must be plain JSON values, and text must be valid Unicode.",
    )


_MISSING = re.compile(r"Object missing required field `(\w+)`")
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_AT = re.compile(r"^(.*) - at `\$\.?(.*)`$", re.DOTALL)


def _diagnose(data: bytes | str | Mapping[str, Any], error: Exception) -> Diagnostic:
    """Turn a decoder's error into a diagnostic that names the event and the field, and says what to change."""
    event_type = _type_of(data)
    if event_type is _UNREADABLE:
        return Diagnostic(
            code="malformed_json",
            message=f"this is not one JSON object: {error}. Write each event as one object on one line of UTF-8.",
        )
    if not isinstance(event_type, str) or event_type not in TAGS:
        named = event_type if isinstance(event_type, str) else None
        problem = f"{event_type!r} is no event type" if event_type is not None else "the event has no `type`"
        return Diagnostic(
            code="unknown_type",
            event_type=named,
            field="type",
            message=f"{problem}. Use one of: {', '.join(TAGS)}.",
        )
    at = _AT.match(str(error))
    reason, path = (at[1], at[2]) if at else (str(error), "")
    within = f"{path}." if path else ""
    field: str | None
    if missing := _MISSING.fullmatch(reason):
        code, field, advice = "missing_field", within + missing[1], "Add it."
    elif unknown := _UNKNOWN.fullmatch(reason):
        fields = EVENT_CLASSES[TAGS.index(event_type)].__struct_fields__
        known = f"Its fields are: {', '.join(fields) or 'none'}."
        code, field, advice = "unknown_field", within + unknown[1], "Remove it." if within else known
    else:
        code, field, advice = "wrong_type", path or None, "Give it the type that the schema names."
    where = f"`{event_type}`" + (f", field `{field}`" if field else "")
    return Diagnostic(code=code, event_type=event_type, field=field, message=f"{where}: {reason}. {advice}")


_UNREADABLE = object()


def _type_of(data: bytes | str | Mapping[str, Any]) -> object:
    """The value of `type` in the data: None if it is missing, `_UNREADABLE` if the data is not a JSON object."""
    if isinstance(data, Mapping):
        return data.get("type")
    try:
        decoded = msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeError, RecursionError, TypeError):
        return _UNREADABLE
    return decoded.get("type") if isinstance(decoded, dict) else _UNREADABLE
