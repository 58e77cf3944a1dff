"""The schema: files of older versions, killed migrations, and the index of each frequent query.

`files/version_1.sql` is a ledger that version 1 wrote, with a delivery in every state.
"""

from __future__ import annotations

import asyncio
import re
from contextlib import closing
from pathlib import Path

import processes
import pytest
from msgspec.structs import replace
from stores import execute

from tailrace.deliveries import FINAL, OPEN, UNDELIVERED, Query, State, TurnState
from tailrace.errors import LedgerUnusable
from tailrace.ledger import schema
from tailrace.ledger.connection import connect
from tailrace.ledger.queries import for_rows, queries
from tailrace.ledger.reader import SqliteReader
from tailrace.ledger.schema import migrations
from tailrace.ledger.sqlite import SqliteLedger
from tailrace.operations import Target
from tailrace.testing.ledger_scenarios import Owner, ids, inbound

OLD = (Path(__file__).parent / "files" / "version_1.sql").read_text(encoding="utf-8")
OLD_MARK = f"703f0e09e7d3ef28dfd748d550c0c35e {1:020d} {32:020d}\n"
ODD = Target(channel="x:%y", chat="50%#1", thread="a#b%c")
ROOM = Target(channel="matrix", chat="#room")


def old_ledger(path: Path) -> Path:
    path.parent.mkdir(exist_ok=True)
    execute(path, OLD)
    path.with_name(f"{path.name}.mark").write_text(OLD_MARK, encoding="ascii")
    return path


def test_row_24_a_ledger_of_version_1_is_continued(tmp_path: Path) -> None:
    async def use(ledger: Owner) -> None:
        rows = {row.id: row for row in await ledger.find()}
        assert {row.state for row in rows.values()} == set(State)
        assert rows["t-odd.1"].deferred_tries == 1
        assert rows["t-done.1"].receipt is not None
        open_conversations = {each.name: each.chat for each in await ledger.ledger.open_conversations()}
        slack = Target(channel="slack", chat="C1", thread="17.5")
        everywhere = (ODD, ROOM, slack, Target(channel="telegram", chat="1"))
        assert open_conversations == {where.conversation: where.chat for where in everywhere}
        odd = await ledger.adopt(ODD.conversation)
        assert [(row.id, row.state) for row in odd] == [
            ("t-odd.1", State.RETRY),
            ("t-odd.2", State.PLANNED),
            ("t-odd.3", State.PLANNED),
        ]
        assert await ledger.find(Query(conversation=ODD.conversation, states=OPEN)) == odd[::-1]
        assert [row.state for row in await ledger.adopt(ROOM.conversation)] == [State.AMBIGUOUS, State.PLANNED]

    async def use_turns(ledger: Owner) -> None:
        running = await ledger.ledger.interrupted_turns()
        assert [(each.turn_id, each.arrival, each.conversation) for each in running] == [
            ("t-odd", 1, ODD.conversation),
            ("t-direct", 1, ROOM.conversation),
        ]
        assert (running[0].snapshot.text, running[0].snapshot.message_id, running[0].last_ordinal) == (
            "and so on",
            "m9",
            3,
        )
        accepted = await ledger.ledger.accepted_turns(conversation="telegram:1")
        done = await ledger.ledger.turn("t-done")
        assert done is not None
        messages = [each.message for each in (done, *accepted, *running) if each.message is not None]
        assert [(each.channel, each.account, each.event_id, each.text) for each in messages] == [
            ("telegram", "bot", "e-t-done", "question of t-done"),
            ("telegram", "bot", "e-waiting", 'it\'s "waiting"\n'),
            ("telegram", "bot", "e-empty", ""),
            ("x:%y", "bot", "e-t-odd", "question of t-odd"),
            ("matrix", "", "", "typed"),
        ]
        assert [each.arrival for each in (done, *accepted)] == [1, 2, 3]
        known = await ledger.ledger.accept(replace(inbound("e-empty"), account="bot"))
        assert (known.turn_id, known.is_new, known.ahead) == ("t-empty", False, 1)
        assert (await ledger.ledger.accept(inbound("new"))).ahead == 2
        await ledger.end(running[0], TurnState.INTERRUPTED)

    async def work() -> None:
        ledger = Owner(await SqliteLedger.open(old_ledger(tmp_path / "ledger.db")))
        await use(ledger)
        await use_turns(ledger)
        await ledger.close()

    asyncio.run(work())


