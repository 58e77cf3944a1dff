"""Formats deliveries: as one line for people, with readable times, and as JSON for programs."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, assert_never

import msgspec

from tailrace.channels.terminal.visible import visible
from tailrace.deliveries import State
from tailrace.operations import CloseStream, Delete, Edit, OpenStream, Post, PostMedia

if TYPE_CHECKING:
    from tailrace.deliveries import Delivery
    from tailrace.operations import Durable

_LONG_WAIT_S = 5.0
_WAITING = {State.RETRY: "is tried again", State.AMBIGUOUS: "may have arrived: it is looked up"}


def one_line(text: str) -> str:
    """The text on one line. Control characters become visible signs, so that they cannot change the terminal."""
    return visible(" ".join(text.split()))


def text_of(operation: Durable) -> str:
    """The text that an operation sends. For an operation without a text, such as a deletion, a description."""
    match operation:
        case Post() | Edit() | OpenStream() | CloseStream():
            return operation.body.text
        case PostMedia():
            return " ".join(filter(None, ("▸", operation.caption, operation.url or operation.path, operation.mime)))
        case Delete():
            return f"(deletes message {operation.message_id})"
        case _:
            assert_never(operation)


def format_duration(seconds: float) -> str:
    """A duration as text in days, hours, minutes or seconds, such as `3 h`."""
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"


def format_time(at: float) -> str:
    """A time in seconds since 1970 as text, in the local time zone."""
    return datetime.fromtimestamp(at, tz=UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")


def format_wait(name: str, delivery: Delivery, *, at_least_s: float = _LONG_WAIT_S) -> str | None:
    """A text that says why and how long a delivery waits, for example `part 2 is tried again in 30 s`.

    `name` is what the text calls the delivery. None if it waits less than `at_least_s` or not at all.
    """
    left = (delivery.not_before or 0.0) - time.time()
    if delivery.not_before is None or delivery.state not in _WAITING or left < at_least_s:
        return None
    why = f": {one_line(delivery.error)}" if delivery.error else ""
    return f"{name} {_WAITING[delivery.state]} in {format_duration(left)}{why}"


def result_record(delivery: Delivery) -> dict[str, Any]:
    """The JSON object that says what happened to a delivery: its state, attempts, message id and error."""
    return {
        "id": delivery.id,
        "state": delivery.state.value,
        "attempt": delivery.attempt,
        "message_id": delivery.receipt.message_id if delivery.receipt is not None else None,
        "error": delivery.error,
        "may_be_double": delivery.may_be_double,
    }


def list_record(delivery: Delivery) -> dict[str, Any]:
    """The JSON object for a delivery in a list: its result, where it was sent, its text and its times."""
    target = delivery.operation.target
    return {
        **result_record(delivery),
        "turn_id": delivery.turn_id,
        "ordinal": delivery.ordinal,
        "channel": target.channel,
        "chat": target.chat,
        "thread": target.thread,
        "text": text_of(delivery.operation),
        "created_at": format_utc(delivery.created_at),
        "updated_at": format_utc(delivery.updated_at),
    }


def full_record(delivery: Delivery) -> dict[str, Any]:
    """The JSON object with all fields of a delivery."""
    return {
        **list_record(delivery),
        "first_try_at": format_utc(delivery.first_try_at),
        "last_try_at": format_utc(delivery.last_try_at),
        "not_before": format_utc(delivery.not_before),
        "key": delivery.key,
        "receipt": msgspec.to_builtins(delivery.receipt),
        "policy": msgspec.to_builtins(delivery.policy),
        "operation": msgspec.to_builtins(delivery.operation),
    }


def json_line(record: dict[str, Any]) -> str:
    """A JSON object as one line of text, with its line end."""
    return msgspec.json.encode(record).decode() + "\n"


def format_utc(at: float | None) -> str | None:
    """A moment in UTC, as ISO 8601 writes it. None for None."""
    if at is None:
        return None
    return datetime.fromtimestamp(at, tz=UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
