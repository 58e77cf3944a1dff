"""Rebuilds the messages of a turn from the ledger, so that a projector can continue the turn after a crash.

The turn's events are fed again from the first one. `restored_messages` gives the messages that already exist, in order,
and the projector changes only those that must change. Messages are matched by their order, never by their content. The
ledger does not record interim edits. So only the last open message may show something else than its last durable
operation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.deliveries import NOTICE_ORDINAL, UNDELIVERED, State
from tailrace.operations import CloseStream, Delete, Edit, OpenStream, Post, PostMedia
from tailrace.projector.message import TurnMessage, body_hash

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tailrace.deliveries import Delivery


def restored_messages(deliveries: Iterable[Delivery]) -> list[TurnMessage]:
    """Rebuild the messages of a turn from its deliveries, which must all be in a final state.

    A message that did not arrive, or perhaps did not, is marked as `lost`: the same text is not sent again.
    """
    messages: list[TurnMessage] = []
    by_id: dict[str, TurnMessage] = {}
    replaced: dict[int, TurnMessage] = {}
    for delivery in sorted(deliveries, key=lambda known: (abs(known.ordinal), -known.ordinal)):
        if delivery.ordinal == NOTICE_ORDINAL:
            continue
        operation = delivery.operation
        if isinstance(operation, Edit | Delete | CloseStream):
            message_id = operation.stream_id if isinstance(operation, CloseStream) else operation.message_id
            message = by_id.get(message_id)
        else:
            message = replaced.get(-delivery.ordinal)
            if message is None:
                message = TurnMessage()
                messages.append(message)
        if message is None:
            continue
        if delivery.state is State.SUPERSEDED:
            replaced[delivery.ordinal] = message
            continue
        _apply(message, delivery)
        if message.message_id is not None:
            by_id[message.message_id] = message
    known = [message for message in messages if message.message_id is not None or message.lost]
    if last := [message for message in known if not message.is_processing][-1:]:
        last[0].shown = None
    return known


def _apply(message: TurnMessage, delivery: Delivery) -> None:
    operation = delivery.operation
    if isinstance(operation, Post):
        message.is_processing = message.is_processing or operation.is_processing
    if isinstance(operation, PostMedia):
        message.media = operation
    if delivery.state not in UNDELIVERED and delivery.receipt is not None:
        message.record_delivered(operation, delivery.receipt)
    elif isinstance(operation, Post | PostMedia | OpenStream):
        message.lost, message.message_id = True, None
        message.sent = None if isinstance(operation, PostMedia) else body_hash(operation.body)
