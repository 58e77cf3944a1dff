"""The built-in `demo` agent: a fixed script with every kind of event that an agent may send, without a model.

It reasons, runs two tools at the same time, fails once and recovers, and writes a long code block and a table, token by
token. The channels decide how that looks. Tests pass a `pause` that does not wait.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING

from tailrace.events import (
    Error,
    Event,
    ReasoningDelta,
    ReasoningEnd,
    TextDelta,
    ToolFinished,
    ToolInput,
    ToolOutput,
    ToolProgress,
    ToolStarted,
    TurnCompleted,
    TurnStarted,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator

    from tailrace.ports import Prompt

_TOKEN_S = 0.018
_TOKEN = re.compile(r"\s*\S{1,12}|\s+")
_QUOTED_LENGTH = 120

_REASONING = """\
They wrote {quoted}.
There is no model behind me, only a script: look at two things at once,
stumble over one of them, recover, and then answer.
"""

_GREETING = """\
Hello! You wrote {quoted}.

I am the **demo**: a script that says the kinds of things agents say, no more.
Watch how they arrive. First I look around a little:
"""

_AFTER_TOOLS = """\
One of the two did not answer, so I asked again: an error does not end a turn.

An agent of your own is an async generator. It yields text, or events where it
has more to tell. Save this as `my_agent.py`:

"""

EXAMPLE = '''\
import asyncio

from tailrace.events import ReasoningDelta, ToolFinished, ToolStarted

CAPITALS = {"france": "Paris", "japan": "Tokyo", "kenya": "Nairobi"}


async def look_up(country):
    """Replace this with the calls of your agent: a database, an API, a model."""
    await asyncio.sleep(0.5)
    return CAPITALS[country]


async def answer(prompt):
    words = prompt.text.lower().replace("?", " ").split()
    countries = [word for word in words if word in CAPITALS]
    yield ReasoningDelta(text=f"I know {len(countries)} of these countries.")

    if not countries:
        yield "Ask me for the capital of France, Japan or Kenya."

    for country in countries:
        asked = {"query": country}
        yield ToolStarted(id=country, name="look_up", arguments=asked)
        capital = await look_up(country)
        yield ToolFinished(id=country, result=capital)

        sentence = f"The capital of {country.title()} is **{capital}**."
        for word in sentence.split():
            yield word + " "
            await asyncio.sleep(0.05)
'''

_AFTER_CODE = """
and talk to it with `tailrace chat my_agent:answer`. What it yields you see:

| your agent yields | you see                                |
|-------------------|----------------------------------------|
| a string          | text, as it comes                      |
| `ReasoningDelta`  | thinking aloud, dim                    |
| `ToolStarted`     | a dim line that resolves when it ends  |
| `Error`           | a red line, and the turn goes on       |

{keys} What shall we carry next?
"""
_KEYS_OF_TERMINAL = "Ctrl-C stops an answer, Ctrl-D leaves."
_KEYS_OF_CHAT = "/stop stops an answer, /help shows more."


class DemoRuntime:
    """The scripted agent. Where a real agent would need some seconds, it awaits `pause(seconds)`."""

    name = "demo"

    def __init__(self, *, pause: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._pause = pause

    async def run(self, prompt: Prompt) -> AsyncGenerator[Event, None]:
        """Play the script once. The script quotes the text of the prompt."""
        quoted = _quote(prompt.text)
        keys = _KEYS_OF_TERMINAL if prompt.conversation in ("", "terminal") else _KEYS_OF_CHAT
        for seconds, event in _script(quoted, keys, session_id=prompt.session_id):
            if seconds:
                await self._pause(seconds)
            yield event


def _script(quoted: str, keys: str, *, session_id: str) -> Iterator[tuple[float, Event]]:
    """The events of the turn, each with the pause before it in seconds."""
    yield 0.0, TurnStarted(runtime="demo", session_id=session_id or None)
    for token in _TOKEN.findall(_REASONING.format(quoted=quoted)):
        yield _TOKEN_S, ReasoningDelta(text=token)
    yield 0.0, ReasoningEnd()
    yield from _tokens(_GREETING.format(quoted=quoted))
    yield from _two_tools_at_once()
    yield from _tokens(_AFTER_TOOLS)
    yield from _tokens(f"```python\n{EXAMPLE}```\n")
    yield from _tokens(_AFTER_CODE.format(keys=keys))
    yield 0.0, TurnCompleted(stop_reason="end")


def _tokens(text: str) -> Iterator[tuple[float, Event]]:
    """The events of a text that comes token by token, as from a model."""
    for token in _TOKEN.findall(text):
        yield _TOKEN_S, TextDelta(text=token)


def _two_tools_at_once() -> Iterator[tuple[float, Event]]:
    """The events of two tool calls that overlap. One call fails; the agent says so and calls the tool again."""
    yield 0.2, ToolStarted(id="read", name="read_file", arguments={"path": "docs/tides.md"})
    yield 0.1, ToolStarted(id="fetch", name="fetch")
    yield 0.1, ToolInput(id="fetch", arguments={"url": "https://tides.example/today"})
    yield 0.3, ToolOutput(id="read", data="# Tides\n")
    yield 0.3, ToolProgress(id="fetch", elapsed_s=0.6, text="connecting")
    yield 0.2, ToolOutput(id="read", data="High water twice a day, a little later each time.\n")
    yield 0.4, ToolFinished(id="read", result="# Tides\nHigh water twice a day, a little later each time.\n")
    yield 0.4, ToolProgress(id="fetch", elapsed_s=1.7, text="waiting for an answer")
    yield 0.4, ToolFinished(id="fetch", result="no answer", is_error=True)
    yield (
        0.2,
        Error(message="tides.example does not answer, I ask once more", code="unreachable"),
    )
    yield 0.3, ToolStarted(id="again", name="fetch", arguments={"url": "https://tides.example/today"})
    yield 0.5, ToolProgress(id="again", elapsed_s=0.5, text="receiving")
    yield 0.4, ToolFinished(id="again", result={"high": ["04:12", "16:37"], "low": ["10:20", "22:51"]})


def _quote(text: str) -> str:
    """The prompt as one short quoted line."""
    line = " ".join(text.split())
    return f"“{line[:_QUOTED_LENGTH]}…”" if len(line) > _QUOTED_LENGTH else f"“{line}”"
