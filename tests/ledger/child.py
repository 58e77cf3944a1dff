"""The programs that tests run as processes of their own: `python child.py NAME ARGUMENT...`."""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
import signal
import sqlite3
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import apsw
from disks import Disk, disk_error

from tailrace.deliveries import Query
from tailrace.errors import LedgerUnavailable, LedgerUnusable
from tailrace.ledger.connection import connect
from tailrace.ledger.opening import LedgerLimits
from tailrace.ledger.reader import SqliteReader
from tailrace.ledger.sqlite import SqliteLedger
from tailrace.testing.ledger_scenarios import Owner, ids, post

NOBODY = 65534


async def keeper(path: str) -> None:
    """Hold a ledger open until the input ends."""
    ledger = Owner(await SqliteLedger.open(path))
    await ledger.plan(post("kept"))
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await ledger.close()


async def lock_holder(path: str) -> None:
    """Be a database tool that keeps the file locked until the input ends."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    print("ready", flush=True)
    sys.stdin.read()
    connection.execute("ROLLBACK")
    connection.close()


async def bad_sync(path: str, name: str, sync: str) -> None:
    """Use a disk on which the n-th sync of a file fails once and later ones succeed. Print each step."""
    disk, left = Disk("bad"), 0

    def before(what: str, file: str) -> None:
        nonlocal left
        if left and what == "sync":
            left -= file == name
            if left == 0:
                os.write(1, b"failed\n")
                raise disk_error(apsw.SQLITE_IOERR_FSYNC)
            os.write(1, b"synced\n")
        elif what == "sync":
            os.write(1, b"synced\n")

    # The creation of the file fills 23 pages of the log. The first checkpoint must come after some changes.
    ledger = Owner(await SqliteLedger.open(path, connect=disk.connect, limits=LedgerLimits(checkpoint_frames=60)))
    disk.before = before
    left = int(sync)
    for n in range(200):
        await ledger.plan(post(f"t{n}", chat=str(n)))
        os.write(1, f"t{n}\n".encode())


async def few_files(path: str) -> None:
    """Use a ledger when no more files can be opened."""
    ledger = Owner(await SqliteLedger.open(path, limits=LedgerLimits(checkpoint_frames=20)))
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    last = os.dup(0)
    os.close(last)
    resource.setrlimit(resource.RLIMIT_NOFILE, (last, hard))
    try:
        os.dup(0)
    except OSError:
        print("none left")
    for n in range(50):
        [row] = await ledger.plan(post(f"t{n}", chat=str(n), text="x" * 5000))
        await ledger.deliver(row)
    print(len(await ledger.find()), await ledger.prune())
    await ledger.close()


async def full_disk(path: str) -> None:
    """Fill the disk until the ledger refuses work, get more space, and continue."""
    ledger = Owner(await SqliteLedger.open(path))
    begun, *recorded = await ledger.plan(*(post("first", n, chat="first") for n in (1, 2)))
    [limit, hard] = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, hard))
    refused = None
    while refused is None:
        try:
            recorded += await ledger.plan(post(f"t{len(recorded)}", chat=str(len(recorded)), text="x" * 10_000))
        except LedgerUnavailable as error:
            refused = error
    for _again in range(3):
        try:
            await ledger.plan(post("refused", text="x" * 50_000))
        except LedgerUnavailable:
            continue
        raise AssertionError("a full disk took more")
    assert len(await ledger.find()) == len(recorded) + 1
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    await ledger.plan(post("refused", text="x" * 50_000))
    await ledger.deliver(begun)
    await ledger.close()
    print(len(recorded) + 2, refused)


async def little_memory(path: str) -> None:
    """Record a delivery that is too large for the memory, among others that are not."""
    ledger = Owner(await SqliteLedger.open(path))
    huge = post("huge", text="x" * 100_000_000)
    await ledger.plan(post("before", chat="0"))
    in_use = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()  # noqa: ASYNC240
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (in_use + 60_000_000, limits[1]))
    calls = [ledger.plan(each) for each in (post("a", chat="1"), huge, post("b", chat="2"))]
    answers = await asyncio.gather(*calls, return_exceptions=True)
    resource.setrlimit(resource.RLIMIT_AS, limits)
    await ledger.plan(post("after", chat="3"))
    found = ids(await ledger.find())
    await ledger.close()
    print(*(type(answer).__name__ for answer in answers), *found)


class KillingConnection(apsw.Connection):
    """A connection that kills its process at a commit."""

    left = 0
    when = ""

    def execute(self, statements: str, *args: Any, **kwargs: Any) -> apsw.Cursor:
        self.left -= statements == "COMMIT;"
        kills = self.left == 0 and statements == "COMMIT;"
        if kills and self.when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        cursor = super().execute(statements, *args, **kwargs)
        if kills:
            os.kill(os.getpid(), signal.SIGKILL)
        return cursor


async def killed_commit(path: str, when: str, commit: str) -> None:
    """Record turns of three parts until killed before or after the n-th commit. Print the acknowledged ones."""
    KillingConnection.when, KillingConnection.left = when, int(commit)
    ledger = Owner(await SqliteLedger.open(path, connect=partial(connect, of=KillingConnection)))

    async def record(name: str) -> None:
        await ledger.plan(*(post(name, ordinal) for ordinal in (1, 2, 3)))
        print(name, flush=True)

    for group in range(10):
        await asyncio.gather(*(record(f"{group}-{n}") for n in range(5)))


async def opening(path: Path, left: int) -> None:
    """Open a ledger in a process that is killed at its n-th statement."""

    def kill_at_last(_cursor: apsw.Cursor, _statement: str, _bindings: object) -> bool:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return True

    def killing(path: Path, *, readonly: bool) -> apsw.Connection:
        connection = connect(path, readonly=readonly)
        connection.exec_trace = None if readonly else kill_at_last
        return connection

    await (await SqliteLedger.open(path, connect=killing)).close()


def killed_opening(folder: str) -> None:
    """Open copies of a ledger in processes that are killed at the n-th statement, for every n. Print how many."""
    for statement in range(1, 1000):
        copy = f"{folder}-{statement}"
        shutil.copytree(folder, copy)
        child = os.fork()
        if child == 0:
            asyncio.run(opening(Path(copy, "ledger.db"), statement))
            os._exit(0)
        if os.waitpid(child, 0)[1] == 0:
            shutil.rmtree(copy)
            print(statement - 1)
            return
    raise AssertionError("the opening never ends")


async def use(path: Path) -> None:
    """Open the ledger and change it."""
    ledger = Owner(await SqliteLedger.open(path))
    await ledger.plan(post("t"))
    await ledger.close()


async def read(path: Path) -> None:
    """Read the ledger."""
    reader = await SqliteReader.open(path)
    assert len(await reader.find(Query())) == 1
    await reader.close()


def read_only() -> None:
    """Open a ledger in a read-only folder, as a new and as an existing file."""
    folder = Path(tempfile.mkdtemp())
    # Load all modules first: without privileges their files may be unreadable.
    with tempfile.TemporaryDirectory() as scratch:
        asyncio.run(use(Path(scratch, "ledger.db")))
        asyncio.run(read(Path(scratch, "ledger.db")))
    if os.getuid() == 0:
        os.chown(folder, NOBODY, NOBODY)
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    try:
        asyncio.run(use(folder / "ledger.db"))
        folder.chmod(0o500)
        for name in ("new.db", "ledger.db"):
            try:
                asyncio.run(use(folder / name))
            except LedgerUnusable as error:
                print(error)
            else:
                raise AssertionError("a read-only ledger was opened")
        folder.chmod(0o700)
        asyncio.run(use(folder / "ledger.db"))
        asyncio.run(read(folder / "ledger.db"))
    finally:
        folder.chmod(0o700)
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    program = globals()[sys.argv[1]](*sys.argv[2:])
    if program is not None:
        asyncio.run(program)
