"""Loss of power at every moment: the next opening finds everything that was acknowledged.

`make test` tries a share of the crash states, `make search` all of them.
"""

from __future__ import annotations

import asyncio
import tempfile
from itertools import product
from pathlib import Path

from disks import Disk, Event

from example_counts import share
from tailrace.deliveries import Delivery, State
from tailrace.ledger.opening import LedgerLimits
from tailrace.ledger.sqlite import SqliteLedger
from tailrace.testing.ledger_scenarios import Owner, post

Files = dict[str, bytes]
Acknowledged = dict[str, State]
Past = tuple[int, Acknowledged]  # number of events, and acknowledged states at that moment
SECTOR = 512


class Marks:
    """The contents of the mark file at each event of the disk; empty if there is none."""

    def __init__(self, disk: Disk, path: Path) -> None:
        self._path = path.with_name(f"{path.name}.mark")
        self._written: list[bytes] = []
        self._synced = [(0, b"")]
        disk.before = lambda _what, _name: self._written.append(self._read())

    def _read(self) -> bytes:
        return self._path.read_bytes() if self._path.exists() else b""

    def opened(self) -> None:
        """The ledger was opened, so its mark is synced."""
        self._synced.append((len(self._written), self._read()))

    def possible(self, moment: int) -> set[bytes]:
        """What can be in the file after a loss of power: the last content, and the oldest since the last sync."""
        first = next((mark for mark in self._written[:moment] if mark), b"")
        synced = [mark for number, mark in self._synced if number <= moment][-1]
        return {synced or first, self._written[moment] if moment < len(self._written) else self._read()}


async def use_ledger(disk: Disk, path: Path, marks: Marks) -> list[Past]:
    """Open the ledger twice and record single and grouped changes, with checkpoints. Returns what was acknowledged
    when."""
    history: list[Past] = []
    known: Acknowledged = {}

    def acknowledge(rows: list[Delivery]) -> None:
        known.update({row.id: row.state for row in rows})
        history.append((len(disk.events), dict(known)))

    for opening in range(2):
        ledger = Owner(await SqliteLedger.open(path, connect=disk.connect, limits=LedgerLimits(checkpoint_frames=12)))
        marks.opened()
        acknowledge([])
        for n in range(3):
            [row] = await ledger.plan(post(f"{opening}-{n}", chat=f"{opening}-{n}", text="x" * 900 * n))
            acknowledge([row])
            acknowledge([await ledger.deliver(row)])
        grouped = [ledger.plan(post(f"{opening}-many-{n}", chat=f"{opening}-{n}")) for n in range(5)]
        acknowledge([row for [row] in await asyncio.gather(*grouped)])
        await ledger.close()
        acknowledge([])
    return history


def applied(files: Files, events: list[Event]) -> Files:
    after = dict(files)
    for event in events:
        content = after.get(event.name, b"")
        if event.what == "write":
            content = content.ljust(event.offset, b"\0")
            after[event.name] = content[: event.offset] + event.content + content[event.offset + len(event.content) :]
        elif event.what == "cut":
            after[event.name] = content[: event.offset]
        elif event.what == "delete":
            after.pop(event.name, None)
    return after


def torn(event: Event) -> list[Event]:
    """Halves of the write: a disk may have written some sectors only."""
    half = len(event.content) // SECTOR // 2 * SECTOR
    if event.what != "write" or not half:
        return []
    return [
        Event("write", event.name, event.offset, event.content[:half]),
        Event("write", event.name, event.offset + half, event.content[half:]),
    ]


def crashes(durable: Files, unsynced: list[Event]) -> list[Files]:
    """The possible contents of the disk: no unsynced write, all, all but one, or half of the last one."""
    missing = {0, len(unsynced) // 2, len(unsynced) - 1} if unsynced else set()
    kept = [[], unsynced, *([*unsynced[:n], *unsynced[n + 1 :]] for n in sorted(missing))]
    if unsynced:
        kept += [[*unsynced[:-1], part] for part in torn(unsynced[-1])]
    return [applied(durable, events) for events in kept]


def states(disk: Disk, history: list[Past], marks: Marks) -> list[tuple[Acknowledged, Files]]:
    """Every crash state once, with what had been acknowledged by then."""
    found: dict[int, tuple[Acknowledged, Files]] = {}
    durable: Files = {}
    unsynced: list[Event] = []
    for moment, event in enumerate(disk.events, start=1):
        if event.what == "sync":
            durable = applied(durable, [each for each in unsynced if each.name == event.name])
            unsynced = [each for each in unsynced if each.name != event.name]
        elif event.what == "delete":
            durable = applied(durable, [event])
            unsynced = [each for each in unsynced if each.name != event.name]
        else:
            unsynced.append(event)
        number, acknowledged = next((past for past in reversed(history) if past[0] <= moment), (0, {}))
        for files, mark in product(crashes(durable, unsynced), sorted(marks.possible(moment))):
            crash = {**files, "ledger.db.mark": mark} if mark else files
            found[hash((number, *sorted(crash.items())))] = acknowledged, crash
    return list(found.values())


def write_files(folder: Path, files: Files) -> None:
    for name, content in files.items():
        (folder / name).write_bytes(content)


async def open_after(files: Files) -> Acknowledged:
    with tempfile.TemporaryDirectory() as folder:
        write_files(Path(folder), files)
        ledger = Owner(await SqliteLedger.open(Path(folder, "ledger.db")))
        rows = await ledger.find()
        for conversation in {row.conversation for row in rows}:
            await ledger.adopt(conversation)  # sets a damaged row to failed
        rows = await ledger.find()
        await ledger.close()
        return {row.id: row.state for row in rows}


def test_row_11_and_12_a_power_loss_loses_nothing_acknowledged(tmp_path: Path) -> None:
    disk = Disk("recording")
    marks = Marks(disk, tmp_path / "ledger.db")
    history = asyncio.run(use_ledger(disk, tmp_path / "ledger.db", marks))
    assert {event.name for event in disk.events if event.what == "sync"} >= {"ledger.db", "ledger.db-wal"}
    crash_states = states(disk, history, marks)
    for acknowledged, files in share(crash_states, 0, 5):
        found = asyncio.run(open_after(files))
        assert acknowledged.keys() <= found.keys()
        expected = {State.AMBIGUOUS, State.DELIVERED}  # `sending` is adopted as `ambiguous`
        assert all(found[name] in {state, *expected} for name, state in acknowledged.items())
    assert len(crash_states) > 300
