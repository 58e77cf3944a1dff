"""Recorded turns of many runtimes, as each chat platform would show them: compared with what was read and found good.

`tests/recordings` holds the turns as a runtime's events, one line each with its time. Beside this file there is one
text for each of them and each platform, and for some of them one for each presentation. Where a change of behaviour is
meant, `UPDATE_GOLDENS=1 .venv/bin/python -m pytest tests/goldens` writes them anew: read the difference as somebody
who sits in that chat.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import pytest
from played_back import played_back, recorded

from tailrace.contract import checked
from tailrace.projector import Presentation

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tailrace.errors import Diagnostic
    from tailrace.events import Event

HERE = Path(__file__).parent
RECORDINGS = {path.stem: path for path in sorted((HERE.parent / "recordings").glob("*.ndjson"))}
CHATS = ("telegram", "slack", "discord", "matrix")
IN_EVERY_WAY = ("acp_plan", "claude_subagent")

CASES: list[tuple[str, str, Presentation | None]] = [
    *((name, channel, None) for name in RECORDINGS for channel in CHATS),
    *((name, channel, way) for name in IN_EVERY_WAY for channel in CHATS for way in get_args(Presentation)),
]


def golden(name: str, channel: str, presentation: Presentation | None) -> Path:
    """The file that a case is compared with."""
    return HERE / name / (f"{channel}.{presentation}.txt" if presentation else f"{channel}.txt")


@pytest.mark.parametrize(("name", "channel", "presentation"), CASES)
def test_a_recorded_turn_looks_as_it_was_found_good(name: str, channel: str, presentation: Presentation | None) -> None:
    told = played_back(recorded(RECORDINGS[name]), channel, presentation)
    path = golden(name, channel, presentation)
    if os.environ.get("UPDATE_GOLDENS"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(told, encoding="utf-8")
    assert told == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", RECORDINGS)
def test_a_recording_keeps_the_contract_of_events(name: str) -> None:
    events = [event for _, event in recorded(RECORDINGS[name])]
    refused: list[Diagnostic] = []

    async def emitted() -> AsyncIterator[Event]:
        for event in events:
            yield event

    async def passed() -> list[Event]:
        return [event async for event in checked(emitted(), turn_id="", on_diagnostic=refused.append)]

    assert asyncio.run(passed()) == events
    assert refused == []


def test_every_golden_belongs_to_a_case() -> None:
    assert set(HERE.glob("*/*.txt")) == {golden(*case) for case in CASES}
