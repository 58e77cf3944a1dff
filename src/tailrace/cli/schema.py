"""`tailrace schema`: JSON Schemas of events, chunks and settings, for programs in other languages and for editors."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated, Any, get_args

import msgspec
import typer

from tailrace.chunks import Chunk
from tailrace.cli.failures import errors_in_one_line
from tailrace.config import (
    DESCRIPTIONS,
    AgentSettings,
    ChannelSettings,
    GatewaySettings,
    LiveShadowSettings,
    ScheduleSettings,
)
from tailrace.errors import UsageError
from tailrace.events import Event
from tailrace.plugins import channel_settings, known

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


class _SchemaName(StrEnum):
    """The names of the schemas that the command can print."""

    EVENTS = "events"
    CHUNKS = "chunks"
    CONFIG = "config"


_UNIONS: dict[_SchemaName, tuple[str, Any]] = {
    _SchemaName.EVENTS: ("One event of a tailrace turn", Event),
    _SchemaName.CHUNKS: ("One chunk of a tailrace message", Chunk),
}
_TABLES: dict[str, type[msgspec.Struct]] = {
    "gateway": GatewaySettings,
    "agents": AgentSettings,
    "shadow": LiveShadowSettings,
    "schedule": ScheduleSettings,
}


def schema(
    name: Annotated[
        _SchemaName,
        typer.Argument(
            metavar="NAME", help="events: what an agent sends; chunks: what a message contains; config: the settings."
        ),
    ],
) -> None:
    """Print the JSON Schema (2020-12) of events, chunks or the settings."""
    with errors_in_one_line():
        found = _settings_schema() if name is _SchemaName.CONFIG else _schema(*_UNIONS[name])
        typer.echo(json.dumps(found, indent=2, ensure_ascii=False))


def _schema(title: str, union: Any) -> dict[str, Any]:
    """The schema of a union of structs. The field `type` says which member of the union a value is."""
    members, definitions = msgspec.json.schema_components(get_args(union), ref_template="#/$defs/{name}")
    for definition in definitions.values():
        definition["description"] = _first_paragraph(definition["description"])
    mapping = {}
    for member in members:
        definition = definitions[member["$ref"].rpartition("/")[2]]
        (tag,) = definition["properties"]["type"]["enum"]
        mapping[tag] = member["$ref"]
        # msgspec counts the tag as optional, like any field with a default.
        definition["required"] = [
            "type",
            *(name for name in definition.get("required", ()) if name != "type"),
        ]
    return {
        "$schema": _DIALECT,
        "title": title,
        "oneOf": list(members),
        "discriminator": {"propertyName": "type", "mapping": mapping},
        "$defs": definitions,
    }


def _first_paragraph(docstring: str) -> str:
    """The later paragraphs are for readers of the Python code."""
    return " ".join(docstring.split("\n\n", maxsplit=1)[0].split())


def _settings_schema() -> dict[str, Any]:
    """The schema of `tailrace.toml`, with the channel types that can be imported here.

    No key of a channel is required: the environment may have it.
    """
    types = {kind: found for kind in known("channel") if (found := _settings_of(kind)) is not None}
    structs = (*_TABLES.values(), ChannelSettings, *types.values())
    members, definitions = msgspec.json.schema_components(
        structs, schema_hook=lambda _: {"type": "string"}, ref_template="#/$defs/{name}"
    )
    names = [member["$ref"].rpartition("/")[2] for member in members]
    parts = [definitions[name] for name in names]
    gateway, agent, shadow, schedule = map(_table, _TABLES, parts)
    schedule["oneOf"] = [{"required": ["every"]}, {"required": ["cron"]}]
    shared, *own = parts[len(_TABLES) :]
    channels = {kind: _channel(kind, shared, part) for kind, part in zip(types, own, strict=True)}
    with_type = [{**table, "required": ["type"]} for table in channels.values()]
    return {
        "$schema": _DIALECT,
        "title": "The settings of tailrace",
        "type": "object",
        "properties": {
            "gateway": gateway,
            "agents": {"type": "object", "additionalProperties": agent},
            "channels": {"type": "object", "properties": channels, "additionalProperties": {"anyOf": with_type}},
            "shadow": shadow,
            "schedule": {"type": "object", "additionalProperties": schedule},
        },
        "additionalProperties": False,
        "$defs": {name: definition for name, definition in definitions.items() if name not in names},
    }


def _settings_of(kind: str) -> type[msgspec.Struct] | None:
    try:
        return channel_settings(kind)
    except UsageError:
        return None  # its SDK is not installed


def _channel(kind: str, shared: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    of_type = {"type": {"const": kind, "description": DESCRIPTIONS["channels"]["type"]}}
    properties = of_type | own["properties"] | shared["properties"]
    return _table("channels", {"properties": properties, "description": own.get("description", "")})


def _table(name: str, struct: dict[str, Any]) -> dict[str, Any]:
    """The schema of a table: that of its struct, with descriptions, and without other keys."""
    described = {
        key: _without_null(part) | ({"description": text} if (text := DESCRIPTIONS[name].get(key)) else {})
        for key, part in struct["properties"].items()
    }
    required = {"required": struct["required"]} if struct.get("required") else {}
    return {
        "type": "object",
        "description": _first_paragraph(struct.get("description", "")),
        "properties": described,
        **required,
        "additionalProperties": False,
    }


def _without_null(part: dict[str, Any]) -> dict[str, Any]:
    """A key that may be missing: its type without null, which TOML does not have."""
    if part.get("default", part) is None:
        part = {key: value for key, value in part.items() if key != "default"}
    if {"type": "null"} in part.get("anyOf", ()):
        [only] = [option for option in part["anyOf"] if option != {"type": "null"}]
        return {**{key: value for key, value in part.items() if key != "anyOf"}, **only}
    if None in part.get("enum", ()):
        return {**part, "enum": [value for value in part["enum"] if value is not None]}
    return part
