"""Whether what people read is what they were to read, after any number of kills.

`judge` compares three things: the questions (what was promised), the messages of the platform (what is true) and the
rows of the ledger (what was claimed). Every difference that the platform's kind does not excuse is a violation, in
words. Pure; `read_ledger` is the one way to the rows.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Literal, TypeVar

import msgspec

from tailrace.deliveries import NOTICE_ORDINAL, OPEN, Delivery, Query, State, Turn, TurnState
from tailrace.delivery.recovery import INTERRUPTED
from tailrace.ledger.reader import SqliteReader
from tailrace.operations import Edit, Post

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from kills.script import Question
    from tailrace.testing.wire import Message

_PAGE = 1000

Thing = TypeVar("Thing")


class Claims(msgspec.Struct, frozen=True, kw_only=True):
    """What a ledger says: all its deliveries in the order of their places, the turns they belong to, what is open."""

    rows: list[Delivery]
    turns: dict[str, Turn]
    waiting: int


class Verdict(msgspec.Struct, kw_only=True):
    """What was found. `duplicates` are messages too many, `lost` are missing ones; `withheld` are `unknown` rows,
    `told` the lines that tell people of it, `told_again` such lines that are there twice; `marked` are other rows that
    say that they may be there twice.
    """

    duplicates: int = 0
    lost: int = 0
    withheld: int = 0
    told: int = 0
    told_again: int = 0
    marked: int = 0
    violations: list[str] = []


def read_ledger(path: Path) -> Claims:
    """All that the ledger at `path` claims; no process may be writing it."""

    async def read() -> Claims:
        reader = await SqliteReader.open(path)
        try:
            rows: list[Delivery] = []
            while page := await reader.find(Query(), after=rows[-1].position if rows else None, limit=_PAGE):
                rows += page
            turns = [await reader.turn(turn_id) for turn_id in {row.turn_id for row in rows}]
            waiting = len(await reader.open_conversations())
        finally:
            await reader.close()
        known = {turn.turn_id: turn for turn in turns if turn is not None}
        return Claims(rows=rows[::-1], turns=known, waiting=waiting)

    return asyncio.run(read())


def judge(
    questions: Sequence[Question],
    messages: Sequence[Message],
    claims: Claims,
    *,
    doubt: Literal["none", "hold", "resend"],
) -> Verdict:
    """The verdict. `doubt` is what may become of a message of which nobody can tell: there is none where the platform
    can, it is held back and told, or it is sent again and marked.
    """
    verdict = Verdict()
    _judge_states(claims, verdict, doubt)
    by_event = _grouped(claims.turns.values(), lambda turn: turn.input)
    rows_of_turn = _grouped(claims.rows, lambda row: row.turn_id)
    growing: dict[str, set[str]] = {}
    for question in questions:
        turns = by_event.get(question.event_id, [])
        if len(turns) != 1:
            verdict.violations.append(f"{question.event_id} has {len(turns)} turns")
        for turn in turns:
            _judge_turn(question, turn, rows_of_turn[turn.turn_id], verdict)
            if question.is_live and turn.state is TurnState.INTERRUPTED:
                growing[turn.turn_id] = {question.preview, *question.stages}
    for chat in sorted({question.chat for question in questions} | {message.chat for message in messages}):
        shown = [message for message in messages if message.chat == chat and not message.deleted]
        rows = [row for row in claims.rows if row.operation.target.chat == chat]
        _judge_chat(chat, shown, rows, growing, verdict)
        is_whole = all(claims.turns[row.turn_id].state is TurnState.DONE for row in rows if row.turn_id in claims.turns)
        if doubt == "none" and is_whole:
            promised = [text for question in questions if question.chat == chat for text in question.texts]
            if [message.text for message in shown] != promised:
                verdict.violations.append(f"{chat}: reads {_short(shown)}, not what was promised")
    return verdict


def _grouped(things: Iterable[Thing], key: Callable[[Thing], str]) -> dict[str, list[Thing]]:
    groups: dict[str, list[Thing]] = {}
    for thing in things:
        groups.setdefault(key(thing), []).append(thing)
    return groups


def _judge_states(claims: Claims, verdict: Verdict, doubt: str) -> None:
    lawful = {State.DELIVERED, State.UNKNOWN} if doubt == "hold" else {State.DELIVERED}
    if claims.waiting:
        verdict.violations.append(f"{claims.waiting} conversations still wait")
    for row in claims.rows:
        is_notice = row.ordinal == NOTICE_ORDINAL
        verdict.withheld += row.state is State.UNKNOWN
        verdict.marked += row.may_be_double and not is_notice
        if row.state not in lawful or (is_notice and row.state is not State.DELIVERED):
            still = "still " if row.state in OPEN else ""
            verdict.violations.append(f"{row.id} is {still}{row.state}: {row.error}")
        if row.may_be_double and doubt != "resend" and not is_notice:
            verdict.violations.append(f"{row.id} may be there twice")


def _judge_turn(question: Question, turn: Turn, rows: list[Delivery], verdict: Verdict) -> None:
    """Whether the turn ended as it had to, and said all it had to say."""
    said = [_text(row) for row in sorted(rows, key=lambda row: row.ordinal) if row.ordinal > NOTICE_ORDINAL]
    to_say = [question.preview, *question.texts] if question.is_live else question.texts
    if turn.state is TurnState.DONE:
        if said != to_say:
            verdict.violations.append(f"{turn.turn_id} is done and recorded {len(said)} of {len(to_say)} texts rightly")
    elif turn.state is not TurnState.INTERRUPTED or question.manner != "abandon":
        verdict.violations.append(f"{turn.turn_id} is {turn.state}")
    elif said[-1] != INTERRUPTED or said.count(INTERRUPTED) != 1:
        verdict.violations.append(f"{turn.turn_id} was cut off, and that is not the last it says")
    for number, text in enumerate(said):
        if any(earlier.startswith(text) for earlier in said[:number]):
            verdict.violations.append(f"{turn.turn_id} says again, or takes back, what it had said: {text[:24]!r}")
    notices = [row for row in rows if row.ordinal == NOTICE_ORDINAL]
    uncertain = any(row.state is State.UNKNOWN for row in rows if row.ordinal != NOTICE_ORDINAL)
    if uncertain != bool(notices):
        verdict.violations.append(f"{turn.turn_id}: a part is {'un' * uncertain}certain, told: {bool(notices)}")


def _judge_chat(
    chat: str, shown: list[Message], rows: list[Delivery], growing: dict[str, set[str]], verdict: Verdict
) -> None:
    """Whether each message has its row and each row its message, in the same order, saying the same."""
    posts = [row for row in rows if isinstance(row.operation, Post)]
    finals = _finals(rows)
    by_id = {row.receipt.message_id: row for row in posts if row.receipt is not None}
    copies: dict[str, int] = {}
    last = 0
    for message in shown:
        row = by_id.get(message.message_id) or _uncertain(message, posts, copies)
        if row is None:
            verdict.duplicates += 1
            verdict.violations.append(f"{chat}: {_short([message])} is there and no delivery accounts for it")
            continue
        copies[row.id] = copies.get(row.id, 0) + 1
        is_again, is_notice = copies[row.id] > 1, row.ordinal == NOTICE_ORDINAL
        verdict.duplicates += is_again and not is_notice
        verdict.told += is_notice and not is_again
        verdict.told_again += is_notice and is_again
        if row.position < last:
            verdict.violations.append(f"{chat}: {row.id} is out of order")
        last = row.position
        to_say = {finals.get(message.message_id, _text(row))}
        if message.message_id not in finals:
            to_say |= growing.get(row.turn_id, set()) if row.ordinal == 1 else set()
        if message.text not in to_say:
            verdict.violations.append(f"{chat}: {row.id} reads {_short([message])}, which is not its last word")
    for row in posts:
        if row.state is State.DELIVERED and row.id not in copies:
            verdict.lost += 1
            verdict.violations.append(f"{chat}: {row.id} is delivered and not there")


def _finals(rows: list[Delivery]) -> dict[str, str]:
    """What each edited message says for good: its last edit that was recorded."""
    return {
        row.operation.message_id: row.operation.body.text
        for row in rows
        if isinstance(row.operation, Edit) and row.state is State.DELIVERED
    }


def _uncertain(message: Message, posts: list[Delivery], copies: dict[str, int]) -> Delivery | None:
    """The row of a message that no receipt names: one that nobody could tell of, or that was sent again."""
    for row in posts:
        if row.may_be_double and _text(row) == message.text:
            return row
        if row.state is State.UNKNOWN and _text(row) == message.text and row.id not in copies:
            return row
    return None


def _text(row: Delivery) -> str:
    assert isinstance(row.operation, Post | Edit), "the trials say nothing else"
    return row.operation.body.text


def _short(messages: Sequence[Message]) -> str:
    return ", ".join(f"{message.text[:24]!r}[{len(message.text)}]" for message in messages)
