"""What the contract of runtimes uses: the player that you write, the received turn, and the check of processes.

The tests are in `runtime_contract`. A player is one foreign agent. It knows the events of the agent's own stream, and
gives them to the runtime under test through something real, such as a process, a server or an object.
"""

from __future__ import annotations

import asyncio
import os
import uuid
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from tailrace.assembler import append_event_to_chunks
from tailrace.capabilities import DISCORD
from tailrace.chunks import Chunk, TextChunk
from tailrace.contract import checked
from tailrace.delivery.dry_run import PerformedCall, dry_run
from tailrace.events import Error, Notice, TurnCancelled, TurnCompleted, TurnFailed
from tailrace.operations import Target
from tailrace.ports import Prompt, Runtime

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence

    from tailrace.errors import Diagnostic
    from tailrace.events import Event

Terminal = TurnCompleted | TurnFailed | TurnCancelled
PROMPT = Prompt(text="Go on.")
_MARK = "TAILRACE_CONTRACT"
_POLL_S = 0.01
_TOOL, _SLOW_S = "🔧", 3.0  # the mark of a running tool; after this pause, all events are shown

_CODE = "\n".join(f"    total += price[{n}] * count[{n}]  # line {n} of the sum" for n in range(60))
_ROWS = "\n".join(f"| item {n} | {n * 7} | {'✅' if n % 2 else '👩‍💻'} |" for n in range(12))
LONG_ANSWER = (
    "Here is the **whole** sum 🎉, with a flag 🇳🇴 and a family 👨‍👩‍👧‍👦:\n\n"
    f"```python\ndef total(price, count):\n    total = 0\n{_CODE}\n    return total\n```\n\n"
    f"And what it *comes to*:\n\n| name | price | done |\n|---|---|---|\n{_ROWS}\n\n"
    + " ".join(f"Sentence {n} says a little more about [item {n}](https://example.org/{n})." for n in range(30))
    + "\n\nThat is all."
)
"""An answer of several messages: code longer than one message of Discord, a table, links, and emoji of many parts."""


class _Stall:
    """The type of `STALL`: from this native event on, the agent sends nothing and does not end."""


STALL = _Stall()


class Player:
    """A foreign agent that plays given native events. Subclass it, and implement the methods that raise here.

    Native events are the elements of your agent's own stream, such as lines. `runtime` gets native events that your
    other methods have returned. One of them may be `STALL`: from there on the agent sends nothing, and does not end
    until the turn is closed.
    """

    names: Sequence[str] = ()
    """The names by which error messages may call the agent, if not by the runtime's `name`."""

    turn_timeout_s = 60.0
    """How long a turn, or closing it, may take before the test fails."""

    async def runtime(self, *turns: Sequence[Any]) -> Runtime:
        """Create the runtime under test.

        For each prompt, its agent plays the next of these turns; the last one is repeated.
        """
        raise NotImplementedError

    def text(self, *pieces: str, is_whole: bool = True) -> list[Any]:
        """The native events of a text block of the answer, which comes in these pieces.

        With `is_whole` there is also the event that marks the end of the block, if your stream has such an event.
        """
        raise NotImplementedError

    def tool(self, call: str, result: str) -> list[Any]:
        """The native events of a tool call, from its start to its result."""
        raise NotImplementedError

    def ending(self) -> list[Any]:
        """The native events with which the agent completes the turn."""
        raise NotImplementedError

    def failure(self, message: str) -> list[Any]:
        """The native events with which the agent reports an error that ends the turn."""
        raise NotImplementedError

    def malformed(self) -> list[Any]:
        """Native events that your stream should never contain: half a line, or a known event of the wrong shape."""
        raise NotImplementedError

    def cut(self) -> list[Any]:
        """Native events at the point where a stream breaks off. By default there are none: the stream just ends."""
        return []

    async def wait_until_idle(self) -> None:
        """Wait until the agent does nothing any more. Its processes need no check here: the tests check them."""

    async def close(self) -> None:
        """Release all resources. Called once, at the end of a test."""


class _HasPlayer(Protocol):
    """A test class that creates the player."""

    def player(self, folder: Path) -> Player:
        """Create the foreign agent. If it needs files, they belong into the folder."""
        ...


