"""Turns the events of a turn into chunks, the content of a stored message.

All readers of chunks use the same function.
"""

from tailrace.assembler.fold import append_event_to_chunks
from tailrace.assembler.system import apply_system_event

__all__ = ["append_event_to_chunks", "apply_system_event"]
