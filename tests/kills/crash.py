"""A ledger and a database connection that reach crash points around their calls.

    accept, begin, plan, turn (the end of a turn)   `.before` and `.after` the call
    intent            around what enters `sending`, by `move`, `plan` or `end`
    outcome           around a move from `sending` or `ambiguous` to another state
    recover.marked    after `adopt` took over rows that this process had not seen
    tx                `.before_commit` and `.after_commit` of each transaction

Points around one call are reached from the outside in: `plan.before`, `intent.before`, the call, `intent.after`,
`plan.after`. The points `send` are those of `SimulatedChannel.on_step`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ParamSpec, cast

from tailrace.deliveries import State

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kills.crash_points import CrashPoints
    from tailrace.deliveries import Delivery, Inbound, Turn, TurnState
    from tailrace.ledger.connection import Connection
    from tailrace.ports import Ledger

Options = ParamSpec("Options")

_ASKED = frozenset({State.SENDING, State.AMBIGUOUS})


def crashing_ledger(ledger: Ledger, points: CrashPoints) -> Ledger:
    """The ledger with its crash points."""
    return cast("Ledger", _CrashingLedger(ledger, points))


def crashing_connect(connect: Callable[Options, Connection], points: CrashPoints) -> Callable[Options, Connection]:
    """A function that opens connections with the crash points of a transaction."""

    def crashing(*args: Options.args, **kwargs: Options.kwargs) -> Connection:
        return cast("Connection", _CrashingConnection(connect(*args, **kwargs), points))

    return crashing


class _CrashingLedger:
    def __init__(self, ledger: Ledger, points: CrashPoints) -> None:
        self._ledger = ledger
        self._reach = points.reach
        self._own: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

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
        self._reach_intent("before", deliveries)
        rows = await self._ledger.plan(deliveries)
        self._reach_planned(deliveries, rows)
        self._reach("plan.after")
        return rows

    async def end(self, turn: Turn, state: TurnState, *, plan: Sequence[Delivery] = ()) -> list[Delivery]:
        self._reach("turn.before")
        self._reach_intent("before", plan)
        rows = await self._ledger.end(turn, state, plan=plan)
        self._reach_planned(plan, rows)
        self._reach("turn.after")
        return rows

    async def move(self, *moves: tuple[Delivery, Delivery], plan: Sequence[Delivery] = ()) -> list[Delivery]:
        nexts = [after for _, after in moves]
        is_outcome = any(
            before.state in _ASKED and after.state not in {before.state, State.SENDING} for before, after in moves
        )
        if is_outcome:
            self._reach("outcome.before")
        self._reach_intent("before", nexts)
        rows = await self._ledger.move(*moves, plan=plan)
        self._own.update(row.id for row in [*rows, *plan])
        self._reach_intent("after", nexts)
        if is_outcome:
            self._reach("outcome.after")
        return rows

    async def adopt(self, conversation: str, *, now: float, limit: int) -> list[Delivery]:
        rows = await self._ledger.adopt(conversation, now=now, limit=limit)
        # An open row that this process neither planned nor adopted before belonged to another owner.
        new = {row.id for row in rows} - self._own
        self._own |= new
        if new:
            self._reach("recover.marked")
        return rows

    def _reach_planned(self, planned: Sequence[Delivery], rows: list[Delivery]) -> None:
        self._own.update(row.id for row in rows if row.epoch == self._ledger.epoch)
        # A row that should be sent at once but has to wait behind another is recorded without an intent.
        if any(row.state is State.SENDING for row in planned):
            self._reach_intent("after", [row for row in rows if row.epoch == self._ledger.epoch])

    def _reach_intent(self, when: str, rows: Sequence[Delivery]) -> None:
        if any(row.state is State.SENDING for row in rows):
            self._reach(f"intent.{when}")


class _CrashingConnection:
    def __init__(self, connection: Connection, points: CrashPoints) -> None:
        # Past `__setattr__`, which sets the attributes of the connection.
        object.__setattr__(self, "_connection", connection)
        object.__setattr__(self, "_reach", points.reach)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self._connection, name, value)

    def execute(self, sql: str, *args: Any) -> Any:
        if sql.strip("; \t\r\n").upper() != "COMMIT":
            return self._connection.execute(sql, *args)
        self._reach("tx.before_commit")
        cursor = self._connection.execute(sql, *args)
        self._reach("tx.after_commit")
        return cursor
