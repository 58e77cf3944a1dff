"""Applies the changes of one transaction: many changes of single rows by one statement, all others one by one.

Most changes concern one row: a new delivery, or a delivery in its next state. If such rows belong to different
conversations, their order does not matter, and one statement can change many of them. But if that statement refuses a
row, it does not say which one. Then the transaction is rolled back, and all changes are made again one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from tailrace.deliveries import Delivery

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence

    from tailrace.ledger.transitions import RowWriter

RowChange: TypeAlias = tuple[Delivery | None, Delivery]
"""A change of one row: (the row as the caller last saw it, its next state), or (None, the new row)."""


class BatchRefused(Exception):
    """A statement that changes several rows was refused for at least one of them, so the transaction must be undone."""


class LedgerChange(msgspec.Struct, eq=False):
    """One submitted change, the future of its caller, and its result.

    `compound`: the change needs several statements; if one of them fails, the earlier ones must be undone. `single`:
    the change concerns one row, and can be combined with others.
    """

    apply: Callable[[], Any]
    compound: bool = False
    single: RowChange | None = None
    future: asyncio.Future[Any] | None = None
    result: Any = None
    error: BaseException | None = None


def apply_batch(batch: Sequence[LedgerChange], rows: RowWriter, apply_alone: Callable[[LedgerChange], None]) -> None:
    """Make all changes, with the same result as if they were made one by one.

    Raises `BatchRefused` if a row was refused that was combined with others in one statement.
    """
    gathered: dict[str, list[LedgerChange]] = {}
    conversations: set[str] = set()

    def flush() -> None:
        for query, changes in gathered.items():
            _apply_many(query, changes, rows, apply_alone)
        gathered.clear()
        conversations.clear()

    for change in batch:
        if change.single is None:
            flush()
            apply_alone(change)
            continue
        conversation = change.single[1].operation.target.conversation
        if conversation in conversations:
            flush()
        conversations.add(conversation)
        gathered.setdefault("record" if change.single[0] is None else "move", []).append(change)
    flush()


def _apply_many(
    query: str, changes: list[LedgerChange], rows: RowWriter, apply_alone: Callable[[LedgerChange], None]
) -> None:
    if len(changes) == 1:
        apply_alone(changes[0])
        return
    try:
        results = rows.apply_many(query, [change.single for change in changes if change.single is not None])
    except (UnicodeError, OverflowError, TypeError) as error:
        # One of them has a value that no column can hold. When it is applied alone, its caller gets the error.
        raise BatchRefused from error
    if results is None:
        raise BatchRefused
    for change, delivery in zip(changes, results, strict=True):
        change.error, change.result = None, [delivery]
