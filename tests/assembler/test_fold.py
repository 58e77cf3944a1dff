"""The fold of events into chunks: the vectors that the browser runs too, and what holds for any events."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from event_strategies import any_event, texts
from tailrace.assembler import append_event_to_chunks, apply_system_event
from tailrace.chunks import (
    MANY_PIECES,
    Chunk,
    ErrorChunk,
    Message,
    SystemChunk,
    SystemEvent,
    TextChunk,
    ThinkingChunk,
    ToolBatchChunk,
)
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

VECTORS: dict[str, list[dict[str, Any]]] = json.loads(
    (Path(__file__).parents[1] / "vectors" / "fold.json").read_text(encoding="utf-8")
)
CHUNK_CLASSES: dict[str, type[Chunk]] = {
    "text": TextChunk,
    "thinking": ThinkingChunk,
    "tool-batch": ToolBatchChunk,
    "error": ErrorChunk,
    "system": SystemChunk,
}


def vectors(of: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("vector", VECTORS[of], ids=[vector["name"] for vector in VECTORS[of]])


def from_wire(chunks: list[dict[str, Any]]) -> list[Chunk]:
    return [msgspec.convert(chunk, CHUNK_CLASSES[chunk["type"]]) for chunk in chunks]


def folded(events: list[Event], *, is_read: bool = False) -> list[Chunk]:
    """The chunks of the events; `is_read` says that they are also read after each event."""
    chunks: list[Chunk] = []
    for event in events:
        append_event_to_chunks(chunks, event)
        if is_read:
            msgspec.to_builtins(chunks)
    return chunks


@vectors("fold")
def test_vector_of_the_fold(vector: dict[str, Any]) -> None:
    events = [decode_event(event) for event in vector["events"]]
    for is_read in (False, True):
        chunks = folded(events, is_read=is_read)
        assert msgspec.to_builtins(chunks) == vector["chunks"]
        assert json.loads(msgspec.json.encode(chunks)) == vector["chunks"]
        assert from_wire(vector["chunks"]) == chunks


def test_vectors_cover_every_event_and_every_chunk() -> None:
    events = {event["type"] for vector in VECTORS["fold"] for event in vector["events"]}
    chunks = {chunk["type"] for vector in VECTORS["fold"] for chunk in vector["chunks"]}
    assert events == {str(cls.__struct_config__.tag) for cls in EVENT_CLASSES}
    assert chunks == CHUNK_CLASSES.keys()


@vectors("system")
def test_vector_of_a_system_event(vector: dict[str, Any]) -> None:
    messages = [Message(**{**wire, "chunks": from_wire(wire["chunks"])}) for wire in vector["messages"]]
    made: list[str] = []

    def new_id() -> str:
        made.append(vector["new_id"])
        return made[-1]

    event = msgspec.convert(vector["event"], SystemEvent)
    assert apply_system_event(messages, event, id_factory=new_id) == vector["id"]
    assert msgspec.to_builtins(messages) == vector["after"]
    assert len(made) == len(vector["after"]) - len(vector["messages"]), "an id is made only for a new message"


def test_default_ids_are_random_uuids() -> None:
    """A conversation is stored with others: an id that is unique only in one list would collide."""
    ids = {apply_system_event([], SystemEvent("notice", "n")) for _ in range(2)}
    assert len(ids) == 2
    assert all(uuid.UUID(new_id).version == 4 for new_id in ids)


@given(st.lists(any_event, max_size=20))
def test_any_events_can_be_folded_and_stay_as_they_are(events: list[Event]) -> None:
    before = [msgspec.json.encode(event) for event in events]
    chunks = folded(events)
    assert json.loads(msgspec.json.encode(chunks)) == msgspec.to_builtins(chunks)
    assert [msgspec.json.encode(event) for event in events] == before


@pytest.mark.parametrize("kind", [TextDelta, ReasoningDelta])
@given(pieces=st.lists(texts, min_size=1), before=st.lists(any_event, max_size=5))
def test_result_does_not_depend_on_the_deltas(
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
def test_text_of_one_sender_does_not_depend_on_others(events: list[Event]) -> None:
    chunks = folded(events)
    for speaker in (None, "1", "2"):
        alone = folded([event for event in events if getattr(event, "parent_tool_id", None) == speaker])
        assert said_by(speaker, chunks) == said_by(speaker, alone)
    whole = "".join(chunk.text for chunk in chunks if isinstance(chunk, TextChunk))
    assert sorted(whole) == sorted(said_by(None, chunks) + said_by("1", chunks) + said_by("2", chunks))


def test_long_text_is_stored_as_pieces_and_many_are_joined_into_few() -> None:
    for count in (10_000, 3 * MANY_PIECES + 7):
        pieces = [f"{n % 10}" for n in range(count)]
        (chunk,) = folded([TextDelta(text=piece) for piece in pieces])
        assert isinstance(chunk, TextChunk)
        assert len(chunk.tail) <= MANY_PIECES
        assert count > MANY_PIECES or len(chunk.tail) == count
        assert chunk.text == "".join(pieces)


def test_thinking_and_output_are_stored_as_pieces_too() -> None:
    thoughts = [ReasoningDelta(text="ab")] * 1000
    outputs = [ToolOutput(data="cd", stream="stderr")] * 1000
    thinking, batch = folded([*thoughts, ToolStarted(id="1", name="sh"), *outputs])
    assert isinstance(thinking, ThinkingChunk)
    assert isinstance(batch, ToolBatchChunk)
    output = batch.calls[0].shell_output
    assert not isinstance(output, msgspec.UnsetType)
    assert len(vars(thinking)["_text"]) == 1000
    assert len(vars(output)["_stderr"]) == 1001
    assert (thinking.text, output.stderr) == ("ab" * 1000, "cd" * 1000)
