"""What a turn contains as people see it, and turns as text."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from tailrace.assembler import append_event_to_chunks
from tailrace.chunks import ErrorChunk, SystemChunk, TextChunk, ThinkingChunk, ToolBatchChunk
from tailrace.contract import checked
from tailrace.events import Event, Status, TurnCancelled, TurnCompleted, TurnFailed, TurnStarted

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from tailrace.chunks import Chunk
    from tailrace.errors import Diagnostic

CUT_OFF = "cut_off"
Terminal = TurnCompleted | TurnFailed | TurnCancelled


@dataclass
class Turn:
    """The events of a turn and the chunks that they fold into."""

    events: list[Event]
    chunks: list[Chunk] = field(default_factory=list)
    status: list[str] = field(default_factory=list)

    @property
    def terminal(self) -> Terminal:
        ends = [event for event in self.events if isinstance(event, Terminal)]
        assert len(ends) == 1, "a turn has one end"
        return ends[0]

    @property
    def answer(self) -> list[str]:
        return [chunk.text for chunk in self.chunks if isinstance(chunk, TextChunk)]

    @property
    def thoughts(self) -> list[str]:
        return [chunk.text for chunk in self.chunks if isinstance(chunk, ThinkingChunk)]

    @property
    def calls(self) -> list[Any]:
        return [call for chunk in self.chunks if isinstance(chunk, ToolBatchChunk) for call in chunk.calls]

    @property
    def tools(self) -> list[tuple[str, bool | None]]:
        return [(call.name, None if call.is_error is msgspec.UNSET else call.is_error) for call in self.calls]

    @property
    def errors(self) -> list[str]:
        return [chunk.message for chunk in self.chunks if isinstance(chunk, ErrorChunk)]

    @property
    def notices(self) -> list[str]:
        return [chunk.text for chunk in self.chunks if isinstance(chunk, SystemChunk)]


def turn_of(events: Iterable[Event]) -> Turn:
    """The events folded into chunks. The contract must accept all of them."""
    diagnostics: list[Diagnostic] = []
    given = [replace(event, turn_id="t") if isinstance(event, TurnStarted) else event for event in events]

    async def source() -> AsyncIterator[Event]:
        for event in given:
            yield event

    async def collect() -> list[Event]:
        return [event async for event in checked(source(), turn_id="t", on_diagnostic=diagnostics.append)]

    passed = asyncio.run(collect())
    assert diagnostics == []
    assert passed[-len(given) :] == given
    turn = Turn(events=passed, status=[event.text for event in passed if isinstance(event, Status)])
    for event in passed:
        append_event_to_chunks(turn.chunks, event)
    return turn


def marked(text: str, mark: str) -> list[Any]:
    """The JSON values of the lines that begin with this mark."""
    return [json.loads(line.removeprefix(mark)) for line in text.splitlines() if line.startswith(mark)]
