"""Turns events into chunks, by one fold that every reader of chunks shares."""

from tailrace.assembler.fold import append_event_to_chunks
from tailrace.assembler.system import apply_system_event

__all__ = ["append_event_to_chunks", "apply_system_event"]
