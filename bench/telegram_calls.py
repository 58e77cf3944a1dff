"""The CPU time of a delivered message and of a live edit on Telegram, against the bare call of the SDK aiogram.

Both talk to the same simulator, which runs in another process and enforces no pace. Each message is also recorded in
the ledger, twice. With many chats one commit records many messages. In one chat each commit waits for the disk and
wakes two threads; that is only shown.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from aiogram import Bot
from aiogram.client.session.aiohttp import AiohttpSession
from aiogram.client.telegram import TelegramAPIServer
from msgspec.structs import replace

from bench.rows import Row, Scale, at_most
from tailrace.capabilities import Capabilities
from tailrace.channels.telegram import TelegramChannel
from tailrace.delivery import Courier
from tailrace.ledger.sqlite import SqliteLedger
from tailrace.operations import Body, Edit, Post, Target
from tailrace.testing.platforms.telegram import DEFAULT_TOKEN, PRIVATE, TelegramSettings, TelegramSimulator
from tailrace.testing.platforms.telegram.world import TelegramUser

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator
    from multiprocessing.connection import Connection

TEXT = "A part of an answer, as long as many are. " * 12
_MOST = 1.5


class UnpacedChannel(TelegramChannel):
    """The channel without its rates, so that no call waits."""

    def capabilities_of(self, target: Target) -> Capabilities:
        """The capabilities of the chat without its rates."""
        return replace(super().capabilities_of(target), per_chat=None, per_group=None, overall=None)


def rows(scale: Scale) -> Iterator[Row]:
    """Messages and edits in many chats at once; in one chat they are only shown."""
    most = min(scale.turns, 100)
    with _simulator(most) as url, tempfile.TemporaryDirectory() as folder:
        for chats, each in ((most, scale.deliveries // 20 // most), (1, scale.deliveries // 100)):
            work = _Work(chats, max(each, 1))
            rounds = [
                (asyncio.run(_ours(url, Path(folder) / f"{chats} {number}.db", work)), asyncio.run(_bare(url, work)))
                for number in range(scale.repeats)
            ]
            where = f"{chats} chats at once" if chats > 1 else "one chat"
            for place, what in enumerate(("a delivered message", "a live edit")):
                ours, bare = (min(measured[place] for measured in runs) for runs in zip(*rounds, strict=True))
                row = at_most(f"CPU of {what} on Telegram, {where}, against aiogram's call", ours, bare, _MOST)
                yield row if chats > 1 else row._replace(target="", met=None)


class _Work(NamedTuple):
    """How many chats there are, and how many calls each gets."""

    chats: int
    each: int

    async def cpu_of_each(self, do: Callable[[int], Coroutine[Any, Any, None]]) -> float:
        """The CPU seconds of one call, if `do` makes the calls of a chat."""
        began = time.process_time()
        await asyncio.gather(*(do(chat) for chat in range(self.chats)))
        return (time.process_time() - began) / self.chats / self.each


async def _ours(url: str, path: Path, work: _Work) -> tuple[float, float]:
    """CPU seconds of a message and of an edit, with the ledger."""
    channel = UnpacedChannel(token=DEFAULT_TOKEN, api_base=url)
    channel.capabilities = channel.capabilities_of(_target(0))
    await channel.start_to_send()
    ledger = await SqliteLedger.open(path)
    async with Courier(ledger) as courier:
        courier.connect(channel)
        turns = [await courier.begin(f"turn {chat}", _target(chat)) for chat in range(work.chats)]

        async def post(chat: int) -> str:
            [sent] = await turns[chat].send(Post(target=_target(chat), body=Body(text=TEXT)))
            assert sent.receipt is not None, "the simulator takes every message"
            return sent.receipt.message_id

        async def send(chat: int) -> None:
            for _ in range(work.each):
                await post(chat)

        async def edit(chat: int) -> None:
            for number in range(work.each):
                body = Body(text=f"{number} {TEXT}")
                await turns[chat].show(Edit(target=_target(chat), message_id=first[chat], body=body))

        first = [await post(chat) for chat in range(work.chats)]
        measured = await work.cpu_of_each(send), await work.cpu_of_each(edit)
        for turn in turns:
            await turn.end()
    await ledger.close()
    await channel.stop()
    return measured


async def _bare(url: str, work: _Work) -> tuple[float, float]:
    """CPU seconds of a message and of an edit."""
    async with Bot(DEFAULT_TOKEN, session=AiohttpSession(api=TelegramAPIServer.from_base(url))) as bot:
        first = [await bot.send_message(PRIVATE + chat, TEXT) for chat in range(work.chats)]

        async def send(chat: int) -> None:
            for _ in range(work.each):
                await bot.send_message(PRIVATE + chat, TEXT)

        async def edit(chat: int) -> None:
            for number in range(work.each):
                text, message_id = f"{number} {TEXT}", first[chat].message_id
                await bot.edit_message_text(text=text, chat_id=PRIVATE + chat, message_id=message_id)

        return await work.cpu_of_each(send), await work.cpu_of_each(edit)


def _target(chat: int) -> Target:
    return Target(channel="telegram", chat=str(PRIVATE + chat))


@contextmanager
def _simulator(chats: int) -> Iterator[str]:
    """A simulator in another process; its address."""
    processes = multiprocessing.get_context("spawn")
    ours, theirs = processes.Pipe()
    process = processes.Process(target=_serve, args=(theirs, chats))
    process.start()
    try:
        yield ours.recv()
    finally:
        ours.send(None)
        process.join()


def _serve(pipe: Connection, chats: int) -> None:
    async def serve() -> None:
        async with TelegramSimulator(settings=TelegramSettings(enforces_pace=False)) as telegram:
            for chat in range(PRIVATE, PRIVATE + chats):
                telegram.world.add_chat(chat, "private", "Person", TelegramUser(chat, "Person"))
            pipe.send(telegram.url)
            await asyncio.to_thread(pipe.recv)

    asyncio.run(serve())
