"""People see the same messages from a main agent, a subagent and an agent of another process.

The scenario has all that cutting gets wrong: code longer than a message, a table, a call of a tool, and characters of
several code points. It is sent by characters and by words, at once and over time; Discord shows the same messages."""

from __future__ import annotations

import asyncio
from functools import cache
from typing import TYPE_CHECKING, Any

import contract_commands as commands
import contract_streams as streams
import pytest
from msgspec.structs import replace

from tailrace.capabilities import DISCORD
from tailrace.delivery.dry_run import dry_run
from tailrace.events import (
    BlockFinal,
    TextDelta,
    ToolFinished,
    ToolInput,
    ToolOutput,
    ToolStarted,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
)
from tailrace.markdown import Splitter, split
from tailrace.operations import Target
from tailrace.testing.runtime_contract import words
from tailrace.testing.runtime_scenarios import LONG_ANSWER, PROMPT, Player, receive

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from typing import TypeAlias

    from tailrace.events import Event

    Way: TypeAlias = Callable[[Path, Callable[[str], list[str]]], list[Event]]

LOOK = "Let me look it up 🔎."
DELTAS: dict[str, Callable[[str], list[str]]] = {"characters": list, "words": words}
LIMIT = 2000


def scenario(player: Player, deltas: Callable[[str], list[str]]) -> list[Any]:
    """The native events of the scenario, up to its end."""
    return [*player.text(*deltas(LOOK)), *player.tool("call-1", "42"), *player.text(*deltas(LONG_ANSWER))]


def played(player: Player, native: Sequence[Any]) -> list[Event]:
    async def through() -> list[Event]:
        runtime = await player.runtime([*native, *player.ending()])
        try:
            return (await receive(runtime.run(PROMPT), max_events=10_000, turn_timeout_s=60.0)).events
        finally:
            await player.close()

    events = asyncio.run(through())
    assert isinstance(events[-1], TurnCompleted), events[-1]
    return events


def own_stream(events: Sequence[Event], call: str) -> list[Event]:
    """The events under a call, as a turn of their own."""
    content = TextDelta | BlockFinal | ToolStarted | ToolInput | ToolOutput | ToolFinished
    spoken = [event for event in events if isinstance(event, content) and event.parent_tool_id == call]
    assert spoken
    return [TurnStarted(turn_id="t"), *(replace(event, parent_tool_id=None) for event in spoken), TurnCompleted()]


# The agents


def main_agent(make: Callable[[Path], Player]) -> Way:
    def events(folder: Path, deltas: Callable[[str], list[str]]) -> list[Event]:
        player = make(folder)
        return played(player, scenario(player, deltas))

    return events


def subagent_of_codex(folder: Path, deltas: Callable[[str], list[str]]) -> list[Event]:
    """A thread of its own, started by a call."""
    player = commands.CodexAppPlayer(folder)
    task = {"type": "collabAgentToolCall", "id": "task", "tool": "spawn", "receiverThreadIds": ["child"]}
    begun = player.event("item/started", item=task)
    player.thread = "child"
    child = scenario(player, deltas)
    player.thread = "thread-1"
    done = player.event("item/completed", item={**task, "status": "completed"})
    return own_stream(played(player, [begun, *child, done]), "task")


def subagent_of_claude(folder: Path, deltas: Callable[[str], list[str]]) -> list[Event]:
    """Its subagents send whole blocks, also if their model streams."""
    player = commands.ClaudePlayer(folder)
    del deltas

    def block(**block: Any) -> Any:
        return player.line("assistant", message={"id": "m", "content": [block]}, parent_tool_use_id="task")

    answer = {"type": "tool_result", "tool_use_id": "call-1", "content": "42"}
    child = [
        block(type="text", text=LOOK),
        block(type="tool_use", id="call-1", name="Bash", input={"command": "ls"}),
        player.line("user", message={"role": "user", "content": [answer]}, parent_tool_use_id="task"),
        block(type="text", text=LONG_ANSWER),
    ]
    begun, *rest = player.tool("task", "done")
    return own_stream(played(player, [begun, *rest[:-1], *child, rest[-1]]), "task")


