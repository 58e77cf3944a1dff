from __future__ import annotations

import json
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


def test_without_a_factory_the_id_is_new_among_the_messages() -> None:
    messages = [Message(id=f"system-{number}", role="user", chunks=[]) for number in (2, 4)]
    first = apply_system_event(messages, SystemEvent("notice", "n"))
    messages.append(Message(id="u", role="user", chunks=[]))
    second = apply_system_event(messages, SystemEvent("notice", "n"))
    assert [entry.id for entry in messages] == ["system-2", "system-4", first, "u", second]
    assert len({entry.id for entry in messages}) == 5


def test_the_factory_is_asked_only_for_a_new_message() -> None:
    asked: list[str] = []

    def new_id() -> str:
        asked.append("asked")
        return "new"

    messages = [Message(id="s", role="system", chunks=[])]
    assert apply_system_event(messages, SystemEvent("notice", "n"), new_id) == "s"
    assert asked == []
