"""Plays a scene in virtual time: one gateway after the other on the same ledger, until nothing is left to do."""

from __future__ import annotations

import asyncio
import gc
from typing import TYPE_CHECKING, TypeVar

import msgspec

from gateway.gateway_setup import GatewaySetup
from random_chats.agent import AgentRun, RecordingAgent
from random_chats.scenes import CHATS, Action, EditLast, End, Fail, Say, SayAgain, Scene
from tailrace.deliveries import TURN_OPEN, Delivery, Query, Turn
from tailrace.gateway.agent_turn import AgentTurn
from tailrace.gateway.conversation import Conversation
from tailrace.inbound import ButtonPress, InboundMessage, Sender
from tailrace.operations import Target
from tailrace.runtimes.function import FunctionRuntime
from tailrace.testing.virtual_time import run

if TYPE_CHECKING:
    from tailrace.testing.platform import SimulatedPlatform
    from tailrace.testing.virtual_time import Simulation

T = TypeVar("T")

_QUIET_WITHIN_S = 3_000
_LOOK_AGAIN_S = 1.0
_SAMPLE_EVERY = 4


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """A message of a person. `replaces` is the index of the message in the chat that it is an edit of."""

    message: InboundMessage
    replaces: int | None = None


class Played(msgspec.Struct, kw_only=True):
    """Everything that the judge needs."""

    scene: Scene
    platform: SimulatedPlatform
    said: dict[str, list[Said]]
    runs: list[AgentRun]
    turns: dict[str, Turn]
    rows: list[Delivery]
    problems: list[str]
    ends: int


def play(scene: Scene) -> Played:
    """Play the scene."""

    async def main(simulation: Simulation) -> Played:
        return await _Player(simulation, scene).play()

    return run(main, seed=scene.seed)


class _Player:
    def __init__(self, simulation: Simulation, scene: Scene) -> None:
        self._scene = scene
        self._setup = GatewaySetup(
            simulation, scene.limits, busy=scene.busy, max_queue_size=scene.max_queue_size, max_age_s=10**6
        )
        self._agent = RecordingAgent(simulation.clock)
        self._setup.runtime = FunctionRuntime(self._agent.answer, name="recording")
        self._said: dict[str, list[Said]] = {chat: [] for chat in CHATS}
        self._problems: list[str] = []
        self._done = 0
        self._ends = 0

    async def play(self) -> Played:
        left = list(self._scene.actions)
        while True:
            end: End | None = None
            async with self._setup.running():
                while left and end is None:
                    pause_s, action = left.pop(0)
                    await asyncio.sleep(pause_s)
                    end = self._act(action)
                if end is None:
                    self._setup.platform.script.clear()
                    await self._until_quiet()
                    self._look_for_leftovers()
                elif end.how == "crash":
                    await self._setup.crash()
            if end is None:
                return await self._played()
            self._ends += 1
            await asyncio.sleep(end.pause_s)

    def _act(self, action: Action) -> End | None:
        self._done += 1
        if self._done % _SAMPLE_EVERY == 0:
            self._look_at_queues()
        match action:
            case Say():
                self._say(action)
            case EditLast(chat=chat, back=back) if len(self._said[chat]) >= back:
                self._edit(chat, len(self._said[chat]) - back)
            case SayAgain(chat=chat, back=back) if len(self._said[chat]) >= back:
                self._setup.platform.add_inbound(self._said[chat][-back].message)
            case Fail(rule=rule):
                self._setup.platform.script.add(rule)
            case End():
                return action
            case _:
                pass
        return None

    def _say(self, say: Say) -> None:
        number = sum(map(len, self._said.values()))
        if say.is_button:
            event_id = f"b{number}"
            target, sender = Target(channel="simulated", chat=say.chat), Sender(id=say.chat)
            value = f"/{say.word}"
            press = ButtonPress(channel="simulated", event_id=event_id, target=target, value=value, sender=sender)
            self._setup.platform.add_inbound(press)
            message = InboundMessage(
                channel="simulated",
                event_id=f"press {event_id}",
                target=target,
                text="",
                command=say.word,
                sender=sender,
            )
        elif say.word:
            message = self._setup.say(f"/{say.word} {say.rest}".strip(), chat=say.chat)
        else:
            message = self._setup.say(f"{say.sort} {number}", chat=say.chat)
        self._said[say.chat].append(Said(message=message))

    def _edit(self, chat: str, index: int) -> None:
        original = self._said[chat][index]
        if original.message.command or original.message.text.startswith("/") or original.replaces is not None:
            return
        text = f"text {sum(map(len, self._said.values()))}"
        message = self._setup.say(text, chat=chat, edited=True, message_id=original.message.message_id)
        self._said[chat].append(Said(message=message, replaces=index))

    async def _until_quiet(self) -> None:
        for _ in range(int(_QUIET_WITHIN_S / _LOOK_AGAIN_S)):
            if await self._is_quiet():
                await asyncio.sleep(60.0)  # a notice of a missing part comes later
                if await self._is_quiet():
                    return
            await asyncio.sleep(_LOOK_AGAIN_S)
        self._problems.append("the gateway is not done with everything")

    async def _is_quiet(self) -> bool:
        ledger = self._setup.ledger
        if await ledger.open_conversations() or await ledger.interrupted_turns():
            return False
        turns = [await ledger.turn(said.message.turn_id) for each in self._said.values() for said in each]
        return all(turn is not None and turn.state not in TURN_OPEN for turn in turns)

    def _look_at_queues(self) -> None:
        for conversation in _objects(Conversation):
            if conversation.waiting > self._scene.max_queue_size:
                self._problems.append(f"{conversation.waiting} messages wait")

    def _look_for_leftovers(self) -> None:
        """An idle gateway keeps neither conversations nor turns."""
        gc.collect()
        left = [*_objects(Conversation), *_objects(AgentTurn)]
        if left:
            self._problems.append(f"an idle gateway keeps {left}")

    async def _played(self) -> Played:
        ledger = self._setup.ledger
        turns = [await ledger.turn(said.message.turn_id) for each in self._said.values() for said in each]
        return Played(
            scene=self._scene,
            platform=self._setup.platform,
            said=self._said,
            runs=self._agent.runs,
            turns={turn.turn_id: turn for turn in turns if turn is not None},
            rows=(await ledger.find(Query(), limit=100_000))[::-1],
            problems=self._problems,
            ends=self._ends,
        )


def _objects(kind: type[T]) -> list[T]:
    return [each for each in gc.get_objects() if isinstance(each, kind)]
