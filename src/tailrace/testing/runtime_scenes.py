"""What the contract of a runtime is played with: a player, what is heard of a turn, and what an agent left running.

Owns no laws; those are in `runtime_contract`. A player is one foreign agent: it knows the words of its own stream, and
how to make the runtime under test hear them from something real, such as a process, a server or an object.
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
_LOOK_EVERY_S = 0.01
_TOOL, _UNHURRIED_S = "🔧", 3.0  # how a tool is shown at work, and how far apart events are that all are shown

_CODE = "\n".join(f"    total += price[{n}] * count[{n}]  # line {n} of the sum" for n in range(60))
_ROWS = "\n".join(f"| item {n} | {n * 7} | {'✅' if n % 2 else '👩‍💻'} |" for n in range(12))
LONG_ANSWER = (
    "Here is the **whole** sum 🎉, with a flag 🇳🇴 and a family 👨‍👩‍👧‍👦:\n\n"
    f"```python\ndef total(price, count):\n    total = 0\n{_CODE}\n    return total\n```\n\n"
    f"And what it *comes to*:\n\n| name | price | done |\n|---|---|---|\n{_ROWS}\n\n"
    + " ".join(f"Sentence {n} says a little more about [item {n}](https://example.org/{n})." for n in range(30))
    + "\n\nThat is all."
)
"""An answer of several messages: code longer than one of Discord's, a table, links, and characters of many parts."""


class Stall:
    """In place of a native event: nothing more comes, and the agent does not end by itself."""


STALL = Stall()


class Player:
    """A foreign agent that plays what it is given. Subclass it: everything that raises here is yours to say.

    Native events are whatever your agent's stream is made of; they are handed back to `runtime` as you gave them.
    Among them may be `STALL`, where the agent is to say nothing more and not to end until it is left.
    """

    names: Sequence[str] = ()
    """How a failure calls whoever failed, where that is not the runtime's `name`."""

    turn_timeout_s = 60.0
    """How long a turn may take, or leaving it, before it is taken for one that never ends."""

    async def runtime(self, *turns: Sequence[Any]) -> Runtime:
        """The runtime under test with an agent that plays these turns, one for each prompt, the last for ever."""
        raise NotImplementedError

    def text(self, *pieces: str, is_whole: bool = True) -> list[Any]:
        """A block of the answer in these pieces; with its end, if it is whole and your stream says ends."""
        raise NotImplementedError

    def tool(self, call: str, result: str) -> list[Any]:
        """A call of a tool, from its beginning to its result."""
        raise NotImplementedError

    def ending(self) -> list[Any]:
        """The agent is done."""
        raise NotImplementedError

    def failure(self, message: str) -> list[Any]:
        """The agent fails for good, and says so."""
        raise NotImplementedError

    def malformed(self) -> list[Any]:
        """What your stream should never hold: half a line, a known event of the wrong shape."""
        raise NotImplementedError

    def cut(self) -> list[Any]:
        """What comes where the stream breaks off; nothing, where the agent's silence is all there is to hear."""
        return []

    async def at_rest(self) -> None:
        """Return when nothing of the agent is at work, beside its processes, which are looked for by themselves."""

    async def leave(self) -> None:
        """Let go of what you hold. Called once, at the end."""


class Played(Protocol):
    """Tests that say who plays."""

    def player(self, folder: Path) -> Player:
        """The foreign agent; files, if it has any, lie in the folder."""
        ...


def scenario(play: Callable[[Any, Player], Awaitable[None]]) -> Callable[[Played, Path], None]:
    """A test with a player of its own, after which no process of it may be left."""

    def test(self: Played, tmp_path: Path) -> None:
        async def through() -> None:
            player = self.player(tmp_path)
            try:
                await play(self, player)
                await nothing_runs(player.turn_timeout_s)
            finally:
                await player.leave()

        before, os.environ[_MARK] = os.environ.get(_MARK), uuid.uuid4().hex
        try:
            asyncio.run(through())
        finally:
            _put_back(before)

    test.__name__, test.__doc__ = play.__name__, play.__doc__
    return test


