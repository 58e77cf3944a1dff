"""The people of the kill test: what each of them writes, and where they read the answers."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Literal

import msgspec

from gateway_kills.agent import WORDS
from tailrace.inbound import InboundMessage, Sender
from tailrace.operations import Target

if TYPE_CHECKING:
    from collections.abc import Sequence

_FIRST_CHAT = 5_000
_SORTS = [sort for sort in WORDS for _ in range(1 if sort == "long" else 3)]
_BURST = 0.3


class Person(msgspec.Struct, frozen=True, kw_only=True):
    """A person, who has a conversation alone. `messages` are what this person writes, in this order."""

    number: int
    channel: Literal["telegram", "simulated"]
    messages: list[str]

    @property
    def chat(self) -> str:
        """The id of the chat."""
        return str(_FIRST_CHAT + self.number)

    @property
    def conversation(self) -> str:
        """The name of the conversation."""
        return Target(channel=self.channel, chat=self.chat).conversation

    def message(self, index: int) -> InboundMessage:
        """One message, as the simulated platform gives it to the gateway."""
        return InboundMessage(
            channel=self.channel,
            event_id=f"{self.number}x{index}",
            target=Target(channel=self.channel, chat=self.chat),
            text=self.messages[index],
            sender=Sender(id=self.chat),
            message_id=f"m{self.number}x{index}",
        )


def people(count: int, messages: int, *, share: float, seed: int) -> list[Person]:
    """This many people, who write this many messages each. `share` of them are on Telegram."""
    chance = random.Random(seed)
    return [
        Person(
            number=number,
            channel="telegram" if number < share * count else "simulated",
            messages=[f"{chance.choice(_SORTS)} {number}x{index}" for index in range(messages)],
        )
        for number in range(count)
    ]


def timetable(everybody: Sequence[Person], within_s: float, *, seed: int) -> list[tuple[float, Person, int]]:
    """When each message is written, the earliest first. Some come at once, so that they wait behind each other."""
    chance, table = random.Random(seed), []
    for person in everybody:
        at = chance.uniform(0.0, within_s / 3)
        for index in range(len(person.messages)):
            table.append((at, person, index))
            pause_s = 2.0 * within_s / 3 / len(person.messages)
            at += 0.05 if chance.random() < _BURST else chance.uniform(0.5, 1.0) * pause_s
    return sorted(table, key=lambda entry: entry[0])
