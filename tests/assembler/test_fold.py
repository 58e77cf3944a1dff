from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from event_strategies import any_event, texts
from tailrace.assembler import append_event_to_chunks
from tailrace.chunks import Chunk, TextChunk, ThinkingChunk, ToolBatchChunk
from tailrace.events import (
    EVENT_CLASSES,
    BlockFinal,
    Event,
    ReasoningDelta,
    TextDelta,
    TextRetracted,
    ToolOutput,
    ToolStarted,
    decode_event,
)

VECTORS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "vectors" / "fold.json").read_text(encoding="utf-8")
)["fold"]


def folded(events: list[Event]) -> list[Chunk]:
    chunks: list[Chunk] = []
    for event in events:
        append_event_to_chunks(chunks, event)
    return chunks


@pytest.mark.parametrize("vector", VECTORS, ids=[vector["name"] for vector in VECTORS])
def test_vector(vector: dict[str, Any]) -> None:
    chunks = folded([decode_event(event) for event in vector["events"]])
    assert msgspec.to_builtins(chunks) == vector["chunks"]
    assert json.loads(msgspec.json.encode(chunks)) == vector["chunks"]


def test_the_vectors_cover_every_event_and_every_chunk() -> None:
    events = {event["type"] for vector in VECTORS for event in vector["events"]}
    chunks = {chunk["type"] for vector in VECTORS for chunk in vector["chunks"]}
    assert events == {str(cls.__struct_config__.tag) for cls in EVENT_CLASSES}
    assert chunks == {"text", "thinking", "tool-batch", "error", "system"}


@pytest.mark.parametrize("vector", VECTORS, ids=[vector["name"] for vector in VECTORS])
def test_reading_chunks_during_the_fold_changes_nothing(vector: dict[str, Any]) -> None:
    chunks: list[Chunk] = []
    for event in vector["events"]:
        append_event_to_chunks(chunks, decode_event(event))
        msgspec.to_builtins(chunks)
    assert msgspec.to_builtins(chunks) == vector["chunks"]


@given(st.lists(any_event, max_size=20))
def test_any_events_in_any_order_can_be_folded(events: list[Event]) -> None:
    chunks = folded(events)
    assert json.loads(msgspec.json.encode(chunks)) == msgspec.to_builtins(chunks)


@given(st.lists(any_event, max_size=20))
def test_the_fold_does_not_change_events(events: list[Event]) -> None:
    before = [msgspec.json.encode(event) for event in events]
    folded(events)
    assert [msgspec.json.encode(event) for event in events] == before


@pytest.mark.parametrize("kind", [TextDelta, ReasoningDelta])
@given(pieces=st.lists(texts, min_size=1), before=st.lists(any_event, max_size=5))
def test_the_result_does_not_depend_on_the_deltas(
    kind: type[TextDelta | ReasoningDelta], pieces: list[str], before: list[Event]
) -> None:
    whole = folded([*before, kind(text="".join(pieces))])
    assert folded([*before, *(kind(text=piece) for piece in pieces)]) == whole


@given(deltas=st.lists(texts, min_size=1), rest=texts)
def test_block_final_replaces_the_text_of_the_block(deltas: list[str], rest: str) -> None:
    said = "".join(deltas)
    for final in (said, said + rest, rest):
        chunks = folded([*(TextDelta(text=delta) for delta in deltas), BlockFinal(text=final)])
        assert chunks == ([TextChunk(text=final)] if final else [])


speakers = st.sampled_from([None, "1", "2"])
speech = st.lists(
    st.one_of(
        st.builds(TextDelta, text=st.sampled_from("abc"), parent_tool_id=speakers),
        st.builds(BlockFinal, text=st.sampled_from([None, "", "x", "yz"]), parent_tool_id=speakers),
        st.builds(TextRetracted, parent_tool_id=speakers),
    ),
    max_size=12,
)


def said_by(speaker: str | None, chunks: list[Chunk]) -> str:
    texts = [chunk for chunk in chunks if isinstance(chunk, TextChunk)]
    shares = [share for chunk in texts for share in (chunk._shares or [(None, [chunk.text])])]
    return "".join(piece for whose, pieces in shares if whose == speaker for piece in pieces)


@given(events=speech)
def test_the_text_of_one_sender_does_not_depend_on_others(events: list[Event]) -> None:
    chunks = folded(events)
    for speaker in (None, "1", "2"):
        alone = folded([event for event in events if getattr(event, "parent_tool_id", None) == speaker])
        assert said_by(speaker, chunks) == said_by(speaker, alone)
    whole = "".join(chunk.text for chunk in chunks if isinstance(chunk, TextChunk))
    assert sorted(whole) == sorted(said_by(None, chunks) + said_by("1", chunks) + said_by("2", chunks))


def test_a_long_text_is_stored_as_pieces_until_it_is_read() -> None:
    chunks = folded([TextDelta(text="abcd")] * 10_000)
    chunk = chunks[0]
    assert isinstance(chunk, TextChunk)
    assert len(chunk.tail) == 10_000
    assert chunk.text == "abcd" * 10_000
    assert len(chunk.tail) == 1


def test_thinking_and_output_are_stored_as_pieces_too() -> None:
    thinking, batch = folded(
        [
            *[ReasoningDelta(text="ab")] * 1000,
            ToolStarted(id="1", name="sh"),
            *[ToolOutput(data="cd", stream="stderr")] * 1000,
        ]
    )
    assert isinstance(thinking, ThinkingChunk)
    assert isinstance(batch, ToolBatchChunk)
    output = batch.calls[0].shell_output
    assert not isinstance(output, msgspec.UnsetType)
    assert len(vars(thinking)["_text"]) == 1000
    assert len(vars(output)["_stderr"]) == 1001
    assert (thinking.text, output.stderr) == ("ab" * 1000, "cd" * 1000)
