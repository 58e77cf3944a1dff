"""Failing disks, little memory and locks of other programs: the ledger refuses work, and continues by itself."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import apsw
import processes
import pytest
from disks import Disk, disk_error

from tailrace.deliveries import Query, Snapshot
from tailrace.errors import LedgerClosed, LedgerError, LedgerLost, LedgerUnavailable
from tailrace.ledger.connection import connect
from tailrace.ledger.opening import LedgerLimits
from tailrace.ledger.reader import SqliteReader
from tailrace.ledger.sqlite import SqliteLedger
from tailrace.testing.ledger_scenarios import Owner, assert_raises, ids, inbound, post, turn

if TYPE_CHECKING:
    from tailrace.deliveries import Delivery


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


async def found(path: Path) -> list[Delivery]:
    ledger = Owner(await SqliteLedger.open(path))
    rows = await ledger.find()
    await ledger.close()
    return rows


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("commit", [3, 5, 10])  # the third takes the ledger over, after two migrations
def test_row_07_a_commit_killed_halfway_is_complete_or_absent(path: Path, when: str, commit: int) -> None:
    done = processes.run("killed_commit", path, when, commit)
    assert done.returncode == -signal.SIGKILL, done.stderr
    rows = asyncio.run(found(path))
    recorded = {row.turn_id for row in rows}
    assert len(rows) == 3 * len(recorded)
    assert set(done.stdout.split()) <= recorded
    if when == "after" and commit > 3:
        assert set(done.stdout.split()) < recorded


def test_row_14_a_full_disk_refuses_work_until_there_is_space(path: Path) -> None:
    done = processes.run("full_disk", path)
    assert done.returncode == 0, done.stderr
    count, _space, message = done.stdout.partition(" ")
    assert "tailrace tries again" in message
    assert len(asyncio.run(found(path))) == int(count)


@pytest.mark.parametrize("code", [apsw.SQLITE_FULL, apsw.SQLITE_IOERR_WRITE, apsw.SQLITE_READONLY])
@pytest.mark.parametrize("write", [1, 2, 3])
def test_row_14_and_16_a_failed_write_changes_nothing(path: Path, code: int, write: int) -> None:
    async def work() -> None:
        disk, left = Disk("full"), 0

        def before(what: str, name: str) -> None:
            nonlocal left
            if what == "write" and name == "ledger.db-wal" and left:
                left -= 1
                if not left:
                    raise disk_error(code)

        ledger = Owner(await SqliteLedger.open(path, connect=disk.connect))
        await ledger.plan(post("before"))
        disk.before = before
        left = write
        await assert_raises(ledger.plan(post("t")), LedgerUnavailable)
        assert ids(await ledger.find()) == ["before.1"]
        await ledger.plan(post("t"))
        assert ids(await ledger.find()) == ["t.1", "before.1"]
        await ledger.close()

    asyncio.run(work())


@pytest.mark.parametrize(("name", "sync"), [("ledger.db-wal", 5), ("ledger.db-wal", 6), ("ledger.db", 1)])
def test_row_17_a_failed_sync_ends_the_process_and_is_not_retried(path: Path, name: str, sync: int) -> None:
    done = processes.run("bad_sync", path, name, sync)
    lines = done.stdout.split()
    assert done.returncode == 1, done.stderr
    assert done.stderr.count("\n") == 1
    assert "Start tailrace again" in done.stderr
    assert "synced" not in lines[lines.index("failed") :]
    acknowledged = {f"{word}.1" for word in lines if word.startswith("t")}
    assert acknowledged
    assert acknowledged <= set(ids(asyncio.run(found(path))))


def test_row_17_a_lost_ledger_refuses_all_later_calls(path: Path) -> None:
    async def work() -> None:
        disk, lost = Disk("lost"), list[LedgerError]()

        def before(what: str, _name: str) -> None:
            if what == "sync":
                raise disk_error(apsw.SQLITE_IOERR_FSYNC)

        ledger = Owner(await SqliteLedger.open(path, connect=disk.connect, on_lost=lost.append))
        disk.before = before
        calls = [ledger.plan(post(f"t{n}")) for n in range(9)]
        answers = await asyncio.gather(*calls, return_exceptions=True)
        assert {type(answer) for answer in answers} == {LedgerLost}
        assert len(lost) == 1
        disk.before = lambda _what, _name: None
        await assert_raises(ledger.plan(post("late")), LedgerLost)
        await ledger.close()

    asyncio.run(work())


def test_row_18_a_slow_disk_makes_larger_commits_and_refuses_new_work(path: Path) -> None:
    async def work() -> None:
        disk, at_the_disk, gate = Disk("slow"), threading.Event(), threading.Event()

        def before(what: str, _name: str) -> None:
            if what == "sync":
                at_the_disk.set()
                assert gate.wait(processes.TIMEOUT_S)

        ledger = Owner(await SqliteLedger.open(path, connect=disk.connect, limits=LedgerLimits(max_waiting=1500)))
        [begun] = await ledger.plan(post("begun", chat="begun"))
        disk.before = before
        calls = [asyncio.ensure_future(ledger.plan(post("first")))]
        assert await asyncio.to_thread(at_the_disk.wait, processes.TIMEOUT_S)
        calls += [asyncio.ensure_future(ledger.plan(post(f"t{n}"))) for n in range(1501)]
        await asyncio.sleep(0)
        await assert_raises(ledger.plan(post("too much")), LedgerUnavailable)
        await assert_raises(ledger.ledger.accept(inbound("too much")), LedgerUnavailable)
        finished = asyncio.ensure_future(ledger.deliver(begun))
        syncs = sum(event.what == "sync" for event in disk.events)
        gate.set()
        await asyncio.gather(finished, *calls)
        assert sum(event.what == "sync" for event in disk.events) - syncs < 20
        await ledger.plan(post("accepted again"))
        await ledger.close()

    asyncio.run(work())


def test_row_19_a_file_locked_by_another_program_is_unavailable(path: Path) -> None:
    async def work() -> None:
        ledger = Owner(await SqliteLedger.open(path, connect=partial(connect, busy_timeout_s=0.05)))
        with processes.running("lock_holder", path) as holder:
            calls = [ledger.plan(post(f"t{n}")) for n in range(3)]
            answers = await asyncio.gather(*calls, return_exceptions=True)
            assert {type(answer) for answer in answers} == {LedgerUnavailable}
            assert await ledger.find() == []
            holder.communicate("")
        await ledger.plan(post("t0"))
        assert ids(await ledger.find()) == ["t0.1"]
        await ledger.close()

    asyncio.run(work())


def test_row_21_only_the_writer_writes_and_makes_checkpoints(path: Path) -> None:
    opened: list[apsw.Connection] = []

    def watched(path: Path, *, readonly: bool) -> apsw.Connection:
        opened.append(connect(path, readonly=readonly))
        assert readonly == (len(opened) > 1)
        return opened[-1]

    async def work() -> None:
        ledger = await SqliteLedger.open(path, connect=watched)
        reader = await SqliteReader.open(path, connect=watched)
        assert [connection.execute("PRAGMA wal_autocheckpoint").get for connection in opened] == [0, 0, 0]
        for connection in opened[1:]:
            with pytest.raises(apsw.ReadOnlyError):
                connection.execute("DELETE FROM delivery")
        assert opened[0].execute("PRAGMA synchronous").get == 2
        await reader.close()
        await ledger.close()

    asyncio.run(work())


def test_row_21_the_writer_checkpoints_while_it_works(path: Path) -> None:
    async def work() -> None:
        ledger = Owner(await SqliteLedger.open(path, limits=LedgerLimits(checkpoint_frames=30)))
        for n in range(200):
            await ledger.plan(post(f"t{n}", text="x" * 2000))
        main, log = (Path(f"{path}{suffix}").stat().st_size for suffix in ("", "-wal"))  # noqa: ASYNC240 - takes no time
        assert main > 300_000
        assert log < 400_000
        await ledger.close()

    asyncio.run(work())


def test_row_23_a_query_past_its_deadline_is_interrupted(path: Path) -> None:
    async def work() -> None:
        ledger = Owner(await SqliteLedger.open(path, limits=LedgerLimits(deadline_s=-1.0)))
        await ledger.plan(*(post(f"t{n}") for n in range(2000)))
        await assert_raises(ledger.find(Query(channel="none")), LedgerUnavailable)
        assert ids(await ledger.find(Query(), limit=1)) == ["t1999.1"]
        await ledger.close()

    asyncio.run(work())


def test_row_23_a_growing_log_is_reported_once_per_doubling(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        ledger = Owner(await SqliteLedger.open(path, limits=LedgerLimits(checkpoint_frames=20, alarm_bytes=300_000)))
        await ledger.plan(post("first"))
        with closing(apsw.Connection(str(path))) as other:
            other.execute("BEGIN")
            other.execute("SELECT * FROM delivery").fetchall()
            for n in range(100):
                await ledger.plan(post(f"t{n}", text="x" * 10_000))
        grown = path.with_name("ledger.db-wal").stat().st_size
        for n in range(100):
            await ledger.plan(post(f"u{n}", text="x" * 10_000))
        assert path.with_name("ledger.db-wal").stat().st_size < 1.3 * grown
        await ledger.close()

    with caplog.at_level(logging.WARNING):
        asyncio.run(work())
    assert 2 <= len(caplog.records) <= 5
    assert all("holds the ledger open" in record.message for record in caplog.records)


def test_row_27_a_change_too_large_for_memory_fails_alone(path: Path) -> None:
    done = processes.run("little_memory", path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["list", "LedgerUnavailable", "list", "after.1", "b.1", "a.1", "before.1"]


def test_row_28_the_ledger_works_without_free_file_descriptors(path: Path) -> None:
    done = processes.run("few_files", path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n") == ["none left", "50 50", ""]


def test_a_snapshot_is_saved_without_another_change(path: Path) -> None:
    async def work() -> None:
        ledger = Owner(await SqliteLedger.open(path, limits=LedgerLimits(snapshot_s=0.001)))
        await ledger.save_snapshot(await ledger.begin(turn()), Snapshot(text="so far"))
        reader = await SqliteReader.open(path)
        async with asyncio.timeout(processes.TIMEOUT_S):
            while (found := await reader.turn("t")) is None or found.snapshot.text != "so far":
                pass
        await reader.close()
        await ledger.close()
        await assert_raises(reader.turn("t"), LedgerClosed)

    asyncio.run(work())
