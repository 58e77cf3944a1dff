"""A ledger without a disk, for simulations and for whoever wants none: the whole contract but for durability.

`reopen` is what a crash and a restart are to the others: a new owner of the same rows, with the next epoch; whatever
the old one still writes is fenced. Each coroutine makes its change at once and then suspends, as one that waits for a
disk does: others run between the change and its acknowledgement, and whoever is cancelled there has made it.
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
from tailrace.ledger.rows import next_place, places_beside, without_content
from tailrace.ledger.transitions import Move, check_end, check_moves, check_plan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tailrace.ports import Clock

_STATES = frozenset(State)


class _Contents:
    """What outlives an owner: the rows by place and by name, the places of the open ones, turns and events."""

    def __init__(self) -> None:
        self.epoch = 0
        self.highest = 0
        self.rows: dict[int, Delivery] = {}
        self.places: dict[tuple[str, int], int] = {}
        self.open: dict[str, list[int]] = {}
        self.said: dict[str, set[int]] = {}
        self.forgotten: set[int] = set()
        self.turns: dict[str, Turn] = {}
        self.events: dict[tuple[str, str, str], str] = {}

    def put(self, delivery: Delivery) -> None:
        """Record a new row at its place."""
        self.highest = max(self.highest, delivery.position)
        self.rows[delivery.position] = delivery
        self.places[delivery.turn_id, delivery.ordinal] = delivery.position
        self.said.setdefault(delivery.turn_id, set()).add(delivery.ordinal)
        insort(self.open.setdefault(delivery.conversation, []), delivery.position)

    def change(self, delivery: Delivery) -> None:
        """Let a row that is open be this one."""
        self.rows[delivery.position] = delivery
        if delivery.state in FINAL:
            places = self.open[delivery.conversation]
            del places[bisect_left(places, delivery.position)]
            if not places:
                del self.open[delivery.conversation]

    def named(self, delivery: Delivery) -> Delivery | None:
        place = self.places.get((delivery.turn_id, delivery.ordinal))
        return None if place is None else self.rows[place]

    def turn(self, turn_id: str) -> Turn | None:
        turn = self.turns.get(turn_id)
        return turn and replace(turn, last_ordinal=max((0, *self.said.get(turn_id, ()))))

    def drop(self, delivery: Delivery) -> None:
        """Forget a row that is final."""
        del self.rows[delivery.position], self.places[delivery.turn_id, delivery.ordinal]
        ordinals = self.said[delivery.turn_id]
        ordinals.discard(delivery.ordinal)
        if not ordinals:
            del self.said[delivery.turn_id]


class MemoryLedger:
    """A ledger that is gone with the process. `clock` tells the time; without one it is the system's."""

    def __init__(self, *, clock: Clock | None = None) -> None:
        self._wall = time.time if clock is None else clock.wall
        self._contents = _Contents()
        self.epoch = self._contents.epoch = 1

    def reopen(self) -> MemoryLedger:
        """The next owner of the same rows; from now on this one is fenced."""
        successor = MemoryLedger()
        successor._wall = self._wall
        successor._contents = self._contents
        self._contents.epoch += 1
        self._contents.highest = max(self._contents.rows, default=0)
        successor.epoch = self._contents.epoch
        return successor

    def _mine(self) -> _Contents:
        if self._contents.epoch != self.epoch:
            raise Fenced(f"epoch {self.epoch} is over: the ledger was opened anew")
        return self._contents

    async def accept(self, inbound: Inbound) -> str:
        """See `Ledger.accept`."""
        contents = self._mine()
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
        contents = self._mine()
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
        """See `Ledger.remember`."""
        turn = self._contents.turns.get(turn_id)
        if turn and turn.state in TURN_OPEN and turn.epoch == self.epoch == self._contents.epoch:
            self._contents.turns[turn_id] = replace(turn, snapshot=snapshot, updated_at=self._wall())

    async def end(self, turn: Turn, state: TurnState, *, plan: Sequence[Delivery] = ()) -> list[Delivery]:
        """See `Ledger.end`."""
        contents = self._mine()
        check_end(state)
        check_plan(plan)
        known = contents.turns.get(turn.turn_id)
        if not known or known.state not in TURN_OPEN or (known.epoch, known.attempt) != (turn.epoch, turn.attempt):
            raise Fenced(f"turn {turn.turn_id} is over, or was taken up by another owner")
        recorded = self._record(plan)
        contents.turns[turn.turn_id] = replace(known, state=state, epoch=self.epoch, updated_at=self._wall())
        await asyncio.sleep(0)
        return recorded

    async def plan(self, deliveries: Sequence[Delivery]) -> list[Delivery]:
        """See `Ledger.plan`."""
        self._mine()
        check_plan(deliveries)
        recorded = self._record(deliveries)
        await asyncio.sleep(0)
        return recorded

    def _record(self, deliveries: Sequence[Delivery]) -> list[Delivery]:
        contents = self._contents
        fingerprints: dict[str, bytes] = {}
        for delivery in deliveries:
            known = contents.named(delivery)
            expected = known.fingerprint if known else fingerprints.setdefault(delivery.id, delivery.fingerprint)
            if expected != delivery.fingerprint:
                raise TurnMismatch(delivery.id)
        recorded: list[Delivery] = []
        for delivery in deliveries:
            known = contents.named(delivery)
            if known is None:
                known = replace(delivery, position=next_place(contents.highest), epoch=self.epoch)
                if known.state is State.SENDING and contents.open.get(known.conversation):
                    known = replace(known, state=State.PLANNED, attempt=0, first_try_at=None, last_try_at=None)
                contents.put(known)
            recorded.append(known)
        return recorded

    async def move(self, *moves: Move, plan: Sequence[Delivery] = ()) -> list[Delivery]:
        """See `Ledger.move`."""
        contents = self._mine()
        check_moves(moves, plan)
        settled: set[int] = set()
        done: list[Delivery] = []
        for before, after in moves:
            self._guard(before, after, settled, done)
            done.append(after)
            if after.state in FINAL:
                settled.add(before.position)
        for after in done:
            contents.change(after)
        for notice in plan:
            if contents.named(notice) is None:
                free = (position for position in places_beside(moves[0][0].position) if position not in contents.rows)
                place = next(free, next_place(contents.highest))
                contents.put(replace(notice, position=place, epoch=self.epoch))
        await asyncio.sleep(0)
        return done

    def _guard(self, before: Delivery, after: Delivery, settled: set[int], done: list[Delivery]) -> None:
        """Raise `Fenced` where the row is not as last seen, or not yet to be sent, after what is `done` already."""
        contents = self._contents
        row = next(
            (later for later in reversed(done) if later.position == before.position), contents.rows.get(before.position)
        )
        seen = row and (row.id, row.state, row.epoch, row.attempt)
        expected = (before.id, before.state, self.epoch, before.attempt)
        fenced = seen != expected or before.epoch != self.epoch
        if not fenced and after.state is State.SENDING:
            earlier = contents.open[before.conversation]
            fenced = any(position not in settled for position in earlier[: bisect_left(earlier, before.position)])
        if fenced:
            raise Fenced(
                f"{before.id} is not {before.state} in attempt {before.attempt} of this owner any more, "
                "or an earlier delivery of its conversation is open"
            )

    async def adopt(self, conversation: str, *, now: float, limit: int) -> list[Delivery]:
        """See `Ledger.adopt`."""
        contents = self._mine()
        found: list[Delivery] = []
        for place in contents.open.get(conversation, [])[:limit]:
            row = contents.rows[place]
            if row.state not in _STATES:
                break
            if row.epoch != self.epoch:
                row = contents.rows[place] = adopted(row, epoch=self.epoch, now=now)
            found.append(row)
        await asyncio.sleep(0)
        return found

    async def open_conversations(self, *, after: str = "", limit: int = 256) -> list[OpenConversation]:
        """See `Ledger.waiting`."""
        contents = self._contents
        names = sorted(name for name in contents.open if name > after)[:limit]
        heads = [contents.rows[contents.open[name][0]] for name in names]
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
            for head in heads
        ]

    async def interrupted_turns(self, *, state: TurnState = TurnState.RUNNING, limit: int = 256) -> list[Turn]:
        """See `Ledger.interrupted`."""
        turns = [self._contents.turn(turn_id) for turn_id in self._contents.turns]
        left = [turn for turn in turns if turn and turn.state is state and turn.epoch < self.epoch]
        left.sort(key=lambda turn: (turn.epoch, turn.turn_id))
        await asyncio.sleep(0)
        return left[:limit]

    async def find(self, query: Query, *, after: int | None = None, limit: int = 100) -> list[Delivery]:
        """See `Ledger.find`."""
        meant = [row for row in self._contents.rows.values() if _is_meant(row, query) and row.state in _STATES]
        meant.sort(key=lambda row: -row.position)
        await asyncio.sleep(0)
        return [row for row in meant if after is None or row.position < after][:limit]

    async def prune(self, query: Query, *, limit: int = 200, bodies: bool = False) -> int:
        """See `Ledger.prune`."""
        contents = self._mine()
        over = {turn_id for turn_id, turn in contents.turns.items() if turn.state not in TURN_OPEN}
        meant = [
            row
            for place, row in sorted(contents.rows.items())
            if row.state in FINAL
            and _is_meant(row, query)
            and (row.turn_id in over or row.turn_id not in contents.turns)
            and not (bodies and place in contents.forgotten)
        ][:limit]
        for row in meant:
            if bodies:
                contents.rows[row.position] = replace(row, operation=without_content(row.operation))
                contents.forgotten.add(row.position)
            else:
                contents.drop(row)
        turns = over & {row.turn_id for row in meant}
        if query == Query(before=query.before) and query.before is not None:
            silent = sorted(over - contents.said.keys(), key=lambda turn_id: contents.turns[turn_id].updated_at)
            turns |= {turn_id for turn_id in silent[:limit] if contents.turns[turn_id].updated_at < query.before}
        self._forget(turns, bodies=bodies)
        await asyncio.sleep(0)
        return len(meant)

    def _forget(self, turns: set[str], *, bodies: bool) -> None:
        contents = self._contents
        for turn_id in turns:
            if bodies:
                contents.turns[turn_id] = replace(contents.turns[turn_id], input="", snapshot=Snapshot())
            elif turn_id not in contents.said:
                del contents.turns[turn_id]
        gone = turns - contents.turns.keys()
        contents.events = {event: turn_id for event, turn_id in contents.events.items() if turn_id not in gone}

    async def close(self) -> None:
        """See `Ledger.close`."""
        await asyncio.sleep(0)


def _is_meant(row: Delivery, query: Query) -> bool:
    return (
        (query.states is None or row.state in query.states)
        and query.turn_id in {None, row.turn_id}
        and query.conversation in {None, row.conversation}
        and query.channel in {None, row.channel}
        and (query.before is None or row.updated_at < query.before)
    )
