"""The contract of a ledger as tests. Subclass `LedgerContract`, return a store, run pytest:

    class TestMine(LedgerContract):
        def store(self, folder: Path) -> LedgerStore:
            return MyStore(folder)

These tests check what `tailrace.ports.Ledger` promises about leases, turns and deliveries. The tests for events,
queries and deletion are in `ledger_records_contract`. A ledger needs tests of its own for broken disks and kills.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from msgspec.structs import fields, replace

from tailrace.capabilities import Keyed
from tailrace.deliveries import Policy, Query, Snapshot, State, TurnState, moved, plan, sending
from tailrace.errors import CancelledTurn, Fenced, LedgerClosed, TurnMismatch
from tailrace.operations import (
    Body,
    CloseStream,
    Delete,
    Durable,
    Edit,
    Entity,
    OpenStream,
    Post,
    PostMedia,
    Receipt,
    Target,
)
from tailrace.testing.ledger_records_contract import RecordsContract
from tailrace.testing.ledger_scenarios import (
    POLICY,
    LedgerStore,
    Owner,
    Paused,
    assert_raises,
    delivered,
    ids,
    inbound,
    post,
    scenario,
    target,
    turn,
    use_conversation,
)

if TYPE_CHECKING:
    from tailrace.deliveries import Lease
    from tailrace.ledger_port import Ledger


class LedgerContract(RecordsContract):
    """The tests for every ledger. `store` returns the ledger under test."""

    @scenario
    async def test_each_lease_has_a_higher_epoch_than_all_before(self, store: LedgerStore) -> None:
        """Also after the ledger was opened again: its leases have higher epochs than those before."""
        epochs: list[int] = []
        for _opening in range(3):
            ledger = await store.open()
            epochs += [(await ledger.acquire(name)).epoch for name in "aba"]
        assert epochs == sorted(set(epochs))

    @scenario
    async def test_changes_under_an_ended_lease_are_fenced(self, store: LedgerStore) -> None:
        """A lease has ended if it was released, if a later lease exists, or if the ledger was opened again."""
        ledger = await store.open()
        lease = await ledger.acquire("telegram:1")
        begun = await ledger.begin(lease, turn())
        [row] = await ledger.plan(lease, [post("t")])

        async def assert_fenced(ledger: Ledger, lease: Lease, *errors: type[Exception]) -> None:
            for call in (
                ledger.begin(lease, begun),
                ledger.plan(lease, [post("t", 2)]),
                ledger.move(lease, (row, sending(row, now=1.0))),
                ledger.adopt(lease, now=1.0, limit=1),
                ledger.end(lease, begun, TurnState.DONE),
            ):
                await assert_raises(call, Fenced, *errors)
            ledger.save_snapshot(lease, "t", Snapshot(text="late"))

        for _time in range(2):
            ledger.release(lease)
        await assert_fenced(ledger, lease)
        first, second = [await ledger.acquire("telegram:1") for _time in range(2)]
        ledger.release(first)
        await assert_fenced(ledger, first)
        await ledger.plan(second, [])
        other = await store.take_over()
        third = await other.acquire("telegram:1")
        await assert_fenced(ledger, second)
        successor = await store.open()
        await successor.acquire("telegram:1")
        await assert_fenced(other, third, LedgerClosed)
        assert await successor.find(Query()) == [row]
        assert await successor.interrupted_turns() == [replace(begun, last_ordinal=1)]

    @scenario
    async def test_no_write_of_a_former_owner_is_accepted_wherever_it_is_paused(self, store: LedgerStore) -> None:
        """For each n, the first owner is paused when it suspends for the n-th time; then another owner takes over."""
        suspensions, was_paused = 0, True
        while was_paused:
            suspensions += 1
            chat = str(suspensions)
            former, name = await store.open(), target(chat).conversation
            paused = Paused(use_conversation(former, await former.acquire(name), chat), suspensions)
            work = asyncio.ensure_future(paused.run())
            was_paused = await paused.reached
            other = await store.take_over()
            lease = await other.acquire(name)
            left = [(row, moved(row, State.CANCELLED, now=9.0)) for row in await other.adopt(lease, now=9.0, limit=9)]
            if left:
                await other.move(lease, *left)
            for interrupted in await other.interrupted_turns(conversation=name):
                await other.end(lease, interrupted, TurnState.INTERRUPTED)
            before = await other.find(Query()), await other.turn(f"turn-{chat}")
            paused.go_on.set()
            [error] = await asyncio.gather(work, return_exceptions=True)
            # After its last suspension the first owner has nothing more to write, so it gets no error.
            assert error is None or (was_paused and isinstance(error, Fenced)), error
            assert (await other.find(Query()), await other.turn(f"turn-{chat}")) == before
        assert suspensions > 7

    @scenario
    async def test_calls_of_a_closed_ledger_raise_ledger_closed(self, store: LedgerStore) -> None:
        """All changes that were submitted before are recorded. `close` may be called twice."""
        ledger = await store.open()
        lease = await ledger.acquire("telegram:1")
        [row] = await ledger.plan(lease, [post("t")])
        submitted = asyncio.ensure_future(ledger.plan(lease, [post("t", 2)]))
        await asyncio.sleep(0)
        for _time in range(2):
            await ledger.close()
        await submitted
        ledger.save_snapshot(lease, "t", Snapshot(text="late"))
        ledger.release(lease)
        for call in (
            ledger.accept(inbound("e")),
            ledger.cancel("t"),
            ledger.acquire("telegram:1"),
            ledger.begin(lease, turn()),
            ledger.end(lease, turn(), TurnState.DONE),
            ledger.plan(lease, [post("t", 3)]),
            ledger.move(lease, (row, sending(row, now=1.0))),
            ledger.adopt(lease, now=1.0, limit=1),
            ledger.open_conversations(),
            ledger.interrupted_turns(),
            ledger.accepted_turns(),
            ledger.turn("t"),
            ledger.find(Query()),
            ledger.prune(Query()),
            ledger.store("kind", "key", b"value"),
            ledger.stored("kind"),
        ):
            await assert_raises(call, LedgerClosed)
        assert ids(await (await store.open()).find(Query())) == ["t.2", "t.1"]

    @scenario
    async def test_begin_counts_the_attempts_of_an_open_turn(self, store: LedgerStore) -> None:
        """A turn that has ended, or that belongs to another conversation, is returned unchanged."""
        owner = Owner(await store.open())
        await owner.plan(post("t", 1), post("t", 2), post("t", -2))
        first = await owner.begin(turn())
        assert (first.attempt, first.last_ordinal, first.epoch) == (1, 2, (await owner.lease()).epoch)
        owner = Owner(await store.open())
        second = await owner.begin(first)
        assert (second.state, second.attempt, second.epoch) == (TurnState.RUNNING, 2, (await owner.lease()).epoch)
        other = await owner.lease("telegram:2")
        assert await owner.ledger.begin(other, second) == second
        assert await owner.ledger.begin(other, turn("t", chat="2")) == second
        await owner.ledger.begin(other, turn("new"))
        assert await owner.ledger.turn("new") is None
        await owner.end(second, TurnState.DONE)
        ended = await owner.begin(turn())
        assert (ended.state, ended.attempt, ended.last_ordinal) == (TurnState.DONE, 2, 2)

    @scenario
    async def test_the_latest_snapshot_of_a_running_turn_is_saved(self, store: LedgerStore) -> None:
        """A snapshot is saved with the next change or by `close`. For a turn that does not run, nothing is saved."""
        owner = Owner(await store.open())
        with_change, at_close, ended = [await owner.begin(turn(name)) for name in "abc"]
        await owner.end(ended, TurnState.DONE)
        await owner.save_snapshot(ended, Snapshot(text="ended"))
        await owner.save_snapshot(turn("unknown"), Snapshot(text="unknown"))
        await owner.save_snapshot(with_change, Snapshot(text="H"))
        await owner.save_snapshot(with_change, Snapshot(text="Hello", message_id="7"))
        await owner.plan(post("t"))
        await owner.save_snapshot(at_close, Snapshot(text="Bye"))
        await owner.ledger.close()
        ledger = await store.open()
        saved = {found.turn_id: found.snapshot for found in await ledger.interrupted_turns()}
        assert saved == {"a": Snapshot(text="Hello", message_id="7"), "b": Snapshot(text="Bye")}
        found = await ledger.turn("c")
        assert found is not None
        assert found.snapshot == Snapshot()

    @scenario
    async def test_a_turn_ends_once_together_with_its_last_deliveries(self, store: LedgerStore) -> None:
        """The end and the deliveries are recorded in one step, or neither is."""
        owner = Owner(await store.open())
        begun = await owner.begin(turn())
        await owner.plan(post("t", 1))
        await assert_raises(owner.end(begun, TurnState.RUNNING), ValueError)
        await assert_raises(owner.end(begun, TurnState.DONE, plan=[post("t", 2), post("t", 1, text="x")]), TurnMismatch)
        assert ids(await owner.find()) == ["t.1"]
        assert ids(await owner.end(begun, TurnState.DONE, plan=[post("t", 1), post("t", 2)])) == ["t.1", "t.2"]
        await assert_raises(owner.end(begun, TurnState.FAILED), Fenced)
        await assert_raises(owner.end(turn("unknown"), TurnState.DONE), Fenced)
        elsewhere = await owner.begin(turn("u", chat="2"))
        await assert_raises(owner.ledger.end(await owner.lease(), elsewhere, TurnState.DONE), Fenced)

    @scenario
    async def test_an_interrupted_turn_is_ended_under_a_later_lease(self, store: LedgerStore) -> None:
        """The turn cannot be ended if it was begun again meanwhile.

        Interrupted turns are listed in the order of `begin`.
        """
        ledger = await store.open()
        owner = Owner(ledger)
        await owner.lease()
        b, a, c = [await owner.begin(turn(name, chat=chat)) for name, chat in (("b", "2"), ("a", "1"), ("c", "1"))]
        b = await owner.begin(b)
        assert await ledger.interrupted_turns() == []
        ledger.release(await owner.lease("telegram:2"))
        assert ids(await ledger.interrupted_turns()) == ["b"]
        owner = Owner(await store.open())
        ledger = owner.ledger
        assert ids(await ledger.interrupted_turns()) == ["a", "c", "b"]
        assert ids(await ledger.interrupted_turns(limit=2)) == ["a", "c"]
        assert ids(await ledger.interrupted_turns(conversation="telegram:1")) == ["a", "c"]
        await owner.begin(a)
        assert ids(await ledger.interrupted_turns(conversation="telegram:1")) == ["c"]
        await assert_raises(owner.end(a, TurnState.INTERRUPTED), Fenced)
        await owner.end(c, TurnState.INTERRUPTED, plan=[post("c")])
        await owner.end(b, TurnState.INTERRUPTED)
        assert await ledger.interrupted_turns() == []

    @scenario
    async def test_a_cancelled_turn_starts_no_new_message(self, store: LedgerStore) -> None:
        """Also for later owners, the ledger refuses to send new messages of the turn.

        Existing messages can still be changed.
        """
        owner = Owner(await store.open())
        await owner.begin(turn())
        body, chat = Body(text="x"), target()
        new: tuple[Durable, ...] = (
            Post(target=chat, body=body),
            PostMedia(target=chat, url="https://example.org/a.png", mime="image/png"),
            OpenStream(target=chat, body=body),
        )
        changes: tuple[Durable, ...] = (
            Edit(target=chat, message_id="7", body=body),
            Delete(target=chat, message_id="7"),
            CloseStream(target=chat, stream_id="7", body=body),
        )
        given = [
            plan(each, turn_id="t", ordinal=n, policy=POLICY, now=1.0) for n, each in enumerate((*new, *changes), 1)
        ]
        await owner.plan(*given[1:])
        for _time in range(2):
            await owner.ledger.cancel("t")
        await owner.ledger.cancel("unknown")
        owner = Owner(await store.open())
        cancelled = await owner.ledger.turn("t")
        assert cancelled is not None
        assert cancelled.is_cancelled
        rows = await owner.adopt()
        rows += await owner.plan(sending(given[0], now=1.0))
        assert rows[-1].state is State.PLANNED
        stale = replace(rows[0], attempt=7)
        await assert_raises(owner.move((stale, sending(stale, now=2.0))), Fenced)
        for row in rows:
            before = await owner.find()
            try:
                await owner.deliver(row)
            except CancelledTurn:
                assert await owner.find() == before
                await owner.move((row, moved(row, State.CANCELLED, now=2.0)))
        states = {row.ordinal: row.state for row in await owner.find()}
        assert states == {n: State.CANCELLED if n <= len(new) else State.DELIVERED for n in range(1, 7)}
        for n, state in ((4, State.SENDING), (1, State.PLANNED)):
            [row] = await owner.plan(sending(replace(given[n - 1], ordinal=n + 10), now=3.0))
            assert row.state is state
            if state is State.SENDING:
                await owner.deliver(row)

    @scenario
    async def test_deliveries_are_recorded_in_order_and_unchanged(self, store: LedgerStore) -> None:
        """The test uses every field, and every kind of value."""
        owner = Owner(await store.open())
        policy = Policy(
            idempotency=Keyed(window_s=60.0, scope="d"), on_unknown="resend", on_dead="halt", max_attempts=3
        )
        thread = Target(channel="x%:y", chat="1#2", thread="9", group=True)
        operations: tuple[Durable, ...] = (
            Post(target=thread, body=Body(text="a", entities=(Entity(type="b", offset=0, length=1),), html="<b>")),
            Edit(target=thread, message_id="7", body=Body(text="b")),
            PostMedia(target=thread, url="https://example.org/a.png", mime="image/png", caption="c"),
        )
        given = [plan(each, turn_id="t", ordinal=n, policy=policy, now=5.0) for n, each in enumerate(operations)]
        recorded = await owner.plan(*given)
        epoch = (await owner.lease(thread.conversation)).epoch
        assert [replace(row, position=0) for row in recorded] == [replace(row, epoch=epoch) for row in given]
        assert [row.position for row in recorded] == sorted({row.position for row in recorded})
        [changed] = await owner.move((recorded[0], sending(recorded[0], now=6.0, again=True)))
        values = {
            "not_before": 9.0,
            "error": "busy",
            "deferred_tries": 1,
            "receipt": Receipt(message_id="m", degraded="plain"),
        }
        [changed] = await owner.move((changed, moved(changed, State.RETRY, now=7.0, **values)))
        unset = {field.name for field in fields(changed) if getattr(changed, field.name) in (None, "", 0, False)}
        assert unset == {"ordinal"}, "this test lacks a field of Delivery"
        assert await owner.find() == [*reversed(recorded[1:]), changed]
        assert (await owner.adopt(thread.conversation))[0] == changed

    @scenario
    async def test_row_34_one_id_has_one_content(self, store: LedgerStore) -> None:
        """If the same delivery is recorded again, `plan` returns the recorded row.

        With other content it raises an error.
        """
        owner = Owner(await store.open())
        [row] = await owner.plan(post("t", 1))
        done = await owner.deliver(row)
        assert await owner.plan(post("t", 1), post("t", 1)) == [done, done]
        await assert_raises(owner.plan(post("t", 2), post("t", 1, text="other")), TurnMismatch)
        await assert_raises(owner.plan(post("t", 3), post("t", 3, text="other")), TurnMismatch)
        await assert_raises(owner.plan(post("t", 4), post("t", 5, chat="2")), ValueError)
        assert await owner.find() == [done]
        owner = Owner(await store.open())
        assert await owner.plan(sending(post("t", 1), now=1.0)) == [done]
        assert await owner.ledger.plan(await owner.lease(), []) == []

    @scenario
    async def test_the_first_new_delivery_can_be_recorded_as_sending(self, store: LedgerStore) -> None:
        """This works if no earlier delivery of its conversation is open.

        Otherwise the delivery is recorded as `planned`.
        """
        owner = Owner(await store.open())
        first, second = await owner.plan(sending(post("t", 1), now=6.0), post("t", 2))
        assert (first.state, first.attempt, second.state) == (State.SENDING, 1, State.PLANNED)
        [third] = await owner.plan(sending(post("t", 3), now=6.0))
        assert replace(third, position=0, epoch=0, updated_at=100.0) == post("t", 3)
        [elsewhere] = await owner.plan(sending(post("t", 4, chat="2"), now=6.0))
        assert elsewhere.state is State.SENDING
        await assert_raises(owner.plan(post("t", 5), sending(post("t", 6), now=6.0)), ValueError)
        assert ids(await owner.find()) == ["t.4", "t.3", "t.2", "t.1"]

    @scenario
    async def test_a_move_needs_the_row_as_it_was_last_seen(self, store: LedgerStore) -> None:
        """`move` fails if the row's state, attempt or lease has changed, or if `EDGES` forbids the next state."""
        owner = Owner(await store.open())
        [row] = await owner.plan(post("t", 1))
        [tried] = await owner.move((row, sending(row, now=1.0)))
        late = replace(tried, attempt=tried.attempt + 1)
        foreign = replace(tried, epoch=tried.epoch - 1)
        for stale in (row, post("unknown")):
            await assert_raises(owner.move((stale, sending(stale, now=1.0))), Fenced)
        for stale in (late, foreign):
            await assert_raises(owner.move((stale, delivered(stale))), Fenced)
        await assert_raises(owner.move((tried, replace(tried, state=State.PLANNED))), ValueError)
        assert await owner.find() == [tried]
        owner = Owner(await store.open())
        pretended = replace(tried, epoch=(await owner.lease()).epoch)
        for stale in (tried, pretended):
            await assert_raises(owner.move((stale, delivered(stale))), Fenced)
        [adopted] = await owner.adopt()
        done = (await owner.move((adopted, delivered(adopted))))[0]
        await assert_raises(owner.move((done, replace(done, state=State.RETRY))), ValueError)

    @scenario
    async def test_no_delivery_is_sent_before_an_earlier_one_is_final(self, store: LedgerStore) -> None:
        """One call of `move` can finish the first delivery and start the second."""
        owner = Owner(await store.open())
        first, second = await owner.plan(sending(post("t", 1), now=1.0), post("t", 2))
        await assert_raises(owner.move((second, sending(second, now=1.0))), Fenced)
        await assert_raises(owner.move((second, sending(second, now=1.0)), (first, delivered(first))), Fenced)
        assert await owner.find() == [second, first]
        after = await owner.move((first, delivered(first)), (second, sending(second, now=1.0)))
        assert [row.state for row in after] == [State.DELIVERED, State.SENDING]
        assert await owner.find() == after[::-1]

    @scenario
    async def test_a_notice_is_recorded_right_behind_the_moved_row(self, store: LedgerStore) -> None:
        """The notice comes before all later rows.

        `move` returns the next states, then the notice; a known notice is skipped.
        """
        owner = Owner(await store.open())
        first, second, third = await owner.plan(sending(post("t", 1), now=1.0), post("t", 2), post("t", 3))
        notice, replacement = post("t", 0, text="missing"), post("t", -1, text="plain")
        failed = moved(first, State.FAILED, now=2.0)
        changed, recorded = await owner.move((first, failed), plan=[replacement])
        assert (changed, recorded.id, recorded.state) == (failed, "t.-1", State.PLANNED)
        assert first.position < recorded.position < second.position
        assert await owner.adopt(limit=1) == [recorded]
        [tried] = await owner.move((recorded, sending(recorded, now=3.0)))
        assert len(await owner.move((tried, moved(tried, State.FAILED, now=4.0)), plan=[notice])) == 2
        await assert_raises(owner.ledger.move(await owner.lease(), plan=[post("t", 9)]), ValueError)
        cancelled = moved(third, State.CANCELLED, now=5.0)
        assert await owner.move((third, cancelled), plan=[post("t", 0, text="another")]) == [cancelled]
        assert ids(await owner.adopt()) == ["t.0", "t.2"]
        assert ids(await owner.plan(post("u"))) == ["u.1"]
        assert ids(await owner.find()) == ["u.1", "t.3", "t.2", "t.0", "t.-1", "t.1"]

    @scenario
    async def test_a_new_owner_adopts_the_open_deliveries(self, store: LedgerStore) -> None:
        """`adopt` returns them in order, at most `limit`, also if it is called twice. `sending` becomes `ambiguous`."""
        owner = Owner(await store.open())
        await owner.plan(sending(post("t", 1), now=1.0), post("t", 2), post("t", 3))
        [elsewhere] = await owner.plan(sending(post("o", 1, chat="2"), now=1.0))
        for _crash in range(2):
            owner = Owner(await store.open())
            first, second = await owner.adopt(limit=2)
            assert (first.state, second.state) == (State.AMBIGUOUS, State.PLANNED)
            assert {first.epoch, second.epoch} == {(await owner.lease()).epoch}
            assert await owner.adopt(limit=2, now=10.0) == [first, second]
        assert await owner.find(Query(turn_id="o")) == [elsewhere]
        await owner.move((first, delivered(first)))
        assert ids(await owner.adopt()) == ["t.2", "t.3"]
        assert await owner.adopt("telegram:none") == []

    @scenario
    async def test_row_25_a_state_of_a_newer_version_blocks_the_rows_behind_it(self, store: LedgerStore) -> None:
        """A row with an unknown state is not changed or deleted, and no later row is adopted."""
        owner = Owner(await store.open())
        _first, second, _third = await owner.plan(*(post("t", n) for n in (1, 2, 3)))
        await owner.ledger.close()
        store.overwrite_state(second, "teleported")
        owner = Owner(await store.open())
        [first] = await owner.adopt()
        await owner.deliver(first)
        assert await owner.adopt() == []
        [waiting] = await owner.ledger.open_conversations()
        assert waiting.state == "teleported"
        [late] = await owner.plan(sending(post("u"), now=1.0))
        assert late.state is State.PLANNED
        await assert_raises(owner.move((late, sending(late, now=1.0))), Fenced)
        assert await owner.ledger.prune(Query()) == 1
        assert ids(await owner.find()) == ["u.1", "t.3"]

    @scenario
    async def test_calls_take_effect_in_the_order_in_which_they_are_made(self, store: LedgerStore) -> None:
        """This holds for queries, and for calls that are not awaited. A cancelled call still makes its change."""
        owner = Owner(await store.open())
        await owner.lease()
        calls = [asyncio.ensure_future(owner.plan(post("t", n))) for n in range(1, 40)]
        found = asyncio.ensure_future(owner.find())
        await asyncio.sleep(0)
        cancelled = calls.pop()
        cancelled.cancel()
        positions = [row.position for [row] in await asyncio.gather(*calls)]
        assert positions == sorted(positions)
        assert cancelled.cancelled()
        assert len(await found) == 39

    @scenario
    async def test_each_of_many_concurrent_calls_gets_its_own_result(self, store: LedgerStore) -> None:
        """A call that is refused has no effect on the others."""
        owner = Owner(await store.open())
        rows = [sending(post("t", n, chat=f"{n % 90}"), now=101.0) for n in range(1, 101)]
        recorded = [row for [row] in await asyncio.gather(*(owner.plan(row) for row in rows))]
        states = [row.state for row in recorded]
        assert (states.count(State.SENDING), states.count(State.PLANNED)) == (90, 10)
        stale = replace(recorded[7], attempt=9)
        calls = [owner.move((row, delivered(row))) for row in recorded[:7]]
        calls += [owner.move((stale, delivered(stale))), owner.plan(post("t", 8, chat="8", text="else"))]
        calls += [owner.move((row, delivered(row))) for row in recorded[8:90]]
        calls += [owner.move((row, sending(row, now=102.0))) for row in recorded[90:]]
        answers = await asyncio.gather(*calls, return_exceptions=True)
        # The last error belongs to the row after the one that was not moved.
        assert [type(answer) for answer in answers if not isinstance(answer, list)] == [Fenced, TurnMismatch, Fenced]
        found = {row.id: row for row in await owner.find(limit=200)}
        assert len(found) == 100
        assert found["t.8"] == recorded[7]
        assert all(found[answer[0].id] == answer[0] for answer in answers if isinstance(answer, list))
