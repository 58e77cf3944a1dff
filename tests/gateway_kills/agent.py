"""The agent of the kill test. `tailrace run gateway_kills.agent:answer` serves it.

Every message names its answer, such as `long 17x3`: the third message of person 17 gets a long answer. The words of the
answer have these numbers too, so a judge knows where each word belongs. A line in the file `RUNS` records each start of
a turn; it survives the kill of the process.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from tailrace.events import ToolFinished, ToolStarted

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tailrace.events import Event
    from tailrace.ports import Prompt

RUNS = "GATEWAY_KILLS_RUNS"
WORDS = {"text": 12, "tools": 12, "long": 900, "slow": 20, "fail": 5}
"""The sorts of messages, and the number of words in the answer."""
_PIECES = 12
_PAUSE_S = {"slow": 0.2}


def words_of(sort: str, number: str) -> list[str]:
    """The words of an answer, in their order."""
    return [f"a{number}x{index:03}" for index in range(WORDS[sort])]


async def answer(prompt: Prompt) -> AsyncIterator[Event | str]:
    """Answer as the message says."""
    sort, number = prompt.text.split()
    runs = os.open(os.environ[RUNS], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(runs, f"{number}\n".encode())
    os.close(runs)
    words = words_of(sort, number)
    size = -(-len(words) // _PIECES)
    for start in range(0, len(words), size):
        yield " ".join(words[start : start + size]) + " "
        await asyncio.sleep(_PAUSE_S.get(sort, 0.02))
        if sort == "tools" and start == len(words) // 2:
            yield ToolStarted(id="t", name="look_up", arguments={"query": "the river"})
            await asyncio.sleep(0.1)
            yield ToolFinished(id="t", result="found")
    if sort == "fail":
        raise RuntimeError("the agent is broken")
