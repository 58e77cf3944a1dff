"""A ledger in memory, for simulations and for users who need no durability. The rest of the contract holds.

`reopen` stands for a crash and a restart: it gives a new owner of the same rows with the next epoch, and the old one is
fenced. Each coroutine makes its change at once and then suspends, like one that waits for a disk. So other tasks run
between the change and its acknowledgement, and a caller that is cancelled there has made the change.
"""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left, insort
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tailrace.deliveries import (
    FINAL,
    TURN_OPEN,
    Delivery,
    Inbound,
    OpenConversation,
    Query,
    Snapshot,
    State,
    Turn,
    TurnState,
    adopted,
)
from tailrace.errors import Fenced, TurnMismatch
from tailrace.ledger.rows import next_position, positions_behind, without_content
from tailrace.ledger.transitions import Move, check_end, check_moves, check_plan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tailrace.ports import Clock

_STATES = frozenset(State)


class _Contents:
    """What all owners share: the rows by position and by id, the positions of open rows, turns and events."""

    def __init__(self) -> None:
        self.epoch = 0
        self.highest = 0
        self.rows: dict[int, Delivery] = {}
        self.positions: dict[tuple[str, int], int] = {}
        self.open: dict[str, list[int]] = {}
        self.ordinals: dict[str, set[int]] = {}
        self.without_body: set[int] = set()
        self.turns: dict[str, Turn] = {}
        self.events: dict[tuple[str, str, str], str] = {}

    def put(self, delivery: Delivery) -> None:
        """Add a new row."""
        self.highest = max(self.highest, delivery.position)
        self.rows[delivery.position] = delivery
        self.positions[delivery.turn_id, delivery.ordinal] = delivery.position
        self.ordinals.setdefault(delivery.turn_id, set()).add(delivery.ordinal)
        insort(self.open.setdefault(delivery.conversation, []), delivery.position)

    def change(self, delivery: Delivery) -> None:
        """Replace an open row."""
        self.rows[delivery.position] = delivery
        if delivery.state in FINAL:
            positions = self.open[delivery.conversation]
            del positions[bisect_left(positions, delivery.position)]
            if not positions:
                del self.open[delivery.conversation]

    def find(self, delivery: Delivery) -> Delivery | None:
        position = self.positions.get((delivery.turn_id, delivery.ordinal))
        return None if position is None else self.rows[position]

    def turn(self, turn_id: str) -> Turn | None:
        turn = self.turns.get(turn_id)
        return turn and replace(turn, last_ordinal=max((0, *self.ordinals.get(turn_id, ()))))

    def drop(self, delivery: Delivery) -> None:
        """Delete a final row."""
        del self.rows[delivery.position], self.positions[delivery.turn_id, delivery.ordinal]
        ordinals = self.ordinals[delivery.turn_id]
        ordinals.discard(delivery.ordinal)
        if not ordinals:
            del self.ordinals[delivery.turn_id]


