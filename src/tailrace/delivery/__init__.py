"""Drives the stages for one turn."""

from tailrace.delivery.adapter import BridgeCallbacks, DeliveryAdapter, DeliveryAdapterOptions, ReplyPayload

__all__ = ["BridgeCallbacks", "DeliveryAdapter", "DeliveryAdapterOptions", "ReplyPayload"]