def _put_back(before: str | None) -> None:
    if before is None:
        del os.environ[_MARK]
    else:
        os.environ[_MARK] = before


# What is heard


@dataclass
class Heard:
    """A turn as the contract lets it pass: its events, what was wrong with them, and the chunks they come to."""

    events: list[Event] = field(default_factory=list)
    diagnostics: list[Diagnostic] = field(default_factory=list)
    chunks: list[Chunk] = field(default_factory=list)

    @property
    def texts(self) -> list[str]:
        """The blocks of the answer."""
        return [chunk.text for chunk in self.chunks if isinstance(chunk, TextChunk)]

    @property
    def terminal(self) -> Terminal:
        """The one end."""
        ends = [event for event in self.events if isinstance(event, Terminal)]
        assert len(ends) == 1, f"a turn has one end, this one has {ends}"
        return ends[0]

    @property
    def complaints(self) -> list[str]:
        """What people are told went wrong."""
        return [
            event.message if isinstance(event, Error | TurnFailed) else event.text
            for event in self.events
            if isinstance(event, Error | TurnFailed | Notice)
        ]


async def hear(events: AsyncIterator[Event], *, at_most: int, turn_timeout_s: float, cancelled: bool = False) -> Heard:
    """Hear a turn to its end; one that says more than `at_most` events, or nothing for too long, never ends."""
    heard = Heard()
    try:
        async with (
            asyncio.timeout(turn_timeout_s),
            aclosing(
                checked(events, turn_id="t", cancelled=lambda: cancelled, on_diagnostic=heard.diagnostics.append)
            ) as passed,
        ):
            async for event in passed:
                heard.events.append(event)
                append_event_to_chunks(heard.chunks, event)
                assert len(heard.events) <= at_most, f"the turn does not end: {at_most} events, the last is {event!r}"
    except TimeoutError:
        last = heard.events[-1] if heard.events else "nothing at all"
        raise AssertionError(f"the turn does not end: the runtime waits for ever behind {last!r}") from None
    return heard


async def told(events: Iterable[Event]) -> AsyncIterator[Event]:
    """Events that were heard, told again."""
    for event in events:
        yield event


# What people see


def parts_on_discord(events: Iterable[Event]) -> list[str]:
    """The messages that stand at the end of a turn whose events all come at once."""
    return [seen.body.text for moment in _on_discord(events, 0.0)[-1:] for seen in moment.chat]


def open_tools(events: Iterable[Event]) -> list[list[str]]:
    """The tools that are shown at work, after each change of what is shown; the last ones are left so for good."""
    return [
        [line for seen in moment.chat for line in seen.body.text.splitlines() if _TOOL in line]
        for moment in _on_discord(events, _UNHURRIED_S)
    ]


def _on_discord(events: Iterable[Event], apart_s: float) -> list[PerformedCall]:
    timed = [(at * apart_s, event) for at, event in enumerate(events)]
    return list(dry_run(timed, Target(channel="discord", chat="1"), DISCORD))


# What is left running


def processes() -> list[str]:
    """The processes that were begun in this scenario and still run, as far as the platform shows them (`/proc`).

    They are known by their environment, which a process hands on to all that it starts: also to one that has a group
    of its own, and to one whose parent is gone.
    """
    mark = f"{_MARK}={os.environ[_MARK]}".encode()
    found = []
    for environment in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):  # it is another user's, or has ended since it was listed
            if mark in environment.read_bytes().split(b"\0"):
                words = (environment.parent / "cmdline").read_bytes().replace(b"\0", b" ")
                found.append(f"{environment.parent.name} {words.decode(errors='replace')}".strip())
    return found


async def nothing_runs(turn_timeout_s: float) -> None:
    """See that no process is left; those that were killed may take a moment to go."""
    for _look in range(round(turn_timeout_s / _LOOK_EVERY_S)):
        if not processes():
            return
        await asyncio.sleep(_LOOK_EVERY_S)
    assert not (left := processes()), f"the runtime has left processes behind: {left}"
