"""A ledger with very many open rows: time to the first message, memory, cost per row.

The rows are written directly into the file, as they are after an outage of days. The measurement runs in a process of
its own (`python -m bench.many_rows`) and includes its start.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bench.no_ledger import SlowPlatform
from bench.rows import Row, Scale, at_most, duration
from tailrace.deliveries import Policy, Query, plan
from tailrace.delivery import Courier, Recovery
from tailrace.ledger.opening import LedgerLimits
from tailrace.ledger.rows import from_delivery
from tailrace.ledger.sqlite import SqliteLedger
from tailrace.operations import Body, Post, Receipt, Target

if TYPE_CHECKING:
    from collections.abc import Iterator

FIRST_WITHIN_S = 1.0
MOST_MEMORY_MB = 150
LONGEST_PRUNE_S = 0.050
FLAT = 1.3
_EACH = 100


def rows(scale: Scale) -> Iterator[Row]:
    """First message, memory and cost per row at full size, against a tenth of it; and pruning all rows."""
    served = max(scale.open_rows // 50, 10)
    with tempfile.TemporaryDirectory() as directory:
        few, many = (Path(directory) / name for name in ("few.db", "many.db"))
        _fill(few, max(scale.open_rows // 10, 20))
        _fill(many, scale.open_rows)
        less, more = _start(few, served), _start(many, served)
        count = f"{scale.open_rows:,} open rows"
        first = more["first_s"]
        yield Row(f"{count}: from start to the first part", duration(first), "", "", "≤ 1 s", first <= FIRST_WITHIN_S)
        memory = more["memory_mb"]
        yield Row(f"{count}: memory", f"{memory:.0f} MB", "", "", "≤ 150 MB", memory <= MOST_MEMORY_MB)
        yield at_most(f"{count}: a row delivered, against a tenth as many", more["each_s"], less["each_s"], FLAT)
        longest, each = _prune(many)
        name = f"{count}: longest hold of the writer while they are pruned, and per row"
        yield Row(name, duration(longest), duration(each), "", "≤ 50 ms", longest <= LONGEST_PRUNE_S)


def _fill(path: Path, count: int) -> None:
    """Make a ledger with `count` planned deliveries, a hundred for each conversation, interleaved."""

    async def make() -> None:
        await (await SqliteLedger.open(path)).close()

    asyncio.run(make())
    now = time.time()
    policy = Policy(idempotency=SlowPlatform.capabilities.idempotency)
    columns: list[tuple[object, ...]] = []
    for number in range(max(count // _EACH, 1)):
        post = Post(target=Target(channel=SlowPlatform.name, chat=f"{number:06}"), body=Body(text="A part. " * 50))
        columns.append(from_delivery(plan(post, turn_id=f"turn-{number:06}", ordinal=1, policy=policy, now=now)))
    names = "rid, turn_id, ordinal, conversation, channel, state, attempt, spared, epoch, operation, policy, key, "
    names += "fingerprint, created_at, first_try_at, last_try_at, not_before, receipt, error, may_be_double, updated_at"
    marks = ", ".join("?" * len(columns[0]))
    placed = (
        (16 * place, turn_id, ordinal, *others)
        for place, (ordinal, (_place, turn_id, _one, *others)) in enumerate(
            itertools.product(range(1, count // len(columns) + 1), columns), start=1
        )
    )
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        connection.executemany(f"INSERT INTO delivery ({names}) VALUES ({marks})", placed)  # noqa: S608 -- our names
    connection.close()
    _sync(path)


def _sync(path: Path) -> None:
    """Sync the file, so that the first checkpoint of the measurement does not have to."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _start(path: Path, served: int) -> dict[str, float]:
    """The measurements of a process that opens this ledger and delivers `served` of its rows."""
    command = [sys.executable, "-m", "bench.many_rows", str(path), str(served)]
    root = Path(__file__).parent.parent
    start = time.time()
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=root)  # noqa: S603 -- ours
    measured: dict[str, float] = json.loads(done.stdout)
    return {**measured, "first_s": measured["first_at"] - start}


class _Counting(SlowPlatform):
    """A platform that answers at once, and records the time of the first message and the end of the last."""

    def __init__(self, until: int) -> None:
        super().__init__(0.0)
        self.first_at = 0.0
        self.done = asyncio.Event()
        self._left = until

    async def post(self, post: Post, *, key: str) -> Receipt:
        """Count it."""
        self.first_at = self.first_at or time.time()
        self._left -= 1
        if self._left == 0:
            self.done.set()
        return await super().post(post, key=key)


async def _serve(path: Path, served: int) -> None:
    ledger = await SqliteLedger.open(path)
    platform = _Counting(served)
    async with Courier(ledger) as courier:
        courier.connect(platform)
        recovery = asyncio.create_task(Recovery(courier).run())
        await platform.done.wait()
        each_s = (time.time() - platform.first_at) / served
        recovery.cancel()
    await ledger.close()
    print(json.dumps({"first_at": platform.first_at, "each_s": each_s, "memory_mb": _most_memory_mb()}))


def _most_memory_mb() -> float:
    """The peak memory of this process. The value of `getrusage` starts with the peak of its parent."""
    status = Path("/proc/self/status")
    if status.exists():
        return int(status.read_text().partition("VmHWM:")[2].split()[0]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _prune(path: Path) -> tuple[float, float]:
    """The longest time that pruning blocked the writer, and the time per row."""
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("UPDATE delivery SET state = 'delivered'")
    connection.close()
    _sync(path)

    # The whole file is checked before it is used: a check during the work would keep the log from being restarted.
    limits = LedgerLimits(small_bytes=path.stat().st_size + 1)

    async def prune_all() -> tuple[float, float]:
        ledger = await SqliteLedger.open(path, limits=limits)
        taken, count = [], 0
        is_done = False
        while not is_done:
            start = time.perf_counter()
            is_done = not (pruned := await ledger.prune(Query(before=time.time() + 1)))
            taken.append(time.perf_counter() - start)
            count += pruned
        await ledger.close()
        return max(taken), sum(taken) / max(count, 1)

    return asyncio.run(prune_all())


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1]), int(sys.argv[2])))
