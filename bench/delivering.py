"""The cost of the ledger: the courier with both checkpoints awaited, against the same courier without a ledger.

It also compares the group commit with one commit per operation, on this disk and on one that is 5 ms slower, and with
libraries that a user might choose instead.
"""

from __future__ import annotations

import asyncio
import gc
import importlib.util
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw

from bench.no_ledger import NoLedger, SlowPlatform
from bench.rows import Row, Scale, duration
from tailrace.deliveries import Delivery, Lease, Policy, moved, plan, sending
from tailrace.deliveries import State as Of
from tailrace.delivery import Courier
from tailrace.ledger.connection import connect
from tailrace.ledger.sqlite import SqliteLedger
from tailrace.operations import Body, Post, Receipt, Target

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence

    from tailrace.ledger_port import Ledger

PLATFORM_S = 0.05
SLOW_SYNC_S = 0.005
TEXT = "A part of an answer, as long as many are. " * 12
POLICY = Policy(idempotency=SlowPlatform.capabilities.idempotency)


def rows(scale: Scale) -> Iterator[Row]:
    """The courier with many and few turns, its checkpoints, the group commit, and other libraries on the same work."""
    for turns, share in ((scale.turns, 0.75), (max(scale.turns // 10, 1), 0.92)):
        parts = max(scale.deliveries // scale.turns, 1)
        rounds = [(_with_ledger(turns, parts), _without_ledger(turns, parts)) for _ in range(scale.repeats)]
        ours, floor = max(rate for rate, _ in rounds), max(rate for _, rate in rounds)
        name = f"courier, {turns:,} turns, platform of {PLATFORM_S * 1e3:.0f} ms, against no ledger"
        yield _share(name, ours, floor, share)
        if turns == scale.turns:
            yield _checkpoints(turns, parts)
    yield from _commits(scale)
    yield from _others(scale)


def _with_ledger(turns: int, parts: int, waits: list[float] | None = None) -> float:
    """Deliveries per second with a ledger. `waits` collects the waits for checkpoints."""

    async def measure(path: Path) -> float:
        ledger = await SqliteLedger.open(path)
        try:
            return await _deliver(ledger if waits is None else _Timed(ledger, waits), turns, parts)
        finally:
            await ledger.close()

    return _in_directory(measure)


def _without_ledger(turns: int, parts: int) -> float:
    return _uncollected(_deliver(NoLedger(), turns, parts))


async def _deliver(ledger: Ledger, turns: int, parts: int) -> float:
    """Deliveries per second. All turns run at once; each sends its parts one after the other."""
    async with Courier(ledger) as courier:
        courier.connect(SlowPlatform(PLATFORM_S))

        async def one(number: int) -> None:
            target = Target(channel=SlowPlatform.name, chat=str(number))
            turn = await courier.begin(f"turn-{number}", target)
            for _ in range(parts):
                await turn.send(Post(target=target, body=Body(text=TEXT)))
            await turn.end()

        start = time.perf_counter()
        await asyncio.gather(*(one(number) for number in range(turns)))
        return turns * parts / (time.perf_counter() - start)


class _Timed:
    """A ledger that measures the wait for each checkpoint."""

    def __init__(self, ledger: Ledger, waits: list[float]) -> None:
        self._ledger = ledger
        self._waits = waits

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    async def plan(self, lease: Lease, deliveries: Sequence[Delivery]) -> list[Delivery]:
        """Checkpoint A."""
        start = time.perf_counter()
        recorded = await self._ledger.plan(lease, deliveries)
        self._waits.append(time.perf_counter() - start)
        return recorded

    async def move(
        self, lease: Lease, *moves: tuple[Delivery, Delivery], plan: Sequence[Delivery] = (), hold_s: float = 0.0
    ) -> list[Delivery]:
        """Checkpoint B."""
        start = time.perf_counter()
        done = await self._ledger.move(lease, *moves, plan=plan, hold_s=hold_s)
        self._waits.append(time.perf_counter() - start)
        return done


def _checkpoints(turns: int, parts: int) -> Row:
    waits: list[float] = []
    _with_ledger(turns, parts, waits)
    waits.sort()
    middle, late = (waits[int(len(waits) * share)] for share in (0.5, 0.99))
    return Row(f"a checkpoint, {turns:,} turns: p50, p99", duration(middle), duration(late), "", "(p99 < 40 ms)")


def _commits(scale: Scale) -> Iterator[Row]:
    """Group commit: many callers at once, against one."""
    callers = min(scale.turns, 100)
    for slower_s, target in ((0.0, 8.0), (SLOW_SYNC_S, 50.0)):
        each = max(scale.deliveries // callers // (8 if slower_s else 1), 1)
        grouped = _in_directory(partial(_record, callers=callers, each=each, slower_s=slower_s))
        alone = _in_directory(partial(_record, callers=1, each=max(each // 4, 1), slower_s=slower_s))
        where = f", {slower_s * 1e3:.0f} ms added to each sync" if slower_s else ""
        ratio = grouped / alone
        yield Row(
            f"group commit, {callers} callers, against one commit per operation{where}",
            f"{grouped:,.0f}/s",
            f"{alone:,.0f}/s",
            f"{ratio:.1f} x",
            f"≥ {target:g} x",
            ratio >= target,
        )


async def _record(path: Path, callers: int, each: int, slower_s: float) -> float:
    """Operations per second: each caller records deliveries and moves them to delivered, one after the other."""
    ledger = await SqliteLedger.open(path, connect=_slower(slower_s))

    async def call(number: int) -> None:
        target = Target(channel="slow", chat=str(number))
        lease = await ledger.acquire(target.conversation)
        for ordinal in range(1, each + 1):
            post = Post(target=target, body=Body(text=TEXT))
            new = plan(post, turn_id=f"t{number}", ordinal=ordinal, policy=POLICY, now=0.0)
            [recorded] = await ledger.plan(lease, [sending(new, now=0.0)])
            delivered = moved(recorded, Of.DELIVERED, now=1.0, receipt=Receipt(message_id="m"))
            await ledger.move(lease, (recorded, delivered))

    try:
        start = time.perf_counter()
        await asyncio.gather(*(call(number) for number in range(callers)))
        return 2 * callers * each / (time.perf_counter() - start)
    finally:
        await ledger.close()


def _slower(seconds: float) -> Any:
    """A `connect` whose commits take so many seconds longer. In a write-ahead log each commit is one sync."""
    if not seconds:
        return connect

    class SlowConnection(apsw.Connection):
        def execute(self, statements: str, *args: Any, **options: Any) -> apsw.Cursor:
            if statements.lstrip().upper().startswith("COMMIT"):
                time.sleep(seconds)
            return super().execute(statements, *args, **options)

    return partial(connect, of=SlowConnection)


def _others(scale: Scale) -> Iterator[Row]:
    """The same two writes per delivery with libraries that a user might choose instead; only shown."""
    callers = min(scale.turns, 100)
    each = max(scale.deliveries // callers // 8, 1)
    ours = _in_directory(partial(_record, callers=callers, each=each, slower_s=0.0))
    for name, module, work in (
        ("aiosqlite, autocommit, synchronous=FULL", "aiosqlite", _aiosqlite),
        ("litequeue, as it comes: synchronous=NORMAL, one caller at a time", "litequeue", _litequeue),
    ):
        if importlib.util.find_spec(module) is not None:
            theirs = _in_directory(partial(work, callers=callers, each=each))
            yield Row(f"{name}, {callers} callers", f"{ours:,.0f}/s", f"{theirs:,.0f}/s", f"{ours / theirs:.1f} x")


async def _aiosqlite(path: Path, callers: int, each: int) -> float:
    aiosqlite: Any = importlib.import_module("aiosqlite")
    async with aiosqlite.connect(path, isolation_level=None) as database:
        await database.execute("PRAGMA journal_mode = WAL")
        await database.execute("PRAGMA synchronous = FULL")
        await database.execute("CREATE TABLE sent (id TEXT PRIMARY KEY, state TEXT, body TEXT)")

        async def call(number: int) -> None:
            for ordinal in range(each):
                name = f"{number}.{ordinal}"
                await database.execute("INSERT INTO sent VALUES (?, 'sending', ?)", (name, TEXT))
                await database.execute("UPDATE sent SET state = 'delivered' WHERE id = ?", (name,))

        start = time.perf_counter()
        await asyncio.gather(*(call(number) for number in range(callers)))
        return 2 * callers * each / (time.perf_counter() - start)


async def _litequeue(path: Path, callers: int, each: int) -> float:
    litequeue: Any = importlib.import_module("litequeue")
    queue = litequeue.LiteQueue(str(path))
    start = time.perf_counter()
    for _ in range(callers * each):
        queue.put(TEXT)
        queue.done(queue.pop().message_id)
    taken = time.perf_counter() - start
    queue.close()
    return 2 * callers * each / taken


def _in_directory(measure: Callable[[Path], Awaitable[float]]) -> float:
    with tempfile.TemporaryDirectory() as directory:
        return _uncollected(measure(Path(directory) / "ledger.db"))


def _uncollected(rate: Awaitable[float]) -> float:
    """A rate, measured without pauses of the garbage collector."""

    async def measured() -> float:
        return await rate

    gc.collect()
    gc.disable()
    try:
        return asyncio.run(measured())
    finally:
        gc.enable()


def _share(name: str, ours: float, floor: float, target: float) -> Row:
    share = ours / floor
    return Row(name, f"{ours:,.0f}/s", f"{floor:,.0f}/s", f"{share:.1%}", f"≥ {target:.0%}", share >= target)
