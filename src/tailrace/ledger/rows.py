"""Converts rows to values and values to rows. Only this module knows the columns.

The columns have the same order as in the queries in `sql/`. A row is damaged if it cannot be decoded, or if its content
does not match its fingerprint. Such a row is never sent; an error names it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec.structs import replace

from tailrace.deliveries import (
    OPEN,
    TURN_OPEN,
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
from tailrace.inbound import InboundMessage
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
    from collections.abc import Iterable, Sequence

    from tailrace.ledger.connection import Row, Value

AFTER_ALL = 2**62
"""A position after all rows."""

_SPACING = 16


def next_position(highest: int) -> int:
    """The position of a new last row. Some positions before it stay free, for replacements and notices."""
    return highest - highest % _SPACING + _SPACING


def positions_behind(position: int) -> range:
    """The free positions between this row and the next row, for replacements and notices."""
    return range(position + 1, next_position(position))


_ENCODER = msgspec.json.Encoder()
_POLICY = msgspec.json.Decoder(Policy)
_RECEIPT = msgspec.json.Decoder(Receipt)
_SNAPSHOT = msgspec.json.Decoder(Snapshot)
_TARGET = msgspec.json.Decoder(Target)
_MESSAGE = msgspec.json.Decoder(InboundMessage)
_NOTHING = Body(text="")
_STATES = {state.value: state for state in State}


def encoded(value: msgspec.Struct) -> str:
    """Encode a value for a text column."""
    return _ENCODER.encode(value).decode()


def encoded_epochs(epochs: Sequence[int]) -> str:
    """Encode epochs for a query."""
    return _ENCODER.encode(epochs).decode()


# Cached, because each row has a policy but a process has only a few different policies.
_encoded_policy = lru_cache(maxsize=256)(encoded)
_decoded_policy = lru_cache(maxsize=256)(_POLICY.decode)


def _column(value: msgspec.Struct | None) -> str | None:
    return None if value is None else encoded(value)


def starts_message(delivery: Delivery) -> bool:
    """Whether the delivery is `sending` and creates a new message. A cancelled turn must not have such a row."""
    return delivery.state is State.SENDING and isinstance(delivery.operation, Post | PostMedia | OpenStream)


def from_delivery(delivery: Delivery) -> tuple[Value, ...]:
    """The columns of a new row; the first is its position."""
    target = delivery.operation.target
    return (
        delivery.position,
        delivery.turn_id,
        delivery.ordinal,
        target.conversation,
        target.channel,
        delivery.state._value_,  # `value` is five times slower, and each change reads it
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
    """The columns that a move writes, then the values that the row must have before."""
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
        starts_message(after),
    )


def state_of(row: Row) -> State | None:
    """The state of a delivery's row; None if only a newer version of tailrace knows the state."""
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
    """Decode a delivery that may be sent. Also checks its fingerprint."""
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
        turn.conversation,
        turn.state.value,
        "" if turn.message is None else encoded(turn.message),
        turn.arrival,
        encoded(turn.snapshot),
        turn.attempt,
        turn.epoch,
        int(turn.is_cancelled),
        turn.updated_at,
    )


def to_turn(row: Row, *, path: object) -> Turn:
    """Decode a turn. `path` is for the error if the row is damaged, or was written by a newer version."""
    try:
        return Turn(
            turn_id=row[0],
            target=_TARGET.decode(row[1]),
            state=TurnState(row[2]),
            message=_MESSAGE.decode(row[3]) if row[3] else None,
            arrival=row[4],
            snapshot=_SNAPSHOT.decode(row[5]),
            attempt=row[6],
            epoch=row[7],
            is_cancelled=bool(row[8]),
            updated_at=row[9],
            last_ordinal=row[10],
        )
    except (ValueError, TypeError) as error:
        raise LedgerUnusable(f"{path}: the row of turn {row[0]} cannot be read: {error}.") from error


def to_open_conversation(row: Row) -> OpenConversation:
    """Decode a conversation from the row of its first open delivery. If that is damaged, the chat is ""."""
    name, channel, target, state, not_before, updated_at = row
    try:
        chat = _TARGET.decode(target or "").chat
    except ValueError:
        chat = ""
    return OpenConversation(
        name=name, channel=channel, chat=chat, state=state, not_before=not_before, updated_at=updated_at
    )


def from_query(query: Query, *, among: Iterable[State], limit: int) -> dict[str, Value]:
    """The parameters of the SQL for `query`, restricted to the states `among`."""
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
    """The column of an operation without its text and files; the target stays. A damaged column becomes empty."""
    try:
        return encode_operation(without_content(decode_operation(operation.encode()))).decode()
    except ValueError:
        return ""


def without_content(operation: Durable) -> Durable:
    """The operation without its text and files."""
    match operation:
        case Post() | Edit() | OpenStream() | CloseStream():
            return replace(operation, body=_NOTHING)
        case PostMedia():
            return replace(operation, url=None, path=None, caption="")
        case Delete():
            return operation


FindQuery = Literal["find", "find_of_turn", "find_open", "find_undelivered"]


def find_query(query: Query) -> FindQuery:
    """The name of the SQL query that uses the best index for this filter."""
    if query.turn_id is not None:
        return "find_of_turn"
    if query.conversation is None or query.states is None:
        return "find"
    if query.states <= UNDELIVERED:
        return "find_undelivered"
    return "find_open" if query.states <= OPEN else "find"


def matches_turn(turn: Turn, query: Query) -> bool:
    """Whether an ended turn without deliveries matches the query."""
    return (
        turn.state not in TURN_OPEN
        and query.states is None
        and query.turn_id in {None, turn.turn_id}
        and query.conversation in {None, turn.conversation}
        and query.channel in {None, turn.target.channel}
        and (query.before is None or turn.updated_at < query.before)
    )
