"""Ledgers that earlier versions wrote are opened and continued. `files/version_1.db` holds a row in each state."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

from tailrace.deliveries import Query, State, TurnState
from tailrace.ledger.sqlite import SqliteLedger

FILES = Path(__file__).parent / "files"


def test_a_ledger_of_version_1_is_continued(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    shutil.copy(FILES / "version_1.db", path)

    async def scene() -> None:
        ledger = await SqliteLedger.open(path, adopt_restored=True)
        rows = {row.id: row for row in await ledger.find(Query())}
        assert {row_id: row.state for row_id, row in rows.items()} == {
            "t-done.1": State.DELIVERED,
            "t-done.2": State.DELIVERED,
            "t-running.1": State.RETRY,
            "t-running.2": State.PLANNED,
            "t-running.3": State.PLANNED,
            "t-unknown.1": State.UNKNOWN,
            "t-sending.1": State.SENDING,
        }
        assert (rows["t-running.1"].attempt, rows["t-running.1"].deferred_tries) == (1, 1)
        assert rows["t-done.1"].receipt is not None
        assert rows["t-done.1"].policy.max_attempts == 20
        turns = [*await ledger.interrupted_turns(), *await ledger.interrupted_turns(state=TurnState.ACCEPTED)]
        assert {turn.turn_id for turn in turns} == {"t-running", "t-sending", "t-accepted"}
        [running] = [turn for turn in turns if turn.turn_id == "t-running"]
        assert (running.snapshot.text, running.snapshot.message_id, running.last_ordinal) == ("and so on", "m9", 3)
        [sending] = await ledger.adopt(rows["t-sending.1"].conversation, now=1_700_000_100.0, limit=10)
        assert sending.state is State.AMBIGUOUS
        await ledger.close()

    asyncio.run(scene())
