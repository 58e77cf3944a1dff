"""What each change does to the rows, inside the transaction of the writer.

This module checks each change: whether `EDGES` allows it, and whether lease, attempt and order are right. A method
changes everything, or raises an error and changes nothing. Only a method that is marked "Compound" may fail in the
middle, and the writer then undoes it. The writer owns the commits and the errors of the disk. Whether a lease has ended
is checked before a change is submitted.
"""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, TypeAlias

from msgspec.structs import replace

from tailrace.deliveries import EDGES, FINAL, TURN_OPEN, Accepted, Delivery, Lease, State, Turn, TurnState, adopted
from tailrace.errors import CancelledTurn, Fenced, LedgerUnusable, TurnMismatch
from tailrace.ledger.connection import single_value
from tailrace.ledger.leases import file_epoch_of
from tailrace.ledger.queries import for_rows, queries
from tailrace.ledger.rows import (
    from_delivery,
    from_move,
    from_query,
    from_turn,
    matches_turn,
    next_position,
    positions_behind,
    starts_message,
    state_of,
    to_sendable,
    to_turn,
    without_body,
)
from tailrace.operations import Target

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import apsw

    from tailrace.deliveries import Query
    from tailrace.inbound import InboundMessage
    from tailrace.ledger.batches import RowChange
    from tailrace.ledger.connection import Row, Value

Move: TypeAlias = tuple[Delivery, Delivery]
"""A change of a delivery: (the delivery as the caller last saw it, its next state)."""

EVENTS_KNOWN_S = 7 * 86_400.0
"""How long an event id is kept at least, to recognise an event that the platform sends again."""

_DAMAGED = "its row in the ledger is damaged, so it is not sent"
_MAX_ROWS, _MIN_ROWS = 128, 8
_log = logging.getLogger(__name__)


