"""The settings: the file `tailrace.toml`, the environment and `--set`, decoded strictly, each value with its origin.

A later source wins: defaults, the file, the environment, `--set KEY=VALUE`. The table of a channel has the keys that
all channels have (`ChannelSettings`), and the keys of its channel type. The keys of a type are the fields of a struct
that the caller looks up, because this module imports no plugin. The table of a channel is decoded when the channel is
used, because some types import a large SDK.

An error names the source and the key, and says what is expected. It never shows a value, which may be a secret.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias, get_args

import msgspec
from msgspec.structs import fields

from tailrace.errors import UsageError, did_you_mean
from tailrace.projector import Presentation
from tailrace.redaction import redact
from tailrace.secret import Secret, is_secret

FILE_NAME = "tailrace.toml"
ENVIRONMENT: dict[str, tuple[str, str]] = {
    "TELEGRAM_BOT_TOKEN": ("telegram", "token"),
    "TELEGRAM_API_BASE": ("telegram", "api_base"),
    "SLACK_BOT_TOKEN": ("slack", "bot_token"),
    "SLACK_APP_TOKEN": ("slack", "app_token"),
    "SLACK_API_BASE": ("slack", "api_base"),
    "DISCORD_TOKEN": ("discord", "token"),
    "DISCORD_API_BASE": ("discord", "api_base"),
    "MATRIX_HOMESERVER": ("matrix", "homeserver"),
    "MATRIX_ACCESS_TOKEN": ("matrix", "access_token"),
}
"""The environment variables that are settings: the channel's table and the key of each."""

Positive: TypeAlias = Annotated[int, msgspec.Meta(gt=0, lt=2**31)]


class GatewaySettings(msgspec.Struct, frozen=True, kw_only=True):
    """The table `[gateway]`. `data_dir` is the directory of the ledger; None means the user's data directory."""

    data_dir: Path | None = None


class ChannelSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The keys that every table `[channels.NAME]` has; docs/settings.md describes them."""

    agent: str | None = None
    presentation: Presentation | None = None
    allow: tuple[str, ...] = ()
    groups: Literal["addressed", "all", "none"] = "addressed"
    busy: Literal["queue", "interrupt", "merge"] = "queue"
    on_unknown: Literal["hold", "resend"] = "hold"
    max_age_s: Positive = 86_400
    streaming_enabled: bool = True
    stream_edit_interval_ms: Positive = 500
    stream_min_chunk_chars: Positive = 20


class ExplainedValue(NamedTuple):
    """A setting as people may see it, without secrets, and its origin: `default`, the file, `env` or `--set`."""

    key: str
    value: object
    origin: str


class ConfiguredChannel(NamedTuple):
    """The settings of one channel: `settings` are those that all channels have, `options` those of its type.

    `options` has only the values that were set. They are passed to the channel's constructor as keyword arguments. A
    secret in them is a `Secret`, which was not read yet. `explained` has all values, for people.
    """

    name: str
    type: str
    settings: ChannelSettings
    options: dict[str, object]
    explained: list[ExplainedValue]


class _Source(NamedTuple):
    """The source of a value, for errors. If the value is a relative path, it starts at `folder`."""

    origin: str
    folder: Path


class _Value(NamedTuple):
    value: Any
    source: _Source


_Table: TypeAlias = dict[str, _Value]


class Settings:
    """All settings of a process. Use `read_settings` to create them.

    `layers` are the tables from the file, from the environment and from `--set`; a later layer wins.
    """

    def __init__(self, layers: Sequence[Mapping[str, _Table]], *, has_file: bool) -> None:
        self.has_file = has_file
        self._layers = layers
        self._gateway = self._merged("gateway")
        _refuse_unknown("gateway", self._gateway, GatewaySettings)
        self._gateway_values = _decoded(GatewaySettings, "gateway", self._gateway)
        self.gateway = GatewaySettings(**self._gateway_values)

    def channels(self) -> list[str]:
        """The names of the configured channels, from the file and `--set`.

        If there is no file, channels that have an environment variable, such as `TELEGRAM_BOT_TOKEN`, are included.
        """
        file, environment, assigned = self._layers
        layers = [file, assigned] if self.has_file else [environment, assigned]
        keys = {key: None for layer in layers for key in layer if key != "gateway"}
        return [key.removeprefix("channels.") for key in keys]

    def channel(self, name: str, settings_of: Callable[[str], type[msgspec.Struct]]) -> ConfiguredChannel:
        """The settings of a channel. If the channel has no table, these are the defaults and the environment.

        `settings_of` takes the name of a channel type and returns the struct with the keys of that type.
        """
        prefix = f"channels.{name}"
        table = self._merged(prefix)
        kind = _converted(table["type"], str, f"{prefix}.type") if "type" in table else name
        own = settings_of(kind)
        _refuse_unknown(prefix, table, ChannelSettings, own, others=("type",))
        options, shared = _decoded(own, prefix, table), _decoded(ChannelSettings, prefix, table)
        explained = [ExplainedValue(f"{prefix}.type", kind, _origin("type", table))]
        explained += _explained(own, options, prefix, table)
        explained += _explained(ChannelSettings, shared, prefix, table)
        return ConfiguredChannel(name, kind, ChannelSettings(**shared), options, explained)

    def explained(self) -> list[ExplainedValue]:
        """The settings outside the tables of the channels, each with its origin."""
        return list(_explained(GatewaySettings, self._gateway_values, "gateway", self._gateway))

    def _merged(self, key: str) -> _Table:
        return {name: value for layer in self._layers for name, value in layer.get(key, {}).items()}


def read_settings(path: Path | None, assignments: Sequence[str], environment: Mapping[str, str]) -> Settings:
    """Read all settings from this file, these assignments `KEY=VALUE` and these environment variables.

    If `path` is None, the file is `tailrace.toml` in the working directory, if that exists. Raises `UsageError`.
    """
    has_file = path is not None or Path(FILE_NAME).exists()
    path = path or Path(FILE_NAME)
    file = _tables(_toml(path), _Source(str(path), path.absolute().parent)) if has_file else {}
    assigned: dict[str, _Table] = {}
    here = Path()  # the working directory, which may not exist any more
    for assignment in assignments:
        for key, table in _tables(_assigned(assignment), _Source("--set", here)).items():
            assigned.setdefault(key, {}).update(table)
    from_environment: dict[str, _Table] = {}
    for variable, (channel, key) in ENVIRONMENT.items():
        if text := environment.get(variable):
            from_environment.setdefault(f"channels.{channel}", {})[key] = _Value(text, _Source("env", here))
    return Settings((file, from_environment, assigned), has_file=has_file)


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UsageError(f"there is no settings file {path}") from error
    except OSError as error:
        raise UsageError(f"the settings file {path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not valid TOML: it is not text in UTF-8") from error
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(f"{path} is not valid TOML: {error}") from error


def _assigned(assignment: str) -> dict[str, Any]:
    """Parse `KEY=VALUE`: `gateway.data_dir=turns` gives `{"gateway": {"data_dir": "turns"}}`.

    A value that is not valid TOML is a text.
    """
    key, equals, text = assignment.partition("=")
    *tables, name = key.strip().split(".")
    if not equals or not tables or not all((*tables, name)):
        raise UsageError("--set needs KEY=VALUE, such as --set channels.telegram.polling_timeout=60")
    try:
        document = tomllib.loads(f"value = {text}")
    except (tomllib.TOMLDecodeError, RecursionError):
        document = {}
    document = {name: document["value"] if document.keys() == {"value"} else text}
    for table in reversed(tables):
        document = {table: document}
    return document


def _tables(document: Mapping[str, Any], source: _Source) -> dict[str, _Table]:
    """The tables of a document by their names, `gateway` or `channels.NAME`. Each value in them knows its source."""
    tables: dict[str, Any] = {}
    for section, content in document.items():
        if section not in ("gateway", "channels"):
            hint = did_you_mean(section, ("gateway", "channels")) or " Tables: gateway, channels."
            raise UsageError(f"{source.origin}: {section} is not a setting.{hint}")
        if section == "gateway":
            tables[section] = content
            continue
        for name, table in _checked_table(section, content, source).items():
            if not re.fullmatch(r"[\w-]+", name):
                raise UsageError(
                    f"{source.origin}: channels.{name!r}: use letters, digits, - and _ in a channel's name"
                )
            tables[f"channels.{name}"] = table
    return {
        key: {name: _Value(value, source) for name, value in _checked_table(key, table, source).items()}
        for key, table in tables.items()
    }


def _checked_table(key: str, content: object, source: _Source) -> dict[str, Any]:
    if not isinstance(content, dict):
        raise UsageError(f"{source.origin}: {key} must be a table, such as [{key}]")
    return content


def _refuse_unknown(prefix: str, table: _Table, *kinds: type[msgspec.Struct], others: Sequence[str] = ()) -> None:
    known = [*others, *(field.encode_name for kind in kinds for field in fields(kind))]
    for name, value in table.items():
        if name not in known:
            hint = did_you_mean(name, known) or f" Settings: {', '.join(known)}."
            raise UsageError(f"{value.source.origin}: {prefix}.{name} is not a setting.{hint}")


def _decoded(kind: type[msgspec.Struct], prefix: str, table: _Table) -> dict[str, Any]:
    """The values of the table as fields of the struct `kind`. Raises `UsageError` if a value is wrong or missing."""
    values = {}
    for field in fields(kind):
        key = f"{prefix}.{field.encode_name}"
        if field.encode_name in table:
            values[field.name] = _converted(table[field.encode_name], field.type, key)
        elif field.required:
            raise UsageError(f"{key} is missing: {_ways_to_set(key)}")
    return values


def _ways_to_set(key: str) -> str:
    variables = [name for name, (channel, of) in ENVIRONMENT.items() if key == f"channels.{channel}.{of}"]
    environment = "".join(f", in the environment variable {name}" for name in variables)
    return f"set it in {FILE_NAME}{environment}, or with --set {key}=VALUE"


def _converted(value: _Value, kind: Any, key: str) -> Any:
    """Convert a value to the type `kind`. Raises `UsageError`, which says what is expected and where."""

    def path(_: type[Path], text: Any) -> Path:
        return value.source.folder / Path(msgspec.convert(text, str)).expanduser()

    try:
        if is_secret(kind):
            return Secret(msgspec.convert(value.value, str), value.source.folder)
        return msgspec.convert(value.value, kind, dec_hook=path)
    except (ValueError, RuntimeError) as error:  # RuntimeError: there is no home directory for ~
        reason, _, position = str(error).replace(" | null", "").partition(" - at `$")
        if reason.startswith("Invalid enum value"):
            reason = f"choose one of {', '.join(_choices(kind))}"
        reason = f"{reason[0].lower()}{reason[1:]}"
        raise UsageError(f"{value.source.origin}: {key}{position.rstrip('`')}: {reason}") from error


def _choices(kind: Any) -> Iterator[str]:
    """The texts that a type such as `Literal["a", "b"] | None` allows."""
    for inner in get_args(kind):
        yield from [inner] if isinstance(inner, str) else _choices(inner)


def _explained(
    kind: type[msgspec.Struct], values: Mapping[str, Any], prefix: str, table: _Table
) -> Iterator[ExplainedValue]:
    for field in fields(kind):
        default = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
        shown = _shown(values.get(field.name, default))
        yield ExplainedValue(f"{prefix}.{field.encode_name}", shown, _origin(field.encode_name, table))


def _origin(name: str, table: _Table) -> str:
    return table[name].source.origin if name in table else "default"


def _shown(value: object) -> object:
    match value:
        case Secret() | Path():
            return str(value)
        case str():
            return redact(value)
        case _:
            return value
