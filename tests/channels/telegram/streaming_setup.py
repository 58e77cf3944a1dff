"""A long answer through the courier and the channel to the simulated Telegram, at its real pace, in virtual time.

`Streaming` has what a test looks at afterwards, and the checks that hold for every answer.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from telegram_setup import PERSON, running, simulator

from long_answer import LongAnswer, broken_code, lost_lines, marks_in, repeated_lines, streamed
from tailrace.deliveries import Delivery, State
from tailrace.delivery import Courier
from tailrace.delivery.presenting import present
from tailrace.ledger.memory import MemoryLedger
from tailrace.operations import Post, Target
from tailrace.projector import ProjectorSettings
from tailrace.testing.platforms.telegram import FORUM, TelegramSettings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tailrace.testing.platforms.api_server import ApiCall
    from tailrace.testing.platforms.telegram import TelegramSimulator
    from tailrace.testing.platforms.telegram.world import TelegramMessage
    from tailrace.testing.virtual_time import Simulation

PRIVATE_CHAT = Target(channel="telegram", chat=str(PERSON.id))
TOPIC = Target(channel="telegram", chat=str(FORUM), thread="7")
STRICT = TelegramSettings(chat_slack_s=0.001)
"""The pace of Telegram, without a call that comes too early: in virtual time a call takes no time on its way."""
_NOTICE = "may be missing"
_CONTENT_METHODS = frozenset({"sendMessage", "editMessageText"})


class Streaming:
    """A simulator, a courier and a channel that is connected to it."""

    def __init__(self, simulation: Simulation, telegram: TelegramSimulator, courier: Courier) -> None:
        self.clock = simulation.clock
        self.telegram = telegram
        self.courier = courier

    async def send(
        self,
        answer: LongAnswer,
        presentation: str = "live",
        *,
        target: Target = PRIVATE_CHAT,
        tokens_per_s: int = 50,
        turn_id: str = "turn",
    ) -> list[Delivery]:
        """Stream an answer and wait until it is delivered. Returns its deliveries."""
        settings = ProjectorSettings(presentation=presentation)  # type: ignore[arg-type]  # one of them
        turn = await self.courier.begin(turn_id, target)
        events = streamed(answer.text, tokens_per_s=tokens_per_s, turn_id=turn_id)
        deliveries = await present(events, turn, self.courier.capabilities(target), settings, clock=self.clock)
        await self.courier.wait_until_final(turn.turn, await self.courier.deliveries_of(turn_id))
        return deliveries

    def messages(self, target: Target = PRIVATE_CHAT) -> list[TelegramMessage]:
        """The messages of the bot that people see in that chat."""
        world = self.telegram.world
        chat = world.chats[int(target.chat)]
        return [each for each in chat.messages.values() if each.sender == world.bot and each.deleted_at is None]

    def texts(self, target: Target = PRIVATE_CHAT) -> list[str]:
        return [message.content.text for message in self.messages(target)]

    def calls(self, *methods: str) -> list[ApiCall]:
        """The calls of these methods, or all that send and edit."""
        return [call for call in self.telegram.calls if call.method in (methods or _CONTENT_METHODS)]

    def check_whole(self, answer: LongAnswer, target: Target = PRIVATE_CHAT) -> None:
        """Each line is there once, in order, in the right topic, and code is shown as code."""
        messages, texts = self.messages(target), self.texts(target)
        assert marks_in(texts) == answer.marks
        assert broken_code(answer, messages) == 0
        assert {message.thread for message in messages} == {None if target.thread is None else int(target.thread)}
        assert max(map(len, texts)) <= 4096

    def check_no_refusal(self) -> None:
        """Telegram refused nothing: no text was too long, and no call came too early."""
        # A final edit may change nothing, which the channel takes as success.
        assert {call.rule for call in self.telegram.calls} <= {"", "not_modified"}

    def check_reported(self, answer: LongAnswer, deliveries: list[Delivery]) -> None:
        """What may be missing, or there twice, is only what is on hold; and one line says so."""
        texts = self.texts()
        held = [row for row in deliveries if row.state is State.UNKNOWN]
        doubtful = set(marks_in(row.operation.body.text for row in held if isinstance(row.operation, Post)))
        assert {row.state for row in deliveries} <= {State.DELIVERED, State.UNKNOWN, State.SUPERSEDED}
        assert set(lost_lines(answer, texts)) <= doubtful
        assert set(repeated_lines(texts)) <= doubtful
        seen = list(dict.fromkeys(marks_in(texts)))
        assert seen == sorted(seen)
        assert sum(_NOTICE in text for text in texts) == bool(held)
        assert broken_code(answer, self.messages()) == 0


def flickers(message: TelegramMessage) -> list[int]:
    """The versions after which people saw an older text of the message again.

    A text is older if it ends within an earlier one. The last version may: text moves from it to the next message.
    """
    marks = [marks_in([version.content.text]) for version in message.versions]
    return [number for number in range(1, len(marks) - 1) if marks[number] < marks[number - 1]]


@asynccontextmanager
async def streaming(
    simulation: Simulation, settings: TelegramSettings = STRICT, *, seed: int = 0, **channel: Any
) -> AsyncIterator[Streaming]:
    """A simulator with the pace of Telegram, and a courier that sends to it."""
    async with simulator(settings, seed=seed, clock=simulation.clock.wall) as telegram:
        ledger = MemoryLedger(clock=simulation.clock)
        async with (
            running(telegram, **channel) as bot,
            Courier(ledger, clock=simulation.clock, jitter=simulation.source.random) as courier,
        ):
            courier.connect(bot)
            yield Streaming(simulation, telegram, courier)
