"""The contract of a ledger as tests, for every ledger there is: subclass `LedgerContract`, give it a store, run pytest.

    class TestMine(LedgerContract):
        def store(self, folder: Path) -> LedgerStore:
            return MyStore(folder)

Owns what `tailrace.ports.Ledger` promises, sentence by sentence, seen from outside: here what becomes of turns and
deliveries, in `ledger_records` what is found, kept and forgotten. How a ledger survives a broken disk or a killed
process is its own matter, and has tests of its own.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from msgspec.structs import fields, replace

from tailrace.capabilities import Keyed
from tailrace.deliveries import Delivery, Policy, Query, Snapshot, State, Turn, TurnState, moved, plan, sending
from tailrace.errors import Fenced, TurnMismatch
from tailrace.operations import Body, Durable, Edit, Entity, Post, PostMedia, Receipt, Target
from tailrace.testing.ledger_records_contract import RecordsContract
from tailrace.testing.ledger_scenarios import (
    LedgerStore,
    assert_raises,
    deliver,
    delivered,
    ids,
    inbound,
    post,
    scenario,
    target,
)

if TYPE_CHECKING:
    pass


class LedgerContract(RecordsContract):
    """What every ledger does; `store` says which."""

    @scenario
    async def test_each_opening_has_a_higher_epoch(self, store: LedgerStore) -> None:
        """Epochs grow."""
        epochs = [(await store.open()).epoch for _time in range(3)]
        assert epochs == sorted(set(epochs))

    @scenario
    async def test_closing_twice_is_harmless(self, store: LedgerStore) -> None:
        """And what was handed in before is there."""
        ledger = await store.open()
        handed_in = asyncio.ensure_future(ledger.plan([post("t")]))
        await asyncio.sleep(0)
        await ledger.close()
        await ledger.close()
        await handed_in
        assert ids(await (await store.open()).find(Query())) == ["t.1"]

    @scenario
    async def test_row_42_the_same_event_begins_one_turn(self, store: LedgerStore) -> None:
        """At the same time, later, and for the next owner; another account's event is another."""
        ledger = await store.open()
        given = await asyncio.gather(*(ledger.accept(inbound("e", f"t{n}")) for n in range(50)))
        assert len(set(given)) == 1
        assert await ledger.accept(inbound("e", "later")) == given[0]
        ledger = await store.open()
        assert await ledger.accept(inbound("e", "again")) == given[0]
        assert await ledger.accept(inbound("e", "other", account="b")) == "other"

    @scenario
    async def test_an_accepted_turn_is_begun_with_what_was_said(self, store: LedgerStore) -> None:
        """The event's text is the turn's input."""
        ledger = await store.open()
        await ledger.accept(inbound("e", "t", text="what now?"))
        assert await ledger.interrupted_turns() == []
        begun = await ledger.begin(Turn(turn_id="t", target=target("elsewhere")))
        assert (begun.state, begun.input, begun.attempt, begun.epoch) == (
            TurnState.RUNNING,
            "what now?",
            1,
            ledger.epoch,
        )
        assert begun.target == target()

    @scenario
    async def test_beginning_counts_the_attempts_of_an_open_turn(self, store: LedgerStore) -> None:
        """One that is over stays as it is."""
        ledger = await store.open()
        await ledger.plan([post("t", 1), post("t", 2), post("t", -2)])
        turn = Turn(turn_id="t", target=target(), input="hi")
        first = await ledger.begin(turn)
        assert (first.attempt, first.last_ordinal, first.input) == (1, 2, "hi")
        ledger = await store.open()
        second = await ledger.begin(turn)
        assert (second.attempt, second.epoch) == (2, ledger.epoch)
        await ledger.end(second, TurnState.DONE)
        over = await ledger.begin(turn)
        assert (over.state, over.attempt, over.last_ordinal) == (TurnState.DONE, 2, 2)

    @scenario
    async def test_the_latest_snapshot_of_an_open_turn_is_remembered(self, store: LedgerStore) -> None:
        """With the next change, or when the ledger is closed."""
        ledger = await store.open()
        for name in ("rides", "flushed"):
            await ledger.begin(Turn(turn_id=name, target=target()))
        ledger.save_snapshot("rides", Snapshot(text="H"))
        ledger.save_snapshot("rides", Snapshot(text="Hello", message_id="7"))
        ledger.save_snapshot("nobody", Snapshot(text="?"))
        await ledger.plan([post("t")])
        ledger.save_snapshot("flushed", Snapshot(text="Bye"))
        await ledger.close()
        ledger = await store.open()
        kept = {turn.turn_id: turn.snapshot for turn in await ledger.interrupted_turns()}
        assert kept == {"rides": Snapshot(text="Hello", message_id="7"), "flushed": Snapshot(text="Bye")}

    @scenario
    async def test_a_snapshot_of_a_turn_of_others_is_dropped(self, store: LedgerStore) -> None:
        """Of a former owner's turn, and of one that is over."""
        ledger = await store.open()
        turn = await ledger.begin(Turn(turn_id="t", target=target()))
        ledger = await store.open()
        ledger.save_snapshot("t", Snapshot(text="late"))
        [found] = await ledger.interrupted_turns()
        assert found.snapshot == Snapshot()
        await ledger.end(turn, TurnState.INTERRUPTED)
        ledger.save_snapshot("t", Snapshot(text="later"))
        await ledger.plan([post("u")])
        assert (await ledger.begin(turn)).snapshot == Snapshot()

    @scenario
    async def test_a_turn_ends_once_together_with_the_last_it_says(self, store: LedgerStore) -> None:
        """In one step, or not at all."""
        ledger = await store.open()
        turn = await ledger.begin(Turn(turn_id="t", target=target()))
        await ledger.plan([post("t", 1)])
        await assert_raises(ledger.end(turn, TurnState.RUNNING), ValueError)
        await assert_raises(
            ledger.end(turn, TurnState.DONE, plan=[post("t", 2), post("t", 1, text="else")]), TurnMismatch
        )
        assert ids(await ledger.find(Query())) == ["t.1"]
        recorded = await ledger.end(turn, TurnState.DONE, plan=[post("t", 1), post("t", 2)])
        assert ids(recorded) == ["t.1", "t.2"]
        await assert_raises(ledger.end(turn, TurnState.FAILED), Fenced)
        await assert_raises(ledger.end(replace(turn, turn_id="nobody"), TurnState.DONE), Fenced)

    @scenario
    async def test_a_turn_that_was_only_accepted_is_found_by_the_next_owner(self, store: LedgerStore) -> None:
        """Nobody else remembers it: the platform was told that it was taken."""
        ledger = await store.open()
        await ledger.accept(inbound("e", turn_id="t"))
        assert await ledger.interrupted_turns(state=TurnState.ACCEPTED) == []
        ledger = await store.open()
        [left] = await ledger.interrupted_turns(state=TurnState.ACCEPTED)
        assert (left.turn_id, left.state, left.attempt) == ("t", TurnState.ACCEPTED, 0)
        assert await ledger.interrupted_turns() == []
        assert (await ledger.begin(left)).attempt == 1
        assert await ledger.interrupted_turns(state=TurnState.ACCEPTED) == []

    @scenario
    async def test_an_interrupted_turn_is_ended_by_the_next_owner(self, store: LedgerStore) -> None:
        """As it was last seen: not after somebody took it up."""
        ledger = await store.open()
        mine, taken = [await ledger.begin(Turn(turn_id=name, target=target())) for name in "ab"]
        assert await ledger.interrupted_turns() == []
        ledger = await store.open()
        assert [turn.turn_id for turn in await ledger.interrupted_turns()] == ["a", "b"]
        assert [turn.turn_id for turn in await ledger.interrupted_turns(limit=1)] == ["a"]
        await ledger.begin(taken)
        await assert_raises(ledger.end(taken, TurnState.INTERRUPTED), Fenced)
        await ledger.end(mine, TurnState.INTERRUPTED, plan=[post("a", 1)])
        assert await ledger.interrupted_turns() == []

    @scenario
    async def test_deliveries_are_recorded_in_their_order_and_as_they_are(self, store: LedgerStore) -> None:
        """Every field, through every kind of operation."""
        ledger = await store.open()
        policy = Policy(
            idempotency=Keyed(window_s=60.0, scope="d"), on_unknown="resend", on_dead="halt", max_attempts=3
        )
        operations: tuple[Durable, ...] = (
            Post(target=target(), body=Body(text="a", entities=(Entity(type="b", offset=0, length=1),), html="<b>")),
            Edit(target=Target(channel="x", chat="1", thread="9"), message_id="7", body=Body(text="b")),
            PostMedia(target=target(), url="https://example.org/a.png", mime="image/png", caption="c"),
        )
        given = [plan(each, turn_id="t", ordinal=n, policy=policy, now=5.0) for n, each in enumerate(operations)]
        recorded = await ledger.plan(given)
        assert [replace(row, position=0, epoch=0) for row in recorded] == given
        assert {row.epoch for row in recorded} == {ledger.epoch}
        assert [row.position for row in recorded] == sorted({row.position for row in recorded})
        changed = sending(recorded[0], now=6.0, again=True)
        [changed] = await ledger.move((recorded[0], changed))
        away = {
            "not_before": 9.0,
            "error": "busy",
            "deferred_tries": 1,
            "receipt": Receipt(message_id="m", degraded="plain"),
        }
        [changed] = await ledger.move((changed, moved(changed, State.RETRY, now=7.0, **away)))
        unset = {field.name for field in fields(changed) if getattr(changed, field.name) in (None, "", 0, False)}
        assert unset == {"ordinal"}, "a field of Delivery is not tried here"
        assert await ledger.find(Query()) == [*reversed(recorded[1:]), changed]
        assert (await ledger.adopt(target().conversation, now=8.0, limit=9))[0] == changed

    @scenario
    async def test_a_name_is_recorded_once_and_for_one_content(self, store: LedgerStore) -> None:
        """Row 34: the same content gives the recorded row; another content raises, and nothing is recorded."""
        ledger = await store.open()
        [row] = await ledger.plan([post("t", 1)])
        done = await deliver(ledger, row)
        assert await ledger.plan([post("t", 1), post("t", 1)]) == [done, done]
        await assert_raises(ledger.plan([post("t", 2), post("t", 1, text="other")]), TurnMismatch)
        await assert_raises(ledger.plan([post("t", 3), post("t", 3, text="other")]), TurnMismatch)
        assert await ledger.find(Query()) == [done]
        ledger = await store.open()
        assert await ledger.plan([sending(post("t", 1), now=1.0)]) == [done]
        assert await ledger.plan([]) == []

    @scenario
    async def test_the_first_of_a_plan_may_begin_as_sending(self, store: LedgerStore) -> None:
        """Where nothing open stands before it; otherwise it is planned, as if it had never been tried."""
        ledger = await store.open()
        first, second = await ledger.plan([sending(post("t", 1), now=6.0), post("t", 2)])
        assert (first.state, first.attempt, second.state) == (State.SENDING, 1, State.PLANNED)
        [third] = await ledger.plan([sending(post("t", 3), now=6.0)])
        assert replace(third, position=0, epoch=0, updated_at=100.0) == post("t", 3)
        [elsewhere] = await ledger.plan([sending(post("t", 4, chat="2"), now=6.0)])
        assert elsewhere.state is State.SENDING
        await assert_raises(ledger.plan([post("t", 5), sending(post("t", 6), now=6.0)]), ValueError)
        assert ids(await ledger.find(Query())) == ["t.4", "t.3", "t.2", "t.1"]

    @scenario
    async def test_a_move_needs_the_row_as_it_was_last_seen(self, store: LedgerStore) -> None:
        """State, attempt and owner; and an edge that leads there."""
        ledger = await store.open()
        [row] = await ledger.plan([post("t", 1)])
        [tried] = await ledger.move((row, sending(row, now=1.0)))
        await assert_raises(ledger.move((row, sending(row, now=1.0))), Fenced)
        late = replace(tried, attempt=tried.attempt + 1)
        await assert_raises(ledger.move((late, delivered(late))), Fenced)
        foreign = replace(tried, epoch=tried.epoch - 1)
        await assert_raises(ledger.move((foreign, delivered(foreign))), Fenced)
        nobody = post("nobody")
        await assert_raises(ledger.move((nobody, sending(nobody, now=1.0))), Fenced)
        await assert_raises(ledger.move((tried, replace(tried, state=State.PLANNED))), ValueError)
        assert await ledger.find(Query()) == [tried]
        done = await deliver(ledger, tried)
        await assert_raises(ledger.move((done, replace(done, state=State.RETRY))), ValueError)
        ledger = await store.open()
        await assert_raises(ledger.move((tried, delivered(tried))), Fenced)

    @scenario
    async def test_a_row_of_a_former_owner_is_moved_only_once_it_is_adopted(self, store: LedgerStore) -> None:
        """Whoever was there before, and whoever pretends to be the new one."""
        [row] = await (await store.open()).plan([post("t", 1)])
        ledger = await store.open()
        await assert_raises(ledger.move((row, sending(row, now=1.0))), Fenced)
        pretended = replace(row, epoch=ledger.epoch)
        await assert_raises(ledger.move((pretended, sending(pretended, now=1.0))), Fenced)
        [mine] = await ledger.adopt(row.conversation, now=2.0, limit=1)
        await ledger.move((mine, sending(mine, now=3.0)))

    @scenario
    async def test_nothing_is_sent_before_what_came_before_it(self, store: LedgerStore) -> None:
        """In its conversation; and one call may settle the one and take up the other."""
        ledger = await store.open()
        first, second = await ledger.plan([sending(post("t", 1), now=1.0), post("t", 2)])
        await assert_raises(ledger.move((second, sending(second, now=1.0))), Fenced)
        await assert_raises(ledger.move((second, sending(second, now=1.0)), (first, delivered(first))), Fenced)
        assert await ledger.find(Query()) == [second, first]
        after = await ledger.move((first, delivered(first)), (second, sending(second, now=1.0)))
        assert [row.state for row in after] == [State.DELIVERED, State.SENDING]
        assert await ledger.find(Query()) == after[::-1]

    @scenario
    async def test_a_notice_stands_right_after_the_row_it_is_about(self, store: LedgerStore) -> None:
        """Before all that came later; one that is known is passed over."""
        ledger = await store.open()
        first, second, third = await ledger.plan(
            [sending(post("t", n), now=1.0) if n == 1 else post("t", n) for n in (1, 2, 3)]
        )
        notice, stand_in = post("t", 0, text="missing"), post("t", -1, text="plain")
        refusal = moved(first, State.FAILED, now=2.0)
        assert await ledger.move((first, refusal), plan=[stand_in]) == [refusal]
        [said] = await ledger.adopt(first.conversation, now=3.0, limit=1)
        assert said.id == "t.-1"
        [said] = await ledger.move((said, sending(said, now=3.0)))
        await ledger.move((said, moved(said, State.FAILED, now=4.0)), plan=[notice])
        await assert_raises(ledger.move(plan=[post("t", 9)]), ValueError)
        gone = moved(third, State.CANCELLED, now=5.0)
        await ledger.move((third, gone), plan=[post("t", 0, text="another")])
        assert ids(await ledger.adopt(first.conversation, now=6.0, limit=9)) == ["t.0", "t.2"]
        assert ids(await ledger.plan([post("u")])) == ["u.1"]
        assert ids(await ledger.find(Query())) == ["u.1", "t.3", "t.2", "t.0", "t.-1", "t.1"]
        assert second.position < third.position

    @scenario
    async def test_a_new_owner_adopts_what_is_open(self, store: LedgerStore) -> None:
        """What was being sent may have arrived. Twice in a row, and only as many as are asked for."""
        ledger = await store.open()
        await ledger.plan([sending(post("t", 1), now=1.0), post("t", 2), post("t", 3)])
        await ledger.plan([sending(post("o", 1, chat="2"), now=1.0)])
        for _crash in range(2):
            ledger = await store.open()
            first, second = await ledger.adopt("telegram:1", now=9.0, limit=2)
            assert (first.state, second.state) == (State.AMBIGUOUS, State.PLANNED)
            assert {first.epoch, second.epoch} == {ledger.epoch}
            assert await ledger.adopt("telegram:1", now=10.0, limit=2) == [first, second]
        [untouched] = await ledger.find(Query(turn_id="o"))
        assert (untouched.state, untouched.epoch) == (State.SENDING, 1)
        [settled] = await ledger.move((first, delivered(first)))
        assert settled.epoch == ledger.epoch
        assert ids(await ledger.adopt("telegram:1", now=9.0, limit=9)) == ["t.2", "t.3"]
        assert await ledger.adopt("nowhere", now=9.0, limit=9) == []

    @scenario
    async def test_row_25_a_state_of_a_newer_version_holds_back_what_is_behind_it(self, store: LedgerStore) -> None:
        """Nobody writes it, nobody passes it."""
        ledger = await store.open()
        _first, second, third = await ledger.plan([post("t", n) for n in (1, 2, 3)])
        await ledger.close()
        store.overwrite_state(second, "teleported")
        ledger = await store.open()
        [first] = await ledger.adopt("telegram:1", now=9.0, limit=9)
        await deliver(ledger, first)
        assert await ledger.adopt("telegram:1", now=9.0, limit=9) == []
        [waiting] = await ledger.open_conversations()
        assert (waiting.state, waiting.epoch) == ("teleported", second.epoch)
        [late] = await ledger.plan([sending(post("u"), now=1.0)])
        assert late.state is State.PLANNED
        await assert_raises(ledger.move((late, sending(late, now=1.0))), Fenced)
        assert await ledger.prune(Query()) == 1
        assert ids(await ledger.find(Query())) == ["u.1", "t.3"]
        assert third.position > second.position

    @scenario
    async def test_of_many_who_would_send_one_does(self, store: LedgerStore) -> None:
        """Two adopters and one who has held the row all along."""
        ledger = await store.open()
        [held] = await ledger.plan([post("t", 1)])

        async def take(row: Delivery) -> bool:
            try:
                await ledger.move((row, sending(row, now=1.0)))
            except Fenced:
                return False
            return True

        async def adopt_and_take() -> bool:
            [row] = await ledger.adopt(held.conversation, now=1.0, limit=1)
            return row.state is State.PLANNED and await take(row)

        took = await asyncio.gather(adopt_and_take(), take(held), adopt_and_take())
        assert sum(took) == 1

    @scenario
    async def test_waiting_conversations_come_in_pages_in_order(self, store: LedgerStore) -> None:
        """Each with its first open delivery."""
        ledger = await store.open()
        chats = [f"{n:02}" for n in range(7)]
        for chat in reversed(chats):
            await ledger.plan([post(f"t{chat}", n, chat=chat) for n in (1, 2)])
        head, *_rest = await ledger.adopt("telegram:03", now=1.0, limit=1)
        head = (await ledger.move((head, sending(head, now=1.0))))[0]
        await ledger.move((head, moved(head, State.RETRY, now=2.0, not_before=50.0)))
        for row in await ledger.adopt("telegram:05", now=1.0, limit=9):
            await deliver(ledger, row)
        found, after = [], ""
        while page := await ledger.open_conversations(after=after, limit=2):
            found += page
            after = page[-1].name
        assert [each.name for each in found] == [f"telegram:{chat}" for chat in chats if chat != "05"]
        assert [(each.state, each.not_before) for each in found if each.not_before] == [("retry", 50.0)]
        assert {(each.channel, each.epoch) for each in found} == {("telegram", ledger.epoch)}

    @scenario
    async def test_calls_are_made_in_the_order_they_are_made(self, store: LedgerStore) -> None:
        """Awaited or not, questions too."""
        ledger = await store.open()
        calls = [asyncio.ensure_future(ledger.plan([post("t", n)])) for n in range(1, 40)]
        found = asyncio.ensure_future(ledger.find(Query(), limit=99))
        places = [row.position for [row] in await asyncio.gather(*calls)]
        assert places == sorted(places)
        assert len(await found) == 39

    @scenario
    async def test_of_many_calls_at_once_each_has_its_own_answer(self, store: LedgerStore) -> None:
        """Whoever is refused among them is refused alone, and the others are made."""
        ledger = await store.open()
        rows = [sending(post("t", n, chat=f"{n % 90}"), now=101.0) for n in range(1, 101)]
        recorded = [row for [row] in await asyncio.gather(*(ledger.plan([row]) for row in rows))]
        states = [row.state for row in recorded]
        assert (states.count(State.SENDING), states.count(State.PLANNED)) == (90, 10)
        stale = replace(recorded[7], attempt=9)
        calls = [ledger.move((row, delivered(row))) for row in recorded[:7]]
        calls += [ledger.move((stale, delivered(stale))), ledger.plan([post("t", 8, chat="8", text="else")])]
        calls += [ledger.move((row, delivered(row))) for row in recorded[8:90]]
        calls += [ledger.move((row, sending(row, now=102.0))) for row in recorded[90:]]
        answers = await asyncio.gather(*calls, return_exceptions=True)
        # The last one stands behind the row that was not moved.
        assert [type(answer) for answer in answers if not isinstance(answer, list)] == [Fenced, TurnMismatch, Fenced]
        found = {row.id: row for row in await ledger.find(Query(), limit=200)}
        assert len(found) == 100
        assert found["t.8"] == recorded[7]
        assert all(found[answer[0].id] == answer[0] for answer in answers if isinstance(answer, list))

    @scenario
    async def test_a_caller_who_is_cancelled_has_made_the_change(self, store: LedgerStore) -> None:
        """Once it was handed in."""
        ledger = await store.open()
        caller = asyncio.ensure_future(ledger.plan([post("t", 1)]))
        await asyncio.sleep(0)
        caller.cancel()
        await asyncio.wait([caller])
        assert caller.cancelled()
        assert ids(await ledger.find(Query())) == ["t.1"]
