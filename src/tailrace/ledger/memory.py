"""A ledger in memory: the reference implementation. It keeps all promises of a ledger except durability.

Several owners can share the contents (`another_owner`), and each has its own leases. `reopen` simulates a crash and a
restart: the leases of this owner end, and a new owner takes its place. Each coroutine makes its change at once and then
suspends, as if it waited for a disk. So other tasks run between the change and its acknowledgement, and if the caller
is cancelled in between, its change is made all the same.
"""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left, insort
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from tailrace.deliveries import (
    FINAL,
    TURN_OPEN,
    Accepted,
    Delivery,
    Lease,
    OpenConversation,
    Query,
    Snapshot,
    State,
    Turn,
    TurnState,
    adopted,
)
from tailrace.errors import Fenced, LedgerClosed, TurnMismatch
from tailrace.ledger.rows import matches_turn, next_position, positions_behind, starts_message, without_content
from tailrace.ledger.transitions import EVENTS_KNOWN_S, Move, check_end, check_moves, check_plan, refusal

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tailrace.inbound import InboundMessage
    from tailrace.ports import Clock

LEASE_S = 30.0
_STATES = frozenset(State)


class _Held(msgspec.Struct):
    """A lease that was not released, and its deadline by the monotonic clock."""

    lease: Lease
    deadline: float


