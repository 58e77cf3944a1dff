"""Carries what a turn says to where it is read: through callbacks of one's own, or written down and seen through.

`DeliveryAdapter` and `ProcessingMessageAccumulator` are for people who send on their own. `Courier` sends through the
ports and keeps a ledger of it, and `Recovery` goes on with what was left by whoever was there before.
"""

from tailrace.delivery.adapter import BridgeCallbacks, DeliveryAdapter, DeliveryAdapterOptions, ReplyPayload
from tailrace.delivery.courier import Courier, CourierSettings
from tailrace.delivery.open_turn import OpenTurn
from tailrace.delivery.processing_message import ProcessingMessageAccumulator
from tailrace.delivery.recovery import Recovery, RecoverySettings
from tailrace.delivery.spool import Spool

__all__ = [
    "BridgeCallbacks",
    "Courier",
    "CourierSettings",
    "DeliveryAdapter",
    "DeliveryAdapterOptions",
    "OpenTurn",
    "ProcessingMessageAccumulator",
    "Recovery",
    "RecoverySettings",
    "ReplyPayload",
    "Spool",
]
