"""Holds a ledger open until its input ends."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tailrace.ledger.sqlite import SqliteLedger
from tailrace.testing.ledger_scenarios import post


async def keep(path: Path) -> None:
    ledger = await SqliteLedger.open(path)
    await ledger.plan([post("kept")])
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await ledger.close()


asyncio.run(keep(Path(sys.argv[1])))
