"""One chat in virtual time: events go through projector, courier and ledger to a simulated platform.

A turn is written as a script: a text comes in small pieces, a number is a pause, anything else is an event. The tests
judge by the platform's history, which is what a person saw.
"""

from __future__ import annotations

import asyncio
from itertools import cycle
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
from msgspec.structs import replace

from tailrace.capabilities import CHANNELS, Capabilities
from tailrace.contract import checked
from tailrace.deliveries import Delivery, TurnState
from tailrace.delivery import Courier, Recovery
from tailrace.delivery.presenting import present
from tailrace.events import Event, TextDelta, ToolFinished, ToolStarted, TurnCancelled, TurnCompleted, TurnFailed
from tailrace.ledger.memory import MemoryLedger
from tailrace.operations import Target
from tailrace.projector import ProjectorSettings
from tailrace.testing.platform import SimulatedPlatform
from tailrace.testing.simulated import in_process_channel
from tailrace.testing.virtual_time import Simulation, run

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Sequence

    from tailrace.testing.faults import Fault, Rule
    from tailrace.testing.wire import PlatformMessage

Script: TypeAlias = "Sequence[str | float | Event]"

CHATS = ("telegram", "slack", "discord", "matrix")
# Every channel and every presentation, drafts and streams too; a presentation is a row of a table, a channel too.
SAMPLES = (
    ("telegram", "live"),
    ("slack", "native"),
    ("discord", "processing"),
    ("matrix", "blocks"),
    ("telegram", "native"),
    ("slack", "final"),
    ("discord", "live"),
    ("matrix", "parts"),
    ("slack", "processing"),
)
HERE = Target(channel="simulated", chat="here")
THREAD = Target(channel="simulated", chat="here", thread="thread")
GROUP = Target(channel="simulated", chat="here", group=True)
SENTENCES = [f"Sentence {number} of the answer says a thing of its own." for number in range(24)]
PARAGRAPHS = [" ".join(SENTENCES[at : at + 3]) for at in range(0, 24, 3)]
ANSWER = "\n\n".join(PARAGRAPHS)
BASH = ToolStarted(id="1", name="bash", arguments={"command": "ls"})
TOOL: Script = (BASH, 1.0, ToolFinished(id="1", result="x"))
_ENDS = (TurnCompleted, TurnFailed, TurnCancelled)

chats = pytest.mark.parametrize("channel", CHATS)


def presented(*only: str) -> pytest.MarkDecorator:
    """The samples of these presentations, or all samples."""
    return pytest.mark.parametrize(("channel", "presentation"), [s for s in SAMPLES if not only or s[1] in only])


