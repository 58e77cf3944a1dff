"""An answer of 60 KB on the simulated Telegram, beside the best figure of six other programs on the same work.

The model streams 200 tokens in a second. The bot is a process of its own (`bench.telegram_bot`). Its CPU time and its
memory count from its start. The time of the model does not count: it is zero for the first text, and its end is known.
The first texts are the best of some.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from asyncio.subprocess import PIPE
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from bench.rows import Row, Scale, duration
from long_answer import CODE_BLOCKS, LINES, broken_code, long_answer, lost_lines, repeated_lines
from tailrace.testing.platforms.telegram import PRIVATE, TelegramSimulator, WriteMessage

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import AsyncIterator, Iterator

    from tailrace.testing.platforms.api_server import ApiCall
    from tailrace.testing.platforms.telegram.world import TelegramMessage

_ROOT = Path(__file__).parent.parent
_TOKENS_PER_S = 200
_PACE_S = 1.5  # between two short answers, so that none waits for the rate of the chat
_LOOK_AGAIN_S = 0.02
_QUIET_S = 3.0  # longer than any wait between two calls of one answer


class _Play(msgspec.Struct, kw_only=True):
    """What was measured. Times are in seconds."""

    first_poll_s: float
    first_text_s: float
    later_text_s: float
    calls: list[ApiCall]
    messages: list[TelegramMessage]
    tail_s: float
    cpu_s: float
    peak_mb: float


def rows(scale: Scale) -> Iterator[Row]:
    """One row for each figure."""
    lines = LINES if scale.repeats > 1 else LINES // CODE_BLOCKS
    answer, play = long_answer(lines), asyncio.run(_play(lines, scale.repeats, scale.processes))
    texts = [message.content.text for message in play.messages]
    edits = sum(call.method == "editMessageText" for call in play.calls)
    refusals = sum(call.status == 429 for call in play.calls)
    wrong = len(lost_lines(answer, texts)) + len(repeated_lines(texts))
    yield _seconds("first text of an answer on Telegram", play.later_text_s, "20 ms, agno", 0.020)
    yield _seconds("first text after a start", play.first_text_s, "71 ms, agno", 0.070)
    yield _number(f"messages for {len(answer.text.encode()) // 1000} KB", len(texts), "18, nanobot", 18)
    yield _number("edits of them", edits, "60, hermes", 40)
    yield _number("calls that were answered 429", refusals, "0, openclaw", 0)
    yield _number(f"lines lost or doubled of {lines}", wrong, "0, openclaw", 0)
    yield _number(f"code blocks broken of {len(answer.code)}", broken_code(answer, play.messages), "0, openclaw", 0)
    yield _seconds("tail after the end of the model", play.tail_s, "4 s, nanobot", 4.0)
    yield _seconds("CPU time of the process", play.cpu_s, "4.3 s, hermes", 2.0)
    yield _number("its peak of memory, MB", round(play.peak_mb), "156, agno", 120)
    yield Row("from its start to the first poll", duration(play.first_poll_s), "0.2-0.6 s, chat")


def _seconds(name: str, ours: float, best: str, most: float) -> Row:
    return Row(name, duration(ours), best, "", f"≤ {duration(most)}", ours <= most)


def _number(name: str, ours: int, best: str, most: int) -> Row:
    return Row(name, str(ours), best, "", f"≤ {most}", ours <= most)


async def _play(lines: int, starts: int, short_answers: int) -> _Play:
    first_texts_s = []
    for _ in range(starts - 1):
        async with _running_bot() as (telegram, _bot, _first_poll_s):
            first_texts_s.append(await _first_text(telegram, "0"))
    async with _running_bot() as (telegram, bot, first_poll_s):
        first_texts_s.append(await _first_text(telegram, "0"))
        later_texts_s = []
        for _ in range(short_answers):
            await asyncio.sleep(_PACE_S)
            later_texts_s.append(await _first_text(telegram, "0"))
        await asyncio.sleep(_PACE_S)
        before, known = len(telegram.calls), len(telegram.texts())
        await _first_text(telegram, str(lines))
        model_ended = await _last_time(bot, short_answers + 2)
        last_call = await _last_call(telegram)
        cpu_s, peak_mb = _usage(bot.pid)
        return _Play(
            first_poll_s=first_poll_s,
            first_text_s=min(first_texts_s),
            later_text_s=min(later_texts_s),
            calls=telegram.calls[before:],
            messages=_shown(telegram)[known:],
            tail_s=last_call - model_ended,
            cpu_s=cpu_s,
            peak_mb=peak_mb,
        )


@asynccontextmanager
async def _running_bot() -> AsyncIterator[tuple[TelegramSimulator, Process, float]]:
    """A simulator, a new process of the bot, and the seconds from its start to its first poll."""
    with tempfile.TemporaryDirectory() as folder:
        async with TelegramSimulator() as telegram:
            command = [sys.executable, "-m", "bench.telegram_bot", str(Path(folder) / "ledger.db"), str(_TOKENS_PER_S)]
            environment = {**os.environ, **telegram.environment, "PYTHONPATH": f"{_ROOT}{os.pathsep}{_ROOT / 'tests'}"}
            began = time.time()
            bot = await asyncio.create_subprocess_exec(*command, env=environment, stdout=PIPE)
            try:
                await telegram.wait_until(lambda: telegram.is_polled)
                yield telegram, bot, time.time() - began
            finally:
                bot.terminate()
                await bot.wait()


def _shown(telegram: TelegramSimulator) -> list[TelegramMessage]:
    return [message for message in telegram.world.chats[PRIVATE].messages.values() if message.sender.is_bot]


async def _first_text(telegram: TelegramSimulator, text: str) -> float:
    """Write to the bot. Returns the seconds until its first text arrives."""
    before, wrote = len(telegram.texts()), time.time()
    await telegram.act(WriteMessage(text=text))
    await telegram.wait_until(lambda: len(telegram.texts()) > before)
    return next(call.at for call in reversed(telegram.calls) if call.method == "sendMessage") - wrote


async def _last_time(bot: Process, answers: int) -> float:
    """The time at which the agent ended the last of so many answers."""
    assert bot.stdout is not None, "the process was started with a pipe"
    return [float(await bot.stdout.readline()) for _ in range(answers)][-1]


async def _last_call(telegram: TelegramSimulator) -> float:
    """The time of the last message or edit, once there was none for a while."""
    while True:
        last = max(call.at for call in telegram.calls if call.method in {"sendMessage", "editMessageText"})
        if time.time() - last > _QUIET_S:
            return last
        await asyncio.sleep(_LOOK_AGAIN_S)


def _usage(pid: int) -> tuple[float, float]:
    """The CPU seconds and the peak of resident memory in MB of a process, as Linux counts them."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])
    [peak] = [line for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines() if "VmHWM" in line]
    return ticks / os.sysconf("SC_CLK_TCK"), int(peak.split()[1]) / 1024
