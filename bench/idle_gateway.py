"""A gateway that has nothing to do: the time from its start to the first poll, its memory and its CPU time.

It is the real command against the simulated Telegram, which runs in this process. The numbers of the process come from
`/proc`, so this needs Linux.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from bench.rows import Row, Scale, duration
from tailrace.testing.platforms.telegram import TelegramSimulator, WriteMessage

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_SECONDS, MOST_MB, MOST_CPU = 1.0, 80.0, 0.01
_TAILRACE = Path(sys.executable).with_name("tailrace")
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class _Idle(NamedTuple):
    first_poll_s: float
    memory_mb: float
    cpu: float


def rows(scale: Scale) -> Iterator[Row]:
    """The best of some starts, and the memory and the CPU time of the process after it."""
    runs = [asyncio.run(_run(idle_s=scale.processes)) for _ in range(min(scale.processes, 3))]
    first, memory, cpu = (min(values) for values in zip(*runs, strict=True))
    limit = f"≤ {duration(MOST_SECONDS)}"
    yield Row("tailrace run: from the start to the first poll", duration(first), "", "", limit, first <= MOST_SECONDS)
    limit = f"< {MOST_MB:g} MB"
    yield Row("an idle gateway: memory", f"{memory:.0f} MB", "", "", limit, memory < MOST_MB)
    yield Row("an idle gateway: CPU", f"{cpu:.2%}", "", "", f"< {MOST_CPU:.0%}", cpu < MOST_CPU)


async def _run(*, idle_s: float) -> _Idle:
    with tempfile.TemporaryDirectory() as folder:
        async with TelegramSimulator(clock=time.time) as telegram:
            arguments = ("run", "demo", "--channel", "telegram", "--ledger", f"{folder}/ledger.db")
            began = time.time()
            process = await asyncio.create_subprocess_exec(
                *(_TAILRACE, *arguments),
                cwd=folder,  # without the settings of this directory
                env={**os.environ, **telegram.environment},
                stderr=asyncio.subprocess.PIPE,
            )
            try:
                assert process.stderr is not None
                await process.stderr.readline()
                await telegram.act(WriteMessage(text="hello"))  # answers the first poll
                await telegram.wait_until(lambda: any(call.method == "getUpdates" for call in telegram.calls))
                first_poll = next(call for call in telegram.calls if call.method == "getUpdates")
                await telegram.wait_until(lambda: bool(telegram.texts()))
                _, cpu_before = _usage(process.pid)
                await asyncio.sleep(idle_s)
                memory, cpu_after = _usage(process.pid)
            finally:
                process.terminate()
                await process.communicate()
    return _Idle(first_poll.at - began, memory, (cpu_after - cpu_before) / idle_s)


def _usage(pid: int) -> tuple[float, float]:
    """The memory in MB and the CPU time in seconds of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return pages * _PAGE / 1e6, (int(fields[11]) + int(fields[12])) / _TICKS
