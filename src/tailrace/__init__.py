"""tailrace carries what an AI agent says to where people are: streamed live, whole, in order, exactly once."""

from tailrace.assembler import append_event_to_chunks, apply_system_event
from tailrace.delivery import (
    BridgeCallbacks,
    DeliveryAdapter,
    DeliveryAdapterOptions,
    ProcessingMessageAccumulator,
    ReplyPayload,
)
from tailrace.markdown import split
from tailrace.ports import ChannelProvider, StreamingChannelProvider

__version__ = "0.1.0"

__all__ = [
    "BridgeCallbacks",
    "ChannelProvider",
    "DeliveryAdapter",
    "DeliveryAdapterOptions",
    "ProcessingMessageAccumulator",
    "ReplyPayload",
    "StreamingChannelProvider",
    "__version__",
    "append_event_to_chunks",
    "apply_system_event",
    "split",
]
