"""What each change does to the rows, inside the transaction of the writer.

Owns the guards: which edge, which owner, which attempt, which order. A method makes its whole change or raises before
the first statement, unless it is marked "Compound": then the writer must be able to undo it. The writer owns the
commits and the errors of the disk.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeAlias

from msgspec.structs import replace

from tailrace.deliveries import EDGES, FINAL, TURN_OPEN, Delivery, Inbound, State, Turn, TurnState, adopted
from tailrace.errors import Fenced, TurnMismatch
from tailrace.ledger.queries import for_rows, queries
from tailrace.ledger.rows import (
    from_delivery,
    from_move,
    from_query,
    from_turn,
    next_position,
    positions_behind,
    state_of,
    to_sendable,
    to_turn,
    without_body,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tailrace.deliveries import Query
    from tailrace.ledger.batches import RowChange
    from tailrace.ledger.connection import Connection, Value

Move: TypeAlias = tuple[Delivery, Delivery]
"""(last seen, next)."""

_MAX_ROWS, _MIN_ROWS = 128, 8
_PAGES_PER_PRUNE = 512


class RowWriter:
    """Changes the rows for one owner. Used by the writer thread only."""

    def __init__(self, connection: Connection, path: Path, *, epoch: int, restored_epoch: int) -> None:
        self._execute = connection.execute
        self._path = path
        self._sql = queries()
        self._restored_epoch = restored_epoch
        self._highest: int = self._execute(self._sql["highest_position"]).fetchone()[0]
        self.epoch = epoch

    def accept(self, inbound: Inbound, now: float) -> str:
        """Record an event and its turn, or return the turn of a known event. Compound."""
        event = (inbound.channel, inbound.account, inbound.event_id)
        recorded = self._execute(self._sql["record_event"], (*event, inbound.turn_id, inbound.seen_at)).rowcount
        if not recorded:
            known: str = self._execute(self._sql["event_turn"], event).fetchone()[0]
            return known
        turn = Turn(
            turn_id=inbound.turn_id,
            target=inbound.target,
            state=TurnState.ACCEPTED,
            input=inbound.text,
            epoch=self.epoch,
            updated_at=now,
        )
        self._execute(self._sql["record_turn"], from_turn(turn))
        return inbound.turn_id

    def begin(self, turn: Turn, now: float) -> Turn:
        """Create the turn, or resume it."""
        begun = replace(turn, state=TurnState.RUNNING, attempt=1, epoch=self.epoch, updated_at=now)
        if recorded := self._execute(self._sql["begin_turn"], from_turn(begun)).fetchall():
            return replace(begun, last_ordinal=recorded[0][0])
        known = to_turn(self._execute(self._sql["turn"], (turn.turn_id,)).fetchone(), path=self._path)
        if known.state not in TURN_OPEN:
            return known
        known = replace(known, state=TurnState.RUNNING, attempt=known.attempt + 1, epoch=self.epoch, updated_at=now)
        self._execute(self._sql["resume_turn"], (known.turn_id, known.attempt, known.epoch, now))
        return known

    def save_snapshots(self, snapshots: Sequence[tuple[str, str]], now: float) -> None:
        """Save snapshots of open turns of this owner."""
        for turn_id, snapshot in snapshots:
            self._execute(self._sql["save_snapshot"], (turn_id, snapshot, now, self.epoch))

    def end(self, turn: Turn, state: TurnState, plan: Sequence[Delivery], now: float) -> list[Delivery]:
        """End the turn and record its last deliveries. Compound if there are any."""
        seen = (turn.turn_id, state.value, self.epoch, now, turn.epoch, turn.attempt)
        if not self._execute(self._sql["end_turn"], seen).rowcount:
            raise Fenced(f"turn {turn.turn_id} has ended, or was resumed by another owner")
        return self.plan(plan)

    def plan(self, deliveries: Sequence[Delivery]) -> list[Delivery]:
        """Record deliveries in their order. Compound if there are several."""
        return [self._record(delivery) for delivery in deliveries]

    def _record(self, delivery: Delivery) -> Delivery:
        position = next_position(self._highest)
        new = replace(delivery, position=position, epoch=self.epoch)
        if new.state is State.SENDING:
            if self._execute(self._sql["record_sending"], from_delivery(new)).rowcount:
                self._highest = position
                return new
            new = replace(new, state=State.PLANNED, attempt=0, first_try_at=None, last_try_at=None)
        if self._execute(self._sql["record_delivery"], from_delivery(new)).rowcount:
            self._highest = position
            return new
        key = (delivery.turn_id, delivery.ordinal)
        known = to_sendable(self._execute(self._sql["delivery"], key).fetchone(), path=self._path)
        if known.fingerprint != delivery.fingerprint:
            raise TurnMismatch(delivery.id)
        return known

    def move(self, moves: Sequence[Move], notices: Sequence[Delivery]) -> list[Delivery]:
        """Replace rows by their next states, and record notices behind the first. Compound if there are several
        changes."""
        for before, after in moves:
            query = "move_to_sending" if after.state is State.SENDING else "move_delivery"
            if before.epoch != self.epoch or not self._execute(self._sql[query], from_move(before, after)).rowcount:
                raise Fenced(
                    f"{before.id} is no longer {before.state} in attempt {before.attempt} of this owner, "
                    "or an earlier delivery of its conversation is open"
                )
        for notice in notices:
            self._notice(notice, behind=moves[0][0].position)
        return [after for _before, after in moves]

    def _notice(self, notice: Delivery, *, behind: int) -> None:
        taken = self._sql["position_taken"]
        free = (at for at in positions_behind(behind) if not self._execute(taken, (at,)).fetchone())
        position = next(free, next_position(self._highest))
        row = from_delivery(replace(notice, position=position, epoch=self.epoch))
        if self._execute(self._sql["record_delivery"], row).rowcount:
            self._highest = max(self._highest, position)

    def query_for_many(self, before: Delivery | None, after: Delivery) -> str | None:
        """The query that makes this kind of change for many rows; None if the change must be made alone."""
        if before is None:
            return "record_many_sending" if after.state is State.SENDING else "record_many"
        if before.epoch != self.epoch:
            return None
        return "move_many_to_sending" if after.state is State.SENDING else "move_many"

    def apply_many(self, query: str, changes: Sequence[RowChange]) -> list[Delivery] | None:
        """Change single rows of different conversations by few statements. Returns None if a row was refused.

        Each statement releases the interpreter lock, and on a busy machine getting it back is most of its cost.
        """
        results: list[Delivery] = []
        for first in range(0, len(changes), _MAX_ROWS):
            some = changes[first : first + _MAX_ROWS]
            values: list[Value] = []
            for before, after in some:
                if before is None:
                    self._highest = next_position(self._highest)
                    results.append(replace(after, position=self._highest, epoch=self.epoch))
                    values += from_delivery(results[-1])
                else:
                    results.append(after)
                    values += from_move(before, after)
            # Few sizes, filled up with NULL rows: SQLite must prepare each size as another statement.
            size = max(_MIN_ROWS, 1 << (len(some) - 1).bit_length())
            values += [None] * (len(values) // len(some) * (size - len(some)))
            if self._execute(for_rows(query, size), values).rowcount != len(some):
                return None
        return results

    def adopt(self, conversation: str, now: float, limit: int) -> list[Delivery]:
        """Take over the first open rows of a conversation."""
        found: list[Delivery] = []
        for row in self._execute(self._sql["open_deliveries"], (conversation, limit)).fetchall():
            if state_of(row) is None:
                break
            found.append(to_sendable(row, path=self._path))
        return [delivery if delivery.epoch == self.epoch else self._adopt(delivery, now) for delivery in found]

    def _adopt(self, delivery: Delivery, now: float) -> Delivery:
        restored = delivery.epoch < self._restored_epoch
        row = adopted(delivery, epoch=self.epoch, now=now, restored=restored)
        columns = (row.state.value, row.epoch, row.first_try_at, row.not_before, row.error, row.updated_at)
        self._execute(self._sql["adopt_delivery"], (*columns, row.position))
        return row

    def prune(self, query: Query, limit: int, *, bodies: bool) -> int:
        """Delete final rows, or only their content. Compound."""
        before = math.inf if query.before is None else query.before
        wanted = {**from_query(query, among=FINAL, limit=limit), "before": before, "bodies": int(bodies)}
        found = self._execute(self._sql["prunable"], wanted).fetchall()
        for rid, _turn_id, operation in found:
            if bodies:
                self._execute(self._sql["delete_body"], (rid, without_body(operation)))
            else:
                self._execute(self._sql["delete_delivery"], (rid,))
        turns = {turn_id for _rid, turn_id, _operation in found}
        if query == type(query)(before=query.before) and query.before is not None:
            turns.update(
                row[0] for row in self._execute(self._sql["turns_without_deliveries"], (query.before, limit)).fetchall()
            )
        for turn_id in turns:
            if bodies:
                self._execute(self._sql["delete_input"], (turn_id,))
            else:
                self._execute(self._sql["delete_turn"], (turn_id,))
                self._execute(self._sql["delete_events"], (turn_id,))
        self._shrink_file()
        return len(found)

    def _shrink_file(self) -> None:
        # Page by page, because `sqlite3` runs only the first step of a pragma whose rows have no columns.
        free: int = self._execute(self._sql["free_pages"]).fetchone()[0]
        for _page in range(min(free, _PAGES_PER_PRUNE)):
            self._execute(self._sql["release_page"]).fetchall()


def check_plan(deliveries: Sequence[Delivery]) -> None:
    """Raise `ValueError` if a new delivery has a state in which none can start."""
    for index, delivery in enumerate(deliveries):
        if delivery.state is not State.PLANNED and (index or delivery.state is not State.SENDING):
            raise ValueError(f"{delivery.id} cannot be recorded as {delivery.state}: a new delivery is planned")


def check_moves(moves: Sequence[Move], notices: Sequence[Delivery]) -> None:
    """Raise `ValueError` for a change that `EDGES` does not allow, a changed id, or a notice without a move."""
    for before, after in moves:
        if after.state not in EDGES[before.state]:
            raise ValueError(f"{before.id} is {before.state}; it cannot become {after.state}")
        if before.ordinal != after.ordinal or before.turn_id != after.turn_id:
            raise ValueError(f"{before.id} cannot become {after.id}")
    for notice in notices:
        if notice.state is not State.PLANNED or not moves:
            raise ValueError(f"{notice.id} cannot be recorded here: a notice is planned, together with a move")


def check_end(state: TurnState) -> None:
    """Raise `ValueError` for a state that is not final."""
    if state in TURN_OPEN:
        raise ValueError(f"a turn cannot end as {state}")
