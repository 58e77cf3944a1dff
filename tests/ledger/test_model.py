"""Both ledgers against a simple model: after any sequence of calls all three agree."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from msgspec.structs import replace
from stores import MemoryStore, SqliteStore

from example_counts import examples
from tailrace.deliveries import EDGES, FINAL, OPEN, TURN_OPEN, Delivery, Query, State, Turn, TurnState, adopted, moved
from tailrace.deliveries import sending as sent
from tailrace.errors import Fenced, TurnMismatch
from tailrace.testing.ledger_scenarios import post, target

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tailrace.ports import Ledger

Answer = TypeVar("Answer")
CHATS, TURNS, ORDINALS = st.sampled_from("12"), st.sampled_from("abc"), st.integers(1, 4)


class Ledgers(RuleBasedStateMachine):
    """The model: a list of rows in their order, and a dictionary of turns."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.folder = tempfile.TemporaryDirectory()
        self.stores = (MemoryStore(), SqliteStore(Path(self.folder.name)))
        self.rows: list[Delivery] = []
        self.turns: dict[str, Turn] = {}
        self.reopen()

    def teardown(self) -> None:
        for store in self.stores:
            self.runner.run(store.close())
        self.runner.close()
        self.folder.cleanup()

    def both(self, ask: Callable[[Ledger], Awaitable[Answer]]) -> Answer | type[Exception]:
        """The answer of both ledgers, which must be the same. An expected error is an answer too."""

        async def answer(ledger: Ledger) -> Answer | type[Exception]:
            try:
                return without_positions(await ask(ledger))
            except (Fenced, TurnMismatch) as error:
                return type(error)

        memory, sqlite = (self.runner.run(answer(ledger)) for ledger in self.ledgers)
        assert memory == sqlite
        return memory

    def find(self, delivery: Delivery) -> Delivery | None:
        return next((row for row in self.rows if row.id == delivery.id), None)

    def open_rows(self, conversation: str) -> list[Delivery]:
        return [row for row in self.rows if row.conversation == conversation and row.state in OPEN]

    def record(self, delivery: Delivery) -> Delivery:
        free = not self.open_rows(delivery.conversation)
        if delivery.state is State.SENDING and not free:
            delivery = replace(delivery, state=State.PLANNED, attempt=0, first_try_at=None, last_try_at=None)
        row = replace(delivery, epoch=self.epoch)
        self.rows.append(row)
        return row

    def put(self, before: Delivery, after: Delivery) -> None:
        self.rows[self.rows.index(before)] = after

    @rule()
    def reopen(self) -> None:
        memory, sqlite = self.stores
        self.ledgers: tuple[Ledger, Ledger] = self.runner.run(memory.open()), self.runner.run(sqlite.open())
        [self.epoch] = {ledger.epoch for ledger in self.ledgers}

    @rule(
        turn=TURNS,
        ordinals=st.lists(ORDINALS, max_size=3),
        chat=CHATS,
        first=st.booleans(),
        text=st.sampled_from("xxxy"),
    )
    def plan(self, turn: str, ordinals: list[int], chat: str, first: bool, text: str) -> None:
        given = [post(turn, ordinal, chat=chat, text=text) for ordinal in ordinals]
        if first and given:
            given[0] = sent(given[0], now=1.0)
        answer = self.both(lambda ledger: ledger.plan(given))
        if any((known := self.find(row)) and known.fingerprint != row.fingerprint for row in given):
            assert answer is TurnMismatch
        else:
            assert answer == [self.find(row) or self.record(row) for row in given]

    @precondition(lambda self: self.rows)
    @rule(draw=st.data(), stale=st.sampled_from(["", "", "", "epoch", "attempt"]), notice=st.booleans())
    def move(self, draw: st.DataObject, stale: str, notice: bool) -> None:
        row = draw.draw(st.sampled_from([row for row in self.rows if row.state in OPEN] or self.rows))
        if not EDGES[row.state]:
            return
        seen = replace(row, **{stale: getattr(row, stale) - 1}) if stale else row
        to = draw.draw(st.sampled_from(sorted(EDGES[row.state])))
        after = sent(seen, now=2.0) if to is State.SENDING else moved(seen, to, now=2.0)
        notices = [post(row.turn_id, 0, chat=row.operation.target.chat, text="missing")] if notice else []
        answer = self.both(lambda ledger: move_at_position(ledger, seen, after, notices))
        behind = to is State.SENDING and self.open_rows(row.conversation)[0] is not row
        if stale or row.epoch != self.epoch or behind:
            assert answer is Fenced
            return
        assert answer == [after]
        self.put(row, after)
        if notice and self.find(notices[0]) is None:
            self.rows.insert(self.rows.index(after) + 1, replace(notices[0], epoch=self.epoch))

    @rule(chat=CHATS, limit=st.integers(1, 3))
    def adopt(self, chat: str, limit: int) -> None:
        conversation = target(chat).conversation
        for row in self.open_rows(conversation)[:limit]:
            self.put(row, row if row.epoch == self.epoch else adopted(row, epoch=self.epoch, now=3.0))
        answer = self.both(lambda ledger: ledger.adopt(conversation, now=3.0, limit=limit))
        assert answer == self.open_rows(conversation)[:limit]

    @rule(name=TURNS)
    def begin(self, name: str) -> None:
        turn = self.turns.get(name) or Turn(turn_id=name, target=target(), attempt=0)
        if turn.state in TURN_OPEN:
            turn = replace(turn, state=TurnState.RUNNING, attempt=turn.attempt + 1, epoch=self.epoch)
        self.turns[name] = turn
        last = max((row.ordinal for row in self.rows if row.turn_id == name), default=0)
        answer = self.both(lambda ledger: without_time(ledger.begin(turn)))
        assert answer == replace(turn, last_ordinal=last)

    @precondition(lambda self: self.turns)
    @rule(draw=st.data(), stale=st.booleans())
    def end(self, draw: st.DataObject, stale: bool) -> None:
        turn = draw.draw(st.sampled_from(sorted(self.turns.values(), key=lambda turn: turn.turn_id)))
        seen = replace(turn, attempt=turn.attempt - 1) if stale else turn
        answer = self.both(lambda ledger: ledger.end(seen, TurnState.DONE))
        if stale or turn.state not in TURN_OPEN:
            assert answer is Fenced
        else:
            self.turns[turn.turn_id] = replace(turn, state=TurnState.DONE, epoch=self.epoch)

    @rule(limit=st.integers(1, 4))
    def prune(self, limit: int) -> None:
        busy = {name for name, turn in self.turns.items() if turn.state in TURN_OPEN}
        gone = [row for row in self.rows if row.state in FINAL and row.turn_id not in busy][:limit]
        self.rows = [row for row in self.rows if row not in gone]
        for name in {row.turn_id for row in gone} - {row.turn_id for row in self.rows}:
            self.turns.pop(name, None)
        assert self.both(lambda ledger: ledger.prune(Query(), limit=limit)) == len(gone)

    @invariant()
    def rows_are_equal(self) -> None:
        assert self.both(lambda ledger: ledger.find(Query(), limit=999)) == self.rows[::-1]

    @rule()
    def open_conversations_are_equal(self) -> None:
        conversations = sorted({row.conversation for row in self.rows if row.state in OPEN})
        open_conversations = self.both(lambda ledger: ledger.open_conversations())
        assert not isinstance(open_conversations, type)
        assert [each.name for each in open_conversations] == conversations
        assert [each.state for each in open_conversations] == [self.open_rows(name)[0].state for name in conversations]


def without_positions(answer: Answer) -> Answer:
    """Without positions: only the order matters, and a refused plan may leave a gap."""
    if isinstance(answer, list) and answer and isinstance(answer[0], Delivery):
        answer[:] = [replace(row, position=0) for row in answer]
    return answer


async def move_at_position(ledger: Ledger, seen: Delivery, after: Delivery, notices: list[Delivery]) -> list[Delivery]:
    [position] = [row.position for row in await ledger.find(Query(turn_id=seen.turn_id)) if row.ordinal == seen.ordinal]
    return await ledger.move((replace(seen, position=position), replace(after, position=position)), plan=notices)


async def without_time(begun: Awaitable[Turn]) -> Turn:
    return replace(await begun, updated_at=0.0)


def test_both_ledgers_behave_like_the_model() -> None:
    run_state_machine_as_test(Ledgers, settings=settings(max_examples=examples(25, search=150), stateful_step_count=40))
