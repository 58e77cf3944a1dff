from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tailrace.assembler import apply_system_event
from tailrace.chunks import (
    Chunk,
    ErrorChunk,
    Message,
    SystemChunk,
    SystemEvent,
    TextChunk,
    ThinkingChunk,
    ToolBatchChunk,
)

VECTORS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "vectors" / "fold.json").read_text(encoding="utf-8")
)["system"]
CHUNK_CLASSES: dict[str, type[Chunk]] = {
    "text": TextChunk,
    "thinking": ThinkingChunk,
    "tool-batch": ToolBatchChunk,
    "error": ErrorChunk,
    "system": SystemChunk,
}


def message(wire: dict[str, Any]) -> Message:
    chunks = [msgspec.convert(chunk, CHUNK_CLASSES[chunk["type"]]) for chunk in wire["chunks"]]
    return Message(id=wire["id"], role=wire["role"], chunks=chunks)


@pytest.mark.parametrize("vector", VECTORS, ids=[vector["name"] for vector in VECTORS])
def test_vector(vector: dict[str, Any]) -> None:
    messages = [message(wire) for wire in vector["messages"]]
    event = msgspec.convert(vector["event"], SystemEvent)
    assert apply_system_event(messages, event, id_factory=lambda: vector["new_id"]) == vector["id"]
    assert msgspec.to_builtins(messages) == vector["after"]


def test_default_ids_are_random_uuids() -> None:
    """A conversation is stored with others: an id that is unique only in one list would collide."""
    first, second = ([Message(id="u", role="user", chunks=[])] for _ in range(2))
    ids = {apply_system_event(messages, SystemEvent("notice", "n")) for messages in (first, second)}
    assert len(ids) == 2
    assert all(uuid.UUID(new_id).version == 4 for new_id in ids)


def test_id_factory_is_called_only_for_a_new_message() -> None:
    asked: list[str] = []

    def new_id() -> str:
        asked.append("asked")
        return "new"

    messages = [Message(id="s", role="system", chunks=[])]
    assert apply_system_event(messages, SystemEvent("notice", "n"), new_id) == "s"
    assert asked == []
