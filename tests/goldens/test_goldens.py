"""Recorded turns of many runtimes, as each chat platform shows them, compared with texts that were reviewed.

`tests/recordings` has the turns, one event per line with its time. This directory has one text per recording and
platform, and for some recordings one per presentation. After an intended change,
`UPDATE_GOLDENS=1 .venv/bin/python -m pytest tests/goldens` writes them anew; review the diff as a person in that chat.
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
IN_ALL_PRESENTATIONS = ("acp_plan", "claude_subagent")

CASES: list[tuple[str, str, Presentation | None]] = [
    *((name, channel, None) for name in RECORDINGS for channel in CHATS),
    *((name, channel, kind) for name in IN_ALL_PRESENTATIONS for channel in CHATS for kind in get_args(Presentation)),
]


def golden(name: str, channel: str, presentation: Presentation | None) -> Path:
    return HERE / name / (f"{channel}.{presentation}.txt" if presentation else f"{channel}.txt")


@pytest.mark.parametrize(("name", "channel", "presentation"), CASES)
def test_recorded_turn_looks_as_reviewed(name: str, channel: str, presentation: Presentation | None) -> None:
    text = played_back(recorded(RECORDINGS[name]), channel, presentation)
    path = golden(name, channel, presentation)
    if os.environ.get("UPDATE_GOLDENS"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", RECORDINGS)
def test_recording_keeps_the_contract_of_events(name: str) -> None:
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
