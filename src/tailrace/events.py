"""What a runtime says: the canonical contract, one closed tagged union.

Every agent runtime is translated into these values and nothing else; every stage after that reads only these.
The classes own the fields and their types. Which event may follow which is `tailrace.contract`'s to say.

On the wire an event is one JSON object with the tag in `type`. Unknown fields are refused, because a misspelt
field that is silently dropped is an answer that is silently wrong.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, get_args

import msgspec

from tailrace.errors import ContractViolation, Diagnostic


class _Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", forbid_unknown_fields=True):
    """What all events share: frozen, made by keyword, tagged by `type`, strict about fields."""


class _Content(_Event, frozen=True, kw_only=True):
    """An event that a subagent may also send: `parent_tool_id` is the tool call under which it speaks."""

    parent_tool_id: str | None = None


class TurnStarted(_Event, frozen=True, kw_only=True, tag="turn_started"):
    """The first event of every turn; supplied by the contract where a runtime leaves it out."""

    turn_id: str = ""
    runtime: str = ""
    session_id: str | None = None
    parent_turn_id: str | None = None


class TextDelta(_Content, frozen=True, kw_only=True, tag="text_delta"):
    """A further piece of the answer, of any length."""

    text: str


class BlockFinal(_Content, frozen=True, kw_only=True, tag="block_final"):
    """Closes and seals the open text block; `text`, where given, is what the block says after all."""

    text: str | None = None


class TextRetracted(_Content, frozen=True, kw_only=True, tag="text_retracted"):
    """What was said must not stand: the text since the last other chunk, or all text of the turn."""

    reason: str = ""
    scope: Literal["block", "turn"] = "block"


class ReasoningDelta(_Content, frozen=True, kw_only=True, tag="reasoning_delta"):
    """A further piece of what the model thinks aloud."""

    text: str


class ReasoningEnd(_Content, frozen=True, kw_only=True, tag="reasoning_end"):
    """The reasoning is complete; `metadata` is the provider's own and is given back to it untouched."""

    metadata: Any = None


TELLING_ARGUMENTS = (
    *("command", "file_path", "path", "pattern", "query", "url"),
    *("description", "prompt", "title", "name"),
)
"""The arguments of a call that tell people most about it: of those there are, the first."""


class ToolStarted(_Content, frozen=True, kw_only=True, tag="tool_started"):
    """A tool is called; the arguments may follow in a `tool_input`."""

    id: str
    name: str
    arguments: Any = None


class ToolInput(_Content, frozen=True, kw_only=True, tag="tool_input"):
    """The complete arguments of a call, in place of any given before."""

    id: str
    arguments: Any


class ToolProgress(_Content, frozen=True, kw_only=True, tag="tool_progress"):
    """A tool is still at work."""

    id: str | None = None
    elapsed_s: float = 0.0
    text: str | None = None


class ToolOutput(_Content, frozen=True, kw_only=True, tag="tool_output"):
    """A piece of what a tool prints while it runs."""

    data: str
    stream: Literal["stdout", "stderr"] = "stdout"
    id: str | None = None


class ToolFinished(_Content, frozen=True, kw_only=True, tag="tool_finished"):
    """A tool has answered; `result` is any JSON value and is shown as text."""

    id: str
    result: Any = ""
    is_error: bool = False


class Status(_Content, frozen=True, kw_only=True, tag="status"):
    """What the agent is at, for a status line; no part of the answer."""

    text: str


class Notice(_Content, frozen=True, kw_only=True, tag="notice"):
    """A remark of the system that stays in the conversation."""

    text: str


class ModelChanged(_Event, frozen=True, kw_only=True, tag="model_changed"):
    """Another model, or another key to it, answers from here on."""

    model_id: str
    key_id: str = ""


class ConfigReloaded(_Event, frozen=True, kw_only=True, tag="config_reloaded"):
    """The settings were read anew."""


