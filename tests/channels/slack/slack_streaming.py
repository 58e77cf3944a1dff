"""A long answer through the courier and the channel to the simulated Slack, at its real pace, in virtual time.

`SlackStreaming` has what a test looks at afterwards, and the checks that hold for every answer.
"""

from __future__ import annotations

import re
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from slack_setup import CHAT, PERSON, channel_to, simulator

from long_answer import LongAnswer, lost_lines, marks_in, repeated_lines, streamed
from tailrace.deliveries import Delivery, State
from tailrace.delivery import Courier
from tailrace.delivery.presenting import present
from tailrace.ledger.memory import MemoryLedger
from tailrace.operations import Target
from tailrace.projector import ProjectorSettings
from tailrace.testing.platforms.slack import SlackSettings
from tailrace.testing.platforms.slack.world import SlackContent

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tailrace.testing.platforms.slack import SlackSimulator
    from tailrace.testing.platforms.visible import SeenMessage
    from tailrace.testing.virtual_time import Simulation

STRICT = SlackSettings(chat_slack_s=0.001)
"""The pace of Slack, without a call that comes too early: in virtual time a call takes no time on its way."""
_CODE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class SlackStreaming:
    """A simulator, a courier and a channel that is connected to it. `target` is a thread in a channel."""

    def __init__(self, simulation: Simulation, slack: SlackSimulator, courier: Courier) -> None:
        self.clock = simulation.clock
        self.slack = slack
        self.courier = courier
        chat = slack.world.chats[CHAT]
        self.root = slack.world.new_message(chat, PERSON, SlackContent(text="go"), slack.clock()).ts
        self.target = Target(channel="slack", chat=CHAT, thread=self.root, group=True)

    async def send(
        self, answer: LongAnswer, presentation: str = "live", *, tokens_per_s: int = 50, turn_id: str = "turn"
    ) -> list[Delivery]:
        """Stream an answer and wait until it is delivered. Returns its deliveries."""
        settings = ProjectorSettings(presentation=presentation)  # type: ignore[arg-type]  # one of them
        turn = await self.courier.begin(turn_id, self.target)
        events = streamed(answer.text, tokens_per_s=tokens_per_s, turn_id=turn_id)
        deliveries = await present(events, turn, self.courier.capabilities(self.target), settings, clock=self.clock)
        await self.courier.wait_until_final(turn.turn, await self.courier.deliveries_of(turn_id))
        return deliveries

    def messages(self) -> list[SeenMessage]:
        """The messages of the bot that people see."""
        return [each for each in self.slack.seen(CHAT).messages if each.is_bot and each.deleted_at is None]

    def check_no_refusal(self) -> None:
        """Slack refused nothing: no text was too long, and no call came too early."""
        assert {call.rule for call in self.slack.calls} == {""}

    def check_whole(self, answer: LongAnswer) -> None:
        """Each line is there once, in order, in the thread, and code is shown as code."""
        texts = [message.text for message in self.messages()]
        assert marks_in(texts) == answer.marks
        assert broken_code(answer, texts) == []
        assert {message.reply_to for message in self.messages()} == {self.root}
        assert max(map(len, texts)) <= 12_000
        assert self.slack.mentions(CHAT) == []

    def check_settled(self) -> None:
        """No stream is open, and no task seems to run for ever."""
        world = self.slack.world
        own = [message for message in world.chats[CHAT].messages.values() if message.sender == world.bot]
        assert [message.ts for message in own if message.streams_until is not None and not message.is_stopped] == []
        assert {task.status for message in own for task in message.tasks.values()} <= {"complete", "error"}

    def check_exactly_once(self, answer: LongAnswer, deliveries: list[Delivery]) -> None:
        """Everything is there once, unless Slack refused it for good."""
        texts = [message.text for message in self.messages()]
        refused = [row for row in deliveries if row.state is State.FAILED]
        assert {row.state for row in deliveries} <= {State.DELIVERED, State.SUPERSEDED, State.FAILED}
        assert repeated_lines(texts) == []
        assert bool(lost_lines(answer, texts)) <= bool(refused)
        seen = marks_in(texts)
        assert seen == sorted(seen)
        assert broken_code(answer, texts) == []


def broken_code(answer: LongAnswer, texts: list[str]) -> list[str]:
    """The marks of lines of code that are not shown as code of their language."""
    as_code = set(marks_in(code for text in texts for code in _CODE.findall(text)))
    shown = set(marks_in(texts))
    return sorted(mark for block in answer.code for mark in block if mark in shown - as_code)


@asynccontextmanager
async def slack_streaming(
    simulation: Simulation, settings: SlackSettings = STRICT, *, seed: int = 0, **channel: Any
) -> AsyncIterator[SlackStreaming]:
    """A simulator with the pace of Slack, and a courier that sends to it."""
    async with simulator(settings, seed=seed, clock=simulation.clock.wall) as slack:
        ledger = MemoryLedger(clock=simulation.clock)
        bot = channel_to(slack, **channel)
        await bot.start_to_send()
        try:
            async with Courier(ledger, clock=simulation.clock, jitter=simulation.source.random) as courier:
                courier.connect(bot)
                yield SlackStreaming(simulation, slack, courier)
        finally:
            await bot.stop()
