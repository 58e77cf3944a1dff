"""Compares what people read after any number of kills with what they should read.

`judge` compares the questions with the messages on the platform and with the rows of the ledger. Every difference that
the kind of the platform does not excuse is a violation. `read_ledger` reads the rows.
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
    from tailrace.testing.wire import PlatformMessage

_PAGE = 1000

T = TypeVar("T")


class LedgerContent(msgspec.Struct, frozen=True, kw_only=True):
    """The deliveries of a ledger in their order, their turns, and the number of conversations with open deliveries."""

    rows: list[Delivery]
    turns: dict[str, Turn]
    open_conversations: int


class Verdict(msgspec.Struct, kw_only=True):
    """The result. `duplicates` are messages too many, `lost` are missing ones, `unknown` are rows in that state.

    `notices` are the lines that tell people of a missing part, `repeated_notices` such lines that are there twice.
    `marked` are other rows that say that they may be there twice.
    """

    duplicates: int = 0
    lost: int = 0
    unknown: int = 0
    notices: int = 0
    repeated_notices: int = 0
    marked: int = 0
    violations: list[str] = []


def read_ledger(path: Path) -> LedgerContent:
    """Read the ledger at `path`; no process may be writing it."""

    async def read() -> LedgerContent:
        reader = await SqliteReader.open(path)
        try:
            rows: list[Delivery] = []
            while page := await reader.find(Query(), after=rows[-1].position if rows else None, limit=_PAGE):
                rows += page
            turns = [await reader.turn(turn_id) for turn_id in {row.turn_id for row in rows}]
            open_conversations = len(await reader.open_conversations())
        finally:
            await reader.close()
        known = {turn.turn_id: turn for turn in turns if turn is not None}
        return LedgerContent(rows=rows[::-1], turns=known, open_conversations=open_conversations)

    return asyncio.run(read())


def judge(
    questions: Sequence[Question],
    messages: Sequence[PlatformMessage],
    content: LedgerContent,
    *,
    doubt: Literal["none", "hold", "resend"],
) -> Verdict:
    """The verdict. `doubt`: what happens to a message that may have arrived.

    On most platforms that can be found out (`none`). Otherwise the message is not sent again and people are told
    (`hold`), or it is sent again and marked (`resend`).
    """
    verdict = Verdict()
    _judge_states(content, verdict, doubt)
    by_event = _grouped(content.turns.values(), lambda turn: turn.input)
    rows_of_turn = _grouped(content.rows, lambda row: row.turn_id)
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
        rows = [row for row in content.rows if row.operation.target.chat == chat]
        _judge_chat(chat, shown, rows, growing, verdict)
        is_whole = all(
            content.turns[row.turn_id].state is TurnState.DONE for row in rows if row.turn_id in content.turns
        )
        if doubt == "none" and is_whole:
            answers = [text for question in questions if question.chat == chat for text in question.texts]
            if [message.text for message in shown] != answers:
                verdict.violations.append(f"{chat}: reads {_short(shown)}, not the answers")
    return verdict


def _grouped(items: Iterable[T], key: Callable[[T], str]) -> dict[str, list[T]]:
    groups: dict[str, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def _judge_states(content: LedgerContent, verdict: Verdict, doubt: str) -> None:
    allowed = {State.DELIVERED, State.UNKNOWN} if doubt == "hold" else {State.DELIVERED}
    if content.open_conversations:
        verdict.violations.append(f"{content.open_conversations} conversations have open deliveries")
    for row in content.rows:
        is_notice = row.ordinal == NOTICE_ORDINAL
        verdict.unknown += row.state is State.UNKNOWN
        verdict.marked += row.may_be_double and not is_notice
        if row.state not in allowed or (is_notice and row.state is not State.DELIVERED):
            still = "still " if row.state in OPEN else ""
            verdict.violations.append(f"{row.id} is {still}{row.state}: {row.error}")
        if row.may_be_double and doubt != "resend" and not is_notice:
            verdict.violations.append(f"{row.id} may be there twice")


def _judge_turn(question: Question, turn: Turn, rows: list[Delivery], verdict: Verdict) -> None:
    """Check that the turn ended as it should, and recorded its whole answer."""
    texts = [_text(row) for row in sorted(rows, key=lambda row: row.ordinal) if row.ordinal > NOTICE_ORDINAL]
    expected = [question.preview, *question.texts] if question.is_live else question.texts
    if turn.state is TurnState.DONE:
        if texts != expected:
            verdict.violations.append(
                f"{turn.turn_id} is done and recorded {len(texts)} texts, not the right {len(expected)}"
            )
    elif turn.state is not TurnState.INTERRUPTED or question.shape != "abandon":
        verdict.violations.append(f"{turn.turn_id} is {turn.state}")
    elif texts[-1] != INTERRUPTED or texts.count(INTERRUPTED) != 1:
        verdict.violations.append(f"{turn.turn_id} was interrupted, and does not end with that line")
    for number, text in enumerate(texts):
        if any(earlier.startswith(text) for earlier in texts[:number]):
            verdict.violations.append(f"{turn.turn_id} repeats or takes back {text[:24]!r}")
    notices = [row for row in rows if row.ordinal == NOTICE_ORDINAL]
    is_unknown = any(row.state is State.UNKNOWN for row in rows if row.ordinal != NOTICE_ORDINAL)
    if is_unknown != bool(notices):
        verdict.violations.append(
            f"{turn.turn_id}: a part is {'un' * is_unknown}known, and there are {len(notices)} notices"
        )


def _judge_chat(
    chat: str, shown: list[PlatformMessage], rows: list[Delivery], growing: dict[str, set[str]], verdict: Verdict
) -> None:
    """Check that each message has its row and each row its message, in the same order and with the same text."""
    posts = [row for row in rows if isinstance(row.operation, Post)]
    finals = _finals(rows)
    by_id = {row.receipt.message_id: row for row in posts if row.receipt is not None}
    copies: dict[str, int] = {}
    last = 0
    for message in shown:
        row = by_id.get(message.message_id) or _uncertain(message, posts, copies)
        if row is None:
            verdict.duplicates += 1
            verdict.violations.append(f"{chat}: {_short([message])} has no delivery")
            continue
        copies[row.id] = copies.get(row.id, 0) + 1
        is_again, is_notice = copies[row.id] > 1, row.ordinal == NOTICE_ORDINAL
        verdict.duplicates += is_again and not is_notice
        verdict.notices += is_notice and not is_again
        verdict.repeated_notices += is_notice and is_again
        if row.position < last:
            verdict.violations.append(f"{chat}: {row.id} is out of order")
        last = row.position
        allowed = {finals.get(message.message_id, _text(row))}
        if message.message_id not in finals:
            allowed |= growing.get(row.turn_id, set()) if row.ordinal == 1 else set()
        if message.text not in allowed:
            verdict.violations.append(f"{chat}: {row.id} reads {_short([message])}, which is not its last text")
    for row in posts:
        if row.state is State.DELIVERED and row.id not in copies:
            verdict.lost += 1
            verdict.violations.append(f"{chat}: {row.id} is delivered and has no message")


def _finals(rows: list[Delivery]) -> dict[str, str]:
    """The text of the last recorded edit of each message."""
    return {
        row.operation.message_id: row.operation.body.text
        for row in rows
        if isinstance(row.operation, Edit) and row.state is State.DELIVERED
    }


def _uncertain(message: PlatformMessage, posts: list[Delivery], copies: dict[str, int]) -> Delivery | None:
    """The row of a message that no receipt names: an unknown one, or one that was sent again."""
    for row in posts:
        if row.may_be_double and _text(row) == message.text:
            return row
        if row.state is State.UNKNOWN and _text(row) == message.text and row.id not in copies:
            return row
    return None


def _text(row: Delivery) -> str:
    assert isinstance(row.operation, Post | Edit), "the trials send nothing else"
    return row.operation.body.text


def _short(messages: Sequence[PlatformMessage]) -> str:
    return ", ".join(f"{message.text[:24]!r}[{len(message.text)}]" for message in messages)
