"""A long answer, streamed through the courier, the ledger and the channel to the simulated Telegram.

The pace of Telegram and that of the channel are both faster by the same factor, so that the test takes seconds.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace
from telegram_setup import HERE, PERSON, TOKEN, simulator

from tailrace.capabilities import Capabilities, DraftRules, EditRules, Rate
from tailrace.channels.telegram import TelegramChannel
from tailrace.delivery import Courier
from tailrace.delivery.presenting import present
from tailrace.events import Event, TextDelta, ToolFinished, ToolStarted, TurnCompleted, TurnStarted
from tailrace.ledger.sqlite import SqliteLedger
from tailrace.operations import Target
from tailrace.projector import ProjectorSettings
from tailrace.testing.channel_scenarios import RecordingInbox
from tailrace.testing.platforms.telegram import TelegramSettings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tailrace.testing.platforms.telegram import TelegramSimulator

TIMES = 5
SIZE = 60_000
_MARK = re.compile(r"\bL\d{4}\b")
_TICK_S = 0.01


def faster(rate: Rate | None) -> Rate | None:
    return None if rate is None else Rate(calls=rate.calls, per_s=rate.per_s / TIMES)


class FastTelegramChannel(TelegramChannel):
    """The channel with a faster pace."""

    def capabilities_of(self, target: Target) -> Capabilities:
        slow = super().capabilities_of(target)
        assert slow.edits is not None
        assert isinstance(slow.native, DraftRules)
        return replace(
            slow,
            per_chat=faster(slow.per_chat),
            per_group=faster(slow.per_group),
            overall=faster(slow.overall),
            edits=EditRules(every_s=slow.edits.every_s / TIMES),
            native=DraftRules(lifetime_s=slow.native.lifetime_s, every_s=slow.native.every_s / TIMES),
        )


def fast_simulator() -> TelegramSimulator:
    slow = TelegramSettings()
    rates: dict[str, Any] = {
        name: faster(getattr(slow, name)) for name in ("per_chat", "per_group", "overall", "drafts_per_chat")
    }
    return simulator(replace(slow, **rates))  # its tolerance is for the time on the way, which is not faster


def answer() -> list[str]:
    """60 KB of marked lines, in blocks: paragraphs, lists, code, tables and emoji."""
    blocks: list[str] = []
    line = 0

    def marks(count: int) -> list[str]:
        nonlocal line
        line += count
        return [f"L{number:04d}" for number in range(line - count, line)]

    while sum(map(len, blocks)) < SIZE:
        a, b, c = marks(3)
        blocks.append(
            f"## Part {a} 👩‍👩‍👧‍👦\n\nSome **bold** words {b}, a [link](https://example.org/{c}) {c} and `code`. 🇫🇷\n\n"
        )
        blocks.append("".join(f"- item {mark} with _words_ and more of them 😀\n" for mark in marks(4)) + "\n")
        code = "".join(f"    value_{mark} = compute({mark!r})  # {'x' * 20}\n" for mark in marks(12))
        blocks.append(f"```python\ndef build():\n{code}```\n\n")
        rows = "".join(f"| {mark} | {'y' * 12} |\n" for mark in marks(6))
        blocks.append(f"| name | value |\n|---|---|\n{rows}\n")
    return blocks


async def turn_events(blocks: list[str]) -> AsyncIterator[Event]:
    """The answer in deltas, with tools in between."""
    yield TurnStarted(turn_id="turn")
    for number, block in enumerate(blocks):
        if number % 80 == 0:
            yield ToolStarted(id=f"tool {number}", name="read", arguments={"path": "a.py"})
            yield ToolFinished(id=f"tool {number}", result="done")
        for position in range(0, len(block), 150):
            yield TextDelta(text=block[position : position + 150])
            await asyncio.sleep(_TICK_S)
    yield TurnCompleted()


@pytest.mark.parametrize("presentation", ["live", "native", "processing", "parts"])
def test_a_long_answer_arrives_whole_and_without_a_429(presentation: str, tmp_path: Path) -> None:
    async def run() -> None:
        blocks = answer()
        text = "".join(blocks)
        assert len(text.encode()) > SIZE
        async with asyncio.timeout(90), fast_simulator() as telegram:
            channel = FastTelegramChannel(token=TOKEN, api_base=telegram.url)
            channel.capabilities = channel.capabilities_of(HERE)
            await channel.start(RecordingInbox())
            ledger = await SqliteLedger.open(tmp_path / "ledger.db")
            async with Courier(ledger) as courier:
                courier.connect(channel)
                turn = await courier.begin("turn", HERE)
                settings = ProjectorSettings(presentation=presentation)  # type: ignore[arg-type]  # one of them
                await present(turn_events(blocks), turn, channel.capabilities_of(HERE), settings, clock=courier.clock)
            await ledger.close()
            await channel.stop()
            check(telegram, text)
            assert presentation != "native" or "sendMessageDraft" in {call.method for call in telegram.calls}

    asyncio.run(run())


def check(telegram: TelegramSimulator, text: str) -> None:
    # A final edit may change nothing, which Telegram refuses and the channel takes as success.
    assert {call.rule for call in telegram.calls} <= {"", "not_modified"}
    texts = telegram.texts(PERSON.id)
    assert len(texts) <= 25
    assert max(map(len, texts)) <= 4096
    wanted = _MARK.findall(re.sub(r"https://example\.org/L\d{4}", "", text))
    assert _MARK.findall("\n".join(texts)) == wanted
    for message in telegram.world.chats[PERSON.id].messages.values():
        code = [entity for entity in message.content.entities if entity.type == "pre" and entity.language == "python"]
        assert sum("value_L" in line for line in message.content.text.splitlines()) == 0 or code
