"""`tailrace schema`: the vocabularies of tailrace as JSON Schema, for programs in other languages."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated, Any

import msgspec
import typer

from tailrace.chunks import Chunk
from tailrace.events import Event

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


class Vocabulary(StrEnum):
    """What there is a schema of."""

    EVENTS = "events"
    CHUNKS = "chunks"


_TYPES: dict[Vocabulary, tuple[str, Any]] = {
    Vocabulary.EVENTS: ("One event of a tailrace turn", Event),
    Vocabulary.CHUNKS: ("One chunk of a tailrace message", Chunk),
}


def schema(
    vocabulary: Annotated[
        Vocabulary, typer.Argument(help="What to print the schema of.", show_default=False)
    ],
) -> None:
    """Print the JSON Schema (2020-12) of what goes over the wire."""
    title, type_ = _TYPES[vocabulary]
    document = {"$schema": _DIALECT, "title": title, **msgspec.json.schema(type_)}
    typer.echo(json.dumps(document, indent=2, ensure_ascii=False))
