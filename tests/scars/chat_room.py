"""One chat, and turns that are carried to it whole: events, projector, courier, ledger and platform in virtual time.

A turn is written as a script: text is said in small pieces, a number is a pause, anything else is an event as it is.
The platform's history is what a person saw, and the judge of everything here.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec.structs import replace

from tailrace.capabilities import CHANNELS, Capabilities
from tailrace.contract import checked
from tailrace.deliveries import Delivery, Turn, TurnState
from tailrace.delivery import Courier, CourierSettings, Recovery
from tailrace.delivery.presenting import present
from tailrace.events import Event, TextDelta, TurnCancelled, TurnCompleted, TurnFailed
from tailrace.ledger.memory import MemoryLedger
from tailrace.operations import Target
from tailrace.projector import ProjectorSettings
from tailrace.testing.platform import SimulatedPlatform
from tailrace.testing.simulated import in_process_channel
from tailrace.testing.virtual_time import Simulation, run

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Sequence

    from tailrace.testing.faults import Fault, Rule
    from tailrace.testing.wire import Message

Script: TypeAlias = "Sequence[str | float | Event]"

CHATS = ("telegram", "slack", "discord", "matrix")
PRESENTATIONS = ("live", "native", "processing", "blocks", "final")
HERE = Target(channel="simulated", chat="here")
THREAD = Target(channel="simulated", chat="here", thread="thread")
GROUP = Target(channel="simulated", chat="here", group=True)
_ENDS = (TurnCompleted, TurnFailed, TurnCancelled)


def limits_of(channel: str, **changes: Any) -> Capabilities:
    """What a platform can do, by its own table, with these things otherwise."""
    return replace(CHANNELS[channel], **changes)


def pieces(text: str, length: int = 5) -> list[str]:
    """The text as it may come, in pieces that mind neither words nor lines."""
    return [text[at : at + length] for at in range(0, len(text), length)]


async def spoken(script: Script, *, length: int = 5, every_s: float = 0.03) -> AsyncIterator[Event]:
    """The script, performed; where it does not say how it ends, the turn is complete."""
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


class ChatRoom:
    """A chat on one platform, and the process that writes to it; `crash` puts the next process in its place."""

    def __init__(self, simulation: Simulation, limits: Capabilities, *, target: Target = HERE, **courier: Any) -> None:
        self.clock = simulation.clock
        self.limits = limits
        self.target = target
        self.platform = SimulatedPlatform(limits)
        self.channel = in_process_channel(self.platform, self.clock, there_s=0.05, back_s=0.05)
        self.ledger = MemoryLedger(clock=self.clock)
        self._settings = CourierSettings(**courier)
        self.courier = self._courier()

    def _courier(self) -> Courier:
        courier = Courier(self.ledger, settings=self._settings, clock=self.clock, jitter=lambda: 0.0)
        courier.connect(self.channel)
        return courier

    def fail(self, *rules: Rule | Fault) -> None:
        """What befalls calls from now on."""
        self.platform.script.add(*rules)

    async def carry(self, script: Script, *, turn_id: str = "t", length: int = 5, **settings: Any) -> list[Delivery]:
        """Carry a turn to its end; how it is presented is as the platform's table says, unless told otherwise."""
        turn = await self.courier.begin(turn_id, self.target)
        events = checked(spoken(script, length=length), turn_id=turn_id)
        return await present(events, turn, self.limits, ProjectorSettings(**settings), clock=self.clock)

    async def crash(self) -> None:
        """The process is killed, and the next one opens the ledger."""
        self.ledger = self.ledger.reopen()
        while tasks := asyncio.all_tasks() - {asyncio.current_task()}:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        self.courier = self._courier()

    async def recover(self) -> None:
        """Go on with what a former process left, until nothing is left."""
        await Recovery(self.courier).sweep()

    async def state_of(self, turn_id: str = "t") -> TurnState:
        """How the turn stands in the ledger."""
        return (await self.ledger.begin(Turn(turn_id=turn_id, target=self.target))).state

    @property
    def history(self) -> list[Message]:
        """Every message that was ever seen."""
        return self.platform.history(self.target.chat)

    @property
    def messages(self) -> list[Message]:
        """The messages that stand."""
        return [message for message in self.history if not message.deleted]

    @property
    def texts(self) -> list[str]:
        """What a person reads who opens the chat now."""
        return [message.text for message in self.messages]

    @property
    def said(self) -> list[str]:
        """The words of the answer that stand; the record of the tools is none of it."""
        return " ".join(text for text in self.texts if "🔧" not in text).split()

    def ever_seen(self) -> Iterator[str]:
        """Everything that anybody ever saw of a message or a draft, each time it changed."""
        for message in self.history:
            for version in self.platform.versions(message.message_id):
                yield version.message.text
                yield version.message.body.markdown or ""
        for call in self.platform.calls:
            if call.kind == "draft":
                yield from (draft.text for draft in self.platform.drafts(self.target.chat, call.at))

    def screens(self) -> Iterator[tuple[float, list[str]]]:
        """The whole chat as it was seen, after each call."""
        for at in sorted({call.at for call in self.platform.calls}):
            yield at, self.platform.seen(self.target.chat, at)

    def times(self, *kinds: str) -> list[float]:
        """When calls of these kinds were made."""
        return [call.at for call in self.platform.calls if call.kind in kinds]


def in_a_room(
    main: Callable[[ChatRoom], Coroutine[Any, Any, None]],
    limits: Capabilities,
    *,
    target: Target = HERE,
    **courier: Any,
) -> ChatRoom:
    """Let something happen in a room of its own; the platform had nothing to complain of, unless a process died."""

    async def scene(simulation: Simulation) -> ChatRoom:
        room = ChatRoom(simulation, limits, target=target, **courier)
        first = room.courier
        await main(room)
        await asyncio.sleep(120.0)  # what is told of a part that did not arrive comes behind it
        # The next process does not know what the one before it has spent.
        complaints = [found for found in room.platform.complaints if room.courier is first or found.about != "pace"]
        assert complaints == [], complaints
        return room

    return run(scene)


def carried(
    script: Script,
    limits: Capabilities,
    *,
    target: Target = HERE,
    faults: Iterable[Rule | Fault] = (),
    length: int = 5,
    **settings: Any,
) -> ChatRoom:
    """The room after a turn was carried to it, with these faults on the way."""

    async def main(room: ChatRoom) -> None:
        room.fail(*faults)
        await room.carry(script, length=length, **settings)

    return in_a_room(main, limits, target=target)