class _Contents:
    """What all owners share. It has indexes, so that no change must read all rows or all turns.

    `turns` has the turns in the order in which they arrived or were last begun. `turn_ids` has their ids by
    conversation.
    """

    def __init__(self) -> None:
        self.owners = self.epoch = self.highest = 0
        self.leases: dict[str, _Held] = {}
        self.rows: dict[int, Delivery] = {}
        self.positions: dict[tuple[str, int], int] = {}
        self.open: dict[str, list[int]] = {}
        self.ordinals: dict[str, set[int]] = {}
        self.without_body: set[int] = set()
        self.turns: dict[str, Turn] = {}
        self.turn_ids: dict[str, dict[str, None]] = {}
        self.events: dict[tuple[str, str, str], tuple[str, float]] = {}
        self.stored: dict[str, dict[str, bytes]] = {}

    def put(self, delivery: Delivery) -> None:
        """Add a new row."""
        self.highest = max(self.highest, delivery.position)
        self.rows[delivery.position] = delivery
        self.positions[delivery.turn_id, delivery.ordinal] = delivery.position
        self.ordinals.setdefault(delivery.turn_id, set()).add(delivery.ordinal)
        insort(self.open.setdefault(delivery.conversation, []), delivery.position)

    def change(self, delivery: Delivery) -> None:
        """Replace an open row by its next state."""
        self.rows[delivery.position] = delivery
        if delivery.state in FINAL:
            positions = self.open[delivery.conversation]
            del positions[bisect_left(positions, delivery.position)]
            if not positions:
                del self.open[delivery.conversation]

    def find(self, delivery: Delivery) -> Delivery | None:
        position = self.positions.get((delivery.turn_id, delivery.ordinal))
        return None if position is None else self.rows[position]

    def put_turn(self, turn: Turn) -> None:
        """Add or replace a turn. It is then the last in the order of turns."""
        ids = self.turn_ids.setdefault(turn.conversation, {})
        for known in (self.turns, ids):
            known.pop(turn.turn_id, None)
        self.turns[turn.turn_id] = turn
        ids[turn.turn_id] = None

    def drop_turn(self, turn_id: str) -> None:
        """Delete a turn."""
        conversation = self.turns.pop(turn_id).conversation
        del self.turn_ids[conversation][turn_id]
        if not self.turn_ids[conversation]:
            del self.turn_ids[conversation]

    def open_turns(self, conversation: str) -> list[Turn]:
        """The turns of a conversation that are accepted or running."""
        turns = (self.turns[turn_id] for turn_id in self.turn_ids.get(conversation, ()))
        return [turn for turn in turns if turn.state in TURN_OPEN]

    def rows_of(self, turn_id: str | None) -> Iterable[Delivery]:
        """The rows of a turn, or all rows."""
        if turn_id is None:
            return self.rows.values()
        return [self.rows[self.positions[turn_id, ordinal]] for ordinal in self.ordinals.get(turn_id, ())]

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
    """A ledger that is lost when the process ends. By default it uses the clock of the system."""

    def __init__(self, *, clock: Clock | None = None) -> None:
        self._wall = time.time if clock is None else clock.wall
        self._monotonic = time.monotonic if clock is None else clock.monotonic
        self._is_gone = self._is_closed = False
        self._share(_Contents())

    def _share(self, contents: _Contents) -> None:
        self._contents = contents
        contents.owners += 1
        self._owner = f"owner {contents.owners}"

    def another_owner(self) -> MemoryLedger:
        """Create one more owner of the same contents, like another process."""
        other = MemoryLedger()
        other._wall, other._monotonic = self._wall, self._monotonic
        other._share(self._contents)
        return other

    def reopen(self) -> MemoryLedger:
        """Simulate a crash: the leases of this owner end, and it cannot change anything any more.

        Returns the next owner.
        """
        contents = self._contents
        contents.leases = {name: held for name, held in contents.leases.items() if held.lease.owner != self._owner}
        contents.highest = max(contents.rows, default=0)
        self._is_gone = True
        return self.another_owner()

    def _open_contents(self, lease: Lease | None = None, *, hold_s: float = 0.0) -> _Contents:
        """The shared contents, for a change under this lease. Checks the lease and renews it."""
        if self._is_closed:
            raise LedgerClosed("the ledger in memory is closed")
        if lease is not None:
            held = self._contents.leases.get(lease.conversation)
            if self._is_gone or held is None or held.lease != lease:
                raise Fenced(f"the lease of {lease.conversation} with epoch {lease.epoch} has ended")
            held.deadline = max(held.deadline, self._monotonic() + max(LEASE_S, hold_s))
        return self._contents

    async def accept(self, message: InboundMessage) -> Accepted:
        """Record an incoming message and its turn, see `Ledger.accept`."""
        contents = self._open_contents()
        event = (message.channel, message.account, message.event_id)
        is_new = event not in contents.events and message.turn_id not in contents.turns
        turn_id, _seen_at = contents.events.setdefault(event, (message.turn_id, self._wall()))
        if is_new:
            others = contents.turn_ids.get(message.target.conversation, ())
            contents.put_turn(
                Turn(
                    turn_id=turn_id,
                    target=message.target,
                    state=TurnState.ACCEPTED,
                    message=message,
                    arrival=1 + max((contents.turns[other].arrival for other in others), default=0),
                    updated_at=self._wall(),
                )
            )
        own = contents.turns.get(turn_id)
        ahead = sum(turn.arrival < own.arrival for turn in contents.open_turns(own.conversation)) if own else 0
        await asyncio.sleep(0)
        return Accepted(turn_id=turn_id, is_new=is_new, ahead=ahead)

    async def cancel(self, turn_id: str) -> None:
        """Cancel a turn for ever, see `Ledger.cancel`."""
        contents = self._open_contents()
        if turn := contents.turns.get(turn_id):
            contents.turns[turn_id] = replace(turn, is_cancelled=True)
        await asyncio.sleep(0)

    async def acquire(self, conversation: str) -> Lease:
        """Become the owner of a conversation, see `Ledger.acquire`."""
        contents = self._open_contents()
        held = contents.leases.get(conversation)
        if self._is_gone or (held and held.lease.owner != self._owner and self._monotonic() < held.deadline):
            raise Fenced(f"another owner has {conversation}")
        contents.epoch += 1
        is_running = any(turn.state is TurnState.RUNNING for turn in contents.open_turns(conversation))
        has_open = is_running or conversation in contents.open
        lease = Lease(conversation=conversation, owner=self._owner, epoch=contents.epoch, has_open=has_open)
        contents.leases[conversation] = _Held(lease, self._monotonic() + LEASE_S)
        await asyncio.sleep(0)
        return lease

    def release(self, lease: Lease) -> None:
        """End a lease, see `Ledger.release`."""
        held = self._contents.leases.get(lease.conversation)
        if held is not None and held.lease == lease:
            del self._contents.leases[lease.conversation]

    async def begin(self, lease: Lease, turn: Turn) -> Turn:
        """Set a turn to `running`, see `Ledger.begin`."""
        contents = self._open_contents(lease)
        known = contents.turns.get(turn.turn_id, replace(turn, state=TurnState.ACCEPTED, attempt=0))
        if known.state in TURN_OPEN and known.conversation == lease.conversation:
            begun = replace(known, state=TurnState.RUNNING, attempt=known.attempt + 1, epoch=lease.epoch)
            contents.put_turn(replace(begun, updated_at=self._wall()))
        begun = contents.turn(turn.turn_id) or turn
        await asyncio.sleep(0)
        return begun

    def save_snapshot(self, lease: Lease, turn_id: str, snapshot: Snapshot) -> None:
        """Save the current text of a running turn, see `Ledger.save_snapshot`."""
        held, turn = self._contents.leases.get(lease.conversation), self._contents.turns.get(turn_id)
        is_running = turn is not None and turn.state is TurnState.RUNNING and turn.epoch == lease.epoch
        if turn is not None and is_running and held is not None and held.lease == lease and not self._is_closed:
            self._contents.turns[turn_id] = replace(turn, snapshot=snapshot, updated_at=self._wall())

    async def end(self, lease: Lease, turn: Turn, state: TurnState, *, plan: Sequence[Delivery] = ()) -> list[Delivery]:
        """End a turn and record its last deliveries, see `Ledger.end`."""
        check_end(state)
        new = check_plan(lease, plan)
        contents = self._open_contents(lease)
        known = contents.turns.get(turn.turn_id)
        seen = known and (known.epoch, known.attempt, known.conversation)
        if not known or known.state not in TURN_OPEN or seen != (turn.epoch, turn.attempt, lease.conversation):
            raise Fenced(f"turn {turn.turn_id} has ended, or was begun again")
        recorded = self._record(new)
        contents.turns[turn.turn_id] = replace(known, state=state, epoch=lease.epoch, updated_at=self._wall())
        await asyncio.sleep(0)
        return recorded

    async def plan(self, lease: Lease, deliveries: Sequence[Delivery]) -> list[Delivery]:
        """Record new deliveries, see `Ledger.plan`."""
        new = check_plan(lease, deliveries)
        self._open_contents(lease)
        recorded = self._record(new)
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
                known = replace(delivery, position=next_position(contents.highest))
                if known.state is State.SENDING and (contents.open.get(known.conversation) or self._refuses(known)):
                    known = replace(known, state=State.PLANNED, attempt=0, first_try_at=None, last_try_at=None)
                contents.put(known)
            recorded.append(known)
        return recorded

    def _refuses(self, delivery: Delivery) -> bool:
        """Whether the delivery would begin a new message of a cancelled turn."""
        turn = self._contents.turns.get(delivery.turn_id)
        return turn is not None and turn.is_cancelled and starts_message(delivery)

    async def move(
        self, lease: Lease, *moves: Move, plan: Sequence[Delivery] = (), hold_s: float = 0.0
    ) -> list[Delivery]:
        """Change the states of deliveries, see `Ledger.move`."""
        notices = check_moves(lease, moves, plan)
        contents = self._open_contents(lease, hold_s=hold_s)
        final: set[int] = set()
        done: list[Delivery] = []
        for before, after in moves:
            self._check_unchanged(before, after, final, done)
            done.append(after)
            if after.state in FINAL:
                final.add(before.position)
        for after in done:
            contents.change(after)
        for notice in notices:
            if contents.find(notice) is None:
                free = (
                    position for position in positions_behind(moves[0][0].position) if position not in contents.rows
                )
                done.append(replace(notice, position=next(free, next_position(contents.highest))))
                contents.put(done[-1])
        await asyncio.sleep(0)
        return done

    def _check_unchanged(self, before: Delivery, after: Delivery, final: set[int], done: list[Delivery]) -> None:
        """Raise an error if the row has changed since the caller saw it, or must not be sent.

        `done`: the earlier moves.
        """
        contents = self._contents
        row = next(
            (later for later in reversed(done) if later.position == before.position), contents.rows.get(before.position)
        )
        if row is None or any(
            getattr(row, field) != getattr(before, field) for field in ("id", "state", "epoch", "attempt")
        ):
            raise refusal(before, is_cancelled=False)
        if self._refuses(after):
            raise refusal(before, is_cancelled=True)
        earlier = contents.open[before.conversation]
        if after.state is State.SENDING and any(
            position not in final for position in earlier[: bisect_left(earlier, before.position)]
        ):
            raise refusal(before, is_cancelled=False)

    async def adopt(self, lease: Lease, *, now: float, limit: int) -> list[Delivery]:
        """Take over the open rows that an earlier lease left, see `Ledger.adopt`."""
        contents = self._open_contents(lease)
        found: list[Delivery] = []
        for position in contents.open.get(lease.conversation, [])[:limit]:
            row = contents.rows[position]
            if row.state not in _STATES:
                break
            if row.epoch != lease.epoch:
                row = contents.rows[position] = adopted(row, epoch=lease.epoch, now=now)
            found.append(row)
        await asyncio.sleep(0)
        return found

    async def open_conversations(self, *, after: str = "", limit: int = 256) -> list[OpenConversation]:
        """The conversations with open deliveries, see `Ledger.open_conversations`."""
        contents = self._open_contents()
        names = sorted(name for name in contents.open if name > after)[:limit]
        first_open = [contents.rows[contents.open[name][0]] for name in names]
        await asyncio.sleep(0)
        return [
            OpenConversation(
                name=head.conversation,
                channel=head.channel,
                chat=head.operation.target.chat,
                state=str(head.state),
                not_before=head.not_before,
                updated_at=head.updated_at,
            )
            for head in first_open
        ]

    async def interrupted_turns(self, *, conversation: str | None = None, limit: int = 256) -> list[Turn]:
        """The running turns whose lease has ended, see `Ledger.interrupted_turns`."""
        running = self._turns(TurnState.RUNNING, conversation)
        found = [turn for turn in running if not self._is_held(turn)][:limit]
        await asyncio.sleep(0)
        return found

    def _is_held(self, turn: Turn) -> bool:
        """Whether the lease under which the turn was begun is still valid.

        A lease of another owner ends at its deadline. A lease of this owner ends only when another owner acquires the
        conversation.
        """
        held = self._contents.leases.get(turn.conversation)
        if held is None or held.lease.epoch != turn.epoch:
            return False
        return held.lease.owner == self._owner or self._monotonic() < held.deadline

    async def accepted_turns(self, *, conversation: str | None = None, limit: int = 256) -> list[Turn]:
        """The turns that were accepted but never begun, see `Ledger.accepted_turns`."""
        found = self._turns(TurnState.ACCEPTED, conversation)[:limit]
        await asyncio.sleep(0)
        return found

    def _turns(self, state: TurnState, conversation: str | None) -> list[Turn]:
        contents = self._open_contents()
        ids = contents.turns if conversation is None else contents.turn_ids.get(conversation, ())
        turns = (contents.turn(turn_id) for turn_id in ids if contents.turns[turn_id].state is state)
        return [turn for turn in turns if turn is not None]

    async def turn(self, turn_id: str) -> Turn | None:
        """The turn with that id, if there is one."""
        found = self._open_contents().turn(turn_id)
        await asyncio.sleep(0)
        return found

    async def find(self, query: Query, *, after: int | None = None, limit: int = 100) -> list[Delivery]:
        """The deliveries that match a query, see `Ledger.find`."""
        rows = self._open_contents().rows_of(query.turn_id)
        matching = [row for row in rows if _matches(row, query) and row.state in _STATES]
        matching.sort(key=lambda row: -row.position)
        await asyncio.sleep(0)
        return [row for row in matching if after is None or row.position < after][:limit]

    async def prune(self, query: Query, *, limit: int = 200, bodies: bool = False) -> int:
        """Delete final deliveries and ended turns that match a query, see `Ledger.prune`."""
        contents = self._open_contents()
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
        turns = [turn for turn in contents.turns.values() if matches_turn(turn, query)]
        turns.sort(key=lambda turn: turn.updated_at)
        alone = [turn.turn_id for turn in turns if _has_content(turn) or not bodies]
        alone = [turn_id for turn_id in alone if bodies or turn_id not in contents.ordinals][:limit]
        for turn_id in {*alone, *(row.turn_id for row in matching)} & ended:
            if bodies:
                contents.turns[turn_id] = replace(contents.turns[turn_id], message=None, snapshot=Snapshot())
            elif turn_id not in contents.ordinals:
                contents.drop_turn(turn_id)
        known_since = self._wall() - EVENTS_KNOWN_S
        contents.events = {event: seen for event, seen in contents.events.items() if seen[1] >= known_since}
        await asyncio.sleep(0)
        return len(matching)

    async def store(self, kind: str, key: str, value: bytes | None) -> None:
        """Record a small value under its kind and key, see `Ledger.store`."""
        values = self._open_contents().stored.setdefault(kind, {})
        if value is None:
            values.pop(key, None)
        else:
            values[key] = value
        await asyncio.sleep(0)

    async def stored(self, kind: str) -> dict[str, bytes]:
        """All values of a kind, see `Ledger.stored`."""
        values = self._open_contents().stored.get(kind, {})
        found = {key: values[key] for key in sorted(values)}
        await asyncio.sleep(0)
        return found

    async def close(self) -> None:
        """Close this owner's ledger, see `Ledger.close`. The ledgers of other owners stay open."""
        self._is_closed = True
        await asyncio.sleep(0)


def _has_content(turn: Turn) -> bool:
    return turn.message is not None or turn.snapshot != Snapshot()


def _matches(row: Delivery, query: Query) -> bool:
    return (
        (query.states is None or row.state in query.states)
        and query.turn_id in {None, row.turn_id}
        and query.conversation in {None, row.conversation}
        and query.channel in {None, row.channel}
        and (query.before is None or row.updated_at < query.before)
    )
