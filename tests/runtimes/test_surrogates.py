"""A lone surrogate in a line of a command is replaced, and nothing around it is lost."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from test_rules import PLAYERS

from tailrace.events import Notice, ToolFinished, TurnCompleted
from tailrace.surrogates import decode_line
from tailrace.testing.runtime_scenarios import PROMPT, ReceivedTurn, receive

if TYPE_CHECKING:
    from pathlib import Path

COMMANDS = ("acp", "claude", "codex app-server", "codex exec", "gemini", "opencode run", "opencode serve")
MARK, SURROGATE = "@@", "\\ud83d"


def cut(native: Any) -> Any:
    """The event with a lone surrogate in place of the mark, as JavaScript writes it."""
    if isinstance(native, str):
        return native.replace(MARK, SURROGATE)
    return json.loads(json.dumps(native).replace(MARK, SURROGATE))


@pytest.mark.parametrize("agent", COMMANDS)
def test_tool_output_cut_within_a_character_is_a_result(agent: str, tmp_path: Path) -> None:
    async def through() -> ReceivedTurn:
        player = PLAYERS[agent](tmp_path)
        native = [*player.text("One."), *player.tool("c", f"cut {MARK}"), *player.text("Two."), *player.ending()]
        try:
            runtime = await player.runtime([cut(event) for event in native])
            return await receive(runtime.run(PROMPT), max_events=200, turn_timeout_s=player.turn_timeout_s)
        finally:
            await player.close()

    turn = asyncio.run(through())
    assert [event.result for event in turn.events if isinstance(event, ToolFinished)] == ["cut \ufffd"]
    assert turn.texts == ["One.", "Two."]
    assert not [event for event in turn.events if isinstance(event, Notice)]
    assert isinstance(turn.terminal, TurnCompleted)


def test_pairs_are_joined_and_invalid_lines_are_refused() -> None:
    decoder = msgspec.json.Decoder(dict[str, str])
    assert decode_line(rb'{"a": "\ud83d\ude00 \ude00"}', decoder) == {"a": "\U0001f600 \ufffd"}
    for line in (rb'{"a": "\ud83d"', rb'{"a": ["\ud83d"]}', b'{"a": 7}', b"\xff"):
        with pytest.raises(msgspec.MsgspecError):
            decode_line(line, decoder)
