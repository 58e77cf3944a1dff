"""Delivery of turns: through callbacks of your own program, or through channels with a ledger.

`DeliveryAdapter` and `ProcessingMessageAccumulator` are for programs that send messages themselves. `Courier` sends
through channels and records each delivery in a ledger; `Recovery` sends what earlier processes left open.
"""

from tailrace.delivery.adapter import BridgeCallbacks, DeliveryAdapter, DeliveryAdapterOptions, ReplyPayload
from tailrace.delivery.courier import Courier
from tailrace.delivery.plan import OpenTurn
from tailrace.delivery.processing_message import ProcessingMessageAccumulator
from tailrace.delivery.recovery import Recovery, RecoverySettings
from tailrace.delivery.sender_context import CourierSettings
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
