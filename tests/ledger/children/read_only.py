"""Opens a ledger in a read-only folder, as a new and as an existing file."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from pathlib import Path

from tailrace.deliveries import Query
from tailrace.errors import LedgerUnusable
from tailrace.ledger.reader import SqliteReader
from tailrace.ledger.sqlite import SqliteLedger
from tailrace.testing.ledger_scenarios import post

NOBODY = 65534


async def make(path: Path) -> None:
    ledger = await SqliteLedger.open(path)
    await ledger.plan([post("t")])
    await ledger.close()


async def read(path: Path) -> None:
    reader = await SqliteReader.open(path)
    assert len(await reader.find(Query())) == 1
    await reader.close()


def assert_raises(path: Path) -> None:
    try:
        asyncio.run(make(path))
    except LedgerUnusable as error:
        print(error)
    else:
        raise AssertionError("a read-only ledger was opened")


def work(folder: Path) -> None:
    path = folder / "ledger.db"
    asyncio.run(make(path))
    folder.chmod(0o500)
    assert_raises(folder / "new.db")
    assert_raises(path)
    folder.chmod(0o700)
    asyncio.run(make(path))
    asyncio.run(read(path))


folder = Path(tempfile.mkdtemp())
# Load all modules first: without privileges their files may be unreadable.
with tempfile.TemporaryDirectory() as scratch:
    asyncio.run(make(Path(scratch, "ledger.db")))
if os.getuid() == 0:
    os.chown(folder, NOBODY, NOBODY)
    os.setgid(NOBODY)
    os.setuid(NOBODY)
try:
    work(folder)
finally:
    folder.chmod(0o700)
    shutil.rmtree(folder, ignore_errors=True)
