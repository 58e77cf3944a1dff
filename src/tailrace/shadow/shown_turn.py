"""The account of a turn: the messages it left, what is known of each, and the calls they took.

Made of what was really delivered, as the ledger has it, or of what a rehearsal would have; both by one hand, so that
two accounts differ only where the turns do. Pure: deliveries and moments in, an account out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from tailrace.deliveries import NOTICE_ORDINAL, State
from tailrace.operations import AppendStream, CloseStream, Delete, Draft, Edit, OpenStream, Post, PostMedia, Typing
from tailrace.shadow.comparison import Account, Arrival, Calls, Manner, Said

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tailrace.deliveries import Delivery
    from tailrace.delivery.dry_run import PerformedCall
    from tailrace.operations import Durable, Operation

_ARRIVALS = {
    State.DELIVERED: Arrival.DELIVERED,
    State.FAILED: Arrival.REFUSED,
    State.DEAD: Arrival.REFUSED,
    State.UNKNOWN: Arrival.UNKNOWN,
}
_THERE = (Arrival.DELIVERED, Arrival.DEGRADED)


def rehearsed(moments: Iterable[PerformedCall]) -> Account:
    """What a rehearsal comes to."""
    book = _Book()
    passing = 0
    for moment in moments:
        if moment.is_durable:
            book.take(moment.operation, moment.message_id, at=moment.at)
        elif not isinstance(moment.operation, Typing):
            book.show(moment.operation)
            passing += 1
    return book.account(passing=passing)


def delivered(deliveries: Iterable[Delivery], *, began: float) -> Account:
    """What the deliveries of one turn come to, all of them final; `began` is when it did by the clock on the wall.

    What was superseded belongs to them: it tells which message the new one stands for. What was shown in between is in
    no ledger, and the line that tells people of a missing part is no part of the turn.
    """
    book = _Book()
    for delivery in sorted(deliveries, key=lambda known: (abs(known.ordinal), -known.ordinal)):
        if delivery.ordinal == NOTICE_ORDINAL:
            continue
        if delivery.state is State.SUPERSEDED:
            book.forget(delivery.operation)
            continue
        receipt = delivery.receipt
        arrival = _ARRIVALS.get(delivery.state, Arrival.UNDELIVERED)
        if receipt is not None and receipt.degraded:
            arrival = Arrival.DEGRADED
        book.take(
            delivery.operation,
            receipt.message_id if receipt is not None else "",
            at=(delivery.last_try_at or delivery.updated_at) - began,
            arrival=arrival,
            why=delivery.error or (receipt.degraded if receipt is not None else ""),
        )
        if delivery.ordinal < 0 and not isinstance(delivery.operation, Delete):
            book.mark_anew()
    return book.account()


class _Book:
    """Messages as they come to be."""

    def __init__(self) -> None:
        self._said: dict[str, Said] = {}
        self._processing_messages: set[str] = set()
        self._new = 0
        self._changes = 0
        self._last = ""

    def account(self, *, passing: int | None = None) -> Account:
        """What stands."""
        calls = Calls(messages=self._new, changes=self._changes, passing=passing)
        return Account(said=tuple(self._said.values()), calls=calls)

    def take(
        self,
        operation: Operation,
        message_id: str,
        *,
        at: float,
        arrival: Arrival = Arrival.DELIVERED,
        why: str = "",
    ) -> None:
        """Something that stays was asked for, and this became of it."""
        match operation:
            case Post() | OpenStream() | PostMedia():
                self._new += 1
                before = self._said.get(self._last)
                # What never arrived has no name; no platform has names like these.
                self._last = message_id or f"\0{self._new}"
                if isinstance(operation, Post) and operation.is_processing:
                    self._processing_messages.add(self._last)
                    return
                text, media = _content(operation)
                said = Said(text=text, media=media, at=at, done=at, arrival=arrival, why=why)
                self._said[self._last] = said if before is None else self._instead(before, said)
            case Edit() | CloseStream():
                self._changes += 1
                self._finish(_changed(operation), operation, at=at, arrival=arrival, why=why)
            case Delete():
                self._changes += 1
                if arrival in _THERE:
                    self._said.pop(operation.message_id, None)
            case AppendStream() | Draft() | Typing():
                pass  # nothing of these stays

    def show(self, operation: Operation) -> None:
        """Something was shown in between: it stands until something else does."""
        if isinstance(operation, Edit) and (before := self._said.get(operation.message_id)) is not None:
            self._said[operation.message_id] = replace(before, text=operation.body.text)

    def forget(self, replaced: Durable) -> None:
        """Another message says what this was to: the one it was about is gone, or never was."""
        if isinstance(replaced, Edit | CloseStream):
            self._said.pop(_changed(replaced), None)
            self._changes += 1
        else:
            self._new += 1

    def mark_anew(self) -> None:
        """The last message stands for one that could not be finished."""
        if (said := self._said.get(self._last)) is not None:
            self._said[self._last] = replace(said, manner=Manner.ANEW)

    def _instead(self, before: Said, said: Said) -> Said:
        """The message; where the one before it was refused as its beginning, it stands for that as well."""
        beginning = before.text.rstrip()
        if before.arrival is not Arrival.REFUSED or not beginning or not said.text.startswith(beginning):
            return said
        self._said = {name: each for name, each in self._said.items() if each is not before}
        return replace(said, manner=Manner.ANEW, why=said.why or before.why)

    def _finish(self, message_id: str, operation: Edit | CloseStream, *, at: float, arrival: Arrival, why: str) -> None:
        before = self._said.get(message_id)
        if before is None:
            return
        if arrival is Arrival.DELIVERED and before.arrival is Arrival.DEGRADED:
            arrival, why = before.arrival, before.why
        manner = before.manner if before.manner is Manner.ANEW else Manner.IN_PLACE
        text = operation.body.text
        self._said[message_id] = replace(before, text=text, done=at, arrival=arrival, why=why, manner=manner)


def _changed(operation: Edit | CloseStream) -> str:
    return operation.message_id if isinstance(operation, Edit) else operation.stream_id


def _content(operation: Post | OpenStream | PostMedia) -> tuple[str, str]:
    if isinstance(operation, PostMedia):
        # The courier sends a copy of a file, under a name of its own.
        return operation.caption, operation.url or f"a file {operation.mime}".rstrip()
    return operation.body.text, ""
