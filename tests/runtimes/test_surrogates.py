"""Half a character in what a command writes costs that half, and nothing of what stands around it."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from test_rules import PLAYERS

from tailrace.events import Notice, ToolFinished, TurnCompleted
from tailrace.runtimes.surrogates import decode_line
from tailrace.testing.runtime_scenes import PROMPT, Heard, hear

if TYPE_CHECKING:
    from pathlib import Path

COMMANDS = ("acp", "claude", "codex app-server", "codex exec", "gemini", "opencode run", "opencode serve")
MARK, HALF = "@@", "\\ud83d"


def cut(native: Any) -> Any:
    """The event with half a character in place of the mark, as JavaScript writes it."""
    if isinstance(native, str):
        return native.replace(MARK, HALF)
    return json.loads(json.dumps(native).replace(MARK, HALF))


@pytest.mark.parametrize("agent", COMMANDS)
def test_a_tool_whose_output_was_cut_in_a_character_has_answered(agent: str, tmp_path: Path) -> None:
    async def through() -> Heard:
        player = PLAYERS[agent](tmp_path)
        native = [*player.text("One."), *player.tool("c", f"cut {MARK}"), *player.text("Two."), *player.ending()]
        try:
            runtime = await player.runtime([cut(event) for event in native])
            return await hear(runtime.run(PROMPT), at_most=200, turn_timeout_s=player.turn_timeout_s)
        finally:
            await player.leave()

    heard = asyncio.run(through())
    assert [event.result for event in heard.events if isinstance(event, ToolFinished)] == ["cut \ufffd"]
    assert heard.texts == ["One.", "Two."]
    assert not [event for event in heard.events if isinstance(event, Notice)]
    assert isinstance(heard.terminal, TurnCompleted)


def test_a_character_in_two_halves_is_one_and_what_is_no_json_is_none() -> None:
    decoder = msgspec.json.Decoder(dict[str, str])
    assert decode_line(rb'{"a": "\ud83d\ude00 \ude00"}', decoder) == {"a": "\U0001f600 \ufffd"}
    for line in (rb'{"a": "\ud83d"', rb'{"a": ["\ud83d"]}', b'{"a": 7}', b"\xff"):
        with pytest.raises(msgspec.MsgspecError):
            decode_line(line, decoder)
