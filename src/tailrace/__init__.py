"""tailrace carries what an AI agent says to where people are: streamed live, whole, in order, exactly once.

The names here are loaded when they are first used, so that `from tailrace.events import …` does not import delivery.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tailrace.assembler import append_event_to_chunks, apply_system_event
    from tailrace.delivery import (
        BridgeCallbacks,
        DeliveryAdapter,
        DeliveryAdapterOptions,
        ProcessingMessageAccumulator,
        ReplyPayload,
    )
    from tailrace.gateway.extension_context import ExtensionContext
    from tailrace.gateway.gateway import Gateway
    from tailrace.gateway.router import MessageRouter
    from tailrace.markdown import split
    from tailrace.ports import ChannelProvider, StreamingChannelProvider

__version__ = "0.1.0"

__all__ = [
    "BridgeCallbacks",
    "ChannelProvider",
    "DeliveryAdapter",
    "DeliveryAdapterOptions",
    "ExtensionContext",
    "Gateway",
    "MessageRouter",
    "ProcessingMessageAccumulator",
    "ReplyPayload",
    "StreamingChannelProvider",
    "__version__",
    "append_event_to_chunks",
    "apply_system_event",
    "split",
]

_MODULES = {
    "BridgeCallbacks": "tailrace.delivery",
    "ChannelProvider": "tailrace.ports",
    "DeliveryAdapter": "tailrace.delivery",
    "DeliveryAdapterOptions": "tailrace.delivery",
    "ExtensionContext": "tailrace.gateway.extension_context",
    "Gateway": "tailrace.gateway.gateway",
    "MessageRouter": "tailrace.gateway.router",
    "ProcessingMessageAccumulator": "tailrace.delivery",
    "ReplyPayload": "tailrace.delivery",
    "StreamingChannelProvider": "tailrace.ports",
    "append_event_to_chunks": "tailrace.assembler",
    "apply_system_event": "tailrace.assembler",
    "split": "tailrace.markdown",
}


if not TYPE_CHECKING:  # a type checker would take any attribute for an object

    def __getattr__(name: str) -> object:
        if name not in _MODULES:
            raise AttributeError(f"module 'tailrace' has no attribute {name!r}")
        value = getattr(import_module(_MODULES[name]), name)
        globals()[name] = value  # so that the next access does not come here
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
