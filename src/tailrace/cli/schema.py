"""`tailrace schema`: JSON Schemas of events, chunks and settings, for programs in other languages and for editors."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated, Any, get_args

import msgspec
import typer

from tailrace.chunks import Chunk
from tailrace.cli.failures import errors_in_one_line
from tailrace.config import ChannelSettings, GatewaySettings
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
        # The later paragraphs of a docstring are for readers of the Python code.
        definition["description"] = " ".join(definition["description"].split("\n\n")[0].split())
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


def _settings_schema() -> dict[str, Any]:
    """The schema of `tailrace.toml`, with the keys of all channel types that can be imported on this machine.

    No key is required, because its value may come from the environment.
    """
    types = {kind: found for kind in known("channel") if (found := _settings_of(kind)) is not None}
    members, definitions = msgspec.json.schema_components(
        (GatewaySettings, ChannelSettings, *types.values()),
        schema_hook=lambda _: {"type": "string"},
        ref_template="#/$defs/{name}",
    )
    names = [member["$ref"].rpartition("/")[2] for member in members]
    gateway, shared, *own = (definitions[name]["properties"] for name in names)
    tables = {
        kind: _closed(shared | properties | {"type": {"const": kind}})
        for kind, properties in zip(types, own, strict=True)
    }
    with_type = [{**table, "required": ["type"]} for table in tables.values()]
    channels = {"type": "object", "properties": tables, "additionalProperties": {"anyOf": with_type}}
    return {
        "$schema": _DIALECT,
        "title": "The settings of tailrace",
        **_closed({"gateway": _closed(gateway), "channels": channels}),
        "$defs": {name: found for name, found in definitions.items() if name not in names},
    }


def _settings_of(kind: str) -> type[msgspec.Struct] | None:
    try:
        return channel_settings(kind)
    except UsageError:
        return None  # its SDK is not installed


def _closed(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False}
