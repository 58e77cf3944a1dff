"""The time that the gateway adds before the first text of an answer: from the agent's text to the call of the channel.

All turns run at once and stream. Each begins with its text at another moment. Beside it, the same agents with nothing
between them and the channel.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from bench.rows import Row, Scale, duration
from tailrace.capabilities import Capabilities, EditRules, Keyed
from tailrace.config import ChannelSettings
from tailrace.gateway.gateway import GatewayProcess
from tailrace.gateway.plan import ChannelPlan, GatewayPlan
from tailrace.gateway.router import Agent
from tailrace.inbound import InboundMessage, Sender
from tailrace.ledger.sqlite import SqliteLedger
from tailrace.operations import Body, Post, Receipt, Target
from tailrace.ports import Prompt
from tailrace.runtimes.function import FunctionRuntime

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator

    from tailrace.operations import Edit
    from tailrace.ports import Inbox

ACTIVE_TURNS = 200
ADDED_S = 0.020
_APART_S = 0.01
_TOKEN_S = 0.05
_FIRST = "The first text of the answer is long enough to be shown at once. "


class _Agents:
    """The agents. `said_at` is when each of them has said its first text."""

    def __init__(self, turns: int) -> None:
        self.said_at: dict[str, float] = {}
        self._turns = self._missing = turns
        self._all_run = asyncio.Event()
        self._source = random.Random(7)

    async def answer(self, prompt: Prompt) -> AsyncGenerator[str, None]:
        """Wait until all turns run, then stream."""
        self._missing -= 1
        if not self._missing:
            self._all_run.set()
        await self._all_run.wait()
        await asyncio.sleep(self._source.uniform(0.0, self._turns * _APART_S))
        self.said_at[prompt.text] = time.perf_counter()
        yield _FIRST
        for _ in range(self._turns // 5):
            await asyncio.sleep(_TOKEN_S)
            yield "token "


class _FastChannel:
    """A channel whose platform answers at once. `called_at` is when each chat got its first message."""

    name = "fast"
    capabilities = Capabilities(
        idempotency=Keyed(window_s=300.0), limit=4000, edits=EditRules(every_s=1.0), presentation="live"
    )

    def __init__(self, turns: int) -> None:
        self._turns = turns
        self.called_at: dict[str, float] = {}
        self.all_called = asyncio.Event()
        self.connected: asyncio.Future[Inbox] = asyncio.get_running_loop().create_future()

    async def start(self, inbox: Inbox) -> None:
        self.connected.set_result(inbox)

    async def stop(self) -> None:
        pass

    async def wait_closed(self) -> None:
        await asyncio.get_running_loop().create_future()

    async def post(self, post: Post, *, key: str) -> Receipt:
        self.called_at.setdefault(post.target.chat, time.perf_counter())
        if len(self.called_at) == self._turns:
            self.all_called.set()
        return Receipt(message_id=key)

    async def edit(self, edit: Edit) -> Receipt:
        return Receipt(message_id=edit.message_id)


def rows(scale: Scale) -> Iterator[Row]:
    """The gateway beside nothing, with as many active turns as the promise names."""
    turns = min(scale.turns, ACTIVE_TURNS)
    # The best of several rounds, because other programs on the machine make some of them slower.
    rounds = [(_gateway_waits(turns), asyncio.run(_without(turns))) for _ in range(scale.repeats)]
    ours, empty = (min(waits, key=lambda each: _share(each, 0.99)) for waits in zip(*rounds, strict=True))
    added = [_share(ours, share) - _share(empty, share) for share in (0.5, 0.99)]
    yield Row(
        f"first text of {turns} active turns: p50 of the gateway, beside nothing",
        duration(_share(ours, 0.5)),
        duration(_share(empty, 0.5)),
        f"+{added[0] * 1e3:.1f} ms",
    )
    yield Row(
        f"first text of {turns} active turns: p99 of the gateway, beside nothing",
        duration(_share(ours, 0.99)),
        duration(_share(empty, 0.99)),
        f"+{added[1] * 1e3:.1f} ms, {_share(ours, 0.99) / _share(empty, 0.99):.0f} x",
        f"≤ +{ADDED_S * 1e3:g} ms",
        added[1] <= ADDED_S,
    )


def _share(waits: list[float], share: float) -> float:
    return sorted(waits)[min(len(waits) - 1, int(len(waits) * share))]


def _gateway_waits(turns: int) -> list[float]:
    with tempfile.TemporaryDirectory() as directory:
        return asyncio.run(_with_gateway(turns, Path(directory)))


async def _with_gateway(turns: int, directory: Path) -> list[float]:
    agents, channel, stop = _Agents(turns), _FastChannel(turns), asyncio.Event()
    plan = GatewayPlan(
        agents={"main": Agent(runtime=FunctionRuntime(agents.answer, name="agents"))},
        channels=[ChannelPlan(channel=channel, settings=ChannelSettings(allow=("*",)), agent_id="main")],
        ledger=directory / "ledger.db",
    )
    ledger = await SqliteLedger.open(plan.ledger)
    try:
        serving = asyncio.create_task(GatewayProcess(plan, write=lambda _: None).serve(ledger, stop))
        inbox = await channel.connected
        await asyncio.gather(*(inbox.receive(_message(str(number))) for number in range(turns)))
        await channel.all_called.wait()
        stop.set()
        await serving
    finally:
        await ledger.close()
    return [channel.called_at[chat] - agents.said_at[chat] for chat in channel.called_at]


def _message(chat: str) -> InboundMessage:
    target = Target(channel=_FastChannel.name, chat=chat)
    return InboundMessage(
        channel=_FastChannel.name, event_id=chat, target=target, text=chat, sender=Sender(id=chat), message_id=chat
    )


async def _without(turns: int) -> list[float]:
    agents, channel = _Agents(turns), _FastChannel(turns)

    async def one(chat: str) -> None:
        send = partial(channel.post, key=chat)
        async for text in agents.answer(Prompt(text=chat)):
            await send(Post(target=Target(channel=channel.name, chat=chat), body=Body(text=text)))

    await asyncio.gather(*(one(str(number)) for number in range(turns)))
    return [channel.called_at[chat] - agents.said_at[chat] for chat in channel.called_at]
