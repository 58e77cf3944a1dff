"""Records a delivery that is too large for the memory, among others that are not."""

from __future__ import annotations

import asyncio
import resource
import sys
from pathlib import Path

from tailrace.deliveries import Query
from tailrace.ledger.sqlite import SqliteLedger
from tailrace.testing.ledger_scenarios import ids, post


def memory_in_use() -> int:
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()


async def work(path: Path) -> None:
    ledger = await SqliteLedger.open(path)
    huge = post("huge", text="x" * 100_000_000)
    await ledger.plan([post("before", chat="0")])
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (memory_in_use() + 60_000_000, limits[1]))
    calls = [ledger.plan([each]) for each in (post("a", chat="1"), huge, post("b", chat="2"))]
    answers = await asyncio.gather(*calls, return_exceptions=True)
    resource.setrlimit(resource.RLIMIT_AS, limits)
    await ledger.plan([post("after", chat="3")])
    found = ids(await ledger.find(Query()))
    await ledger.close()
    print(*(type(answer).__name__ for answer in answers), *found)


asyncio.run(work(Path(sys.argv[1])))
