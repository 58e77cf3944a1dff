"""How a turn looks in a chat at its end: its messages, whether each arrived, and the calls that were needed.

A shown turn is made either of recorded deliveries or of a dry run. Both use `_Builder`, so two shown turns differ only
if the deliveries and the calls differ. Pure.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from tailrace.deliveries import NOTICE_ORDINAL, State
from tailrace.operations import AppendStream, CloseStream, Delete, Draft, Edit, OpenStream, Post, PostMedia, Typing

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tailrace.deliveries import Delivery
    from tailrace.delivery.dry_run import PerformedCall
    from tailrace.operations import Durable, Operation


class Arrival(enum.StrEnum):
    """Whether a message arrived, as far as this is known at the end of the turn."""

    DELIVERED = "delivered"
    DEGRADED = "degraded"
    REFUSED = "refused"
    UNKNOWN = "unknown"
    UNDELIVERED = "left out"


class Completion(enum.StrEnum):
    """The ways in which a message gets its final text.

    It is posted with that text, changed to it, or posted again because the first message could not be changed.
    """

    WHOLE = "posted whole"
    IN_PLACE = "finished in place"
    ANEW = "posted anew"


class ShownMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One message at the end of the turn. Times are in seconds since the turn began.

    The message appeared at `at` and got its final text at `done`. `why` says what was lost in it or what went wrong.
    """

    text: str
    at: float = 0.0
    done: float = 0.0
    media: str = ""
    arrival: Arrival = Arrival.DELIVERED
    completion: Completion = Completion.WHOLE
    why: str = ""


class CallCounts(msgspec.Struct, frozen=True, kw_only=True):
    """How many calls of each kind a turn needed. Calls that show the typing sign are not counted.

    `messages` are calls that make new messages, which notify people; `changes` are final edits, ends of streams and
    deletions; `previews` are interim calls, None if they were not counted.
    """

    messages: int = 0
    changes: int = 0
    previews: int | None = None

    def __str__(self) -> str:
        previews = "" if self.previews is None else f" and {self.previews} in between"
        return f"{self.messages} new, {self.changes} changed{previews}"


class ShownTurn(msgspec.Struct, frozen=True, kw_only=True):
    """The messages of a turn as people see them at its end, and the calls that were needed."""

    messages: tuple[ShownMessage, ...] = ()
    calls: CallCounts = CallCounts()


_ARRIVALS = {
    State.DELIVERED: Arrival.DELIVERED,
    State.FAILED: Arrival.REFUSED,
    State.DEAD: Arrival.REFUSED,
    State.UNKNOWN: Arrival.UNKNOWN,
}


def from_dry_run(calls: Iterable[PerformedCall]) -> ShownTurn:
    """Make a shown turn of the calls of a dry run."""
    builder = _Builder()
    previews = 0
    for call in calls:
        if call.is_durable:
            builder.take(call.operation, call.message_id, at=call.at)
        elif not isinstance(call.operation, Typing):
            builder.preview(call.operation)
            previews += 1
    return builder.result(previews=previews)


def from_deliveries(deliveries: Iterable[Delivery], *, began_at: float) -> ShownTurn:
    """Make a shown turn of its deliveries, which must all be final. `began_at` is when it began, in wall clock time.

    Include superseded deliveries: they say which message a new one replaces. Previews are missing, because the ledger
    does not record them. Notices of missing parts are ignored.
    """
    builder = _Builder()
    for delivery in sorted(deliveries, key=lambda known: (abs(known.ordinal), -known.ordinal)):
        if delivery.ordinal == NOTICE_ORDINAL:
            continue
        if delivery.state is State.SUPERSEDED:
            builder.supersede(delivery.operation)
            continue
        receipt = delivery.receipt
        degraded = receipt.degraded if receipt is not None else ""
        builder.take(
            delivery.operation,
            receipt.message_id if receipt is not None else "",
            at=(delivery.last_try_at or delivery.updated_at) - began_at,
            arrival=Arrival.DEGRADED if degraded else _ARRIVALS.get(delivery.state, Arrival.UNDELIVERED),
            why=delivery.error or degraded,
        )
        if delivery.ordinal < 0 and not isinstance(delivery.operation, Delete):
            builder.mark_posted_anew()
    return builder.result()


