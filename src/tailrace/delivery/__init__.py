"""Delivery of turns: through callbacks of your own program, or through channels with a ledger.

`DeliveryAdapter` and `ProcessingMessageAccumulator` are for programs that send messages themselves. `Courier` sends
through channels and records each delivery in a ledger; `Recovery` sends what earlier processes left open.

The words of this package: a *turn* is one answer of an agent. A *delivery* is one call that a turn needs, such as a new
message or a final edit. It is a *row* of the ledger: *open* until its outcome is known, then *final*. A *conversation*
is one chat or thread; its owner, which has the *lease*, is the only one that sends there. An *interim* operation (a
preview, a draft, typing) is not recorded and may be dropped; all other operations are *durable*.
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