def test_row_24_a_ledger_of_version_2_is_continued(tmp_path: Path) -> None:
    """Version 3 added the stored values and changed nothing else."""

    async def work() -> None:
        path = old_ledger(tmp_path / "ledger.db")
        execute(path, migrations()[1].sql)
        before = execute(path, "SELECT group_concat(state || operation) FROM delivery")
        ledger = await SqliteLedger.open(path)
        assert await ledger.stored("access") == {}
        await ledger.store("access", "telegram:1", b"{}")
        await ledger.close()
        assert execute(path, "PRAGMA user_version") == 3
        assert execute(path, "SELECT group_concat(state || operation) FROM delivery") == before
        reader = await SqliteReader.open(path)
        assert await reader.stored("access") == {"telegram:1": b"{}"}
        await reader.close()

    asyncio.run(work())


@pytest.mark.parametrize(("restored_epoch", "state"), [(1, State.PLANNED), (2, State.AMBIGUOUS)])
def test_row_26_version_1_rows_older_than_a_restore_are_ambiguous(
    tmp_path: Path, restored_epoch: int, state: State
) -> None:
    async def work() -> None:
        path = old_ledger(tmp_path / "ledger.db")
        execute(path, f"UPDATE ledger SET restored_epoch = {restored_epoch}")
        ledger = Owner(await SqliteLedger.open(path))
        assert (await ledger.adopt(ODD.conversation))[1].state is state
        await ledger.close()

    asyncio.run(work())


@pytest.mark.parametrize("damage", ["{", "{}", "[]"])
def test_row_13_a_damaged_row_of_version_1_does_not_stop_the_migration(tmp_path: Path, damage: str) -> None:
    async def work() -> None:
        path = old_ledger(tmp_path / "ledger.db")
        execute(path, "UPDATE delivery SET operation = ? WHERE turn_id = 't-odd' AND ordinal > 1", damage)
        execute(path, "UPDATE turn SET target = ? WHERE turn_id IN ('t-waiting', 't-odd')", damage)
        ledger = Owner(await SqliteLedger.open(path))
        assert ids(await ledger.adopt(ODD.conversation)) == ["t-odd.1"]
        assert ids(await ledger.ledger.interrupted_turns()) == ["t-direct"]
        assert ids(await ledger.ledger.accepted_turns()) == ["t-empty"]
        await ledger.close()

    asyncio.run(work())


async def found(path: Path) -> list[str]:
    ledger = Owner(await SqliteLedger.open(path))
    rows = await ledger.find()
    await ledger.close()
    return ids(rows)


@pytest.mark.parametrize("is_new", [True, False])
def test_row_24_a_creation_or_migration_killed_at_any_statement_is_continued(tmp_path: Path, is_new: bool) -> None:
    folder = tmp_path / "killed"
    if is_new:
        folder.mkdir()
    else:
        old_ledger(folder / "ledger.db")
    done = processes.run("killed_opening", folder)
    assert done.returncode == 0, done.stderr
    versions = []
    for statement in range(1, int(done.stdout) + 1):
        path = folder.with_name(f"killed-{statement}") / "ledger.db"
        versions.append(execute(path, "PRAGMA user_version"))
        if versions[-1] == 1:
            assert execute(path, "SELECT count(*) FROM turn WHERE input <> ''") == (0 if is_new else 4)
        assert len(asyncio.run(found(path))) == (0 if is_new else 13)
    assert set(versions) == ({0, 1, 2, 3} if is_new else {1, 2, 3})