class MemoryLedger:
    """A ledger that ends with the process. `clock` is the system's by default."""

    def __init__(self, *, clock: Clock | None = None) -> None:
        self._wall = time.time if clock is None else clock.wall
        self._contents = _Contents()
        self.epoch = self._contents.epoch = 1

    def reopen(self) -> MemoryLedger:
        """The next owner of the same rows. This one is fenced from now on."""
        successor = MemoryLedger()
        successor._wall = self._wall
        successor._contents = self._contents
        self._contents.epoch += 1
        self._contents.highest = max(self._contents.rows, default=0)
        successor.epoch = self._contents.epoch
        return successor

    def _owned(self) -> _Contents:
        if self._contents.epoch != self.epoch:
            raise Fenced(f"epoch {self.epoch} has ended: the ledger was opened again")
        return self._contents

    async def accept(self, inbound: Inbound) -> str:
        """See `Ledger.accept`."""
        contents = self._owned()
        event = (inbound.channel, inbound.account, inbound.event_id)
        turn_id = contents.events.setdefault(event, inbound.turn_id)
        if turn_id not in contents.turns:
            contents.turns[turn_id] = Turn(
                turn_id=turn_id,
                target=inbound.target,
                state=TurnState.ACCEPTED,
                input=inbound.text,
                epoch=self.epoch,
                updated_at=self._wall(),
            )
        await asyncio.sleep(0)
        return turn_id

    async def begin(self, turn: Turn) -> Turn:
        """See `Ledger.begin`."""
        contents = self._owned()
        known = contents.turn(turn.turn_id)
        if known is None or known.state in TURN_OPEN:
            attempt = 1 if known is None else known.attempt + 1
            begun = replace(known or turn, state=TurnState.RUNNING, attempt=attempt, epoch=self.epoch)
            contents.turns[turn.turn_id] = replace(begun, updated_at=self._wall())
        begun_turn = contents.turn(turn.turn_id)
        assert begun_turn is not None
        await asyncio.sleep(0)
        return begun_turn

    def save_snapshot(self, turn_id: str, snapshot: Snapshot) -> None:
        """See `Ledger.save_snapshot`."""
        turn = self._contents.turns.get(turn_id)
        if turn and turn.state in TURN_OPEN and turn.epoch == self.epoch == self._contents.epoch:
            self._contents.turns[turn_id] = replace(turn, snapshot=snapshot, updated_at=self._wall())

    async def end(self, turn: Turn, state: TurnState, *, plan: Sequence[Delivery] = ()) -> list[Delivery]:
        """See `Ledger.end`."""
        contents = self._owned()
        check_end(state)
        check_plan(plan)
        known = contents.turns.get(turn.turn_id)
        if not known or known.state not in TURN_OPEN or (known.epoch, known.attempt) != (turn.epoch, turn.attempt):
            raise Fenced(f"turn {turn.turn_id} has ended, or was resumed by another owner")
        recorded = self._record(plan)
        contents.turns[turn.turn_id] = replace(known, state=state, epoch=self.epoch, updated_at=self._wall())
        await asyncio.sleep(0)
        return recorded

    async def plan(self, deliveries: Sequence[Delivery]) -> list[Delivery]:
        """See `Ledger.plan`."""
        self._owned()
        check_plan(deliveries)
        recorded = self._record(deliveries)
        await asyncio.sleep(0)
        return recorded

    def _record(self, deliveries: Sequence[Delivery]) -> list[Delivery]:
        contents = self._contents
        fingerprints: dict[str, bytes] = {}
        for delivery in deliveries:
            known = contents.find(delivery)
            expected = known.fingerprint if known else fingerprints.setdefault(delivery.id, delivery.fingerprint)
            if expected != delivery.fingerprint:
                raise TurnMismatch(delivery.id)
        recorded: list[Delivery] = []
        for delivery in deliveries:
            known = contents.find(delivery)
            if known is None:
                known = replace(delivery, position=next_position(contents.highest), epoch=self.epoch)
                if known.state is State.SENDING and contents.open.get(known.conversation):
                    known = replace(known, state=State.PLANNED, attempt=0, first_try_at=None, last_try_at=None)
                contents.put(known)
            recorded.append(known)
        return recorded

    async def move(self, *moves: Move, plan: Sequence[Delivery] = ()) -> list[Delivery]:
        """See `Ledger.move`."""
        contents = self._owned()
        check_moves(moves, plan)
        final: set[int] = set()
        done: list[Delivery] = []
        for before, after in moves:
            self._check_unchanged(before, after, final, done)
            done.append(after)
            if after.state in FINAL:
                final.add(before.position)
        for after in done:
            contents.change(after)
        for notice in plan:
            if contents.find(notice) is None:
                free = (
                    position for position in positions_behind(moves[0][0].position) if position not in contents.rows
                )
                at = next(free, next_position(contents.highest))
                contents.put(replace(notice, position=at, epoch=self.epoch))
        await asyncio.sleep(0)
        return done

    def _check_unchanged(self, before: Delivery, after: Delivery, final: set[int], done: list[Delivery]) -> None:
        """Raise `Fenced` if the row is not as last seen, or must not be sent yet. `done` are the moves before this
        one."""
        contents = self._contents
        row = next(
            (later for later in reversed(done) if later.position == before.position), contents.rows.get(before.position)
        )
        seen = row and (row.id, row.state, row.epoch, row.attempt)
        expected = (before.id, before.state, self.epoch, before.attempt)
        fenced = seen != expected or before.epoch != self.epoch
        if not fenced and after.state is State.SENDING:
            earlier = contents.open[before.conversation]
            fenced = any(position not in final for position in earlier[: bisect_left(earlier, before.position)])
        if fenced:
            raise Fenced(
                f"{before.id} is no longer {before.state} in attempt {before.attempt} of this owner, "
                "or an earlier delivery of its conversation is open"
            )

    async def adopt(self, conversation: str, *, now: float, limit: int) -> list[Delivery]:
        """See `Ledger.adopt`."""
        contents = self._owned()
        found: list[Delivery] = []
        for position in contents.open.get(conversation, [])[:limit]:
            row = contents.rows[position]
            if row.state not in _STATES:
                break
            if row.epoch != self.epoch:
                row = contents.rows[position] = adopted(row, epoch=self.epoch, now=now)
            found.append(row)
        await asyncio.sleep(0)
        return found

    async def open_conversations(self, *, after: str = "", limit: int = 256) -> list[OpenConversation]:
        """See `Ledger.open_conversations`."""
        contents = self._contents
        names = sorted(name for name in contents.open if name > after)[:limit]
        first_open = [contents.rows[contents.open[name][0]] for name in names]
        await asyncio.sleep(0)
        return [
            OpenConversation(
                name=head.conversation,
                channel=head.channel,
                state=str(head.state),
                epoch=head.epoch,
                not_before=head.not_before,
                updated_at=head.updated_at,
            )
            for head in first_open
        ]

    async def interrupted_turns(self, *, state: TurnState = TurnState.RUNNING, limit: int = 256) -> list[Turn]:
        """See `Ledger.interrupted_turns`."""
        turns = [self._contents.turn(turn_id) for turn_id in self._contents.turns]
        found = [turn for turn in turns if turn and turn.state is state and turn.epoch < self.epoch]
        found.sort(key=lambda turn: (turn.epoch, turn.turn_id))
        await asyncio.sleep(0)
        return found[:limit]

    async def find(self, query: Query, *, after: int | None = None, limit: int = 100) -> list[Delivery]:
        """See `Ledger.find`."""
        matching = [row for row in self._contents.rows.values() if _matches(row, query) and row.state in _STATES]
        matching.sort(key=lambda row: -row.position)
        await asyncio.sleep(0)
        return [row for row in matching if after is None or row.position < after][:limit]

    async def prune(self, query: Query, *, limit: int = 200, bodies: bool = False) -> int:
        """See `Ledger.prune`."""
        contents = self._owned()
        ended = {turn_id for turn_id, turn in contents.turns.items() if turn.state not in TURN_OPEN}
        matching = [
            row
            for position, row in sorted(contents.rows.items())
            if row.state in FINAL
            and _matches(row, query)
            and (row.turn_id in ended or row.turn_id not in contents.turns)
            and not (bodies and position in contents.without_body)
        ][:limit]
        for row in matching:
            if bodies:
                contents.rows[row.position] = replace(row, operation=without_content(row.operation))
                contents.without_body.add(row.position)
            else:
                contents.drop(row)
        turns = ended & {row.turn_id for row in matching}
        if query == Query(before=query.before) and query.before is not None:
            empty = sorted(ended - contents.ordinals.keys(), key=lambda turn_id: contents.turns[turn_id].updated_at)
            turns |= {turn_id for turn_id in empty[:limit] if contents.turns[turn_id].updated_at < query.before}
        self._delete_turns(turns, bodies=bodies)
        await asyncio.sleep(0)
        return len(matching)

    def _delete_turns(self, turns: set[str], *, bodies: bool) -> None:
        contents = self._contents
        for turn_id in turns:
            if bodies:
                contents.turns[turn_id] = replace(contents.turns[turn_id], input="", snapshot=Snapshot())
            elif turn_id not in contents.ordinals:
                del contents.turns[turn_id]
        gone = turns - contents.turns.keys()
        contents.events = {event: turn_id for event, turn_id in contents.events.items() if turn_id not in gone}

    async def close(self) -> None:
        """See `Ledger.close`."""
        await asyncio.sleep(0)


def _matches(row: Delivery, query: Query) -> bool:
    return (
        (query.states is None or row.state in query.states)
        and query.turn_id in {None, row.turn_id}
        and query.conversation in {None, row.conversation}
        and query.channel in {None, row.channel}
        and (query.before is None or row.updated_at < query.before)
    )
