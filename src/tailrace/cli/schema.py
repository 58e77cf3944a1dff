"""`tailrace schema`: the events and chunks of tailrace as JSON Schema, for programs in other languages."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated, Any, get_args

import msgspec
import typer

from tailrace.chunks import Chunk
from tailrace.cli.failures import errors_in_one_line
from tailrace.events import Event

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


class _SchemaName(StrEnum):
    """The available schemas."""

    EVENTS = "events"
    CHUNKS = "chunks"


_UNIONS: dict[_SchemaName, tuple[str, Any]] = {
    _SchemaName.EVENTS: ("One event of a tailrace turn", Event),
    _SchemaName.CHUNKS: ("One chunk of a tailrace message", Chunk),
}


def schema(
    name: Annotated[
        _SchemaName,
        typer.Argument(metavar="NAME", help="events: what an agent sends; chunks: what a message contains."),
    ],
) -> None:
    """Print the JSON Schema (2020-12) of events or chunks."""
    with errors_in_one_line():
        typer.echo(json.dumps(_schema(*_UNIONS[name]), indent=2, ensure_ascii=False))


def _schema(title: str, union: Any) -> dict[str, Any]:
    """The schema of a tagged union: the field `type` names the member."""
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
