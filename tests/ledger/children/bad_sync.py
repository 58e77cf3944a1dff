"""Uses a disk on which the n-th sync of a file fails once and later ones succeed. Prints each step."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import sys
from pathlib import Path

from disks import Disk, disk_error

from tailrace.ledger.opening import LedgerLimits
from tailrace.ledger.sqlite import SqliteLedger
from tailrace.testing.ledger_scenarios import post


async def work(path: Path, name: str, left: int) -> None:
    disk = Disk("bad")
    armed = False

    def before(what: str, file: str) -> None:
        nonlocal left
        if armed and what == "sync":
            left -= file == name
            if left == 0 and file == name:
                os.write(1, b"failed\n")
                raise disk_error(sqlite3.SQLITE_IOERR_FSYNC)
            os.write(1, b"synced\n")

    ledger = await SqliteLedger.open(path, connect=disk.connect, limits=LedgerLimits(checkpoint_frames=20))
    disk.before = before
    armed = True
    for n in range(200):
        await ledger.plan([post(f"t{n}", chat=str(n))])
        os.write(1, f"t{n}\n".encode())


asyncio.run(work(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