class RowWriter:
    """Applies the changes to the rows of the database. Only the writer thread uses it.

    New deliveries already have the epoch of their lease.
    """

    def __init__(self, connection: apsw.Connection, path: Path, *, restored_epoch: int) -> None:
        self._connection = connection
        self._path = path
        self._sql = queries()
        self._restored_epoch = restored_epoch
        self._highest: int = single_value(connection, "highest_position")
        self._begun: int = single_value(connection, "highest_begun")

    def _rows(self, query: str, parameters: Sequence[Value] | Mapping[str, Value]) -> list[Row]:
        return self._connection.execute(self._sql[query], parameters).fetchall()

    def _change(self, query: str, parameters: Sequence[Value]) -> int:
        """Run the query and return how many rows it changed."""
        self._connection.execute(self._sql[query], parameters)
        return self._connection.changes()

    def accept(self, message: InboundMessage, now: float) -> Accepted:
        """Record an incoming message and its turn, or find the turn if the message was recorded before. Compound."""
        event = (message.channel, message.account, message.event_id)
        turn_id, is_new = message.turn_id, False
        if self._change("record_event", (*event, turn_id, now)):
            conversation = message.target.conversation
            [(arrival,)] = self._rows("next_arrival", (conversation,))
            turn = Turn(
                turn_id=turn_id,
                target=message.target,
                state=TurnState.ACCEPTED,
                message=message,
                arrival=arrival,
                updated_at=now,
            )
            is_new = self._change("record_turn", from_turn(turn)) == 1
        else:
            [(turn_id,)] = self._rows("event_turn", event)
        [(ahead,)] = self._rows("turns_ahead", (turn_id,))
        return Accepted(turn_id=turn_id, is_new=is_new, ahead=ahead)

    def cancel(self, turn_id: str) -> None:
        """Mark the turn as cancelled."""
        self._change("cancel_turn", (turn_id,))

    def begin(self, lease: Lease, turn: Turn, now: float) -> Turn:
        """Create the turn if it is new, and begin it."""
        if turn.conversation == lease.conversation:
            new = replace(turn, state=TurnState.ACCEPTED, attempt=0, epoch=0, updated_at=now)
            self._change("record_turn", from_turn(new))
        known = self._turn(turn.turn_id)
        if known is None:
            return turn
        if known.state not in TURN_OPEN or known.conversation != lease.conversation:
            return known
        begun = replace(known, state=TurnState.RUNNING, attempt=known.attempt + 1, epoch=lease.epoch, updated_at=now)
        self._begun += 1
        self._change("begin_turn", (begun.turn_id, begun.attempt, begun.epoch, now, self._begun))
        return begun

    def _turn(self, turn_id: str) -> Turn | None:
        rows = self._rows("turn", (turn_id,))
        return to_turn(rows[0], path=self._path) if rows else None

    def save_snapshots(self, snapshots: Sequence[tuple[str, int, str]], now: float) -> None:
        """Save snapshots of running turns. Each is (turn id, epoch of its lease, snapshot)."""
        for snapshot in snapshots:
            self._change("save_snapshot", (*snapshot, now))

    def end(self, lease: Lease, turn: Turn, state: TurnState, plan: Sequence[Delivery], now: float) -> list[Delivery]:
        """End the turn and record its last deliveries. Compound if it has last deliveries."""
        seen = (turn.epoch, turn.attempt, lease.conversation)
        if not self._change("end_turn", (turn.turn_id, state.value, lease.epoch, now, *seen)):
            raise Fenced(f"turn {turn.turn_id} has ended, or was begun again")
        return self.plan(plan)

    def plan(self, deliveries: Sequence[Delivery]) -> list[Delivery]:
        """Record deliveries in their order. Compound if there are several."""
        return [self._record(delivery) for delivery in deliveries]

    def _record(self, delivery: Delivery) -> Delivery:
        new = replace(delivery, position=next_position(self._highest))
        if self._insert(new):
            return new
        if new.state is State.SENDING:
            new = replace(new, state=State.PLANNED, attempt=0, first_try_at=None, last_try_at=None)
            if self._insert(new):
                return new
        key = (delivery.turn_id, delivery.ordinal)
        known = to_sendable(self._rows("delivery", key)[0], path=self._path)
        if known.fingerprint != delivery.fingerprint:
            raise TurnMismatch(delivery.id)
        return known

    def _insert(self, delivery: Delivery) -> bool:
        recorded = self._change("record", (*from_delivery(delivery), starts_message(delivery)))
        if recorded:
            self._highest = max(self._highest, delivery.position)
        return recorded == 1

    def move(self, moves: Sequence[Move], notices: Sequence[Delivery]) -> list[Delivery]:
        """Change the states of rows, and record notices right after the first row. Compound for more than one row."""
        for before, after in moves:
            if not self._change("move", from_move(before, after)):
                raise self._refusal(before, after)
        recorded = [self._notice(notice, behind=moves[0][0].position) for notice in notices]
        return [after for _before, after in moves] + [notice for notice in recorded if notice is not None]

    def _refusal(self, before: Delivery, after: Delivery) -> Exception:
        seen = (before.position, before.state.value, before.epoch, before.attempt)
        return refusal(before, is_cancelled=starts_message(after) and bool(self._rows("is_cancelled", seen)))

    def _notice(self, notice: Delivery, *, behind: int) -> Delivery | None:
        free = (at for at in positions_behind(behind) if not self._rows("position_taken", (at,)))
        new = replace(notice, position=next(free, next_position(self._highest)))
        return new if self._insert(new) else None

    def apply_many(self, query: str, changes: Sequence[RowChange]) -> list[Delivery] | None:
        """Change single rows of different conversations by few statements. Returns None if a row was refused.

        Few statements are faster: each one releases the interpreter lock, and on a busy machine most of its time is the
        wait to get the lock back.
        """
        results: list[Delivery] = []
        for first in range(0, len(changes), _MAX_ROWS):
            some = changes[first : first + _MAX_ROWS]
            values: list[Value] = []
            for before, after in some:
                if before is None:
                    self._highest = next_position(self._highest)
                    results.append(replace(after, position=self._highest))
                    values += (*from_delivery(results[-1]), starts_message(after))
                else:
                    results.append(after)
                    values += from_move(before, after)
            # NULL rows fill the statement up to one of a few sizes, because SQLite must prepare each size separately.
            size = max(_MIN_ROWS, 1 << (len(some) - 1).bit_length())
            values += [None] * (len(values) // len(some) * (size - len(some)))
            self._connection.execute(for_rows(query, size), values)
            if self._connection.changes() != len(some):
                return None
        return results

    def adopt(self, lease: Lease, now: float, limit: int) -> list[Delivery]:
        """Take over the first open rows of a conversation.

        A damaged row becomes `failed`, so that it does not stop later rows.
        """
        found: list[Delivery] = []
        has_damaged = True
        while has_damaged:
            found, has_damaged = [], False
            for row in self._rows("open_deliveries", (lease.conversation, limit)):
                if state_of(row) is None:
                    break
                try:
                    found.append(to_sendable(row, path=self._path))
                except LedgerUnusable as damage:
                    _log.error("%s It is set to failed.", damage)
                    self._change("fail_damaged", (row[0], lease.epoch, _DAMAGED, now))
                    has_damaged = True
        return [delivery if delivery.epoch == lease.epoch else self._adopt(delivery, lease, now) for delivery in found]

    def _adopt(self, delivery: Delivery, lease: Lease, now: float) -> Delivery:
        restored = file_epoch_of(delivery.epoch) < self._restored_epoch
        row = adopted(delivery, epoch=lease.epoch, now=now, restored=restored)
        columns = (row.state.value, row.epoch, row.first_try_at, row.not_before, row.error, row.updated_at)
        self._change("adopt_delivery", (*columns, row.position))
        return row

    def store(self, kind: str, key: str, value: bytes | None) -> None:
        """Record a small value under its kind and key. None deletes it."""
        if value is None:
            self._change("delete_stored", (kind, key))
        else:
            self._change("store", (kind, key, value))

    def prune(self, query: Query, limit: int, now: float, *, bodies: bool) -> int:
        """Delete final rows and ended turns, or only their content, and event ids that are old enough. Compound."""
        before = math.inf if query.before is None else query.before
        wanted = {**from_query(query, among=FINAL, limit=limit), "before": before, "rows": int(not bodies)}
        name = "prunable" if query.turn_id is None else "prunable_of_turn"
        found = self._rows(name, wanted)
        for rid, _turn_id, operation in found:
            if bodies:
                self._change("delete_body", (rid, without_body(operation)))
            else:
                self._change("delete_delivery", (rid,))
        turns = {turn_id for _rid, turn_id, _operation in found}
        turns.update(self._prunable_turns(query, wanted, bodies=bodies))
        for turn_id in turns:
            if bodies:
                self._change("delete_message", (turn_id,))
            else:
                self._change("delete_turn", (turn_id,))
        self._change("delete_events", (now - EVENTS_KNOWN_S, limit))
        self._rows("shrink_file", ())
        return len(found)

    def _prunable_turns(self, query: Query, wanted: dict[str, Value], *, bodies: bool) -> list[str]:
        """The ids of the ended turns that `prune` may delete. `wanted` has the values of the query for SQL.

        With `bodies`: only turns whose message or snapshot is still stored.
        """
        if query.states is not None:
            return []
        if query.turn_id is not None:
            turn = self._turn(query.turn_id)
            return [turn.turn_id] if turn is not None and matches_turn(turn, query) else []
        prefix = None if query.channel is None else Target(channel=query.channel, chat="").conversation
        name = "turns_with_content" if bodies else "turns_without_deliveries"
        return [row[0] for row in self._rows(name, {**wanted, "prefix": prefix})]


def refusal(before: Delivery, *, is_cancelled: bool) -> Exception:
    """The error for a move that the row does not allow."""
    if is_cancelled:
        return CancelledTurn(f"{before.id} is not sent: its turn was cancelled")
    return Fenced(
        f"{before.id} is no longer {before.state} in attempt {before.attempt} of this lease, "
        "or an earlier delivery of its conversation is open"
    )


def check_plan(lease: Lease, deliveries: Sequence[Delivery]) -> list[Delivery]:
    """Give new deliveries the epoch of the lease. Raises `ValueError` for a delivery that this lease cannot record."""
    for index, delivery in enumerate(deliveries):
        if delivery.state is not State.PLANNED and (index or delivery.state is not State.SENDING):
            raise ValueError(f"{delivery.id} cannot be recorded as {delivery.state}: a new delivery is planned")
        if delivery.conversation != lease.conversation:
            raise ValueError(f"{delivery.id} goes to {delivery.conversation}; the lease is of {lease.conversation}")
    return [replace(delivery, epoch=lease.epoch) for delivery in deliveries]


def check_moves(lease: Lease, moves: Sequence[Move], notices: Sequence[Delivery]) -> list[Delivery]:
    """Check changes of state, each a pair: the delivery before and after. Returns `notices` with the lease's epoch.

    A notice is a new delivery that tells the chat of the first change, such as that a part is missing. Raises
    `ValueError` for a change that `EDGES` does not allow, for a pair of two deliveries, and for notices without a
    change; `Fenced` for a delivery of another lease.
    """
    for before, after in moves:
        if after.state not in EDGES[before.state]:
            raise ValueError(f"{before.id} is {before.state}; it cannot become {after.state}")
        if before.ordinal != after.ordinal or before.turn_id != after.turn_id:
            raise ValueError(f"{before.id} cannot become {after.id}")
        if before.epoch != lease.epoch:
            raise refusal(before, is_cancelled=False)
    for notice in notices:
        if notice.state is not State.PLANNED or not moves:
            raise ValueError(f"{notice.id} cannot be recorded here: a notice is planned, together with a move")
    return check_plan(lease, notices)


def check_end(state: TurnState) -> None:
    """Raise `ValueError` if a turn in this state has not ended."""
    if state in TURN_OPEN:
        raise ValueError(f"a turn cannot end as {state}")