def cases(*factors: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Cases in which each value of each factor occurs, but not each combination of them."""
    rows = [row for _, *row in zip(range(max(map(len, factors))), *map(cycle, factors), strict=False)]
    return [tuple(part for value in row for part in (value if isinstance(value, tuple) else (value,))) for row in rows]


def limits_of(channel: str, **changes: Any) -> Capabilities:
    """The capabilities of a platform, with changes."""
    return replace(CHANNELS[channel], **changes)


def pieces(text: str, length: int = 5) -> list[str]:
    """The text in pieces of that length, cut anywhere."""
    return [text[at : at + length] for at in range(0, len(text), length)]


async def events_of(script: Script, *, length: int = 5, every_s: float = 0.03) -> AsyncIterator[Event]:
    """The events of the script; a script without a terminal event ends with `TurnCompleted`."""
    for line in script:
        if isinstance(line, str):
            for piece in pieces(line, length):
                await asyncio.sleep(every_s)
                yield TextDelta(text=piece)
        elif isinstance(line, int | float):
            await asyncio.sleep(line)
        else:
            yield line
    if not any(isinstance(line, _ENDS) for line in script):
        yield TurnCompleted()


class Chat:
    """A chat on one platform, and the process that writes to it; `crash` starts the next process."""

    def __init__(self, simulation: Simulation, limits: Capabilities, target: Target) -> None:
        self.clock = simulation.clock
        self.limits = limits
        self.target = target
        self.platform = SimulatedPlatform(limits)
        self.channel = in_process_channel(self.platform, self.clock, request_s=0.05, answer_s=0.05)
        self.ledger = MemoryLedger(clock=self.clock)
        self.courier = self._new_courier()

    def _new_courier(self) -> Courier:
        courier = Courier(self.ledger, clock=self.clock, jitter=lambda: 0.0)
        courier.connect(self.channel)
        return courier

    def fail(self, *rules: Rule | Fault) -> None:
        """Add faults to the calls from now on."""
        self.platform.script.add(*rules)

    async def present(self, script: Script, *, turn_id: str = "t", length: int = 5, **settings: Any) -> list[Delivery]:
        """Present a turn to its end, by default as the platform's table says."""
        turn = await self.courier.begin(turn_id, self.target)
        events = checked(events_of(script, length=length), turn_id=turn_id)
        return await present(events, turn, self.limits, ProjectorSettings(**settings), clock=self.clock)

    async def present_until(self, seconds: float, script: Script, **settings: Any) -> None:
        """Present a turn and kill the process after that time."""
        turn = asyncio.create_task(self.present(script, **settings))
        await asyncio.sleep(seconds)
        turn.cancel()
        await self.crash()

    async def crash(self) -> None:
        """Kill the process, and let the next one open the ledger."""
        self.ledger = self.ledger.reopen()
        while tasks := asyncio.all_tasks() - {asyncio.current_task()}:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        self.courier = self._new_courier()

    async def recover(self) -> None:
        """Finish what an earlier process left."""
        await Recovery(self.courier).sweep()

    async def turn_state(self, turn_id: str = "t") -> TurnState:
        """The state of the turn in the ledger."""
        turn = await self.ledger.turn(turn_id)
        assert turn is not None
        return turn.state

    @property
    def history(self) -> list[PlatformMessage]:
        """Every message that was ever posted."""
        return self.platform.history(self.target.chat)

    @property
    def messages(self) -> list[PlatformMessage]:
        """The messages that are not deleted."""
        return [message for message in self.history if not message.deleted]

    @property
    def texts(self) -> list[str]:
        """What a person reads who opens the chat now."""
        return [message.text for message in self.messages]

    @property
    def answer_words(self) -> list[str]:
        """The words of the messages, without the record of the tools."""
        return " ".join(text for text in self.texts if "🔧" not in text).split()

    def ever_shown(self) -> Iterator[str]:
        """Every text that a message or a draft ever showed."""
        for message in self.history:
            for version in self.platform.versions(message.message_id):
                yield version.message.text
                yield version.message.body.markdown or ""
        for call in self.platform.calls:
            if call.kind == "draft":
                yield from (draft.text for draft in self.platform.drafts(self.target.chat, call.at))

    def call_times(self, *kinds: str) -> list[float]:
        """The times of the calls of these kinds."""
        return [call.at for call in self.platform.calls if call.kind in kinds]


def in_chat(main: Callable[[Chat], Coroutine[Any, Any, None]], limits: Capabilities, target: Target = HERE) -> Chat:
    """Run `main` in a new chat, and check that the platform had no complaint."""

    async def scene(simulation: Simulation) -> Chat:
        chat = Chat(simulation, limits, target)
        first = chat.courier
        await main(chat)
        await asyncio.sleep(120.0)  # a notice of a missing part comes later
        # A new process does not know how much of the rate limit the one before it has used.
        complaints = [found for found in chat.platform.complaints if chat.courier is first or found.about != "pace"]
        assert complaints == [], complaints
        return chat

    return run(scene)


def present_turn(
    script: Script,
    limits: Capabilities,
    *,
    target: Target = HERE,
    faults: Iterable[Rule | Fault] = (),
    length: int = 5,
    **settings: Any,
) -> Chat:
    """The chat after one turn with these faults."""

    async def main(chat: Chat) -> None:
        chat.fail(*faults)
        await chat.present(script, length=length, **settings)

    return in_chat(main, limits, target=target)
