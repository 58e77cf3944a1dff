"""Crash points around the ports: a ledger, a channel or a database connection with moments at which the process dies.

Each function returns what it was given where neither `CRASH` nor `CRASH_COUNT` is set (see
`kills.crash_points`), and otherwise something that fulfils the same protocols and passes the points:

    crashing_ledger    accept, begin, plan, turn (the end of a turn): .before and .after the call
                       intent: around what enters `sending`, by `move`, `plan` or `end`
                       outcome: around a move from `sending` or `ambiguous` to anything but `sending`
                       recover.marked: after `adopt` took rows over that this process had not seen
    crashing_channel   send.before, send.answered; a `SimulatedChannel` also passes send.written, once the request has
                       left and before its answer is read
    crashing_connect   tx.before_commit, tx.after_commit: around the COMMIT of every connection

Points that stand around one call are passed from the outside in: `plan.before`, `intent.before`, the call,
`intent.after`, `plan.after`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

from kills.crash_points import CrashPoints, crash_points, points_of_environment, read_counts
from tailrace.deliveries import State
from tailrace.testing.simulated import SimulatedChannel

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from tailrace.deliveries import Delivery, Inbound, Turn, TurnState
    from tailrace.ports import Channel, Ledger

__all__ = ["CrashPoints", "crash_points", "crashing_channel", "crashing_connect", "crashing_ledger", "read_counts"]

AnyLedger = TypeVar("AnyLedger", bound="Ledger")
AnyChannel = TypeVar("AnyChannel", bound="Channel")
Options = ParamSpec("Options")
Connection = TypeVar("Connection")

_SENDS = ("post", "post_media", "edit", "delete", "open_stream", "append_stream", "close_stream", "find")
_ASKED = frozenset({State.SENDING, State.AMBIGUOUS})


def crashing_ledger(ledger: AnyLedger, points: CrashPoints | None = None) -> AnyLedger:
    """The ledger with its crash points; `points` are those of the environment unless given."""
    points = points or points_of_environment()
    if points is None:
        return ledger
    around = _LedgerPoints(ledger, points)
    calls = ("accept", "begin", "plan", "move", "end", "adopt")
    return _with_other_methods(ledger, {name: getattr(around, name) for name in calls})


def crashing_channel(channel: AnyChannel, points: CrashPoints | None = None) -> AnyChannel:
    """The channel with its crash points, and with the powers it had."""
    points = points or points_of_environment()
    if points is None:
        return channel
    if isinstance(channel, SimulatedChannel):
        channel.on_step = points.reach
        return channel
    sends = {name: _send(getattr(channel, name), points) for name in _SENDS if hasattr(channel, name)}
    return _with_other_methods(channel, sends)


def crashing_connect(
    connect: Callable[Options, Connection], points: CrashPoints | None = None
) -> Callable[Options, Connection]:
    """What opens database connections that pass the points of a transaction."""
    found = points or points_of_environment()
    if found is None:
        return connect

    def crashing(*args: Options.args, **kwargs: Options.kwargs) -> Connection:
        return cast("Connection", _CrashingConnection(connect(*args, **kwargs), found))

    return crashing


Port = TypeVar("Port")


def _with_other_methods(port: Port, methods: dict[str, Any]) -> Port:
    """Something that does all the port does, some of it otherwise.

    A class is made for it: what a protocol asks for must stand in a class to be found by `isinstance`.
    """

    def other(name: str) -> property:
        return property(lambda _: methods[name] if name in methods else getattr(port, name))

    names = [name for name in dir(port) if not name.startswith("_")]
    return cast("Port", type(f"Crashing{type(port).__name__}", (), {name: other(name) for name in names})())


def _send(send: Any, points: CrashPoints) -> Any:
    async def crashing(*args: object, **kwargs: object) -> object:
        points.reach("send.before")
        answer = await send(*args, **kwargs)
        points.reach("send.answered")
        return answer

    return crashing


class _LedgerPoints:
    """The calls of a ledger that pass points."""

    def __init__(self, ledger: Ledger, points: CrashPoints) -> None:
        self._ledger = ledger
        self._reach = points.reach
        self._own: set[str] = set()

    async def accept(self, inbound: Inbound) -> str:
        self._reach("accept.before")
        turn_id = await self._ledger.accept(inbound)
        self._reach("accept.after")
        return turn_id

    async def begin(self, turn: Turn) -> Turn:
        self._reach("begin.before")
        begun = await self._ledger.begin(turn)
        self._reach("begin.after")
        return begun

    async def plan(self, deliveries: Sequence[Delivery]) -> list[Delivery]:
        self._reach("plan.before")
        self._intent("before", deliveries)
        rows = await self._ledger.plan(deliveries)
        self._planned(deliveries, rows)
        self._reach("plan.after")
        return rows

    async def end(self, turn: Turn, state: TurnState, *, plan: Sequence[Delivery] = ()) -> list[Delivery]:
        self._reach("turn.before")
        self._intent("before", plan)
        rows = await self._ledger.end(turn, state, plan=plan)
        self._planned(plan, rows)
        self._reach("turn.after")
        return rows

    async def move(self, *moves: tuple[Delivery, Delivery], plan: Sequence[Delivery] = ()) -> list[Delivery]:
        nexts = [after for _, after in moves]
        is_outcome = any(
            before.state in _ASKED and after.state not in {before.state, State.SENDING} for before, after in moves
        )
        if is_outcome:
            self._reach("outcome.before")
        self._intent("before", nexts)
        rows = await self._ledger.move(*moves, plan=plan)
        self._own.update(row.id for row in [*rows, *plan])
        self._intent("after", nexts)
        if is_outcome:
            self._reach("outcome.after")
        return rows

    async def adopt(self, conversation: str, *, now: float, limit: int) -> list[Delivery]:
        rows = await self._ledger.adopt(conversation, now=now, limit=limit)
        # An open row that this process neither planned nor adopted before was another owner's until now.
        new = {row.id for row in rows} - self._own
        self._own |= new
        if new:
            self._reach("recover.marked")
        return rows

    def _planned(self, asked: Sequence[Delivery], rows: list[Delivery]) -> None:
        self._own.update(row.id for row in rows if row.epoch == self._ledger.epoch)
        # One that was to be sent at once, and has to wait behind another, is recorded as no intent.
        if any(row.state is State.SENDING for row in asked):
            self._intent("after", [row for row in rows if row.epoch == self._ledger.epoch])

    def _intent(self, when: str, rows: Sequence[Delivery]) -> None:
        if any(row.state is State.SENDING for row in rows):
            self._reach(f"intent.{when}")


class _CrashingConnection:
    """A database connection, whichever; only its commits are looked at."""

    def __init__(self, connection: Any, points: CrashPoints) -> None:
        # Past `__setattr__`, which sets what belongs to the connection.
        object.__setattr__(self, "_connection", connection)
        object.__setattr__(self, "_reach", points.reach)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self._connection, name, value)

    def execute(self, sql: str, *args: Any) -> Any:
        """As the connection does; a COMMIT passes the points."""
        if sql.strip("; \t\r\n").upper() not in {"COMMIT", "END", "COMMIT TRANSACTION", "END TRANSACTION"}:
            return self._connection.execute(sql, *args)
        self._reach("tx.before_commit")
        cursor = self._connection.execute(sql, *args)
        self._reach("tx.after_commit")
        return cursor

    def commit(self) -> None:
        """As the connection does."""
        self._reach("tx.before_commit")
        self._connection.commit()
        self._reach("tx.after_commit")

    def __enter__(self) -> Any:
        self._connection.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> Any:
        if kind is None:
            self._reach("tx.before_commit")
        swallowed = self._connection.__exit__(kind, error, traceback)
        if kind is None:
            self._reach("tx.after_commit")
        return swallowed
