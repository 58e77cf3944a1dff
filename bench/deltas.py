"""The cost of a text delta in the delivery adapter and in the fold."""

from __future__ import annotations

import asyncio
import itertools
from functools import partial
from typing import TYPE_CHECKING

from bench import texts
from bench.rows import Row, Scale, at_least, at_most, best_of, best_of_each
from tailrace.assembler import append_event_to_chunks
from tailrace.chunks import Chunk, TextChunk
from tailrace.delivery.adapter import DeliveryAdapter
from tailrace.events import Event, TextDelta, TurnCompleted

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator

DELTA = 4


def rows(scale: Scale) -> Iterator[Row]:
    """The rates of the adapter and the fold, and how the cost of the fold grows with the text."""
    deltas = _deltas(texts.mixed(scale.deltas * DELTA), scale.deltas)
    yield adapter(deltas, scale)
    yield fold(deltas, scale)
    yield from longer_texts(deltas, scale)


def _deltas(text: str, count: int) -> list[TextDelta]:
    return [TextDelta(text=text[at * DELTA : (at + 1) * DELTA]) for at in range(count)]


async def _stream(events: list[Event]) -> AsyncIterator[Event]:
    for event in events:
        yield event


def adapter(deltas: list[TextDelta], scale: Scale) -> Row:
    """`DeliveryAdapter.process` against a loop that only stores the text."""
    events: list[Event] = [*deltas, TurnCompleted()]

    async def bare() -> None:
        buffer = []
        async for event in _stream(events):
            buffer.append(event.text)  # type: ignore[union-attr]  # noqa: PERF401  the loop that is compared

    def ours() -> object:
        return asyncio.run(DeliveryAdapter().process(_stream(events)))

    taken = best_of(min(scale.repeats, 3), ours)
    events.pop()
    return at_least(
        f"DeliveryAdapter, {len(deltas):,} deltas, against a bare loop",
        taken,
        best_of(scale.repeats, lambda: asyncio.run(bare())),
        0.15,
    )


def _fold(events: Iterable[Event]) -> int:
    chunks: list[Chunk] = []
    for event in events:
        append_event_to_chunks(chunks, event)
    return sum(len(chunk.text) for chunk in chunks if isinstance(chunk, TextChunk))


def _append(texts: list[str]) -> None:
    kept: list[str] = []
    for text in texts:
        kept.append(text)  # noqa: PERF402  the loop that is compared


def fold(deltas: list[TextDelta], scale: Scale) -> Row:
    """The fold against `list.append` of the same texts."""
    texts = [delta.text for delta in deltas]
    return at_least(
        f"append_event_to_chunks, {len(deltas):,} deltas, against list.append",
        best_of(scale.repeats, _fold, deltas),
        best_of(scale.repeats, _append, texts),
        0.12,
    )


def longer_texts(deltas: list[TextDelta], scale: Scale) -> Iterator[Row]:
    """The fold of a text against the fold of a quarter of it: up to 16 million characters in the full run."""
    sizes = [len(deltas) // 4, len(deltas), 4 * len(deltas)]
    few = deltas[:50_000]  # repeated: a larger run would also measure reading more memory

    def fold(count: int) -> int:
        return _fold(itertools.islice(itertools.cycle(few), count))

    times = best_of_each(2 * scale.repeats, [partial(fold, count) for count in sizes])
    for (less, more), (fewer, larger) in zip(itertools.pairwise(times), itertools.pairwise(sizes), strict=True):
        name = f"append_event_to_chunks, {larger * DELTA:,} characters against {fewer * DELTA:,}"
        yield at_most(name, more, less, 4.4)
