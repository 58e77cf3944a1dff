"""The messages of a turn as the ledger knows them: what a projector goes on with after a crash.

The events of the turn are fed again from the first on; the sheets made here are the ones that are there already, in
order, and the projector changes only what is not as it shall be. Nothing is told apart by its content. What a message
was made to show in between is not known: only the one that was being written last can show something else than it said.
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
    """The sheets that the deliveries of one turn left, all of them final, in the order of their ordinals.

    What did not arrive for sure, or may not have, is there as a sheet that is lost: it is not said again on its own.
    """
    sheets: list[TurnMessage] = []
    by_message: dict[str, TurnMessage] = {}
    replaced: dict[int, TurnMessage] = {}
    for delivery in sorted(deliveries, key=lambda known: (abs(known.ordinal), -known.ordinal)):
        if delivery.ordinal == NOTICE_ORDINAL:
            continue
        operation = delivery.operation
        if isinstance(operation, Edit | Delete | CloseStream):
            message_id = operation.stream_id if isinstance(operation, CloseStream) else operation.message_id
            sheet = by_message.get(message_id)
        else:
            sheet = replaced.get(-delivery.ordinal)
            if sheet is None:
                sheet = TurnMessage()
                sheets.append(sheet)
        if sheet is None:
            continue
        if delivery.state is State.SUPERSEDED:
            replaced[delivery.ordinal] = sheet
            continue
        _apply(sheet, delivery)
        if sheet.message_id is not None:
            by_message[sheet.message_id] = sheet
    there = [sheet for sheet in sheets if sheet.message_id is not None or sheet.lost]
    if last := [sheet for sheet in there if not sheet.is_processing][-1:]:
        last[0].shown = None
    return there


def _apply(sheet: TurnMessage, delivery: Delivery) -> None:
    operation = delivery.operation
    if isinstance(operation, Post):
        sheet.is_processing = sheet.is_processing or operation.is_processing
    if isinstance(operation, PostMedia):
        sheet.media = operation
    if delivery.state in UNDELIVERED or delivery.receipt is None:
        if isinstance(operation, Post | PostMedia | OpenStream):
            sheet.lost, sheet.message_id = True, None
            sheet.said = None if isinstance(operation, PostMedia) else body_hash(operation.body)
        return
    if isinstance(operation, Delete):
        sheet.message_id = sheet.said = sheet.shown = None
        return
    sheet.lost = False
    sheet.message_id = delivery.receipt.message_id
    if not isinstance(operation, PostMedia):
        sheet.said = sheet.shown = body_hash(operation.body)
        sheet.is_stream = isinstance(operation, OpenStream) and not delivery.receipt.degraded
