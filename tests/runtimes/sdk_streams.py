"""Recorded streams of agents, and what their turns contain as a reader sees them."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from tailrace.assembler import append_event_to_chunks
from tailrace.chunks import ErrorChunk, SystemChunk, TextChunk, ThinkingChunk, ToolBatchChunk
from tailrace.contract import checked
from tailrace.events import Event, Status, TurnCancelled, TurnCompleted, TurnFailed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Sequence

    from tailrace.chunks import Chunk
    from tailrace.errors import Diagnostic

RECORDINGS = Path(__file__).parent / "recordings"
CUT_OFF = "cut_off"
Terminal = TurnCompleted | TurnFailed | TurnCancelled


@dataclass(frozen=True)
class Expected:
    """What a person who has read a recording expects of it.

    A tool is its name and whether it failed, None if it has no result. `code` is that of the failure.
    """

    recording: str
    answer: Sequence[str] = ()
    tools: Sequence[tuple[str, bool | None]] = ()
    thoughts: Sequence[str] = ()
    terminal: type[Terminal] = TurnCompleted
    errors: Sequence[str] = ()
    code: str | None = None
    status: Sequence[str] = ()
    notices: Sequence[str] = ()
    notes: str = ""


@dataclass(frozen=True)
class Case:
    """Events of an agent, and what is expected of the turn. See `case`."""

    name: str
    natives: tuple[Any, ...]
    expected: dict[str, Any]

    def check(self, events: Sequence[Event]) -> None:
        turn = turn_of(events)
        found = {
            "answer": turn.answer,
            "thoughts": turn.thoughts,
            "tools": turn.tools,
            "calls": [(call.name, call.arguments, call.result) for call in turn.calls],
            "status": turn.status,
            "notices": turn.notices,
            "terminal": turn.terminal,
            "events": list(events),
        }
        got = {name: found[name] for name in self.expected}
        assert got == self.expected, f"{got}\nis not\n{self.expected}"


def case(name: str, *natives: Any, **expected: Any) -> Case:
    """A row of a table. Compared is only what is given.

    `answer`, `thoughts`, `status` and `notices` are lists of texts. `tools` are names and whether the call failed;
    `calls` are name, arguments and result. `terminal` is the last event and `events` are all of them.
    """
    assert expected, "a case expects something"
    return Case(name, natives, expected)


def table(*cases: Case) -> pytest.MarkDecorator:
    """The cases as the parameter `case`, each under its name."""
    return pytest.mark.parametrize("case", cases, ids=lambda case: case.name)


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


def lines_of(recording: str) -> list[Any]:
    """The lines of a recording without its header."""
    lines = (RECORDINGS / f"{recording}.ndjson").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines[1:]]


def turn_of(events: Iterable[Event]) -> Turn:
    """The events folded into chunks. The contract must accept all of them."""
    diagnostics: list[Diagnostic] = []
    given = list(events)

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


def hold(turn: Turn, expected: Expected) -> None:
    """Compare a turn with what is expected of its recording."""
    assert turn.answer == list(expected.answer)
    assert turn.tools == list(expected.tools)
    assert turn.thoughts == list(expected.thoughts)
    assert turn.errors == list(expected.errors)
    assert turn.status == list(expected.status)
    assert type(turn.terminal) is expected.terminal
    assert (turn.terminal.code if isinstance(turn.terminal, TurnFailed) else None) == expected.code
    assert turn.notices == list(expected.notices)
