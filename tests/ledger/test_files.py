"""The files of a ledger: permissions, the lock, and the refusal of files that were damaged or replaced."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import processes
import pytest
from stores import StoppedClock, execute

from example_counts import share
from tailrace.deliveries import Delivery, Query, State, sending
from tailrace.errors import LedgerError, LedgerInUse, LedgerLost, LedgerUnusable
from tailrace.ledger.files import data_directory, default_path
from tailrace.ledger.opening import LedgerLimits
from tailrace.ledger.reader import SqliteReader
from tailrace.ledger.sqlite import SqliteLedger
from tailrace.testing.ledger_scenarios import Owner, assert_raises, ids, inbound, post, turn

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


def copied(folder: Path, to: Path) -> Path:
    """A copy of the files as a crash would leave them now."""
    shutil.copytree(folder, to)
    return to / "ledger.db"


async def recorded(path: Path, count: int, *, image: Path | None = None) -> list[Delivery]:
    """Make a ledger with so many commits. `image` gets a copy of its files before it is closed."""
    ledger = Owner(await SqliteLedger.open(path))
    rows = [(await ledger.plan(post(f"t{n}", chat=str(n), text=f"text {n} " * 9)))[0] for n in range(count)]
    if image is not None:
        copied(path.parent, image)
    await ledger.close()
    return rows


async def all_rows(path: Path, *, adopt_restored: bool = False) -> list[Delivery]:
    """All rows of a ledger, adopted as if they were to be sent."""
    lost: list[LedgerError] = []
    ledger = Owner(await SqliteLedger.open(path, on_lost=lost.append, adopt_restored=adopt_restored))
    try:
        found = await ledger.find()
        adopted = [await ledger.adopt(name) for name in sorted({row.conversation for row in found})]
        return [row for rows in adopted for row in rows]
    finally:
        await ledger.close()


def flipped(path: Path, offset: int) -> None:
    content = bytearray(path.read_bytes())
    content[offset] ^= 0x10
    path.write_bytes(content)


def test_default_path_is_in_the_data_directory_of_the_platform(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("XDG_DATA_HOME", "LOCALAPPDATA", "HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    assert default_path().parent == data_directory()
    assert tmp_path in default_path().parents

    async def use() -> None:
        ledger = Owner(await SqliteLedger.open())
        await ledger.close()
        await (await SqliteReader.open()).close()

    asyncio.run(use())
    assert default_path().exists()
    assert default_path().parent.stat().st_mode & 0o777 == 0o700


def test_a_path_may_be_a_string(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    async def work() -> list[Delivery]:
        ledger = Owner(await SqliteLedger.open("ledger.db"))
        await ledger.plan(post("t"))
        await ledger.close()
        reader = await SqliteReader.open("ledger.db")
        found = await reader.find(Query())
        await reader.close()
        return found

    assert ids(asyncio.run(work())) == ["t.1"]
    assert (tmp_path / "ledger.db").exists()


def test_row_81_only_the_owner_can_read_the_files_whatever_the_umask(tmp_path: Path) -> None:
    async def modes(path: Path) -> set[int]:
        ledger = Owner(await SqliteLedger.open(path))
        files = list(path.parent.iterdir())
        assert {file.suffix for file in files} == {".db", ".db-wal", ".db-shm", ".lock", ".mark"}
        found = {file.stat().st_mode & 0o777 for file in files}
        copied(path.parent, path.parent.with_name(f"{path.parent.name}-copy"))
        await ledger.close()
        return found

    before, umask = tmp_path.stat().st_mode, os.umask(0)
    try:
        assert asyncio.run(modes(tmp_path / "made" / "ledger.db")) == {0o600}
        for file in (tmp_path / "made-copy").iterdir():
            file.chmod(0o644)
        assert asyncio.run(modes(tmp_path / "made-copy" / "ledger.db")) == {0o600}
    finally:
        os.umask(umask)
    assert (tmp_path / "made").stat().st_mode & 0o777 == 0o700
    assert tmp_path.stat().st_mode == before


@pytest.mark.parametrize("part", [0.3, 0.6, 0.9])
def test_row_13_a_flipped_bit_in_the_log_is_refused(path: Path, tmp_path: Path, part: float) -> None:
    asyncio.run(recorded(path, 20, image=tmp_path / "image"))
    image = tmp_path / "image" / "ledger.db"
    log = image.with_name("ledger.db-wal")
    flipped(log, int(log.stat().st_size * part))
    with pytest.raises(LedgerUnusable, match=r"ledger\.db lacks its last \d+ commits.*deliveries resend --adopt"):
        asyncio.run(all_rows(image))
    with pytest.raises(LedgerUnusable):
        asyncio.run(all_rows(image))
    assert all(row.state is State.AMBIGUOUS for row in asyncio.run(all_rows(image, adopt_restored=True)))
    asyncio.run(all_rows(image))


def test_row_13_a_damaged_row_is_never_returned(path: Path, tmp_path: Path) -> None:
    recorded_operations = {row.id: row.operation for row in asyncio.run(recorded(path, 20))}
    size = path.stat().st_size
    refusals: list[str] = []
    for offset in share(range(0, size, 397), 0, 4):
        image = copied(path.parent, tmp_path.with_name(f"{tmp_path.name}-{offset}"))
        flipped(image, offset)
        try:
            found = asyncio.run(all_rows(image))
        except LedgerError as error:
            refusals.append(str(error).replace(str(image), "ledger.db"))
        else:
            assert all(row.operation in recorded_operations.values() for row in found)
        shutil.rmtree(image.parent)
    assert len(refusals) > 2
    assert all(refusal.startswith("ledger.db") for refusal in refusals)


@pytest.mark.parametrize(
    "damage",
    ["operation = replace(operation, 'text', 'next')", "operation = '{'", "policy = x'00'", "fingerprint = x'00'"],
)
def test_row_13_a_damaged_row_fails_and_the_rows_behind_it_go_on(
    path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def work() -> None:
        ledger = Owner(await SqliteLedger.open(path))
        await ledger.plan(*(post("t", n, text="text") for n in (1, 2, 3)))
        await ledger.close()
        execute(path, f"UPDATE delivery SET {damage} WHERE ordinal < 3")
        ledger = Owner(await SqliteLedger.open(path))
        assert [each.name for each in await ledger.ledger.open_conversations()] == ["telegram:1"]
        await assert_raises(ledger.plan(post("t", 1, text="text")), LedgerUnusable)
        assert ids(await ledger.adopt(limit=1)) == ["t.3"]
        assert execute(path, "SELECT state, count(*) FROM delivery WHERE error LIKE '%damaged%'") == ("failed", 2)
        assert await ledger.ledger.prune(Query(), bodies=True) == 2
        await ledger.close()

    asyncio.run(work())
    assert [message.split(" is damaged")[0] for message in caplog.messages] == [
        f"{path}: the row of delivery t.{n}" for n in (1, 2)
    ]


@pytest.mark.parametrize("column", ["target", "message", "snapshot"])
def test_row_13_a_damaged_turn_is_left_out_and_logged_once(
    path: Path, column: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def work() -> None:
        ledger = Owner(await SqliteLedger.open(path))
        for name in "abcd":
            await ledger.ledger.accept(inbound(name))
        a, b, c, d = await ledger.ledger.accepted_turns()
        for each in (a, b):
            await ledger.begin(each)
        await ledger.close()
        execute(path, f"UPDATE turn SET {column} = '{{' WHERE turn_id IN (?, ?)", a.turn_id, c.turn_id)
        opened = await SqliteLedger.open(path)
        for _time in range(2):
            assert ids(await opened.interrupted_turns()) == [b.turn_id]
            assert ids(await opened.accepted_turns()) == [d.turn_id]
        await assert_raises(opened.turn(a.turn_id), LedgerUnusable)
        await opened.close()

    asyncio.run(work())
    assert len(caplog.messages) == 2


def _text(path: Path) -> None:
    path.write_bytes(b"Dear diary,\n" * 1000)


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-5000])


def _emptied(path: Path) -> None:
    path.write_bytes(b"")


def _foreign(path: Path) -> None:
    path.unlink()
    execute(path, "CREATE TABLE recipes (name)")


def _newer(path: Path) -> None:
    execute(path, "PRAGMA user_version = 99")


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (_text, "not a ledger"),
        (_cut, "damaged"),
        (_emptied, "is empty"),
        (Path.unlink, "is gone"),
        (_foreign, "another program"),
        (_newer, "newer tailrace"),
        (_folder, "cannot be"),
    ],
)
def test_a_broken_file_is_refused_and_not_changed(path: Path, damage: Callable[[Path], None], words: str) -> None:
    asyncio.run(recorded(path, 30))
    damage(path)
    before = path.read_bytes() if path.is_file() else None
    for _time in range(2):
        with pytest.raises(LedgerUnusable, match=words) as refusal:
            asyncio.run(all_rows(path))
        assert str(path) in str(refusal.value)
    assert (path.read_bytes() if path.is_file() else None) == before


def test_an_empty_file_without_a_mark_is_a_new_ledger(path: Path) -> None:
    path.write_bytes(b"")
    assert asyncio.run(all_rows(path)) == []


def test_row_16_a_read_only_directory_or_file_is_refused_with_advice() -> None:
    done = processes.run("read_only")
    assert done.returncode == 0, done.stderr
    assert "Give this user permission to write there" in done.stdout


def test_row_20_a_second_process_is_refused_until_the_first_is_killed(path: Path) -> None:
    with processes.running("keeper", path) as keeper:
        with pytest.raises(LedgerInUse, match=f"process {keeper.pid}") as refusal:
            asyncio.run(all_rows(path))
        assert refusal.value.pid == keeper.pid

        async def read_beside() -> list[str]:
            reader = await SqliteReader.open(path)
            found = ids(await reader.find(Query()))
            assert [each.state for each in await reader.open_conversations()] == ["planned"]
            await reader.close()
            return found

        assert asyncio.run(read_beside()) == ["kept.1"]
        keeper.send_signal(signal.SIGKILL)
        keeper.wait()
        assert ids(asyncio.run(all_rows(path))) == ["kept.1"]


def test_row_20_a_second_ledger_in_the_same_process_is_refused(path: Path) -> None:
    async def open_twice() -> None:
        ledger = Owner(await SqliteLedger.open(path))
        with pytest.raises(LedgerInUse):
            await SqliteLedger.open(path)
        await ledger.plan(post("t"))
        await ledger.close()

    asyncio.run(open_twice())


def _replaced(path: Path) -> None:
    shutil.copy(path, path.with_name("copy"))
    path.with_name("copy").replace(path)


def _without_log(path: Path) -> None:
    path.with_name("ledger.db-wal").unlink()


@pytest.mark.parametrize("damage", [Path.unlink, _replaced, _without_log])
def test_row_22_a_deleted_or_replaced_ledger_is_lost_and_not_recreated(
    path: Path, damage: Callable[[Path], None]
) -> None:
    async def lose() -> None:
        lost: list[LedgerError] = []
        ledger = Owner(await SqliteLedger.open(path, on_lost=lost.append))
        await ledger.plan(post("kept"))
        damage(path)
        left = sorted(path.parent.iterdir())
        for _time in range(2):
            await assert_raises(ledger.plan(post("lost")), LedgerLost)
        assert [type(error) for error in lost] == [LedgerLost]
        assert sorted(path.parent.iterdir()) == left
        await ledger.close()

    asyncio.run(lose())


def test_row_22_a_second_owner_past_the_lock_fences_this_one(path: Path) -> None:
    async def lose() -> None:
        lost: list[LedgerError] = []
        ledger = Owner(await SqliteLedger.open(path, on_lost=lost.append))
        execute(path, "UPDATE ledger SET epoch = epoch + 1")
        for _time in range(2):
            await assert_raises(ledger.plan(post("t")), LedgerError)
        assert len(lost) == 1
        assert await ledger.find() == []
        await ledger.close()

    asyncio.run(lose())


def test_row_26_an_older_copy_is_refused_unless_it_is_adopted(path: Path, tmp_path: Path) -> None:
    async def use() -> None:
        ledger = Owner(await SqliteLedger.open(path))
        rows = await ledger.plan(*(post("t", n) for n in (1, 2, 3)))
        await ledger.deliver(rows[0])
        await ledger.close()
        shutil.copy(path, tmp_path / "backup")
        ledger = Owner(await SqliteLedger.open(path))
        [second] = await ledger.adopt(limit=1)
        await ledger.move((second, sending(second, now=2.0)))
        await ledger.close()

    asyncio.run(use())
    shutil.copy(tmp_path / "backup", path)
    with pytest.raises(LedgerUnusable, match="lacks its last 3 commits: it was damaged, or an older copy"):
        asyncio.run(all_rows(path))
    second, third = asyncio.run(all_rows(path, adopt_restored=True))
    assert {second.state, third.state} == {State.AMBIGUOUS}
    assert "restored" in second.error
    assert second.first_try_at == second.created_at


def test_row_26_deliveries_planned_after_the_restore_are_not_ambiguous(path: Path) -> None:
    async def use() -> None:
        await (await SqliteLedger.open(path, adopt_restored=True)).close()
        ledger = Owner(await SqliteLedger.open(path))
        await ledger.plan(post("new"))
        await ledger.close()
        ledger = Owner(await SqliteLedger.open(path))
        assert [row.state for row in await ledger.adopt()] == [State.PLANNED]
        await ledger.close()

    asyncio.run(use())


def test_row_26_another_ledger_at_the_path_is_refused(path: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    asyncio.run(recorded(path, 1))
    asyncio.run(recorded(tmp_path / "other" / "ledger.db", 9))
    shutil.copy(tmp_path / "other" / "ledger.db", path)
    with pytest.raises(LedgerUnusable, match="was replaced"):
        asyncio.run(all_rows(path))
    assert len(asyncio.run(all_rows(path, adopt_restored=True))) == 9


@pytest.mark.parametrize("content", [None, b"", b"damaged"])
def test_row_26_a_ledger_without_its_mark_counts_as_restored(path: Path, content: bytes | None) -> None:
    asyncio.run(recorded(path, 1))
    mark = path.with_name("ledger.db.mark")
    mark.unlink()
    if content is not None:
        mark.write_bytes(content)
    for _time in range(2):
        with pytest.raises(LedgerUnusable, match=r"no readable \.mark file.*deliveries resend --adopt"):
            asyncio.run(all_rows(path))
    [row] = asyncio.run(all_rows(path, adopt_restored=True))
    assert row.state is State.AMBIGUOUS
    assert len(asyncio.run(all_rows(path))) == 1


@pytest.mark.parametrize("suffix", ["", ".lock", ".mark"])
def test_a_file_that_is_a_symbolic_link_is_refused(path: Path, tmp_path: Path, suffix: str) -> None:
    foreign = tmp_path / "foreign"
    foreign.touch(0o644)
    path.with_name(f"ledger.db{suffix}").symlink_to(foreign)
    with pytest.raises(LedgerUnusable, match="is a symbolic link"):
        asyncio.run(all_rows(path))
    assert (foreign.read_bytes(), foreign.stat().st_mode & 0o777) == (b"", 0o644)


def test_a_reader_needs_a_ledger(path: Path) -> None:
    for _time in range(2):
        with pytest.raises(LedgerUnusable, match=r"no ledger|is empty"):
            asyncio.run(SqliteReader.open(path))
        path.touch()


def test_row_13_damage_in_a_large_file_is_noticed_while_in_use(path: Path) -> None:
    asyncio.run(recorded(path, 200))
    size = path.stat().st_size
    path.write_bytes(path.read_bytes()[: size // 2] + bytes(4096) + path.read_bytes()[size // 2 + 4096 :])

    async def work() -> None:
        loop, noticed = asyncio.get_running_loop(), asyncio.Event()

        def on_lost(_error: LedgerError) -> None:
            loop.call_soon_threadsafe(noticed.set)

        ledger = Owner(await SqliteLedger.open(path, limits=LedgerLimits(small_bytes=0), on_lost=on_lost))
        await asyncio.wait_for(noticed.wait(), processes.TIMEOUT_S)
        await assert_raises(ledger.plan(post("t")), LedgerLost)
        await ledger.close()

    asyncio.run(work())


def test_a_reader_does_not_change_the_ledger_of_a_killed_process(path: Path, tmp_path: Path) -> None:
    asyncio.run(recorded(path, 5, image=tmp_path / "image"))
    image = tmp_path / "image" / "ledger.db"
    before = {file: file.read_bytes() for file in (image, image.with_name("ledger.db-wal"))}

    async def read() -> None:
        reader = await SqliteReader.open(image)
        assert len(await reader.find(Query())) == 5
        await reader.close()
        await reader.close()

    asyncio.run(read())
    assert {file: file.read_bytes() for file in before} == before
    assert len(asyncio.run(all_rows(image))) == 5


def test_a_cancelled_opening_releases_the_ledger(path: Path) -> None:
    async def cancel_opening() -> None:
        opening = asyncio.ensure_future(SqliteLedger.open(path))
        await asyncio.sleep(0)
        opening.cancel()
        await asyncio.wait([opening])
        async with asyncio.timeout(processes.TIMEOUT_S):
            while (ledger := await opened_or_none()) is None:
                pass
        await ledger.close()

    async def opened_or_none() -> SqliteLedger | None:
        try:
            return await SqliteLedger.open(path)
        except LedgerInUse:
            return None

    asyncio.run(cancel_opening())


def test_row_51_a_clock_set_back_does_not_change_the_order(path: Path) -> None:
    async def work() -> None:
        clock = StoppedClock()
        for opening in range(3):
            ledger = Owner(await SqliteLedger.open(path, clock=clock))
            for n in range(3):
                clock.now -= 3600.0
                await ledger.begin(turn(f"{opening}{n}"))
                await ledger.plan(post(f"{opening}{n}", now=clock.now))
            names = [f"{earlier}{n}" for earlier in range(opening + 1) for n in range(3)]
            assert ids(await ledger.adopt()) == [f"{name}.1" for name in names]
            assert ids(await ledger.ledger.interrupted_turns()) == names[:-3]
            await ledger.close()

    asyncio.run(work())


def test_pruning_shrinks_the_file(path: Path) -> None:
    async def work() -> None:
        ledger = Owner(await SqliteLedger.open(path))
        for row in await ledger.plan(*(post(f"t{n}", text="x" * 4000) for n in range(200))):
            await ledger.deliver(row)
        await ledger.close()
        full = path.stat().st_size  # noqa: ASYNC240 - takes no time
        ledger = Owner(await SqliteLedger.open(path))
        assert await ledger.prune() == 200
        await ledger.close()
        assert path.stat().st_size < full / 2  # noqa: ASYNC240

    asyncio.run(work())
