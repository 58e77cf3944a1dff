"""Each ledger against a simple model: after any sequence of calls both agree."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from msgspec.structs import replace
from stores import MemoryStore, SqliteStore

from example_counts import examples
from tailrace.deliveries import (
    EDGES,
    FINAL,
    OPEN,
    TURN_OPEN,
    Delivery,
    Lease,
    Query,
    State,
    Turn,
    TurnState,
    adopted,
    moved,
)
from tailrace.deliveries import sending as sent
from tailrace.errors import CancelledTurn, Fenced, TurnMismatch
from tailrace.testing.ledger_scenarios import inbound, post, target, turn

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tailrace.ledger_port import Ledger
    from tailrace.testing.ledger_scenarios import LedgerStore

CHATS, ORDINALS = st.sampled_from("12"), st.integers(1, 4)
MESSAGES = [inbound(name, chat=chat) for name, chat in (("e", "1"), ("f", "2"), ("g", "1"))]
EVENTS = {message.turn_id: message for message in MESSAGES}
TURNS = st.sampled_from(["a", "b", "c", *EVENTS])


class Model(RuleBasedStateMachine):
    """A list of rows in their order, a dictionary of turns in the order of their begin, and the lease of each chat."""

    def __init__(self, store: Callable[[Path], LedgerStore]) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.folder = tempfile.TemporaryDirectory()
        self.store = store(Path(self.folder.name))
        self.rows: list[Delivery] = []
        self.turns: dict[str, Turn] = {}
        self.events: set[str] = set()
        self.leases: dict[str, Lease] = {}
        self.reopen()

    def teardown(self) -> None:
        self.runner.run(self.store.close())
        self.runner.close()
        self.folder.cleanup()

    def ask(self, call: Callable[[Ledger], Awaitable[Any]]) -> Any:
        """The answer of the ledger. An expected error is an answer too."""

        async def answer() -> Any:
            try:
                return without_positions(await call(self.ledger))
            except (Fenced, TurnMismatch, CancelledTurn) as error:
                return type(error)

        return self.runner.run(answer())

    def find(self, delivery: Delivery) -> Delivery | None:
        return next((row for row in self.rows if row.id == delivery.id), None)

    def open_rows(self, conversation: str) -> list[Delivery]:
        return [row for row in self.rows if row.conversation == conversation and row.state in OPEN]

    def turn_now(self, name: str) -> Turn | None:
        found: Turn | None = self.ask(lambda ledger: ledger.turn(name))
        return found

    def is_cancelled(self, turn_id: str) -> bool:
        return turn_id in self.turns and self.turns[turn_id].is_cancelled

    def record(self, delivery: Delivery, epoch: int) -> Delivery:
        free = not self.open_rows(delivery.conversation) and not self.is_cancelled(delivery.turn_id)
        if delivery.state is State.SENDING and not free:
            delivery = replace(delivery, state=State.PLANNED, attempt=0, first_try_at=None, last_try_at=None)
        row = replace(delivery, epoch=epoch)
        self.rows.append(row)
        return row

    def put(self, before: Delivery, after: Delivery) -> None:
        self.rows[self.rows.index(before)] = after

    @rule()
    def reopen(self) -> None:
        self.ledger = self.runner.run(self.store.open())
        for chat in "12":
            self.acquire(chat)

    @rule(chat=CHATS)
    def acquire(self, chat: str) -> None:
        lease = self.ask(lambda ledger: ledger.acquire(target(chat).conversation))
        assert lease.epoch > max((former.epoch for former in self.leases.values()), default=0)
        self.leases[chat] = lease

    @rule(
        name=TURNS,
        ordinals=st.lists(ORDINALS, max_size=3),
        chat=CHATS,
        first=st.booleans(),
        text=st.sampled_from("xxxy"),
        late=st.sampled_from([False, False, False, True]),
    )
    def plan(self, name: str, ordinals: list[int], chat: str, first: bool, text: str, late: bool) -> None:
        new = [post(name, ordinal, chat=chat, text=text) for ordinal in ordinals]
        if first and new:
            new[0] = sent(new[0], now=1.0)
        lease = self.leases[chat]
        if late:
            self.acquire(chat)
        answer = self.ask(lambda ledger: ledger.plan(lease, new))
        if late:
            assert answer is Fenced
        elif any((known := self.find(row)) and known.fingerprint != row.fingerprint for row in new):
            assert answer is TurnMismatch
        else:
            assert answer == [self.find(row) or self.record(row, lease.epoch) for row in new]

    @precondition(lambda self: self.rows)
    @rule(draw=st.data(), stale=st.sampled_from(["", "", "", "epoch", "attempt"]), notice=st.booleans())
    def move(self, draw: st.DataObject, stale: str, notice: bool) -> None:
        row = draw.draw(st.sampled_from([row for row in self.rows if row.state in OPEN] or self.rows))
        if not EDGES[row.state]:
            return
        chat = row.operation.target.chat
        seen = replace(row, **{stale: getattr(row, stale) - 1}) if stale else row
        to = draw.draw(st.sampled_from(sorted(EDGES[row.state])))
        after = sent(seen, now=2.0) if to is State.SENDING else moved(seen, to, now=2.0)
        notices = [post(row.turn_id, 0, chat=chat, text="missing")] if notice else []
        lease = self.leases[chat]
        answer = self.ask(lambda ledger: move_at_position(ledger, lease, seen, after, notices))
        if stale or row.epoch != lease.epoch:
            assert answer is Fenced
            return
        if to is State.SENDING and self.is_cancelled(row.turn_id):
            assert answer is CancelledTurn
            return
        if to is State.SENDING and self.open_rows(row.conversation)[0] is not row:
            assert answer is Fenced
            return
        self.put(row, after)
        added = [replace(notices[0], epoch=lease.epoch)] if notice and self.find(notices[0]) is None else []
        assert answer == [after, *added]
        self.rows[self.rows.index(after) + 1 : 0] = added

    @rule(chat=CHATS, limit=st.integers(1, 3))
    def adopt(self, chat: str, limit: int) -> None:
        conversation, lease = target(chat).conversation, self.leases[chat]
        for row in self.open_rows(conversation)[:limit]:
            self.put(row, row if row.epoch == lease.epoch else adopted(row, epoch=lease.epoch, now=3.0))
        answer = self.ask(lambda ledger: ledger.adopt(lease, now=3.0, limit=limit))
        assert answer == self.open_rows(conversation)[:limit]

    @rule(name=st.sampled_from(sorted(EVENTS)))
    def accept(self, name: str) -> None:
        message = EVENTS[name]
        own = [each for each in self.turns.values() if each.conversation == message.target.conversation]
        is_new = name not in {*self.turns, *self.events}
        self.events.add(name)
        if is_new:
            arrival = 1 + max((each.arrival for each in own), default=0)
            state = TurnState.ACCEPTED
            self.turns[name] = Turn(turn_id=name, target=message.target, state=state, message=message, arrival=arrival)
        answer = self.ask(lambda ledger: ledger.accept(message))
        arrival = self.turns[name].arrival if name in self.turns else 0  # It was deleted; the event is still known.
        ahead = sum(each.state in TURN_OPEN and each.arrival < arrival for each in own)
        assert (answer.turn_id, answer.is_new, answer.ahead) == (name, is_new, ahead)

    @rule(name=TURNS)
    def cancel(self, name: str) -> None:
        self.ask(lambda ledger: ledger.cancel(name))
        if name in self.turns:
            self.turns[name] = replace(self.turns[name], is_cancelled=True)

    @rule(name=TURNS, chat=CHATS)
    def begin(self, name: str, chat: str) -> None:
        lease = self.leases[chat]
        known = self.turns.get(name) or turn(name, chat=chat)
        if known.state in TURN_OPEN and known.conversation == target(chat).conversation:
            known = replace(known, state=TurnState.RUNNING, attempt=known.attempt + 1, epoch=lease.epoch)
            self.turns.pop(name, None)  # The order of the dictionary is that of the begins.
        self.turns[name] = known
        answer = self.ask(lambda ledger: ledger.begin(lease, turn(name, chat=chat)))
        assert answer == self.with_ordinal(known)

    def with_ordinal(self, known: Turn) -> Turn:
        return replace(
            known, last_ordinal=max((row.ordinal for row in self.rows if row.turn_id == known.turn_id), default=0)
        )

    @precondition(lambda self: self.turns)
    @rule(draw=st.data(), stale=st.booleans(), chat=CHATS)
    def end(self, draw: st.DataObject, stale: bool, chat: str) -> None:
        known = draw.draw(st.sampled_from(sorted(self.turns.values(), key=lambda each: each.turn_id)))
        seen = replace(known, attempt=known.attempt - 1) if stale else known
        lease = self.leases[chat]
        answer = self.ask(lambda ledger: ledger.end(lease, seen, TurnState.DONE))
        if stale or known.state not in TURN_OPEN or known.conversation != target(chat).conversation:
            assert answer is Fenced
        else:
            self.turns[known.turn_id] = replace(known, state=TurnState.DONE, epoch=lease.epoch)

    @rule(limit=st.integers(1, 4))
    def prune(self, limit: int) -> None:
        busy = {name for name, known in self.turns.items() if known.state in TURN_OPEN}
        gone = [row for row in self.rows if row.state in FINAL and row.turn_id not in busy][:limit]
        self.rows = [row for row in self.rows if row not in gone]
        assert self.ask(lambda ledger: ledger.prune(Query(), limit=limit)) == len(gone)
        for name in self.turns.keys() - busy - {row.turn_id for row in self.rows}:
            answer = self.turn_now(name)
            if answer is None:  # At most `limit` turns without deliveries are deleted, the oldest first.
                self.turns.pop(name)
            assert answer is None or name not in {row.turn_id for row in gone}

    @invariant()
    def rows_and_turns_are_equal(self) -> None:
        assert self.ask(lambda ledger: ledger.find(Query(), limit=999)) == self.rows[::-1]
        running = [self.with_ordinal(each) for each in self.turns.values() if each.state is TurnState.RUNNING]
        held = {lease.epoch for lease in self.leases.values()}
        assert self.ask(lambda ledger: ledger.interrupted_turns()) == [
            each for each in running if each.epoch not in held
        ]
        accepted = [self.with_ordinal(each) for each in self.turns.values() if each.state is TurnState.ACCEPTED]
        assert self.ask(lambda ledger: ledger.accepted_turns()) == accepted

    @rule()
    def open_conversations_are_equal(self) -> None:
        conversations = sorted({row.conversation for row in self.rows if row.state in OPEN})
        open_conversations = self.ask(lambda ledger: ledger.open_conversations())
        assert [each.name for each in open_conversations] == conversations
        assert [each.state for each in open_conversations] == [self.open_rows(name)[0].state for name in conversations]


def without_positions(answer: Any) -> Any:
    """Without positions and times: only the order matters, and a refused plan may leave a gap."""
    if isinstance(answer, list):
        return [without_positions(each) for each in answer]
    if isinstance(answer, Turn):
        return replace(answer, updated_at=0.0)
    return replace(answer, position=0) if isinstance(answer, Delivery) else answer


async def move_at_position(
    ledger: Ledger, lease: Lease, seen: Delivery, after: Delivery, notices: list[Delivery]
) -> list[Delivery]:
    rows = await ledger.find(Query(turn_id=seen.turn_id))
    [position] = [row.position for row in rows if row.ordinal == seen.ordinal]
    return await ledger.move(lease, (replace(seen, position=position), replace(after, position=position)), plan=notices)


@pytest.mark.parametrize("store", [lambda _folder: MemoryStore(), SqliteStore], ids=["memory", "sqlite"])
def test_a_ledger_behaves_like_the_model(store: Callable[[Path], LedgerStore]) -> None:
    counts = settings(max_examples=examples(25, search=150), stateful_step_count=40)
    run_state_machine_as_test(lambda: Model(store), settings=counts)  # type: ignore[arg-type]  # it takes any factory
