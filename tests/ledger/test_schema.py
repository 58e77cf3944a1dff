"""The schema: a killed creation or migration is continued, and every frequent query uses an index."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import processes
import pytest

from tailrace.deliveries import FINAL, OPEN, UNDELIVERED, Query
from tailrace.errors import LedgerUnusable
from tailrace.ledger import schema
from tailrace.ledger.connection import connect
from tailrace.ledger.opening import LedgerLimits
from tailrace.ledger.queries import for_rows, queries, statements
from tailrace.ledger.schema import migration, migrations
from tailrace.ledger.sqlite import SqliteLedger
from tailrace.testing.ledger_scenarios import ids, post


async def fill(path: Path, *turns: str, limits: LedgerLimits | None = None) -> list[str]:
    ledger = await SqliteLedger.open(path, limits=limits or LedgerLimits())
    for turn in turns:
        await ledger.plan([post(turn)])
    found = ids(await ledger.find(Query()))
    await ledger.close()
    return found


def version(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        [number] = connection.execute("PRAGMA user_version").fetchone()
        return int(number)


SECOND = LedgerLimits(migrations=(*migrations(), migration(2, "CREATE TABLE extra (name); PRAGMA user_version = 2;")))


def test_row_24_a_creation_killed_at_any_statement_is_continued(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    folder.mkdir()
    done = processes.run("killed_opening", folder)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 25
    for statement in range(1, int(done.stdout) + 1):
        path = folder.with_name(f"new-{statement}") / "ledger.db"
        if version(path) < 2:
            assert asyncio.run(fill(path, "t")) == ["t.1"]


def test_row_24_a_migration_killed_anywhere_is_complete_or_absent(tmp_path: Path) -> None:
    folder = tmp_path / "old"
    asyncio.run(fill(folder / "ledger.db", "a", "b"))
    done = processes.run("killed_opening", folder)
    assert done.returncode == 0, done.stderr
    versions = []
    for statement in range(1, int(done.stdout) + 1):
        path = folder.with_name(f"old-{statement}") / "ledger.db"
        versions.append(version(path))
        with closing(sqlite3.connect(path)) as connection:
            tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
        assert ("extra" in tables) == (versions[-1] == 2)
        if versions[-1] == 1:
            assert asyncio.run(fill(path)) == ["b.1", "a.1"]
        assert asyncio.run(fill(path, limits=SECOND if versions[-1] == 1 else upgraded())) == ["b.1", "a.1"]
    assert set(versions) == {1, 2}


def upgraded() -> LedgerLimits:
    return LedgerLimits(migrations=(*migrations(), migration(2, "PRAGMA user_version = 2;")))


def test_row_24_an_older_version_refuses_a_newer_file(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    asyncio.run(fill(path, "t", limits=SECOND))
    with pytest.raises(LedgerUnusable, match="newer tailrace"):
        asyncio.run(fill(path))
    assert asyncio.run(fill(path, limits=SECOND)) == ["t.1"]


def test_each_migration_writes_its_version() -> None:
    assert [step.version for step in migrations()] == list(range(1, len(migrations()) + 1))
    for step in migrations():
        assert step.statements[-1] == f"PRAGMA user_version = {step.version};"
    assert f"{schema.APPLICATION_ID:#x}" in queries()["new_file_settings"]


def test_the_sql_lists_the_same_final_states_everywhere() -> None:
    folder = Path(schema.__file__).parent / "sql"
    text = "".join(file.read_text(encoding="utf-8") for file in folder.rglob("*.sql"))
    listed = {frozenset(re.findall(r"'(\w+)'", found)) for found in re.findall(r"state NOT IN (\([^)]*\))", text)}
    assert listed == {FINAL, frozenset({"accepted", "running"})}
    assert frozenset(re.findall(r"'(\w+)'", text)) >= UNDELIVERED
    assert not OPEN & FINAL


def test_statements_are_split_where_sqlite_ends_them() -> None:
    assert statements("-- words; more\nSELECT ';';\n\nSELECT 2; SELECT 3;\n") == [
        "-- words; more\nSELECT ';';",
        "SELECT 2;",
        "SELECT 3;",
    ]


FREQUENT = [
    *("record_sending", "move_to_sending", "move_delivery", "open_deliveries", "adopt_delivery", "open_conversations"),
    *("delivery", "turn", "interrupted_turns", "find_of_turn", "find_undelivered", "delete_turn", "delete_events"),
    *("resume_turn", "end_turn", "save_snapshot", "event_turn", "turns_without_deliveries"),
    *("record_many", "record_many_sending", "move_many", "move_many_to_sending", "prunable"),
]


@pytest.mark.parametrize("name", FREQUENT)
def test_no_frequent_query_scans_a_whole_table(tmp_path: Path, name: str) -> None:
    path = tmp_path / "ledger.db"
    asyncio.run(fill(path))
    sql = for_rows(name, 3)
    named = re.findall(r":(\w+)", sql)
    count = max((int(number) for number in re.findall(r"\?(\d+)", sql)), default=sql.count("?"))
    with closing(connect(path, readonly=True)) as connection:
        parameters = dict.fromkeys(named) if named else (None,) * count
        plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", parameters)]
    tables = "delivery|turn|inbound|head|earlier"
    assert [step for step in plan if re.match(rf"SCAN ({tables})\b", step)] == [], plan
    if name != "find_of_turn":
        assert [step for step in plan if "TEMP B-TREE" in step] == [], plan
