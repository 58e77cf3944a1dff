"""Fills the disk until the ledger refuses work, gets more space, and continues."""

from __future__ import annotations

import asyncio
import resource
import sys
from pathlib import Path

from tailrace.deliveries import Query
from tailrace.errors import LedgerUnavailable
from tailrace.ledger.sqlite import SqliteLedger
from tailrace.testing.ledger_scenarios import deliver, post


async def work(path: Path) -> None:
    ledger = await SqliteLedger.open(path)
    begun, *recorded = await ledger.plan([post("first", n, chat="first") for n in (1, 2)])
    [limit, hard] = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, hard))
    refused = None
    while refused is None:
        try:
            recorded += await ledger.plan([post(f"t{len(recorded)}", chat=str(len(recorded)), text="x" * 10_000)])
        except LedgerUnavailable as error:
            refused = error
    for _again in range(3):
        try:
            await ledger.plan([post("refused", text="x" * 50_000)])
        except LedgerUnavailable:
            continue
        raise AssertionError("a full disk took more")
    assert len(await ledger.find(Query(), limit=999)) == len(recorded) + 1
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    await ledger.plan([post("refused", text="x" * 50_000)])
    await deliver(ledger, begun)
    await ledger.close()
    print(len(recorded) + 2, refused)


asyncio.run(work(Path(sys.argv[1])))