def scenario(play: Callable[[Any, Player], Awaitable[None]]) -> Callable[[_HasPlayer, Path], None]:
    """Decorate a test method, so that pytest calls it with a new player.

    After the test, no process of the agent may run.
    """

    def test(self: _HasPlayer, tmp_path: Path) -> None:
        async def run_test() -> None:
            player = self.player(tmp_path)
            try:
                await play(self, player)
                await wait_for_processes_to_end(player.turn_timeout_s)
            finally:
                await player.close()

        before, os.environ[_MARK] = os.environ.get(_MARK), uuid.uuid4().hex
        try:
            asyncio.run(run_test())
        finally:
            _restore_mark(before)

    test.__name__, test.__doc__ = play.__name__, play.__doc__
    return test


def _restore_mark(before: str | None) -> None:
    if before is None:
        del os.environ[_MARK]
    else:
        os.environ[_MARK] = before


# The turn that a runtime yields


@dataclass
class ReceivedTurn:
    """A turn that the test has read: its events, the mistakes in them (`diagnostics`), and its chunks."""

    events: list[Event] = field(default_factory=list)
    diagnostics: list[Diagnostic] = field(default_factory=list)
    chunks: list[Chunk] = field(default_factory=list)

    @property
    def texts(self) -> list[str]:
        """The texts of the answer, one for each block."""
        return [chunk.text for chunk in self.chunks if isinstance(chunk, TextChunk)]

    @property
    def terminal(self) -> Terminal:
        """The event that ended the turn."""
        ends = [event for event in self.events if isinstance(event, Terminal)]
        assert len(ends) == 1, f"a turn has one end, this one has {ends}"
        return ends[0]

    @property
    def error_texts(self) -> list[str]:
        """The texts of all errors and notices."""
        return [
            event.message if isinstance(event, Error | TurnFailed) else event.text
            for event in self.events
            if isinstance(event, Error | TurnFailed | Notice)
        ]


async def receive(
    events: AsyncIterator[Event], *, max_events: int, turn_timeout_s: float, cancelled: bool = False
) -> ReceivedTurn:
    """Read a turn to its end. Fails if it has more than `max_events`, or takes longer than `turn_timeout_s`."""
    turn = ReceivedTurn()
    try:
        async with (
            asyncio.timeout(turn_timeout_s),
            aclosing(
                checked(events, turn_id="t", cancelled=lambda: cancelled, on_diagnostic=turn.diagnostics.append)
            ) as checked_events,
        ):
            async for event in checked_events:
                turn.events.append(event)
                append_event_to_chunks(turn.chunks, event)
                assert len(turn.events) <= max_events, (
                    f"the turn does not end: after {max_events} events came {event!r}"
                )
    except TimeoutError:
        last = repr(turn.events[-1]) if turn.events else "nothing"
        raise AssertionError(f"the turn does not end: nothing comes after {last}") from None
    return turn


async def replayed(events: Iterable[Event]) -> AsyncIterator[Event]:
    """Yield events that were received before."""
    for event in events:
        yield event


# The messages that people see


def messages_on_discord(events: Iterable[Event]) -> list[str]:
    """The messages that people see on Discord at the end of a turn, if all its events come at once."""
    return [seen.body.text for moment in _on_discord(events, 0.0)[-1:] for seen in moment.chat]


def open_tools(events: Iterable[Event]) -> list[list[str]]:
    """The lines of tools that people see as running: a list after each change of the messages, and one at the end."""
    return [
        [line for seen in moment.chat for line in seen.body.text.splitlines() if _TOOL in line]
        for moment in _on_discord(events, _SLOW_S)
    ]


def _on_discord(events: Iterable[Event], apart_s: float) -> list[PerformedCall]:
    timed = [(at * apart_s, event) for at, event in enumerate(events)]
    return list(dry_run(timed, Target(channel="discord", chat="1"), DISCORD))


# Running processes


def running_processes() -> list[str]:
    """The processes that were started in this scenario and still run. Empty if the system has no `/proc`.

    They are found by an environment variable, which every process passes on to its child processes. So a process is
    found even if it has its own process group, or if its parent has ended.
    """
    mark = f"{_MARK}={os.environ[_MARK]}".encode()
    found = []
    for environment in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):  # it belongs to another user, or has ended since it was listed
            if mark in environment.read_bytes().split(b"\0"):
                words = (environment.parent / "cmdline").read_bytes().replace(b"\0", b" ")
                found.append(f"{environment.parent.name} {words.decode(errors='replace')}".strip())
    return found


async def wait_for_processes_to_end(turn_timeout_s: float) -> None:
    """Wait until no process is left; a killed process needs a moment to end."""
    for _attempt in range(round(turn_timeout_s / _POLL_S)):
        if not running_processes():
            return
        await asyncio.sleep(_POLL_S)
    assert not (left := running_processes()), f"the runtime has left processes: {left}"