def subagent_over_acp(folder: Path, deltas: Callable[[str], list[str]]) -> list[Event]:
    player = commands.AcpPlayer(folder)
    under = {"_meta": {"claudeCode": {"parentToolUseId": "task"}}}
    begun, *_, done = player.tool("task", "done")
    child = [{"update": {**native["update"], **under}} for native in scenario(player, deltas)]
    return own_stream(played(player, [begun, *child, done]), "task")


def subagent_over_agui(_: Path, deltas: Callable[[str], list[str]]) -> list[Event]:
    player = streams.AguiPlayer()
    return own_stream(
        played(player, [{**native, "subagentRunId": "task"} for native in scenario(player, deltas)]), "task"
    )


WAYS: dict[str, Way] = {
    "claude": main_agent(commands.ClaudePlayer),
    "codex": main_agent(commands.CodexAppPlayer),
    "a function": main_agent(lambda _: streams.FunctionPlayer()),
    "an ACP agent": main_agent(commands.AcpPlayer),
    "a subagent of codex": subagent_of_codex,
    "a subagent of claude": subagent_of_claude,
    "a subagent over ACP": subagent_over_acp,
    "a subagent over AG-UI": subagent_over_agui,
}


# What people see


def shown(events: Sequence[Event], *, apart_s: float) -> list[bytes]:
    """The messages that stand on Discord when the turn is over, its events so far apart."""
    timed = [(at * apart_s, event) for at, event in enumerate(events)]
    *_, last = dry_run(timed, Target(channel="discord", chat="1"), DISCORD)
    return [seen.body.text.encode() for seen in last.chat]


def cut(events: Sequence[Event]) -> list[bytes]:
    """The parts of each block of text, as it came."""
    parts: list[bytes] = []
    splitter = Splitter(LIMIT, dialect="discord")
    for event in [*events, BlockFinal()]:
        if isinstance(event, TextDelta) or (isinstance(event, BlockFinal) and event.text):
            parts += [part.body.text.encode() for part in splitter.feed(event.text or "")]
        if isinstance(event, BlockFinal | ToolStarted):
            parts += [part.body.text.encode() for part in splitter.close()]
            splitter = Splitter(LIMIT, dialect="discord")
    return parts


@cache
def expected() -> tuple[list[bytes], list[bytes]]:
    """What is shown and cut if the events are the scenario in its shortest form."""
    plain: list[Event] = [
        TurnStarted(turn_id="t"),
        TextDelta(text=LOOK),
        ToolStarted(id="call-1", name="ls"),
        ToolFinished(id="call-1", result="42"),
        TextDelta(text=LONG_ANSWER),
        TurnCompleted(),
    ]
    return shown(plain, apart_s=0.0), cut(plain)


def test_the_scenario_is_a_hard_one() -> None:
    code = LONG_ANSWER.partition("```python")[2].partition("\n```\n")[0]
    assert len(code) > LIMIT
    assert "|---|" in LONG_ANSWER
    messages, parts = expected()
    assert parts == [LOOK.encode(), *(part.body.text.encode() for part in split(LONG_ANSWER, LIMIT, dialect="discord"))]
    assert len(messages) > 2
    assert all(len(message.decode()) <= LIMIT for message in messages)
    assert sum(message.count(b"```python") for message in messages) > 1


@pytest.mark.parametrize("deltas", DELTAS)
@pytest.mark.parametrize("way", WAYS)
def test_people_see_the_same_messages_from_every_agent(way: str, deltas: str, tmp_path: Path) -> None:
    events = WAYS[way](tmp_path, DELTAS[deltas])
    assert not any(isinstance(event, TurnFailed) for event in events)
    messages, parts = expected()
    assert cut(events) == parts
    for apart_s in (0.0, 0.003):
        assert shown(events, apart_s=apart_s) == messages
