"""Applies the changes of one transaction: single rows of different conversations by one statement, all others alone.

Most changes are of one row: a new delivery, or one in its next state. Those of different conversations are independent,
so their order does not matter and one statement can make many of them. If that statement refuses one row it does not
say which. Then the transaction is rolled back and made again, each change alone.
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
"""A change of one row: (last seen, next), or (None, new)."""


class BatchRefused(Exception):
    """One row of several that one statement changes was refused."""


class LedgerChange(msgspec.Struct, eq=False):
    """One submitted change, the future of its caller, and its result.

    `compound`: it needs several statements; if one fails, those before it must be undone. `single`: it changes one row,
    and can be combined with others.
    """

    apply: Callable[[], Any]
    compound: bool = False
    single: RowChange | None = None
    future: asyncio.Future[Any] | None = None
    result: Any = None
    error: BaseException | None = None


def apply_batch(batch: Sequence[LedgerChange], rows: RowWriter, apply_alone: Callable[[LedgerChange], None]) -> None:
    """Make the changes with the same result as one after the other. Raises `BatchRefused` if that is not possible."""
    gathered: dict[str, list[LedgerChange]] = {}
    conversations: set[str] = set()

    def flush() -> None:
        for query, changes in gathered.items():
            _apply_many(query, changes, rows, apply_alone)
        gathered.clear()
        conversations.clear()

    for change in batch:
        query = rows.query_for_many(*change.single) if change.single is not None else None
        if query is None or change.single is None:
            flush()
            apply_alone(change)
            continue
        conversation = change.single[1].operation.target.conversation
        if conversation in conversations:
            flush()
        conversations.add(conversation)
        gathered.setdefault(query, []).append(change)
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
        # One has a value that no column can hold. Applied alone, it gets its own error.
        raise BatchRefused from error
    if results is None:
        raise BatchRefused
    for change, delivery in zip(changes, results, strict=True):
        change.error, change.result = None, [delivery]
