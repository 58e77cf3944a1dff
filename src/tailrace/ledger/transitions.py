"""What each change does to the rows, inside the transaction that the writer has begun.

Owns the guards: which edge, which owner, which attempt, which order. A method either makes its whole change or raises
before it has made any of it, except where `compound` says that the writer must be able to undo it. When commits happen,
and what becomes of errors of the disk, is the writer's.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tailrace.deliveries import EDGES, FINAL, TURN_OPEN, Delivery, Inbound, State, Turn, TurnState, adopted
from tailrace.errors import Fenced, TurnMismatch
from tailrace.ledger.queries import for_rows, queries
from tailrace.ledger.rows import (
    emptied,
    from_delivery,
    from_move,
    from_query,
    from_turn,
    next_place,
    places_beside,
    state_of,
    to_sendable,
    to_turn,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tailrace.deliveries import Query
    from tailrace.ledger.connection import Connection, Value

Move = tuple[Delivery, Delivery]

_MOST_ROWS, _FEWEST_ROWS = 128, 8

_PAGES_AT_ONCE = 512


class RowWriter:
    """The rows of one opening, as its writer's thread changes them."""

    def __init__(self, connection: Connection, path: Path, *, epoch: int, restored_epoch: int) -> None:
        self._execute = connection.execute
        self._path = path
        self._sql = queries()
        self._restored_epoch = restored_epoch
        self._highest: int = self._execute(self._sql["highest_place"]).fetchone()[0]
        self.epoch = epoch

    def accept(self, inbound: Inbound, now: float) -> str:
        """Record an event and its turn, or find the turn of one that is known. Compound."""
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
        """Make the turn, or take it up again."""
        begun = replace(turn, state=TurnState.RUNNING, attempt=1, epoch=self.epoch, updated_at=now)
        if recorded := self._execute(self._sql["begin_turn"], from_turn(begun)).fetchall():
            return replace(begun, last_ordinal=recorded[0][0])
        known = to_turn(self._execute(self._sql["turn_named"], (turn.turn_id,)).fetchone(), path=self._path)
        if known.state not in TURN_OPEN:
            return known
        known = replace(known, state=TurnState.RUNNING, attempt=known.attempt + 1, epoch=self.epoch, updated_at=now)
        self._execute(self._sql["take_up_turn"], (known.turn_id, known.attempt, known.epoch, now))
        return known

    def save_snapshots(self, snapshots: Sequence[tuple[str, str]], now: float) -> None:
        """Keep what open turns of this owner have said."""
        for turn_id, snapshot in snapshots:
            self._execute(self._sql["remember"], (turn_id, snapshot, now, self.epoch))

    def end(self, turn: Turn, state: TurnState, plan: Sequence[Delivery], now: float) -> list[Delivery]:
        """End the turn and record the last it says. Compound where it says something."""
        seen = (turn.turn_id, state.value, self.epoch, now, turn.epoch, turn.attempt)
        if not self._execute(self._sql["end_turn"], seen).rowcount:
            raise Fenced(f"turn {turn.turn_id} is over, or was taken up by another owner")
        return self.plan(plan)

    def plan(self, deliveries: Sequence[Delivery]) -> list[Delivery]:
        """Record deliveries in their order. Compound where there are several."""
        return [self._record(delivery) for delivery in deliveries]

    def _record(self, delivery: Delivery) -> Delivery:
        place = next_place(self._highest)
        new = replace(delivery, position=place, epoch=self.epoch)
        if new.state is State.SENDING:
            if self._execute(self._sql["record_sending"], from_delivery(new)).rowcount:
                self._highest = place
                return new
            new = replace(new, state=State.PLANNED, attempt=0, first_try_at=None, last_try_at=None)
        if self._execute(self._sql["record_delivery"], from_delivery(new)).rowcount:
            self._highest = place
            return new
        name = (delivery.turn_id, delivery.ordinal)
        known = to_sendable(self._execute(self._sql["delivery_named"], name).fetchone(), path=self._path)
        if known.fingerprint != delivery.fingerprint:
            raise TurnMismatch(delivery.id)
        return known

    def move(self, moves: Sequence[Move], notices: Sequence[Delivery]) -> list[Delivery]:
        """Move rows on, and record notices after the first. Compound where there is more than one change."""
        for before, after in moves:
            query = "move_to_sending" if after.state is State.SENDING else "move_delivery"
            if before.epoch != self.epoch or not self._execute(self._sql[query], from_move(before, after)).rowcount:
                raise Fenced(
                    f"{before.id} is not {before.state} in attempt {before.attempt} of this owner any more, "
                    "or an earlier delivery of its conversation is open"
                )
        for notice in notices:
            self._notice(notice, beside=moves[0][0].position)
        return [after for _before, after in moves]

    def _notice(self, notice: Delivery, *, beside: int) -> None:
        taken = self._sql["place_taken"]
        free = (place for place in places_beside(beside) if not self._execute(taken, (place,)).fetchone())
        place = next(free, next_place(self._highest))
        row = from_delivery(replace(notice, position=place, epoch=self.epoch))
        if self._execute(self._sql["record_delivery"], row).rowcount:
            self._highest = max(self._highest, place)

    def single(self, before: Delivery | None, after: Delivery) -> str | None:
        """The query by which one new row, or one move, can be made together with others; None where it cannot."""
        if before is None:
            return "record_many_sending" if after.state is State.SENDING else "record_many"
        if before.epoch != self.epoch:
            return None
        return "move_many_to_sending" if after.state is State.SENDING else "move_many"

    def together(self, query: str, changes: Sequence[tuple[Delivery | None, Delivery]]) -> list[Delivery] | None:
        """Make single changes of different conversations by as few statements as can be; None where one is refused.

        Around each statement the thread lets go of the interpreter's lock, and on a busy machine getting it back is
        most of what the statement costs.
        """
        made: list[Delivery] = []
        for first in range(0, len(changes), _MOST_ROWS):
            some = changes[first : first + _MOST_ROWS]
            values: list[Value] = []
            for before, after in some:
                if before is None:
                    self._highest = next_place(self._highest)
                    made.append(replace(after, position=self._highest, epoch=self.epoch))
                    values += from_delivery(made[-1])
                else:
                    made.append(after)
                    values += from_move(before, after)
            # Of a few sizes only, the rest of it empty: a statement of another size is another one to be prepared.
            size = max(_FEWEST_ROWS, 1 << (len(some) - 1).bit_length())
            values += [None] * (len(values) // len(some) * (size - len(some)))
            if self._execute(for_rows(query, size), values).rowcount != len(some):
                return None
        return made

    def adopt(self, conversation: str, now: float, limit: int) -> list[Delivery]:
        """Make the first open rows of a conversation this owner's."""
        found: list[Delivery] = []
        for row in self._execute(self._sql["open_deliveries"], (conversation, limit)).fetchall():
            if state_of(row) is None:
                break
            found.append(to_sendable(row, path=self._path))
        return [delivery if delivery.epoch == self.epoch else self._adopt(delivery, now) for delivery in found]

    def _adopt(self, delivery: Delivery, now: float) -> Delivery:
        restored = delivery.epoch < self._restored_epoch
        mine = adopted(delivery, epoch=self.epoch, now=now, restored=restored)
        columns = (mine.state.value, mine.epoch, mine.first_try_at, mine.not_before, mine.error, mine.updated_at)
        self._execute(self._sql["adopt_delivery"], (*columns, mine.position))
        return mine

    def prune(self, query: Query, limit: int, *, bodies: bool) -> int:
        """Forget final rows, or what they said. Compound."""
        before = math.inf if query.before is None else query.before
        wanted = {**from_query(query, among=FINAL, limit=limit), "before": before, "bodies": int(bodies)}
        found = self._execute(self._sql["prunable"], wanted).fetchall()
        for rid, _turn_id, operation in found:
            if bodies:
                self._execute(self._sql["forget_body"], (rid, emptied(operation)))
            else:
                self._execute(self._sql["forget_delivery"], (rid,))
        turns = {turn_id for _rid, turn_id, _operation in found}
        if query == type(query)(before=query.before) and query.before is not None:
            turns.update(row[0] for row in self._execute(self._sql["silent_turns"], (query.before, limit)).fetchall())
        for turn_id in turns:
            if bodies:
                self._execute(self._sql["forget_input"], (turn_id,))
            else:
                self._execute(self._sql["forget_turn"], (turn_id,))
                self._execute(self._sql["forget_events"], (turn_id,))
        self._give_back_space()
        return len(found)

    def _give_back_space(self) -> None:
        # Page by page: of a pragma that gives rows without columns the standard library runs the first step only.
        free: int = self._execute(self._sql["free_pages"]).fetchone()[0]
        for _page in range(min(free, _PAGES_AT_ONCE)):
            self._execute(self._sql["give_back_page"]).fetchall()


def check_plan(deliveries: Sequence[Delivery]) -> None:
    """Raise `ValueError` where rows would begin in a state in which none begins."""
    for index, delivery in enumerate(deliveries):
        if delivery.state is not State.PLANNED and (index or delivery.state is not State.SENDING):
            raise ValueError(f"{delivery.id} cannot be recorded as {delivery.state}: it begins as planned")


def check_moves(moves: Sequence[Move], notices: Sequence[Delivery]) -> None:
    """Raise `ValueError` where no edge leads, where a move changes the name, or where a notice has no row to follow."""
    for before, after in moves:
        if after.state not in EDGES[before.state]:
            raise ValueError(f"{before.id} is {before.state}; no edge leads from there to {after.state}")
        if before.ordinal != after.ordinal or before.turn_id != after.turn_id:
            raise ValueError(f"{before.id} cannot become {after.id}")
    for notice in notices:
        if notice.state is not State.PLANNED or not moves:
            raise ValueError(f"{notice.id} is no notice: it begins as planned, beside a row that moves")


def check_end(state: TurnState) -> None:
    """Raise `ValueError` for a state in which no turn ends."""
    if state in TURN_OPEN:
        raise ValueError(f"a turn does not end as {state}")
