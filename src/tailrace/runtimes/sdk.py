"""Imports the Python SDKs of agents when they are used, and converts their objects to JSON values.

The runtimes for Python SDKs share this module. No SDK object reaches a translator: it gets only the values of
`json_value`, and exceptions only as an `SdkFailure`. The translators own the meaning of these values.
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
    """An exception of an SDK: the name of its class, its text, and the HTTP status if it has one."""

    kind: str
    message: str
    status_code: int | None = None


def load_sdk(module: str, *, extra: str) -> Any:
    """Import a module of an SDK. Raises `UsageError` that names the extra to install."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise UsageError(f"this agent needs the package {error.name!r}. {install_hint('tailrace', extra)}") from error


def install_hint(package: str, extra: str) -> str:
    """A sentence that says how to install an extra. tailrace has no release yet, so it is installed from a checkout."""
    if package == "tailrace":
        return f"In a checkout of tailrace, install it with: .venv/bin/pip install -e '.[{extra}]'"
    return f"Install it with: pip install '{package}[{extra}]'"


def wrong_agent_type(
    agent: Any, *, runtime: str, wanted: str, method: str = "", kind: type = object
) -> TurnFailed | None:
    """The failure for a turn whose agent has a wrong type. None if the type may be right."""
    is_builtin = agent is None or isinstance(
        agent, type | str | bytes | int | float | list | tuple | dict | FunctionType
    )
    if not is_builtin and isinstance(agent, kind) and (not method or callable(getattr(agent, method, None))):
        return None
    found = f"the class {agent.__name__}" if isinstance(agent, type) else f"an object of type {type(agent).__name__}"
    return TurnFailed(message=f"{runtime} runs {wanted}, but it was given {found}.", code="wrong_type")


def failure_from(error: Exception) -> SdkFailure:
    """The class, text and HTTP status of an exception."""
    status_code = getattr(error, "status_code", None)
    kind = type(error).__name__
    return SdkFailure(
        kind=kind, message=str(error) or kind, status_code=status_code if isinstance(status_code, int) else None
    )


def json_value(value: Any) -> Any:
    """Convert a value to a JSON value. An object that JSON cannot represent becomes its `str`."""
    try:
        return msgspec.to_builtins(value, str_keys=True, enc_hook=_fields_or_text)
    except (TypeError, ValueError, RecursionError):
        return str(value)


def _fields_or_text(value: Any) -> Any:
    """Convert an object: a Pydantic model to a dictionary of its fields, any other object to text."""
    dump = getattr(value, "model_dump", None)
    return dump(warnings=False) if callable(dump) else str(value)


def json_or_text(text: Any) -> Any:
    """Decode the arguments of a tool call, which SDKs keep as JSON text. Text that is not JSON stays text."""
    if not isinstance(text, str):
        return text
    try:
        return msgspec.json.decode(text) if text else None
    except (msgspec.DecodeError, UnicodeError):
        return text


def as_text(value: Any) -> str:
    """A JSON value as text for people: a string as it is, everything else as JSON."""
    return value if isinstance(value, str) else _encoder.encode(value).decode()


def status_text(value: Any) -> str:
    """A custom event of an agent as text for people. An object with one field becomes the text of that field."""
    match value:
        case {**fields} if len(fields) == 1:
            return as_text(next(iter(fields.values())))
        case _:
            return as_text(value)
