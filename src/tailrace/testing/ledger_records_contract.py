"""The part of a ledger's contract about its records: that they are found, that they hold any text, how they go."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tailrace.deliveries import Inbound, Query, Snapshot, State, Turn, TurnState, moved, plan, sending
from tailrace.errors import TurnMismatch
from tailrace.operations import Body, Post, Target
from tailrace.testing.ledger_scenarios import (
    POLICY,
    LedgerStore,
    assert_raises,
    deliver,
    ids,
    inbound,
    post,
    scenario,
    target,
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
    "%s {} \\",
    "",
)


class RecordsContract:
    """What every ledger does with what it keeps; `store` says which ledger."""

    def store(self, folder: Path) -> LedgerStore:
        """A store with nothing in it; files, if it has any, lie in the folder."""
        raise NotImplementedError

    @scenario
    async def test_what_is_found_is_what_is_meant(self, store: LedgerStore) -> None:
        """Every field of a query, alone and together, in pages."""
        ledger = await store.open()
        a, b = await ledger.plan([post("a", 1, now=10.0), post("a", 2, chat="2", now=10.0)])
        elsewhere = plan(
            Post(target=Target(channel="slack", chat="1"), body=Body(text="x")),
            turn_id="c",
            ordinal=1,
            policy=POLICY,
            now=30.0,
        )
        [c] = await ledger.plan([elsewhere])
        failed = moved((await ledger.move((a, sending(a, now=40.0))))[0], State.FAILED, now=40.0)
        [a] = await ledger.move((replace(failed, state=State.SENDING), failed))
        b = await deliver(ledger, b, now=50.0)
        for query, meant in (
            (Query(), [c, b, a]),
            (Query(states=frozenset({State.FAILED, State.PLANNED})), [c, a]),
            (Query(states=frozenset()), []),
            (Query(turn_id="a"), [b, a]),
            (Query(turn_id="a", states=frozenset({State.DELIVERED})), [b]),
            (Query(conversation="telegram:1"), [a]),
            (Query(conversation="telegram:1", states=frozenset({State.FAILED, State.DEAD})), [a]),
            (Query(conversation="telegram:1", states=frozenset({State.DEAD})), []),
            (Query(channel="slack"), [c]),
            (Query(before=50.0), [c, a]),
            (Query(channel="telegram", conversation="telegram:2", turn_id="a", before=51.0), [b]),
            (Query(channel="telegram", turn_id="c"), []),
        ):
            assert await ledger.find(query) == meant, query
            assert [
                row for page in meant for row in await ledger.find(query, after=page.position + 1, limit=1)
            ] == meant
        assert await ledger.find(Query(), after=a.position) == []

    @scenario
    async def test_pruning_forgets_what_is_final_and_nothing_else(self, store: LedgerStore) -> None:
        """With the turns and events that go with it."""
        ledger = await store.open()
        for name in ("done", "open", "mixed"):
            await ledger.accept(inbound(f"e-{name}", name))
            turn = await ledger.begin(Turn(turn_id=name, target=target(name)))
            rows = await ledger.plan([post(name, n, chat=name) for n in (1, 2)])
            await deliver(ledger, rows[0])
            if name != "mixed":
                await deliver(ledger, rows[1])
            if name != "open":
                await ledger.end(turn, TurnState.DONE)
        assert await ledger.prune(Query(before=200.0)) == 0
        assert await ledger.prune(Query(states=frozenset({State.PLANNED}))) == 0
        assert await ledger.prune(Query(), limit=1) == 1
        assert await ledger.prune(Query()) == 2
        assert ids(await ledger.find(Query())) == ["mixed.2", "open.2", "open.1"]
        given = [await ledger.accept(inbound(f"e-{name}", "anew")) for name in ("done", "open", "mixed")]
        assert given == ["anew", "open", "mixed"]

    @scenario
    async def test_pruning_bodies_leaves_the_rows(self, store: LedgerStore) -> None:
        """And the fingerprint: the same name stays taken by the same content."""
        ledger = await store.open()
        turn = await ledger.begin(Turn(turn_id="t", target=target(), input="secret"))
        first, second = await ledger.plan([post("t", 1, text="secret"), post("t", 2, text="secret")])
        await deliver(ledger, first)
        await ledger.end(turn, TurnState.DONE)
        assert await ledger.prune(Query(), bodies=True) == 1
        assert await ledger.prune(Query(), bodies=True) == 0
        [row] = await ledger.find(Query(states=frozenset({State.DELIVERED})))
        assert row.operation == Post(target=target(), body=Body(text=""))
        assert await ledger.plan([post("t", 1, text="secret")]) == [row]
        await assert_raises(ledger.plan([post("t", 1, text="other")]), TurnMismatch)
        assert (await ledger.begin(turn)).input == ""
        assert await ledger.adopt(second.conversation, now=1.0, limit=9) == [second]
        assert await ledger.prune(Query()) == 1

    @scenario
    async def test_a_turn_that_said_nothing_is_forgotten_by_age(self, store: LedgerStore) -> None:
        """Nothing else would take it along."""
        ledger = await store.open()
        await ledger.accept(inbound("e", "t"))
        await ledger.end(await ledger.begin(Turn(turn_id="t", target=target())), TurnState.DONE)
        await ledger.prune(Query(before=1.0))
        assert await ledger.accept(inbound("e", "anew")) == "t"
        await ledger.prune(Query(before=float(2**40)))
        assert await ledger.accept(inbound("e", "anew")) == "anew"

    @scenario
    async def test_row_77_awkward_text_is_only_text(self, store: LedgerStore) -> None:
        """In every field that a stranger can fill."""
        ledger = await store.open()
        for index, text in enumerate(AWKWARD):
            turn_id = f"{index}{text}"
            said = Inbound(channel=text, account=text, event_id=text, turn_id=turn_id, target=target(text), text=text)
            assert await ledger.accept(said) == turn_id
            turn = await ledger.begin(Turn(turn_id=turn_id, target=target()))
            assert (turn.input, turn.target.chat) == (text, text)
            ledger.save_snapshot(turn_id, Snapshot(text=text, message_id=text))
            [row] = await ledger.plan([sending(post(turn_id, 1, chat=text, text=text), now=1.0)])
            [row] = await ledger.move((row, moved(row, State.RETRY, now=2.0, error=text)))
            assert await ledger.find(Query(turn_id=turn_id, conversation=row.conversation)) == [row]
            assert await ledger.adopt(row.conversation, now=1.0, limit=9) == [row]
        conversations = [each.name for each in await ledger.open_conversations()]
        assert conversations == sorted(target(text).conversation for text in AWKWARD)
        ledger = await store.open()
        kept = {turn.turn_id: turn.snapshot.text for turn in await ledger.interrupted_turns()}
        assert kept == {f"{index}{text}": text for index, text in enumerate(AWKWARD)}

    @scenario
    async def test_a_megabyte_is_kept_whole(self, store: LedgerStore) -> None:
        """A body and a snapshot."""
        ledger = await store.open()
        long = "wörd 👍 " * 120_000
        [row] = await ledger.plan([post("t", 1, text=long)])
        assert await ledger.adopt(row.conversation, now=1.0, limit=1) == [row]

    @scenario
    async def test_half_a_character_harms_nobody_else(self, store: LedgerStore) -> None:
        """A lone surrogate is refused or replaced; the ledger goes on, and so do those who called at the same time."""
        ledger = await store.open()
        broken = Turn(turn_id="\ud800", target=target(), input="\udfff")
        calls = (ledger.plan([post("a")]), ledger.begin(broken), ledger.plan([replace(post("b"), turn_id="\ud800")]))
        answers = await asyncio.gather(*calls, ledger.plan([post("c")]), return_exceptions=True)
        ledger.save_snapshot("\ud800", Snapshot(text="\ud800"))
        assert [type(answer) for answer in answers if isinstance(answer, BaseException)] in (
            [],
            [UnicodeEncodeError, UnicodeEncodeError],
        )
        await ledger.plan([post("d")])
        assert {"a.1", "c.1", "d.1"} <= set(ids(await ledger.find(Query())))
