"""A bot that answers each message of a person by its length in lines: the process that `bench.telegram` measures.

    python -m bench.telegram_bot LEDGER TOKENS_PER_S

It records each message, and streams the answer live through the courier. Before the end of each answer it prints the
time at which its agent ended. It stops on SIGTERM.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from typing import TYPE_CHECKING

from long_answer import long_answer, streamed
from tailrace.channels.telegram import TelegramChannel
from tailrace.delivery import Courier
from tailrace.delivery.presenting import present
from tailrace.events import TextDelta, TurnCompleted, TurnStarted
from tailrace.inbound import InboundMessage
from tailrace.ledger.sqlite import SqliteLedger
from tailrace.projector import ProjectorSettings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tailrace.events import Event
    from tailrace.inbound import Inbound

GREETING = "An answer that is one sentence, and there at once."


class AnsweringInbox:
    """Records each message and answers it in a task of its own."""

    def __init__(self, courier: Courier, ledger: SqliteLedger, tokens_per_s: int) -> None:
        self._courier = courier
        self._ledger = ledger
        self._tokens_per_s = tokens_per_s
        self._answers: set[asyncio.Task[None]] = set()

    async def receive(self, inbound: Inbound) -> None:
        """Record the message, and begin its answer."""
        assert isinstance(inbound, InboundMessage), "people only write here"
        accepted = await self._ledger.accept(inbound)
        answer = asyncio.create_task(self._answer(inbound, accepted.turn_id))
        self._answers.add(answer)
        answer.add_done_callback(self._answers.discard)

    async def _answer(self, message: InboundMessage, turn_id: str) -> None:
        turn = await self._courier.begin(turn_id, message.target)
        capabilities = self._courier.capabilities(message.target)
        settings = ProjectorSettings(presentation="live")
        await present(self._events(int(message.text)), turn, capabilities, settings, clock=self._courier.clock)

    async def _events(self, lines: int) -> AsyncIterator[Event]:
        if lines:
            async for event in streamed(long_answer(lines).text, tokens_per_s=self._tokens_per_s):
                if isinstance(event, TurnCompleted):
                    print(time.time(), flush=True)
                yield event
        else:
            yield TurnStarted()
            yield TextDelta(text=GREETING)
            print(time.time(), flush=True)
            yield TurnCompleted()


async def serve(path: str, tokens_per_s: int) -> None:
    """Answer until SIGTERM."""
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    ledger = await SqliteLedger.open(path)
    channel = TelegramChannel()
    async with Courier(ledger) as courier:
        courier.connect(channel)
        await channel.start(AnsweringInbox(courier, ledger, tokens_per_s))
        await stopped.wait()
    await channel.stop()
    await ledger.close()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], int(sys.argv[2])))
