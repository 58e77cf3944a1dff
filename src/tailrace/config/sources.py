"""The sources of the settings: the file, the environment and `--set`, each as tables of values with their origin.

Nothing is decoded here, except that a document consists of known tables.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from tailrace.errors import UsageError, did_you_mean

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

_TABLES = {"gateway": False, "agents": True, "channels": True, "shadow": False, "schedule": True}
"""The tables of the file, and whether each holds tables with names of their own."""


class Source(NamedTuple):
    """The source of a value, for errors. If the value is a relative path, it starts at `folder`.

    `text` is the value of `--set` as it was typed, for keys that are texts.
    """

    origin: str
    folder: Path
    text: str | None = None


class SourcedValue(NamedTuple):
    """A value as it was written in a source, and the source."""

    value: Any
    source: Source


Table: TypeAlias = dict[str, SourcedValue]
Layer: TypeAlias = dict[str, Table]
"""The tables of one source, by keys such as `gateway` and `channels.telegram`."""


class Layers(NamedTuple):
    """What each source of the settings sets. A later layer wins: the file, the environment, `--set`.

    `folder` is the folder of the file, or the working directory if there is no file.
    """

    file: Layer
    environment: Layer
    assigned: Layer
    has_file: bool
    folder: Path

    def table_keys(self) -> list[str]:
        """The names of the tables in the file and in `--set`.

        If there is no file, those of the environment are included.
        """
        layers = [self.file, self.assigned] if self.has_file else [self.environment, self.assigned]
        return list({key: None for layer in layers for key in layer})

    def table(self, key: str) -> Table:
        """The table of this name with the values of all sources; a value of a later source wins."""
        layers = (self.file, self.environment, self.assigned)
        return {name: value for layer in layers for name, value in layer.get(key, {}).items()}


def read_layers(path: Path | None, assignments: Sequence[str], environment: Mapping[str, str]) -> Layers:
    """Read the settings of each source; `assignments` are the texts `KEY=VALUE` of `--set`. Raises `UsageError`."""
    has_file = path is not None or Path(FILE_NAME).exists()
    path = path or Path(FILE_NAME)
    here = Path()  # the working directory, which may not exist any more
    folder = path.absolute().parent if has_file else here
    file = _tables(_toml(path), Source(str(path), folder)) if has_file else {}
    assigned: Layer = {}
    for assignment in assignments:
        typed = assignment.partition("=")[2]
        source = Source("--set", here, None if typed.lstrip().startswith("{") else typed)  # { begins a whole table
        for key, table in _tables(_assigned(assignment), source).items():
            assigned.setdefault(key, {}).update(table)
    from_environment: Layer = {}
    for variable, (channel, key) in ENVIRONMENT.items():
        if text := environment.get(variable):
            from_environment.setdefault(f"channels.{channel}", {})[key] = SourcedValue(text, Source("env", here))
    return Layers(file, from_environment, assigned, has_file, folder)


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


def _tables(document: Mapping[str, Any], source: Source) -> Layer:
    """The tables of a document by their names, `gateway` or `channels.NAME`. Each value in them knows its source."""
    tables: dict[str, Any] = {}
    for section, content in document.items():
        if section not in _TABLES:
            hint = did_you_mean(section, tuple(_TABLES)) or f" Tables: {', '.join(_TABLES)}."
            raise UsageError(f"{source.origin}: {section} is not a setting.{hint}")
        if not _TABLES[section]:
            tables[section] = content
            continue
        for name, table in _checked_table(section, content, source).items():
            if not re.fullmatch(r"[\w-]+", name):
                raise UsageError(f"{source.origin}: {section}.{name!r}: use letters, digits, - and _ in a name")
            tables[f"{section}.{name}"] = table
    return {
        key: {name: SourcedValue(value, source) for name, value in _checked_table(key, table, source).items()}
        for key, table in tables.items()
    }


def _checked_table(key: str, content: object, source: Source) -> dict[str, Any]:
    if not isinstance(content, dict):
        raise UsageError(f"{source.origin}: {key} must be a table, such as [{key}]")
    return content