def test_row_24_a_file_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    path = old_ledger(tmp_path / "ledger.db")
    execute(path, "PRAGMA user_version = 4")
    with pytest.raises(LedgerUnusable, match="newer tailrace"):
        asyncio.run(found(path))


def test_each_migration_writes_its_version() -> None:
    assert [step.version for step in migrations()] == list(range(1, len(migrations()) + 1))
    for step in migrations():
        assert step.sql.endswith(f"\nPRAGMA user_version = {step.version};\n")
    assert f"{schema.APPLICATION_ID:#x}" in queries()["new_file_settings"]


def test_the_sql_lists_the_same_final_states_everywhere() -> None:
    folder = Path(schema.__file__).parent / "sql"
    text = "".join(file.read_text(encoding="utf-8") for file in folder.rglob("*.sql"))
    listed = {frozenset(re.findall(r"'(\w+)'", found)) for found in re.findall(r"state (?:NOT )?IN (\('[^)]*\))", text)}
    assert listed == {FINAL, UNDELIVERED, frozenset({"accepted", "running"})}


OF_TURN = "sqlite_autoindex_turn_1 (turn_id=?)"
INDEXES = {
    "record": "delivery_open (conversation=?)",
    "move": "earlier USING INDEX delivery_open (conversation=? AND rowid<?)",
    "open_deliveries": "delivery_open (conversation=?)",
    "adopt_delivery": "PRIMARY KEY (rowid=?)",
    "open_conversations": "delivery_open (conversation>?)",
    "delivery": "sqlite_autoindex_delivery_1 (turn_id=? AND ordinal=?)",
    "find": "PRIMARY KEY (rowid<?)",
    "find_of_turn": "sqlite_autoindex_delivery_1 (turn_id=?)",
    "find_open": "delivery_open (conversation=? AND rowid<?)",
    "find_undelivered": "delivery_left_out (conversation=? AND rowid<?)",
    "prunable": "delivery_final (forgotten=? AND updated_at<?)",
    "prunable_of_turn": "sqlite_autoindex_delivery_1 (turn_id=?)",
    "event_turn": "PRIMARY KEY (channel=? AND account=? AND event_id=?)",
    "next_arrival": "turn_arrival (conversation=?)",
    "turns_ahead": "turn_open (state=? AND conversation=? AND arrival<?)",
    "turn": OF_TURN,
    "begin_turn": OF_TURN,
    "end_turn": OF_TURN,
    "save_snapshot": OF_TURN,
    "interrupted_turns": "turn_open (state=? AND conversation>? AND conversation<?)",
    "accepted_turns": "turn_open (state=? AND conversation>? AND conversation<?)",
    "turns_without_deliveries": "turn_over (updated_at<?)",
    "turns_with_content": "turn_content (updated_at<?)",
    "delete_turn": OF_TURN,
    "delete_events": "inbound_seen (seen_at<?)",
    "stored": "PRIMARY KEY (kind=?)",
    "delete_stored": "PRIMARY KEY (kind=? AND key=?)",
}


@pytest.mark.parametrize("name", INDEXES)
def test_each_frequent_query_uses_its_index(tmp_path: Path, name: str) -> None:
    path = tmp_path / "ledger.db"
    asyncio.run(found(path))
    sql = for_rows(name, 3)
    named = set(re.findall(r":(\w+)", sql))
    count = max((int(number) for number in re.findall(r"\?(\d+)", sql)), default=sql.count("?"))
    with closing(connect(path, readonly=True)) as connection:
        parameters = dict.fromkeys(named) if named else (None,) * count
        plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", parameters)]
    assert any(INDEXES[name] in step for step in plan), plan
    scanned = r"SCAN (delivery|turn|own|inbound|stored_value|head|earlier)\b"
    assert [step for step in plan if re.match(scanned, step)] == [], plan
    if name not in {"find_of_turn", "interrupted_turns", "accepted_turns"}:  # these sort the few rows that they found
        assert [step for step in plan if "TEMP B-TREE" in step] == [], plan