class PlanItem(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One step of a plan and how far it is."""

    title: str
    status: str


class PlanUpdated(_Content, frozen=True, kw_only=True, tag="plan_updated"):
    """The whole plan as it stands now."""

    items: tuple[PlanItem, ...]


class Usage(_Content, frozen=True, kw_only=True, tag="usage"):
    """Tokens spent, for one request, for the turn so far, or for the session so far."""

    input_tokens: int
    output_tokens: int
    scope: Literal["request", "turn", "session"]


class Media(_Content, frozen=True, kw_only=True, tag="media"):
    """A picture, a sound or a file, by address or by path."""

    url: str | None = None
    path: str | None = None
    mime: str = ""
    caption: str = ""


class Error(_Content, frozen=True, kw_only=True, tag="error"):
    """Something went wrong and the turn goes on."""

    message: str
    status_code: int | None = None
    code: str | None = None


class TurnCompleted(_Event, frozen=True, kw_only=True, tag="turn_completed"):
    """The turn is over; `text` is the answer, used only where no text came before it."""

    text: str | None = None
    stop_reason: str = ""


class TurnFailed(_Event, frozen=True, kw_only=True, tag="turn_failed"):
    """The turn is over because something failed; what was said before stands."""

    message: str
    code: str | None = None
    status_code: int | None = None
    retryable: bool = False


class TurnCancelled(_Event, frozen=True, kw_only=True, tag="turn_cancelled"):
    """The turn is over because somebody asked it to stop."""

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
    """One event as one line of JSON, without the line end."""
    try:
        return _encoder.encode(event)
    except (TypeError, RecursionError, UnicodeEncodeError, msgspec.ValidationError) as error:
        raise ContractViolation(_not_json(event, error)) from error


def decode_event(data: bytes | str | Mapping[str, Any]) -> Event:
    """One event from a line of JSON, or from the mapping such a line decodes to.

    Raises `ContractViolation` whose diagnostic names the event's type and the field that is wrong.
    """
    try:
        if isinstance(data, Mapping):
            tag = data.get("type")
            cls = _CLASS_OF_TAG.get(tag) if isinstance(tag, str) else None
            # The union only to be told what is wrong: msgspec works it out anew at every call, a class once.
            event: Event = msgspec.convert(data, Event if cls is None else cls)
            return event
        return _decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeError, RecursionError, TypeError) as error:
        raise ContractViolation(_diagnose(data, error)) from error


def validate_event(event: Event) -> None:
    """Hold an event that was made in Python to the types of its fields, which making it does not check.

    Raises `ContractViolation` as `decode_event` does, and with the code `not_json` where an event holds a
    value that cannot be written as JSON.
    """
    cls = type(event)
    fields = msgspec.structs.asdict(event)
    try:
        # Once as they are, since on its way to JSON a date would pass for a string; once as JSON has them, to
        # see inside what they hold.
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
        message=f"{type(event).__name__} holds a value that JSON cannot carry: {error}. "
        "Arguments, results and metadata must be plain JSON values, and text must be valid Unicode.",
    )


_MISSING = re.compile(r"Object missing required field `(\w+)`")
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_AT = re.compile(r"^(.*) - at `\$\.?(.*)`$", re.DOTALL)


def _diagnose(data: bytes | str | Mapping[str, Any], error: Exception) -> Diagnostic:
    """Turn a decoder's complaint into one that says which event and field to mend, and how."""
    event_type = _type_of(data)
    if event_type is _UNREADABLE:
        return Diagnostic(
            code="malformed_json",
            message=f"this is not one JSON object: {error}. Write each event as one object on one line of UTF-8.",
        )
    if not isinstance(event_type, str) or event_type not in TAGS:
        named = event_type if isinstance(event_type, str) else None
        said = f"{event_type!r} is no event type" if event_type is not None else "the event has no `type`"
        return Diagnostic(
            code="unknown_type",
            event_type=named,
            field="type",
            message=f"{said}. Use one of: {', '.join(TAGS)}.",
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
        code, field, advice = "unknown_field", within + unknown[1], "Leave it out." if within else known
    else:
        code, field, advice = "wrong_type", path or None, "Give it the type that the schema states."
    where = f"`{event_type}`" + (f", field `{field}`" if field else "")
    return Diagnostic(code=code, event_type=event_type, field=field, message=f"{where}: {reason}. {advice}")


_UNREADABLE = object()


def _type_of(data: bytes | str | Mapping[str, Any]) -> object:
    """The `type` the data gives itself; None without one, `_UNREADABLE` if it is no JSON object at all."""
    if isinstance(data, Mapping):
        return data.get("type")
    try:
        decoded = msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeError, RecursionError, TypeError):
        return _UNREADABLE
    return decoded.get("type") if isinstance(decoded, dict) else _UNREADABLE
