"""Decodes the tables of the settings strictly, and shows each value with its origin.

An error names the source and the key, and says what is expected. It never shows a value, which may be a secret.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date, time
from pathlib import Path
from typing import Any, NamedTuple, get_args

import msgspec
from msgspec.structs import fields

from tailrace.config.sources import ENVIRONMENT, FILE_NAME, SourcedValue, Table
from tailrace.errors import UsageError, did_you_mean
from tailrace.redaction import redact
from tailrace.secret import Secret, is_secret

# The values that TOML has besides texts, lists and tables. A text of `--set` may look like one: the id 12345.
_SCALARS = (bool, int, float, date, time)


class ExplainedValue(NamedTuple):
    """A setting as people may see it, without secrets, and its origin: `default`, the file, `env` or `--set`."""

    key: str
    value: object
    origin: str


def refuse_unknown(prefix: str, table: Table, *kinds: type[msgspec.Struct], others: Sequence[str] = ()) -> None:
    """Raise `UsageError` if the table has a key that is neither a field of these structs nor in `others`."""
    known = [*others, *(field.encode_name for kind in kinds for field in fields(kind))]
    for name, value in table.items():
        if name not in known:
            hint = did_you_mean(name, known) or f" Settings: {', '.join(known)}."
            raise UsageError(f"{value.source.origin}: {prefix}.{name} is not a setting.{hint}")


def decoded(kind: type[msgspec.Struct], prefix: str, table: Table) -> dict[str, Any]:
    """The values of the table as fields of the struct `kind`. Raises `UsageError` if a value is wrong or missing."""
    values = {}
    for field in fields(kind):
        key = f"{prefix}.{field.encode_name}"
        if field.encode_name in table:
            values[field.name] = converted(table[field.encode_name], field.type, key)
        elif field.required:
            raise UsageError(f"{key} is missing: {_ways_to_set(key)}")
    return values


def converted(value: SourcedValue, kind: Any, key: str) -> Any:
    """Convert a value to the type `kind`. Raises `UsageError`, which says what is expected and where."""
    try:
        return _converted(value, kind)
    except (ValueError, RuntimeError) as error:  # RuntimeError: there is no home directory for ~
        if value.source.text is not None and isinstance(value.value, _SCALARS):
            with suppress(ValueError):
                return _converted(value._replace(value=value.source.text), kind)
        reason, _, position = str(error).replace(" | null", "").partition(" - at `$")
        if reason.startswith("Invalid enum value"):
            reason = f"choose one of {', '.join(_choices(kind))}"
        if reason == "Expected `str`, got `int`":
            reason += "; write it in quotes"
        reason = f"{reason[0].lower()}{reason[1:]}"
        raise UsageError(f"{value.source.origin}: {key}{position.rstrip('`')}: {reason}") from error


def explained(
    kind: type[msgspec.Struct], values: Mapping[str, Any], prefix: str, table: Table
) -> Iterator[ExplainedValue]:
    """Each key of the struct with its origin and its value, which is the default if no source has the key."""
    for field in fields(kind):
        default = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
        shown = _shown(values.get(field.name, default))
        yield ExplainedValue(f"{prefix}.{field.encode_name}", shown, origin_of(field.encode_name, table))


def origin_of(name: str, table: Table) -> str:
    """Where the value of this key comes from: `default`, the file, `env` or `--set`."""
    return table[name].source.origin if name in table else "default"


def _converted(value: SourcedValue, kind: Any) -> Any:
    if kind == Path | None and value.value == "":
        return None

    def path(_: type[Path], text: Any) -> Path:
        return value.source.folder / Path(msgspec.convert(text, str)).expanduser()

    if is_secret(kind):
        return Secret(msgspec.convert(value.value, str), value.source.folder)
    found = msgspec.convert(value.value, kind, dec_hook=path)
    for check in _checks(kind):
        check(found)
    return found


def _ways_to_set(key: str) -> str:
    variables = [name for name, (channel, of) in ENVIRONMENT.items() if key == f"channels.{channel}.{of}"]
    environment = "".join(f", in the environment variable {name}" for name in variables)
    return f"set it in {FILE_NAME}{environment}, or with --set {key}=VALUE"


def _checks(kind: Any) -> Iterator[Callable[[str], object]]:
    """The functions that a text of this type must pass; they are in its `extra` under "check"."""
    extra = getattr(kind, "extra", None)
    if isinstance(extra, dict) and "check" in extra:
        yield extra["check"]
    for part in get_args(kind):
        yield from _checks(part)


def _choices(kind: Any) -> Iterator[str]:
    """The texts that a type such as `Literal["a", "b"] | None` allows."""
    for inner in get_args(kind):
        yield from [inner] if isinstance(inner, str) else _choices(inner)


def _shown(value: object) -> object:
    match value:
        case Secret() | Path():
            return str(value)
        case str():
            return redact(value)
        case _:
            return value
