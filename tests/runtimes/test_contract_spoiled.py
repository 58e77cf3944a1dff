"""Every native event of a turn with one wrong field: whatever an agent gets wrong, the turn has one correct end.

The contract tests one malformed event; here each field of each known event gets a value of the wrong type, also in the
end of a turn, which a server survives: nobody may wait for another end.
"""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from contract_streams import Native
from test_rules import PLAYERS

from tailrace.events import TurnFailed
from tailrace.testing.runtime_scenarios import PROMPT, STALL, Player, receive

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WRONG = 7
AT_ONCE = 16
# These run on after their turn; for the others the end of the process or stream ends the turn as well.
UNREADABLE_ENDS = {
    "acp": {"answer": WRONG},
    "codex app-server": json.dumps({"method": "turn/completed", "params": {"threadId": "thread-1", "turn": WRONG}}),
}


def conversation(player: Player) -> list[Any]:
    return [*player.text("Let me ", "look."), *player.tool("call-1", "ok")]


def spoiled(native: Any) -> Iterator[Any]:
    """The event with a wrong value in each of its fields, and in the fields of those."""
    match native:
        case str():
            yield from (json.dumps(value) for value in spoiled_value(json.loads(native)))
        case (path, mode, payload):
            yield from ((path, mode, value) for value in spoiled_value(payload))
        case dict():
            yield from spoiled_value(native)
        case _:
            for name, value in fields(native).items():
                yield from (renewed(native, name, value) for value in spoiled_value(value))


def spoiled_value(value: Any, depth: int = 2) -> Iterator[Any]:
    yield WRONG
    if depth and isinstance(value, dict):
        for name, inner in value.items():
            yield from ({**value, name: other} for other in spoiled_value(inner, depth - 1))


def fields(native: Any) -> dict[str, Any]:
    return native.fields if isinstance(native, Native) else vars(native)


def renewed(native: Any, name: str, value: Any) -> Any:
    """The object with another value in one of its fields; its class says what it is in the SDK."""
    if isinstance(native, Native | SimpleNamespace):
        return type(native)(**{**fields(native), name: value})
    made = type(type(native).__name__, (), {})()
    vars(made).update({**vars(native), name: value})
    return made


async def assert_one_end(player: Player, native: list[Any], limit: asyncio.Semaphore) -> None:
    async with limit:
        turn = await receive(
            (await player.runtime(native)).run(PROMPT), max_events=200, turn_timeout_s=player.turn_timeout_s
        )
    end = turn.terminal
    assert turn.diagnostics == [], native
    assert not isinstance(end, TurnFailed) or end.code != "runtime_raised", (end, native)


@pytest.mark.parametrize("agent", PLAYERS)
def test_turn_ends_as_it_should_whatever_is_wrong_in_it(agent: str, tmp_path: Path) -> None:
    async def through() -> None:
        player = PLAYERS[agent](tmp_path)
        limit = asyncio.Semaphore(AT_ONCE)
        whole = [*conversation(player), *player.ending()]
        variants = [(at, variant) for at, native in enumerate(whole) for variant in spoiled_variants(native)]
        turns = [[*whole[:at], variant, *whole[at + 1 :]] for at, variant in variants]
        assert len(turns) > 5
        try:
            await asyncio.gather(*(assert_one_end(player, turn, limit) for turn in turns))
        finally:
            await player.close()

    asyncio.run(through())


def spoiled_variants(native: Any) -> list[Any]:
    """The spoiled variants of an event; `[DONE]` has none."""
    return [] if native == "[DONE]" else list(spoiled(native))


@pytest.mark.parametrize("agent", UNREADABLE_ENDS)
def test_unreadable_end_still_ends_the_turn(agent: str, tmp_path: Path) -> None:
    async def through() -> None:
        player = PLAYERS[agent](tmp_path)
        runtime = await player.runtime([*conversation(player), UNREADABLE_ENDS[agent], STALL])
        turn = await receive(runtime.run(PROMPT), max_events=200, turn_timeout_s=player.turn_timeout_s)
        assert turn.texts == ["Let me look."]
        assert isinstance(turn.terminal, TurnFailed)
        assert turn.terminal.code == "malformed"

    asyncio.run(through())
