"""The gateway: the process that puts agents on channels."""

from tailrace.gateway.router import MessageRouter

__all__ = ["MessageRouter"]