class _Builder:
    """Builds the messages of a turn from its calls, one call after the other."""

    def __init__(self) -> None:
        self._messages: dict[str, ShownMessage] = {}
        self._new = 0
        self._changes = 0
        self._last = ""

    def result(self, *, previews: int | None = None) -> ShownTurn:
        calls = CallCounts(messages=self._new, changes=self._changes, previews=previews)
        return ShownTurn(messages=tuple(self._messages.values()), calls=calls)

    def take(
        self,
        operation: Operation,
        message_id: str,
        *,
        at: float,
        arrival: Arrival = Arrival.DELIVERED,
        why: str = "",
    ) -> None:
        """Apply a durable operation to the messages: add, change or delete one."""
        match operation:
            case Post() | OpenStream() | PostMedia():
                self._new += 1
                before = self._messages.get(self._last)
                # A message that never arrived has no id, so it gets one that no platform uses.
                self._last = message_id or f"\0{self._new}"
                if isinstance(operation, Post) and operation.is_processing:
                    return
                text, media = _content(operation)
                message = ShownMessage(text=text, media=media, at=at, done=at, arrival=arrival, why=why)
                self._messages[self._last] = message if before is None else self._merged(before, message)
            case Edit() | CloseStream():
                self._changes += 1
                self._finish(operation, at=at, arrival=arrival, why=why)
            case Delete():
                self._changes += 1
                if arrival in {Arrival.DELIVERED, Arrival.DEGRADED}:
                    self._messages.pop(operation.message_id, None)
            case AppendStream() | Draft() | Typing():
                pass  # at the end of the turn, nothing of them is left in the chat

    def preview(self, operation: Operation) -> None:
        """Apply an interim operation: a live edit changes the text of its message, all others change nothing."""
        if isinstance(operation, Edit) and (before := self._messages.get(operation.message_id)) is not None:
            self._messages[operation.message_id] = replace(before, text=operation.body.text)

    def supersede(self, replaced: Durable) -> None:
        """Count an operation that another one replaced, and remove the message that it was to change.

        The text of that message is now in another one, because the first is gone or never existed.
        """
        if isinstance(replaced, Edit | CloseStream):
            self._messages.pop(_message_id(replaced), None)
            self._changes += 1
        else:
            self._new += 1

    def mark_posted_anew(self) -> None:
        """Note that the last message replaces an earlier one that could not be changed."""
        if (message := self._messages.get(self._last)) is not None:
            self._messages[self._last] = replace(message, completion=Completion.ANEW)

    def _merged(self, before: ShownMessage, message: ShownMessage) -> ShownMessage:
        """Return `message`. Remove the message before it, if that one was refused and `message` repeats its text."""
        beginning = before.text.rstrip()
        if before.arrival is not Arrival.REFUSED or not beginning or not message.text.startswith(beginning):
            return message
        self._messages = {name: each for name, each in self._messages.items() if each is not before}
        return replace(message, completion=Completion.ANEW, why=message.why or before.why)

    def _finish(self, operation: Edit | CloseStream, *, at: float, arrival: Arrival, why: str) -> None:
        message_id = _message_id(operation)
        before = self._messages.get(message_id)
        if before is None:
            return
        if arrival is Arrival.DELIVERED and before.arrival is Arrival.DEGRADED:
            arrival, why = before.arrival, before.why
        completion = before.completion if before.completion is Completion.ANEW else Completion.IN_PLACE
        self._messages[message_id] = replace(
            before, text=operation.body.text, done=at, arrival=arrival, why=why, completion=completion
        )


def _message_id(operation: Edit | CloseStream) -> str:
    return operation.message_id if isinstance(operation, Edit) else operation.stream_id


def _content(operation: Post | OpenStream | PostMedia) -> tuple[str, str]:
    if isinstance(operation, PostMedia):
        # The path of a file is left out: a file is sent from a copy, and the name of the copy differs each time.
        return operation.caption, operation.url or f"a file {operation.mime}".rstrip()
    return operation.body.text, ""
