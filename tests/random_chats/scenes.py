"""A scene: the settings of the gateway, and what people, the platform and the process do, drawn from a seed."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec.structs import replace

from gateway.gateway_setup import LIMITS
from tailrace.capabilities import Capabilities, Keyed, Readback, Unkeyed
from tailrace.gateway.words import WORDS
from tailrace.testing.faults import (
    Cut,
    Delayed,
    Fault,
    NoAnswer,
    Refuse,
    Reset,
    Rule,
    ServerError,
    TooMany,
    Unreachable,
)

if TYPE_CHECKING:
    from tailrace.projector import Presentation

CHATS = ("7", "8")
SORTS = ("text", "text", "tools", "slow", "slow", "fail", "long", "silent")
"""What an answer is like; the prompt begins with it."""
_FAULTS: tuple[Fault, ...] = (
    Cut(), Reset(applied=False), NoAnswer(), Delayed(by_s=4.0), ServerError(status=502, applied=True), ServerError(),
    TooMany(retry_after=3.0), Unreachable(), Refuse(status=400, reason="no"),
)  # fmt: skip
_PRESENTATIONS: tuple[Presentation, ...] = ("live", "live", "parts", "final", "processing", "blocks")


class Say(msgspec.Struct, frozen=True, tag=True):
    """A person writes. `sort` is the sort of the answer, `word` one of the words of the gateway; one of both is ""."""

    chat: str
    sort: str = ""
    word: str = ""
    rest: str = ""
    is_button: bool = False


class EditLast(msgspec.Struct, frozen=True, tag=True):
    """A person changes one of the messages of a chat, counted from the last one."""

    chat: str
    back: int


class SayAgain(msgspec.Struct, frozen=True, tag=True):
    """The platform sends an event of the chat again, counted from the last one."""

    chat: str
    back: int


class Fail(msgspec.Struct, frozen=True, tag=True):
    """The platform fails by this rule."""

    rule: Rule


class End(msgspec.Struct, frozen=True, tag=True):
    """The process ends and the next one starts `pause_s` later."""

    how: Literal["crash", "drain"]
    pause_s: float = 0.0


Action = Say | EditLast | SayAgain | Fail | End


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    """All actions, each with the seconds before it."""

    seed: int
    busy: Literal["queue", "interrupt", "merge"]
    limits: Capabilities
    max_queue_size: int
    actions: list[tuple[float, Action]]


def scene(seed: int) -> Scene:
    """The scene of this seed."""
    chance = random.Random(seed)
    idempotency = chance.choice(
        [Keyed(window_s=300.0), Keyed(window_s=300.0), Unkeyed(), Readback(visible_within_s=1.0)]
    )
    limits = replace(
        LIMITS, idempotency=idempotency, limit=400, deletes=True, presentation=chance.choice(_PRESENTATIONS)
    )
    fails = chance.random() < 0.6
    actions = [(_pause(chance), _action(chance, fails=fails)) for _ in range(chance.randint(5, 40))]
    return Scene(
        seed=seed,
        busy=chance.choice(["queue", "queue", "interrupt", "merge"]),
        limits=limits,
        max_queue_size=chance.choice([2, 5, 100]),
        actions=actions,
    )


def _pause(chance: random.Random) -> float:
    return chance.choice([0.0, 0.0, chance.uniform(0.0, 0.5), chance.uniform(0.0, 3.0), chance.uniform(0.0, 20.0)])


def _action(chance: random.Random, *, fails: bool) -> Action:
    chat, drawn = chance.choice(CHATS), chance.random()
    if drawn < 0.55:
        return Say(chat, sort=chance.choice(SORTS))
    if drawn < 0.75:
        word = chance.choice([*WORDS, "stop", "retry", "new"])
        rest = chance.choice(SORTS) if chance.random() < 0.3 and word == "new" else ""
        return Say(chat, word=word, rest=rest, is_button=not rest and chance.random() < 0.3)
    if drawn < 0.84:
        return EditLast(chat, chance.randint(1, 3)) if drawn < 0.80 else SayAgain(chat, chance.randint(1, 4))
    if drawn < 0.92:
        return _failure(chance) if fails else Say(chat, sort="slow")
    return End("drain" if chance.random() < 0.3 else "crash", chance.choice([0.0, 1.0, 100.0]))


def _failure(chance: random.Random) -> Fail:
    kind = chance.choice(["post", "edit", None])
    return Fail(Rule(fault=chance.choice(_FAULTS), kind=kind, at=chance.randint(1, 3), times=chance.randint(1, 3)))
