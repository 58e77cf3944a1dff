"""The part of a ledger's contract about its records: accepted events, queries, texts of any kind, and deletion."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tailrace.deliveries import OPEN, Query, Snapshot, State, Turn, TurnState, moved, plan, sending
from tailrace.errors import TurnMismatch
from tailrace.inbound import Attachment, InboundMessage, Sender
from tailrace.operations import Body, Post, Target
from tailrace.testing.ledger_scenarios import (
    DAY_S,
    POLICY,
    LedgerStore,
    Owner,
    assert_raises,
    ids,
    inbound,
    post,
    scenario,
    target,
    turn,
)

if TYPE_CHECKING:
    from pathlib import Path


AWKWARD = (
    "it's",
    'a "quote"',
    "'); DROP TABLE delivery; --",
    "nul\0inside",
    "👩‍👩‍👧‍👦 é 汉字",
    "\r\n\x1b[31m",
    "%s {} \\#:",
    "",
)


class RecordsContract:
    """The tests for the records of every ledger. `store` returns the ledger under test."""

    def store(self, folder: Path) -> LedgerStore:
        """Create an empty store; its files are in the folder."""
        raise NotImplementedError

    @scenario
    async def test_row_42_the_same_event_makes_one_turn(self, store: LedgerStore) -> None:
        """The event may come again during the turn, after its end, or after a restart.

        Different accounts may use the same ids.
        """
        ledger = await store.open()
        answers = await asyncio.gather(*(ledger.accept(inbound("e")) for _time in range(50)))
        [turn_id] = {accepted.turn_id for accepted in answers}
        assert sum(accepted.is_new for accepted in answers) == 1
        assert {accepted.ahead for accepted in answers} == {0}
        assert turn_id == inbound("e").turn_id
        again = answers[-1]
        assert not again.is_new
        owner = Owner(ledger)
        for step in ("running", "ended"):
            known = await ledger.turn(turn_id)
            assert known is not None
            known = await owner.begin(known)
            if step == "ended":
                await owner.end(known, TurnState.DONE)
            known = await ledger.turn(turn_id)
            assert await ledger.accept(inbound("e", text="other")) == again
            assert await ledger.turn(turn_id) == known
        ledger = await store.open()
        assert await ledger.accept(inbound("e")) == again
        assert (await ledger.accept(inbound("e", account="b"))).is_new

    @scenario
    async def test_accepted_turns_are_numbered_and_listed_by_arrival(self, store: LedgerStore) -> None:
        """`Accepted.ahead` counts the open turns of the conversation that arrived before, also for a known event."""
        ledger = await store.open()
        for event, chat, ahead in (("a", "1", 0), ("x", "2", 0), ("b", "1", 1), ("c", "1", 2)):
            assert (await ledger.accept(inbound(event, chat=chat))).ahead == ahead
        a, x, b, c = (inbound(event).turn_id for event in "axbc")
        assert ids(await ledger.accepted_turns()) == [a, x, b, c]
        assert ids(await ledger.accepted_turns(limit=2)) == [a, x]
        assert ids(await ledger.accepted_turns(conversation="telegram:1")) == [a, b, c]
        assert await ledger.accepted_turns(conversation="telegram:") == []
        assert [found.arrival for found in await ledger.accepted_turns(conversation="telegram:1")] == [1, 2, 3]
        owner = Owner(ledger)
        running = [
            await owner.begin(found) for found in await ledger.accepted_turns(conversation="telegram:1", limit=2)
        ]
        await owner.end(running[1], TurnState.DONE)
        assert (await ledger.accept(inbound("c"))).ahead == 1
        assert (await ledger.accept(inbound("b"))).ahead == 1
        assert ids(await ledger.accepted_turns()) == [x, c]
        [found] = await ledger.accepted_turns(conversation="telegram:1")
        assert (found.state, found.attempt, found.arrival, found.message) == (TurnState.ACCEPTED, 0, 3, inbound("c"))
        assert await ledger.turn(c) == found
        assert await ledger.turn("unknown") is None
        assert (await owner.begin(found)).message == inbound("c")

    @scenario
    async def test_find_returns_the_deliveries_that_match(self, store: LedgerStore) -> None:
        """The test uses each field of a query, alone and with others, and reads the results in pages."""
        owner = Owner(await store.open())
        ledger = owner.ledger
        [a] = await owner.plan(post("a", 1, now=10.0))
        [b] = await owner.plan(post("a", 2, chat="2", now=10.0))
        elsewhere = Post(target=Target(channel="slack", chat="1"), body=Body(text="x"))
        [c] = await owner.plan(plan(elsewhere, turn_id="c", ordinal=1, policy=POLICY, now=30.0))
        failed = moved((await owner.move((a, sending(a, now=40.0))))[0], State.FAILED, now=40.0)
        [a] = await owner.move((replace(failed, state=State.SENDING), failed))
        b = await owner.deliver(b, now=50.0)
        for query, expected in (
            (Query(), [c, b, a]),
            (Query(states=frozenset({State.FAILED, State.PLANNED})), [c, a]),
            (Query(states=frozenset()), []),
            (Query(turn_id="a"), [b, a]),
            (Query(turn_id="a", states=frozenset({State.DELIVERED})), [b]),
            (Query(conversation="telegram:1"), [a]),
            (Query(conversation="telegram:1", states=frozenset({State.FAILED, State.DEAD})), [a]),
            (Query(conversation="telegram:1", states=frozenset({State.DEAD})), []),
            (Query(conversation="slack:1", states=OPEN), [c]),
            (Query(conversation="slack:1", states=frozenset({State.SENDING})), []),
            (Query(channel="slack"), [c]),
            (Query(before=50.0), [c, a]),
            (Query(channel="telegram", conversation="telegram:2", turn_id="a", before=51.0), [b]),
            (Query(channel="telegram", turn_id="c"), []),
        ):
            assert await ledger.find(query) == expected, query
            assert [
                row for page in expected for row in await ledger.find(query, after=page.position + 1, limit=1)
            ] == expected
        assert await ledger.find(Query(), after=a.position) == []

    @scenario
    async def test_open_conversations_are_listed_in_pages_by_name(self, store: LedgerStore) -> None:
        """Each conversation has the state and the times of its first open delivery."""
        owner = Owner(await store.open())
        chats = [f"{n:02}#" for n in range(7)]
        for chat in reversed(chats):
            await owner.plan(*(post(f"t{chat}", n, chat=chat) for n in (1, 2)))
        [head] = await owner.adopt(target(chats[3]).conversation, limit=1)
        [head] = await owner.move((head, sending(head, now=1.0)))
        await owner.move((head, moved(head, State.RETRY, now=2.0, not_before=50.0)))
        for row in await owner.adopt(target(chats.pop(5)).conversation):
            await owner.deliver(row)
        found, after = [], ""
        while page := await owner.ledger.open_conversations(after=after, limit=2):
            found += page
            after = page[-1].name
        assert [(each.name, each.channel, each.chat) for each in found] == [
            (target(chat).conversation, "telegram", chat) for chat in chats
        ]
        assert [(each.chat, each.state) for each in found if each.not_before == 50.0] == [("03#", "retry")]

    @scenario
    async def test_prune_deletes_final_deliveries_and_ended_turns(self, store: LedgerStore) -> None:
        """Open deliveries stay, and so do final deliveries of an open turn. At most `limit` are deleted."""
        owner = Owner(await store.open())
        ledger = owner.ledger
        for name in ("done", "open", "mixed"):
            begun = await owner.begin(turn(name, chat=name))
            rows = await owner.plan(*(post(name, n, chat=name) for n in (1, 2)))
            for row in rows[: 1 if name == "mixed" else 2]:
                await owner.deliver(row)
            if name != "open":
                await owner.end(begun, TurnState.DONE)
        assert await ledger.prune(Query(before=200.0)) == 0
        assert await ledger.prune(Query(states=frozenset({State.PLANNED}))) == 0
        assert await ledger.prune(Query(turn_id="mixed", channel="slack")) == 0
        assert await ledger.prune(Query(turn_id="done"), limit=1) == 1
        assert await ledger.prune(Query()) == 2
        assert ids(await owner.find()) == ["mixed.2", "open.2", "open.1"]
        assert [await ledger.turn(name) is not None for name in ("done", "open", "mixed")] == [False, True, True]

    @scenario
    async def test_prune_deletes_ended_turns_without_deliveries(self, store: LedgerStore) -> None:
        """Only turns that match the query are deleted. With `bodies`, only the messages they answered are deleted."""
        owner = Owner(await store.open())
        ledger = owner.ledger
        names: list[str] = []
        for chat in "1122":
            await ledger.accept(inbound(f"e{len(names)}", chat=chat, text="secret"))
            [accepted] = await ledger.accepted_turns()
            await owner.end(await owner.begin(accepted), TurnState.DONE)
            names.append(accepted.turn_id)
        [known] = [await ledger.turn(names[0])]
        assert known is not None

        async def left() -> list[str | None]:
            """The texts of the turns' messages: "" for a deleted message, None for a deleted turn."""
            found = [await ledger.turn(name) for name in names]
            return [None if each is None else each.message.text if each.message else "" for each in found]

        for query in (
            Query(before=known.updated_at),
            Query(states=frozenset({State.DELIVERED})),
            Query(channel="slack"),
            Query(turn_id=names[0], conversation="telegram:2"),
        ):
            for bodies in (True, False):
                await ledger.prune(query, bodies=bodies)
        assert await left() == ["secret"] * 4
        await ledger.prune(Query(turn_id=names[1]), bodies=True)
        assert await left() == ["secret", "", "secret", "secret"]
        await ledger.prune(Query(conversation="telegram:1"), bodies=True)
        assert await left() == ["", "", "secret", "secret"]
        await ledger.prune(Query(channel="telegram"), bodies=True, limit=1)
        assert await left() == ["", "", "", "secret"]
        await ledger.prune(Query(turn_id=names[3]))
        assert await left() == ["", "", "", None]
        await ledger.prune(Query(before=known.updated_at + DAY_S))
        assert await left() == [None] * 4

    @scenario
    async def test_prune_of_bodies_keeps_the_rows(self, store: LedgerStore) -> None:
        """The rows keep their fingerprints, so an id still cannot get other content."""
        owner = Owner(await store.open())
        ledger = owner.ledger
        await ledger.accept(inbound("e", text="secret"))
        [accepted] = await ledger.accepted_turns()
        begun = await owner.begin(accepted)
        name = begun.turn_id
        first, second = await owner.plan(post(name, 1, text="secret"), post(name, 2, text="secret"))
        await owner.deliver(first)
        assert await ledger.prune(Query(), bodies=True) == 0
        await owner.end(begun, TurnState.DONE)
        assert await ledger.prune(Query(), bodies=True) == 1
        assert await ledger.prune(Query(), bodies=True) == 0
        [row] = await owner.find(Query(states=frozenset({State.DELIVERED})))
        assert row.operation == Post(target=target(), body=Body(text=""))
        assert await owner.plan(post(name, 1, text="secret")) == [row]
        await assert_raises(owner.plan(post(name, 1, text="other")), TurnMismatch)
        assert (await owner.begin(begun)).message is None
        assert await owner.adopt() == [second]
        assert await ledger.prune(Query()) == 1

    @scenario
    async def test_an_event_is_known_for_seven_days_after_its_turn_was_deleted(self, store: LedgerStore) -> None:
        """After these days the same event counts as new. While its turn exists, an event stays known."""
        owner = Owner(await store.open())
        ledger = owner.ledger
        await ledger.accept(inbound("kept", chat="2"))
        await ledger.accept(inbound("e"))
        [accepted] = await ledger.accepted_turns(conversation="telegram:1")
        await owner.end(await owner.begin(accepted), TurnState.DONE)
        await ledger.prune(Query(turn_id=accepted.turn_id))
        assert await ledger.turn(accepted.turn_id) is None
        store.wait(6.9 * DAY_S)
        await ledger.prune(Query())
        known = await ledger.accept(inbound("e"))
        assert (known.turn_id, known.is_new, known.ahead) == (accepted.turn_id, False, 0)
        assert await ledger.turn(accepted.turn_id) is None
        store.wait(0.2 * DAY_S)
        await ledger.prune(Query())
        assert (await ledger.accept(inbound("e"))).is_new
        assert not (await ledger.accept(inbound("kept", chat="2"))).is_new

    @scenario
    async def test_row_77_any_text_is_stored_unchanged(self, store: LedgerStore) -> None:
        """The test puts unusual texts, such as control characters, into every field that comes from outside."""
        owner = Owner(await store.open())
        ledger = owner.ledger
        for text in AWKWARD:
            message = InboundMessage(
                channel="telegram",
                account=text,
                event_id=text,
                target=Target(channel="telegram", chat=text, thread=text),
                text=text,
                sender=Sender(id=text, name=text),
                attachments=(Attachment(id=text, name=text),),
                reply_to=text,
            )
            assert (await ledger.accept(message)).is_new
            [accepted] = await ledger.accepted_turns()
            assert accepted.message == message
            begun = await owner.begin(accepted)
            await owner.save_snapshot(begun, Snapshot(text=text, message_id=text))
            new = post(f"{begun.turn_id}{text}", text=text)
            new = replace(new, operation=Post(target=message.target, body=Body(text=text)))
            [row] = await owner.plan(sending(new, now=1.0))
            [row] = await owner.move((row, moved(row, State.RETRY, now=2.0, error=text)))
            assert await ledger.find(Query(turn_id=row.turn_id, conversation=row.conversation)) == [row]
        conversations = {each.name: each.chat for each in await ledger.open_conversations()}
        assert conversations == {
            Target(channel="telegram", chat=text, thread=text).conversation: text for text in AWKWARD
        }
        ledger = await store.open()
        assert [each.snapshot.message_id for each in await ledger.interrupted_turns()] == list(AWKWARD)

    @scenario
    async def test_a_megabyte_of_text_is_stored_unchanged(self, store: LedgerStore) -> None:
        """The text is recorded in a delivery, which another owner then adopts."""
        owner = Owner(await store.open())
        recorded = await owner.plan(post("t", 1, text="wörd 👍 " * 120_000))
        assert await owner.adopt() == recorded

    @scenario
    async def test_a_lone_surrogate_does_not_disturb_other_calls(self, store: LedgerStore) -> None:
        """A text with half a character (a lone surrogate) is stored or refused; other changes succeed."""
        owner = Owner(await store.open())
        await owner.lease()
        broken = Turn(turn_id="\ud800", target=target())
        calls = (owner.plan(post("a")), owner.begin(broken), owner.plan(replace(post("b"), turn_id="\ud800")))
        accepting = owner.ledger.accept(inbound("e", text="\ud800"))
        answers = await asyncio.gather(*calls, accepting, owner.plan(post("c")), return_exceptions=True)
        await owner.save_snapshot(broken, Snapshot(text="\ud800"))
        errors = [type(answer) for answer in answers if isinstance(answer, BaseException)]
        assert errors in ([], [UnicodeEncodeError] * 3)
        await owner.plan(post("d"))
        assert {"a.1", "c.1", "d.1"} <= set(ids(await owner.find()))

    @scenario
    async def test_stored_values_are_replaced_deleted_and_kept_by_kind(self, store: LedgerStore) -> None:
        """Values survive a restart and are listed sorted by key. A query sees calls that are not awaited."""
        ledger = await store.open()
        values = {key: key.encode() for key in AWKWARD}
        await asyncio.gather(*(ledger.store("access", key, value) for key, value in values.items()))
        await ledger.store("access", "nothing", b"")
        await ledger.store("other", "it's", b"\0\xff")
        for _time in range(2):
            await ledger.store("access", "gone", None)
            await ledger.store("access", "nul\0inside", None)
        await ledger.prune(Query())
        changing = asyncio.ensure_future(ledger.store("access", "it's", b"changed"))
        await asyncio.sleep(0)
        expected = values | {"nothing": b"", "it's": b"changed"}
        del expected["nul\0inside"]
        assert list((await ledger.stored("access")).items()) == sorted(expected.items())
        await changing
        ledger = await store.open()
        assert await ledger.stored("access") == expected
        assert await ledger.stored("other") == {"it's": b"\0\xff"}
        assert await ledger.stored("unknown") == {}
