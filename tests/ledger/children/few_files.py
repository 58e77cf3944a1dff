"""Uses a ledger when no more files can be opened."""

from __future__ import annotations

import asyncio
import os
import resource
import sys
from pathlib import Path

from tailrace.deliveries import Query
from tailrace.ledger.opening import LedgerLimits
from tailrace.ledger.sqlite import SqliteLedger
from tailrace.testing.ledger_scenarios import deliver, post


async def work(path: Path) -> None:
    ledger = await SqliteLedger.open(path, limits=LedgerLimits(checkpoint_frames=20))
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    last = os.dup(0)
    os.close(last)
    resource.setrlimit(resource.RLIMIT_NOFILE, (last, hard))
    try:
        os.dup(0)
    except OSError:
        print("none left")
    for n in range(50):
        [row] = await ledger.plan([post(f"t{n}", chat=str(n), text="x" * 5000)])
        await deliver(ledger, row)
    print(len(await ledger.find(Query())), await ledger.prune(Query()))
    await ledger.close()


asyncio.run(work(Path(sys.argv[1])))
