"""The agent of the scenes: it answers as the prompt says, and records what it did."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from tailrace.events import ToolFinished, ToolStarted
from tailrace.gateway.agent_turn import RUNNING

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from tailrace.events import Event
    from tailrace.ports import Clock, Prompt

_COUNTS = {"text": 8, "tools": 8, "slow": 12, "fail": 5, "long": 150, "silent": 0}
_PAUSE_S = {"slow": 0.7}


class AgentRun(msgspec.Struct, kw_only=True):
    """One run. Its words begin with `r{number}w`; `words` are those that it has said."""

    number: int
    turn_id: str
    prompt: str
    conversation: str
    began_at: float
    words: list[str] = []
    ended_at: float | None = None
    is_cancelled: bool = False


class RecordingAgent:
    """Says words that no other run says. `runs` are all runs, over all processes."""

    def __init__(self, clock: Clock) -> None:
        self.runs: list[AgentRun] = []
        self._clock = clock

    async def answer(self, prompt: Prompt) -> AsyncGenerator[Event | str, None]:
        """Answer each line of the prompt; its first word is the sort of the answer."""
        turn = RUNNING.get()
        assert turn is not None, "the agent runs in a turn"
        run = AgentRun(
            number=len(self.runs),
            turn_id=turn.turn_id,
            prompt=prompt.text,
            conversation=prompt.conversation,
            began_at=self._clock.monotonic(),
        )
        self.runs.append(run)
        try:
            for line in filter(None, prompt.text.split("\n")):
                async for item in self._say(run, line.split()[0]):
                    yield item
        except asyncio.CancelledError:
            run.is_cancelled = True
            raise
        finally:
            run.ended_at = self._clock.monotonic()

    async def _say(self, run: AgentRun, sort: str) -> AsyncGenerator[Event | str, None]:
        for index in range(_COUNTS[sort]):
            run.words.append(f"r{run.number}w{len(run.words)}")
            yield f"{run.words[-1]} "
            await asyncio.sleep(_PAUSE_S.get(sort, 0.01))
            if sort == "tools" and index == 4:
                yield ToolStarted(id="t", name="look_up", arguments={})
                await asyncio.sleep(2.0)
                yield ToolFinished(id="t", result="found")
        if sort == "fail":
            raise RuntimeError("the agent is broken")
