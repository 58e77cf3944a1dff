"""A text of very many pieces: joined in blocks as it grows, and the same text when read."""

from __future__ import annotations

from tailrace.assembler import append_event_to_chunks
from tailrace.chunks import MANY_PIECES, Chunk, TextChunk
from tailrace.events import TextDelta


def test_many_small_pieces_are_joined_into_few() -> None:
    chunks: list[Chunk] = []
    pieces = [f"{n % 10}" for n in range(3 * MANY_PIECES + 7)]
    for piece in pieces:
        append_event_to_chunks(chunks, TextDelta(text=piece))
    (chunk,) = chunks
    assert isinstance(chunk, TextChunk)
    assert len(chunk.tail) <= MANY_PIECES
    assert chunk.text == "".join(pieces)


def test_a_million_empty_pieces_leave_an_empty_text() -> None:
    chunks: list[Chunk] = []
    for _ in range(1_000_000):
        append_event_to_chunks(chunks, TextDelta(text=""))
    assert [chunk.text for chunk in chunks if isinstance(chunk, TextChunk)] == [""]
