"""Compares what people read after any number of kills with what the turn says, and with the ledger.

Every difference that the kind of the platform does not excuse is a violation, counted in one of the columns of
`Verdict`. `read_ledger` reads the rows.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from kills.turns import WORD
from tailrace.deliveries import NOTICE_ORDINAL, OPEN, TURN_OPEN, Delivery, Query, State, Turn, TurnState
from tailrace.delivery.recovery import INTERRUPTED
from tailrace.ledger.reader import SqliteReader
from tailrace.operations import OpenStream, Post, PostMedia

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kills.turns import Kind, TurnInput
    from tailrace.testing.wire import PlatformMessage

_PAGE = 1000


class LedgerContent(msgspec.Struct, frozen=True, kw_only=True):
    """The deliveries of a ledger in their order, and the turns that were asked for."""

    rows: list[Delivery]
    turns: dict[str, Turn]


class Verdict(msgspec.Struct, kw_only=True):
    """What is wrong, in sentences by column.

    `lost`: words that should be there. `doubled`: words that are there twice. `unfinished`: rows and turns that are
    open. `unreported`: missing text without a line that says so. `other`: the rest.
    """

    lost: list[str] = []
    doubled: list[str] = []
    unfinished: list[str] = []
    unreported: list[str] = []
    other: list[str] = []

    @property
    def all(self) -> list[str]:
        return self.lost + self.doubled + self.unfinished + self.unreported + self.other


def read_ledger(path: Path, *turn_ids: str) -> LedgerContent:
    """Read the ledger at `path`; empty if there is none yet."""

    async def read() -> LedgerContent:
        reader = await SqliteReader.open(path)
        try:
            rows: list[Delivery] = []
            while page := await reader.find(Query(), after=rows[-1].position if rows else None, limit=_PAGE):
                rows += page
            turns = [await reader.turn(turn_id) for turn_id in turn_ids]
        finally:
            await reader.close()
        return LedgerContent(rows=rows[::-1], turns={turn.turn_id: turn for turn in turns if turn is not None})

    if not path.exists() or not path.stat().st_size:
        return LedgerContent(rows=[], turns={})
    return asyncio.run(read())


def words_of(messages: Sequence[PlatformMessage]) -> list[str]:
    """The words that people can read, in their order."""
    return [word for message in messages if not message.deleted for word in WORD.findall(message.text)]


def judge(
    given: TurnInput,
    kind: Kind,
    messages: Sequence[PlatformMessage],
    content: LedgerContent,
    *,
    seen: frozenset[str] = frozenset(),
) -> Verdict:
    """What is wrong with one turn. `seen` are words that people could read at a kill, and must still be there."""
    verdict = Verdict()
    rows = [row for row in content.rows if row.operation.target.chat == given.chat]
    turn = content.turns.get(given.turn_id)
    if turn is None or turn.state in TURN_OPEN:
        verdict.unfinished.append(f"{given.turn_id} is {turn and turn.state}")
        return verdict
    verdict.unfinished += [f"{row.id} is {row.state}: {row.error}" for row in rows if row.state in OPEN]
    own = [row for row in rows if row.turn_id == given.turn_id and row.ordinal != NOTICE_ORDINAL]
    found = words_of(messages)
    verdict.doubled += _doubled(given, kind, own, found)
    expected = set(given.words) if turn.state is TurnState.DONE else set(seen)
    verdict.lost += _lost(given, own, found, expected)
    first = list(dict.fromkeys(found))
    if first != sorted(first):
        verdict.other.append(f"{given.turn_id} is out of order: {' '.join(found)}")
    _judge_lines(turn, own, [message.text for message in messages if not message.deleted], verdict)
    _judge_states(kind, own, verdict)
    return verdict


def _doubled(given: TurnInput, kind: Kind, own: list[Delivery], found: list[str]) -> list[str]:
    """Words that are there twice, except where that cannot be known."""
    is_again = {word for row in own if row.may_be_double for word in WORD.findall(_text(row))}
    # A live message begins with a post. If that one is held, the whole text of the message is sent behind the notice.
    excused = is_again if kind.in_doubt == "resend" else _held(own) if given.presentation == "live" else set()
    twice = {word for word, count in Counter(found).items() if count > 1}
    wrong = sorted(twice - excused)
    return [f"{given.turn_id} shows twice: {' '.join(wrong)}"] if wrong else []


def _lost(given: TurnInput, own: list[Delivery], found: list[str], expected: set[str]) -> list[str]:
    """Words that should be there: the expected ones, and those of rows that were delivered."""
    delivered = {word for row in own if row.state is State.DELIVERED for word in WORD.findall(_text(row))}
    missing = sorted((expected | delivered) - set(found) - _held(own))
    return [f"{given.turn_id} lacks: {' '.join(missing)}"] if missing else []


def _held(own: list[Delivery]) -> set[str]:
    """Words that may be there, and may not."""
    return {word for row in own if row.state is State.UNKNOWN for word in WORD.findall(_text(row))}


def _judge_lines(turn: Turn, own: list[Delivery], texts: list[str], verdict: Verdict) -> None:
    """Missing text needs a line, and only then is there one."""
    is_held = any(row.state is State.UNKNOWN for row in own)
    notices = [text for text in texts if "may be missing" in text]
    if is_held and not notices:
        verdict.unreported.append(f"{turn.turn_id} has a part that may be missing, and no line says so")
    if notices and not is_held:
        verdict.other.append(f"{turn.turn_id} has a line about a missing part, and none is missing")
    is_interrupted = turn.state is TurnState.INTERRUPTED
    if is_interrupted and texts.count(INTERRUPTED) == 0:
        verdict.unreported.append(f"{turn.turn_id} was interrupted, and no line says so")
    if not is_interrupted and (turn.state is not TurnState.DONE or INTERRUPTED in texts):
        verdict.other.append(f"{turn.turn_id} is {turn.state}, and the chat reads {texts[-1:]}")


def _judge_states(kind: Kind, own: list[Delivery], verdict: Verdict) -> None:
    final = {State.DELIVERED, State.SUPERSEDED} | ({State.UNKNOWN} if kind.in_doubt == "hold" else set())
    verdict.other += [
        f"{row.id} is {row.state}: {row.error}" for row in own if row.state not in final and row.state not in OPEN
    ]
    if kind.in_doubt != "resend":
        verdict.other += [f"{row.id} may be there twice" for row in own if row.may_be_double]


def _text(row: Delivery) -> str:
    """The text of a row that begins a message; an edit may take words back."""
    operation = row.operation
    if isinstance(operation, PostMedia):
        return operation.caption
    return operation.body.text if isinstance(operation, Post | OpenStream) else ""
