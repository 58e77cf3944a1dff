"""Every native event of a turn, spoiled in one place: whatever an agent gets wrong, the turn has one honest end.

What the contract asks of one malformed event is asked here of all that a known event can be made into by a value of the
wrong type, also of the end of a turn, which a server survives: nobody may wait for another.
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
from tailrace.testing.runtime_scenes import PROMPT, STALL, Player, hear

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WRONG = 7
AT_ONCE = 16
# These live on after their turn; of the others the end of the process, or of the stream, is an end as well.
UNREADABLE_ENDS = {
    "acp": {"answer": WRONG},
    "codex app-server": json.dumps({"method": "turn/completed", "params": {"threadId": "thread-1", "turn": WRONG}}),
}


def conversation(player: Player) -> list[Any]:
    return [*player.text("Let me ", "look."), *player.tool("call-1", "ok"), *player.text("It is.")]


def spoiled(native: Any) -> Iterator[Any]:
    """The event with something wrong in the place of each of its fields, and of the fields of those."""
    match native:
        case str():
            yield from (json.dumps(value) for value in spoiled_value(json.loads(native)))
        case (path, mode, payload):
            yield from ((path, mode, value) for value in spoiled_value(payload))
        case dict():
            yield from spoiled_value(native)
        case _:
            for name, held in fields(native).items():
                yield from (renewed(native, name, value) for value in spoiled_value(held))


def spoiled_value(value: Any, depth: int = 2) -> Iterator[Any]:
    yield WRONG
    if depth and isinstance(value, dict):
        for name, held in value.items():
            yield from ({**value, name: other} for other in spoiled_value(held, depth - 1))


def fields(native: Any) -> dict[str, Any]:
    return native.fields if isinstance(native, Native) else vars(native)


def renewed(native: Any, name: str, value: Any) -> Any:
    """The object with another value in one of its fields; its class is how an SDK says what it is."""
    if isinstance(native, Native | SimpleNamespace):
        return type(native)(**{**fields(native), name: value})
    made = type(type(native).__name__, (), {})()
    vars(made).update({**vars(native), name: value})
    return made


async def ends_honestly(player: Player, native: list[Any], limit: asyncio.Semaphore) -> None:
    async with limit:
        heard = await hear(
            (await player.runtime(native)).run(PROMPT), at_most=200, turn_timeout_s=player.turn_timeout_s
        )
    end = heard.terminal
    assert heard.diagnostics == [], native
    assert not isinstance(end, TurnFailed) or end.code != "runtime_raised", (end, native)


@pytest.mark.parametrize("agent", PLAYERS)
def test_a_turn_has_an_honest_end_whatever_is_wrong_in_it(agent: str, tmp_path: Path) -> None:
    async def through() -> None:
        player = PLAYERS[agent](tmp_path)
        limit = asyncio.Semaphore(AT_ONCE)
        whole = [*conversation(player), *player.ending()]
        turns = [[*whole[:at], other, *whole[at + 1 :]] for at, native in enumerate(whole) for other in spoils(native)]
        assert len(turns) > 10
        try:
            await asyncio.gather(*(ends_honestly(player, turn, limit) for turn in turns))
        finally:
            await player.leave()

    asyncio.run(through())


def spoils(native: Any) -> list[Any]:
    """What can be spoiled of an event; text that stands for itself cannot."""
    return [] if native == "[DONE]" else list(spoiled(native))


@pytest.mark.parametrize("agent", UNREADABLE_ENDS)
def test_an_end_that_cannot_be_read_is_an_end(agent: str, tmp_path: Path) -> None:
    async def through() -> None:
        player = PLAYERS[agent](tmp_path)
        runtime = await player.runtime([*conversation(player), UNREADABLE_ENDS[agent], STALL])
        heard = await hear(runtime.run(PROMPT), at_most=200, turn_timeout_s=player.turn_timeout_s)
        assert heard.texts == ["Let me look.", "It is."]
        assert isinstance(heard.terminal, TurnFailed)
        assert heard.terminal.code == "malformed"

    asyncio.run(through())
