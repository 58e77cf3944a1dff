"""Converts rows to values and values to rows. Only this module knows the columns.

The order of the columns is that of the queries in `sql/`. A row that cannot be decoded, or that has another fingerprint
than it was recorded with, is damaged: it is refused by name and never sent.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec.structs import replace

from tailrace.deliveries import (
    OPEN,
    UNDELIVERED,
    Delivery,
    OpenConversation,
    Policy,
    Query,
    Snapshot,
    State,
    Turn,
    TurnState,
    fingerprint_of,
)
from tailrace.errors import LedgerUnusable
from tailrace.operations import (
    Body,
    CloseStream,
    Delete,
    Durable,
    Edit,
    OpenStream,
    Post,
    PostMedia,
    Receipt,
    Target,
    decode_operation,
    encode_operation,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tailrace.ledger.connection import Row, Value

AFTER_ALL = 2**62
"""A position behind every row."""

_SPACING = 16


def next_position(highest: int) -> int:
    """The position of a new row at the end. Between two such rows there is room for replacements and notices."""
    return highest - highest % _SPACING + _SPACING


def positions_behind(position: int) -> range:
    """The free positions between that row and the next one."""
    return range(position + 1, next_position(position))


_ENCODER = msgspec.json.Encoder()
_POLICY = msgspec.json.Decoder(Policy)
_RECEIPT = msgspec.json.Decoder(Receipt)
_SNAPSHOT = msgspec.json.Decoder(Snapshot)
_TARGET = msgspec.json.Decoder(Target)
_NOTHING = Body(text="")
_STATES = {state.value: state for state in State}


def encoded(value: msgspec.Struct) -> str:
    """Encode a value for a text column."""
    return _ENCODER.encode(value).decode()


# Each row has a policy, and a process has only a few different ones.
_encoded_policy = lru_cache(maxsize=256)(encoded)
_decoded_policy = lru_cache(maxsize=256)(_POLICY.decode)


def _column(value: msgspec.Struct | None) -> str | None:
    return None if value is None else encoded(value)


def from_delivery(delivery: Delivery) -> tuple[Value, ...]:
    """The columns of a new row; the first is its position."""
    target = delivery.operation.target
    return (
        delivery.position,
        delivery.turn_id,
        delivery.ordinal,
        target.conversation,
        target.channel,
        delivery.state._value_,  # `value` takes five times as long, and every change reads it
        delivery.attempt,
        delivery.deferred_tries,
        delivery.epoch,
        encode_operation(delivery.operation).decode(),
        _encoded_policy(delivery.policy),
        delivery.key,
        delivery.fingerprint,
        delivery.created_at,
        delivery.first_try_at,
        delivery.last_try_at,
        delivery.not_before,
        _column(delivery.receipt),
        delivery.error,
        int(delivery.may_be_double),
        delivery.updated_at,
    )


def from_move(before: Delivery, after: Delivery) -> tuple[Value, ...]:
    """The columns that a move writes, then the values that it must find."""
    return (
        after.state._value_,
        after.attempt,
        after.deferred_tries,
        after.first_try_at,
        after.last_try_at,
        after.not_before,
        _column(after.receipt),
        after.error,
        int(after.may_be_double),
        after.updated_at,
        before.position,
        before.state._value_,
        before.epoch,
        before.attempt,
    )


def state_of(row: Row) -> State | None:
    """The state of a delivery's row; None if only a newer version knows it."""
    return _STATES.get(row[3])


def to_delivery(row: Row, *, path: object) -> Delivery:
    """Decode a delivery. `path` is for the error if the row is damaged."""
    try:
        return Delivery(
            position=row[0],
            turn_id=row[1],
            ordinal=row[2],
            state=State(row[3]),
            attempt=row[4],
            deferred_tries=row[5],
            epoch=row[6],
            operation=decode_operation(row[7].encode()),
            policy=_decoded_policy(row[8]),
            key=row[9],
            fingerprint=row[10],
            created_at=row[11],
            first_try_at=row[12],
            last_try_at=row[13],
            not_before=row[14],
            receipt=None if row[15] is None else _RECEIPT.decode(row[15]),
            error=row[16],
            may_be_double=bool(row[17]),
            updated_at=row[18],
        )
    except (ValueError, AttributeError) as error:
        raise damaged(f"{row[1]}.{row[2]}", path) from error


def to_sendable(row: Row, *, path: object) -> Delivery:
    """Decode a delivery that may be sent: also check its fingerprint."""
    delivery = to_delivery(row, path=path)
    if delivery.state in OPEN and fingerprint_of(delivery.operation) != delivery.fingerprint:
        raise damaged(delivery.id, path)
    return delivery


def damaged(delivery_id: str, path: object) -> LedgerUnusable:
    """The error for a damaged row."""
    return LedgerUnusable(
        f"{path}: the row of delivery {delivery_id} is damaged and is not sent. Stop tailrace and restore the newest "
        "copy of the ledger."
    )


def from_turn(turn: Turn) -> tuple[Value, ...]:
    """The columns of a turn's row."""
    return (
        turn.turn_id,
        encoded(turn.target),
        turn.state.value,
        turn.input,
        encoded(turn.snapshot),
        turn.attempt,
        turn.epoch,
        turn.updated_at,
    )


def to_turn(row: Row, *, path: object) -> Turn:
    """Decode a turn. `path` is for the error if the row is damaged, or of a newer version."""
    try:
        return Turn(
            turn_id=row[0],
            target=_TARGET.decode(row[1]),
            state=TurnState(row[2]),
            input=row[3],
            snapshot=_SNAPSHOT.decode(row[4]),
            attempt=row[5],
            epoch=row[6],
            updated_at=row[7],
            last_ordinal=row[8],
        )
    except ValueError as error:
        raise LedgerUnusable(f"{path}: the row of turn {row[0]} cannot be read: {error}") from error


def to_open_conversation(row: Row) -> OpenConversation:
    """The row of a first open delivery as its conversation."""
    conversation, channel, state, epoch, not_before, updated_at = row
    return OpenConversation(
        name=conversation,
        channel=channel,
        state=state,
        epoch=epoch,
        not_before=not_before,
        updated_at=updated_at,
    )


def from_query(query: Query, *, among: Iterable[State], limit: int) -> dict[str, Value]:
    """The parameters of a query for deliveries in these states."""
    states = sorted(set(among) if query.states is None else query.states & set(among))
    return {
        "states": _ENCODER.encode(states).decode(),
        "turn_id": query.turn_id,
        "conversation": query.conversation,
        "channel": query.channel,
        "before": query.before,
        "limit": limit,
    }


def without_body(operation: str) -> str:
    """An operation's column without its content; the target stays."""
    return encode_operation(without_content(decode_operation(operation.encode()))).decode()


def without_content(operation: Durable) -> Durable:
    """The operation without its text and files."""
    match operation:
        case Post() | Edit() | OpenStream() | CloseStream():
            return replace(operation, body=_NOTHING)
        case PostMedia():
            return replace(operation, url=None, path=None, caption="")
        case Delete():
            return operation


FindQuery = Literal["find", "find_of_turn", "find_undelivered"]


def find_query(query: Query) -> FindQuery:
    """The name of the SQL query that can use an index for this filter."""
    if query.turn_id is not None:
        return "find_of_turn"
    is_undelivered = query.states is not None and query.states <= UNDELIVERED
    return "find_undelivered" if query.conversation is not None and is_undelivered else "find"
