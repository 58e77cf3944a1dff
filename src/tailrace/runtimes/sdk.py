"""What the adapters of Python SDKs share: an SDK is imported when it is used, and what it hands over becomes plain.

SDK objects end here: translators see only what `json_value` makes of them, and how a run failed as an `SdkFailure`.
What those values mean is for each translator.
"""

from __future__ import annotations

import importlib
from types import FunctionType
from typing import Any

import msgspec

from tailrace.errors import UsageError
from tailrace.events import TurnFailed

_encoder = msgspec.json.Encoder()


class SdkFailure(msgspec.Struct, frozen=True, kw_only=True):
    """What an SDK raised: the name of the exception's class, what it says, and the HTTP status behind it."""

    kind: str
    message: str
    status_code: int | None = None


def load_sdk(module: str, *, extra: str) -> Any:
    """A module of an SDK; raises `UsageError` that names the extra to install."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise UsageError(
            f"this agent needs the package {error.name!r}. Install it with: pip install 'tailrace[{extra}]'"
        ) from error


def wrong_agent_type(
    agent: Any, *, runtime: str, wanted: str, method: str = "", kind: type = object
) -> TurnFailed | None:
    """The end of a turn of something that is not what the runtime runs; None where it may be."""
    is_plain = agent is None or isinstance(agent, type | str | bytes | int | float | list | tuple | dict | FunctionType)
    if not is_plain and isinstance(agent, kind) and (not method or callable(getattr(agent, method, None))):
        return None
    found = f"the class {agent.__name__}" if isinstance(agent, type) else f"an object of type {type(agent).__name__}"
    return TurnFailed(
        message=f"{runtime} runs {wanted}, and was given {found}. Give it one that is made.", code="wrong_type"
    )


def failure_from(error: Exception) -> SdkFailure:
    """What an exception says of a run, as far as people can use it."""
    status_code = getattr(error, "status_code", None)
    kind = type(error).__name__
    return SdkFailure(
        kind=kind, message=str(error) or kind, status_code=status_code if isinstance(status_code, int) else None
    )


def json_value(value: Any) -> Any:
    """The value as JSON has it; whatever JSON cannot carry is what it says of itself."""
    try:
        return msgspec.to_builtins(value, str_keys=True, enc_hook=_foreign)
    except (TypeError, ValueError, RecursionError):
        return str(value)


def _foreign(value: Any) -> Any:
    """One object that is no JSON: a model as its fields, anything else as text."""
    dump = getattr(value, "model_dump", None)
    return dump(warnings=False) if callable(dump) else str(value)


def json_or_text(arguments: Any) -> Any:
    """The arguments of a call, which SDKs keep as the JSON that the model wrote; what is no JSON stays text."""
    if not isinstance(arguments, str):
        return arguments
    try:
        return msgspec.json.decode(arguments) if arguments else None
    except (msgspec.DecodeError, UnicodeError):
        return arguments


def as_text(value: Any) -> str:
    """A plain value as people read it: text as it is, anything else as JSON."""
    return value if isinstance(value, str) else _encoder.encode(value).decode()


def status_text(value: Any) -> str:
    """A value that an agent's author sent along, as a line: the one text in it where there is no more than that."""
    match value:
        case {**fields} if len(fields) == 1:
            return as_text(next(iter(fields.values())))
        case _:
            return as_text(value)
