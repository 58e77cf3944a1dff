"""Judges what people read after a gateway was killed many times: every message is answered once, or ended with a line.

A platform without keys cannot say whether a message arrived. There, a part that is on hold may be missing or be shown,
and a line says so.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from typing import TYPE_CHECKING

import apsw
import msgspec

from gateway_kills.agent import words_of
from kills.judge import read_ledger
from tailrace.deliveries import NOTICE_ORDINAL, OPEN, TURN_OPEN, Delivery, State, Turn, TurnState
from tailrace.delivery.recovery import INTERRUPTED
from tailrace.gateway.words import HELP
from tailrace.ledger.reader import SqliteReader
from tailrace.operations import Edit, OpenStream, Post

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from gateway_kills.people import Person

WORD = re.compile(r"\ba(\d+)x(\d+)x(\d+)\b")
_HOLD = "may be missing"
_HELP = HELP.partition("\n")[0]


class Content(msgspec.Struct, frozen=True, kw_only=True):
    """What the ledger has: the deliveries in their order, and the turns of messages by the text of the message."""

    rows: list[Delivery]
    turns: dict[str, Turn]

    @property
    def open(self) -> list[str]:
        """Everything that is not finished."""
        rows = [f"{row.id} is {row.state}: {row.error}" for row in self.rows if row.state in OPEN]
        turns = [
            f"the turn of {text!r} is {turn.state}" for text, turn in self.turns.items() if turn.state in TURN_OPEN
        ]
        return rows + turns


def content_of(ledger: Path) -> Content:
    """Read the ledger, while a gateway may be writing to it."""

    async def turns(ids: Sequence[str]) -> list[Turn]:
        reader = await SqliteReader.open(ledger)
        try:
            return [turn for each in ids if (turn := await reader.turn(each)) is not None]
        finally:
            await reader.close()

    if not ledger.exists():
        return Content(rows=[], turns={})
    connection = apsw.Connection(str(ledger), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        ids = [str(row[0]) for row in connection.execute("SELECT turn_id FROM turn WHERE message <> ''")]
    finally:
        connection.close()
    found = asyncio.run(turns(ids))
    by_text = {turn.message.command or turn.message.text: turn for turn in found if turn.message is not None}
    return Content(rows=read_ledger(ledger).rows, turns=by_text)


def judge(person: Person, texts: Sequence[str], content: Content, runs: Counter[str]) -> list[str]:
    """What is wrong with one conversation, in sentences. `runs` counts how often the agent began with each message."""
    rows = [row for row in content.rows if row.conversation == person.conversation]
    shown = [match.groups() for text in texts for match in WORD.finditer(text)]
    words = [f"a{chat}x{message}x{word}" for chat, message, word in shown]
    held = {word for row in rows if row.state is State.UNKNOWN for word in _words(row)}
    found = [f"{word} is of another conversation" for word in words if not word.startswith(f"a{person.number}x")]
    found += [
        f"{word} is there {count} times" for word, count in Counter(words).items() if count > 1 and word not in held
    ]
    first = list(dict.fromkeys((int(message), int(word)) for _, message, word in shown))
    if first != sorted(first):
        found.append(f"out of order: {' '.join(words)}")
    interrupted = 0
    for message in person.messages:
        turn = content.turns.get(message)
        if turn is None:
            found.append(f"{message!r} was never accepted")
            continue
        interrupted += turn.state is TurnState.INTERRUPTED
        found += _judge_turn(message, turn, rows, set(words) | held, runs)
    found += _judge_lines(rows, texts, interrupted)
    return [f"{person.conversation}: {each}" for each in found]


def _judge_turn(
    message: str, turn: Turn, rows: Sequence[Delivery], readable: set[str], runs: Counter[str]
) -> list[str]:
    sort, number = message.split()
    expected = {"fail": TurnState.FAILED}.get(sort, TurnState.DONE)
    own = [row for row in rows if row.turn_id == turn.turn_id and row.ordinal != NOTICE_ORDINAL]
    delivered = {
        word for row in own if row.state is State.DELIVERED and isinstance(row.operation, Post) for word in _words(row)
    }
    due = delivered if turn.state is TurnState.INTERRUPTED else {*delivered, *words_of(sort, number)}
    found = []
    if turn.state not in {expected, TurnState.INTERRUPTED}:
        found.append(f"{message!r} is {turn.state}")
    if missing := sorted(due - readable):
        found.append(f"{message!r} is {turn.state} and lacks {' '.join(missing)}")
    if runs[number] > 1 or (runs[number] == 0 and turn.state is not TurnState.INTERRUPTED):
        found.append(f"the agent began {runs[number]} times with {message!r}, which is {turn.state}")
    return found


def _judge_lines(rows: Sequence[Delivery], texts: Sequence[str], interrupted: int) -> list[str]:
    found = []
    lines = Counter({line: sum(line in text for text in texts) for line in (INTERRUPTED, _HOLD)})
    again = sum(row.may_be_double for row in rows)
    if not interrupted <= lines[INTERRUPTED] <= interrupted + again:
        found.append(f"{interrupted} turns were interrupted, and {lines[INTERRUPTED]} lines say so")
    held = {row.turn_id for row in rows if row.state is State.UNKNOWN and row.policy.is_reported}
    if len(held) > lines[_HOLD] or (lines[_HOLD] and not held):
        found.append(f"{len(held)} turns have a part on hold, and {lines[_HOLD]} lines say so")
    final = {State.DELIVERED, State.SUPERSEDED, State.UNKNOWN, State.CANCELLED}
    return found + [f"{row.id} is {row.state}: {row.error}" for row in rows if row.state not in final]


def _words(row: Delivery) -> list[str]:
    if not isinstance(row.operation, Post | OpenStream | Edit):
        return []
    return [match.group() for match in WORD.finditer(row.operation.body.text)]
