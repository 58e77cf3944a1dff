"""Agents that behave and agents that do not: `tailrace chat agents:<name>` in this directory runs one."""

from __future__ import annotations

import asyncio
import logging
import select
import sys
import time
from typing import TYPE_CHECKING, Any

from tailrace.events import (
    BlockFinal,
    Error,
    ReasoningDelta,
    TextDelta,
    ToolFinished,
    ToolOutput,
    ToolStarted,
    TurnCompleted,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tailrace.ports import Prompt

FOREVER_S = 3600.0


async def echo(prompt: Prompt) -> AsyncIterator[str]:
    yield f"you said {prompt.text!r}"


async def sessions(prompt: Prompt) -> AsyncIterator[str]:
    yield f"session {prompt.session_id}"


async def waits(prompt: Prompt) -> AsyncIterator[str]:
    """Begins, waits for ever, and notes that it was closed."""
    if prompt.text == "echo":
        yield "echoed"
        return
    yield "begun"
    print("\nwaiting", flush=True)
    try:
        await asyncio.sleep(FOREVER_S)
    finally:
        print("closed by cancellation", flush=True)


async def deaf(prompt: Prompt) -> AsyncIterator[str]:
    """Swallows every request to stop."""
    if prompt.text == "echo":
        yield "echoed"
        return
    yield "begun"
    while True:
        try:
            await asyncio.sleep(FOREVER_S)
        except asyncio.CancelledError:
            print("\nnot listening", flush=True)


async def talks_on(_: Prompt) -> AsyncIterator[str]:
    """Yields more text when it is cancelled, and when it is closed."""
    yield "begun"
    try:
        await asyncio.sleep(FOREVER_S)
    except asyncio.CancelledError:
        while True:
            try:
                yield "more"
            except GeneratorExit:
                yield "and more"


async def in_thread(_: Prompt) -> AsyncIterator[str]:
    """Waits for a thread that cannot be cancelled."""
    yield "begun"
    await asyncio.to_thread(time.sleep, FOREVER_S)


async def endless(_: Prompt) -> AsyncIterator[str]:
    """Always has more text, and never awaits anything."""
    while True:
        yield "word "


async def raises(prompt: Prompt) -> AsyncIterator[str]:
    yield "so far so good"
    if prompt.text != "fine":
        raise ValueError("no luck\x1b[31m")


async def exits(_: Prompt) -> AsyncIterator[str]:
    yield "about to leave"
    sys.exit(3)


class PastHandlers(BaseException):
    """What `except Exception` lets by."""


async def raises_past_handlers(_: Prompt) -> AsyncIterator[str]:
    yield "about to break"
    raise PastHandlers("nobody catches this")


async def cancels_itself(_: Prompt) -> AsyncIterator[str]:
    yield "about to stop"
    raise asyncio.CancelledError


async def garbage(_: Prompt) -> AsyncIterator[Any]:
    yield "so far so good"
    yield 42


async def steps(prompt: Prompt) -> AsyncIterator[str]:
    """Goes on to its second step when the person has typed a line ahead."""
    if prompt.text != "go":
        yield f"you said {prompt.text!r}"
        return
    yield "first step, "
    select.select([sys.stdin], [], [])
    yield "second step"


async def silent(_: Prompt) -> AsyncIterator[str]:
    if False:
        yield ""


async def loses_a_task(_: Prompt) -> AsyncIterator[str]:
    """Fails in a task that nobody awaits."""

    async def failing() -> None:
        raise ValueError("lost")

    yield "started"
    task = asyncio.create_task(failing())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    del task
    yield " and went on"


async def escapes(_: Prompt) -> AsyncIterator[Any]:
    """Tries to command the terminal from every place text can come from, also cut in two."""
    evil = "\x1b]0;owned\x07\x1b[2J\x9b31m\r\b\x00\u202eevil\u2066"
    for character in evil:
        yield TextDelta(text=character)
    yield ReasoningDelta(text=evil)
    yield ToolStarted(id="a", name=evil, arguments={"command": evil})
    yield ToolOutput(id="a", data=evil)
    yield ToolFinished(id="a", result=evil, is_error=True)
    yield Error(message=evil, code=evil)
    yield BlockFinal(text=evil)
    yield "\ud800"
    yield "the end"


async def huge(_: Prompt) -> AsyncIterator[str]:
    yield "x" * 10_000_000
    yield "\nthe end"


async def empties(_: Prompt) -> AsyncIterator[TextDelta | str]:
    nothing = TextDelta(text="")
    for _number in range(200_000):
        yield nothing
    yield "the end"


async def surrogates(_: Prompt) -> AsyncIterator[Any]:
    yield "half \ud83d here"
    yield ToolStarted(id="a", name="n", arguments={"\udc00": ["\ud800"]})


async def odd_keys(_: Prompt) -> AsyncIterator[Any]:
    yield ToolStarted(id="a", name="n", arguments={(1, 2): {3: 4}})


async def not_json(_: Prompt) -> AsyncIterator[Any]:
    yield ToolStarted(id="a", name="n", arguments={"path": object()})
    yield "not reached"


async def prints(_: Prompt) -> AsyncIterator[str]:
    print("a line of its own")
    yield "said"


async def warns(_: Prompt) -> AsyncIterator[str]:
    """Logs in the middle of its text."""
    yield "said "
    logging.getLogger("an.sdk").warning("one\x1b[2J\ntwo")
    yield "and said"


async def late(_: Prompt) -> AsyncIterator[Any]:
    yield ToolStarted(id="a", name="slow")
    yield TurnCompleted(text="all there is")
    yield ToolFinished(id="a", result="late")


async def wide(_: Prompt) -> AsyncIterator[Any]:
    yield "日本語のテキスト👩‍👩‍👧はここ\n"
    yield ToolStarted(id="a", name="読む", arguments={"path": "非常に長いファイル名の文書.txt"})
    yield ToolStarted(id="b", name="grep", arguments={"pattern": "ファイル" * 20})
    yield ToolFinished(id="a", result="")
    yield ToolFinished(id="b", result="")
    yield "終わり"


async def returns(_: Prompt) -> str:
    return "not a generator"


def plain(_: Prompt) -> str:
    return "not a generator either"


def not_async(_: Prompt) -> Any:
    yield "not async"


async def no_argument() -> AsyncIterator[str]:
    yield "nobody can tell me anything"


class Bot:
    """An agent with something to remember, by its method or by being called."""

    async def answer(self, prompt: Prompt) -> AsyncIterator[str]:
        yield f"the bot heard {prompt.text}"

    async def __call__(self, prompt: Prompt) -> AsyncIterator[str]:
        yield f"the bot was called with {prompt.text}"


class Ready:
    """A runtime already."""

    name = "ready"

    async def run(self, prompt: Prompt) -> AsyncIterator[Any]:
        yield TextDelta(text=f"ready for {prompt.text}")
        yield TurnCompleted()


bot = Bot()
ready = Ready()
number = 42
