"""How the changes of one transaction are made: single rows of different conversations together, all others alone.

Most changes are of one row: a new delivery, or one that moves on. Those of different conversations do not touch each
other, so their order is nobody's matter and one statement makes many of them. Where one of them is refused it cannot be
told which: the transaction is made again, each change alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from tailrace.deliveries import Delivery

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence

    from tailrace.ledger.transitions import RowWriter

Single: TypeAlias = tuple[Delivery | None, Delivery]
"""A change of one row: (last seen, next), or a new one."""


class RefusedTogether(Exception):
    """One of several changes that were made by one statement was refused."""


class Change:
    """One change that was handed in, who waits for it, and what came of it.

    `compound`: it takes several statements, and those before one that refuses must be undone. `single`: it is a change
    of one row, which can be made together with others.
    """

    __slots__ = ("compound", "error", "future", "made", "result", "single")

    def __init__(
        self,
        made: Callable[[], Any],
        *,
        compound: bool = False,
        single: Single | None = None,
        future: asyncio.Future[Any] | None = None,
    ) -> None:
        self.made = made
        self.compound = compound
        self.single = single
        self.future = future
        self.result: Any = None
        self.error: BaseException | None = None


def make_together(batch: Sequence[Change], book: RowWriter, make_alone: Callable[[Change], None]) -> None:
    """Make the changes as if in their order. Raises `RefusedTogether` where they must be made alone instead."""
    gathered: dict[str, list[Change]] = {}
    touched: set[str] = set()

    def make_gathered() -> None:
        for query, changes in gathered.items():
            _make(query, changes, book, make_alone)
        gathered.clear()
        touched.clear()

    for change in batch:
        query = book.single(*change.single) if change.single is not None else None
        if query is None or change.single is None:
            make_gathered()
            make_alone(change)
            continue
        conversation = change.single[1].operation.target.conversation
        if conversation in touched:
            make_gathered()
        touched.add(conversation)
        gathered.setdefault(query, []).append(change)
    make_gathered()


def _make(query: str, changes: list[Change], book: RowWriter, make_alone: Callable[[Change], None]) -> None:
    if len(changes) == 1:
        make_alone(changes[0])
        return
    try:
        made = book.together(query, [change.single for change in changes if change.single is not None])
    except (UnicodeError, OverflowError, TypeError) as error:
        # One holds what no column can; alone it is told to whoever handed it in.
        raise RefusedTogether from error
    if made is None:
        raise RefusedTogether
    for change, delivery in zip(changes, made, strict=True):
        change.error, change.result = None, [delivery]
