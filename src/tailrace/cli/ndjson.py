"""Events as lines of JSON for another program: one object per line, each written out at once."""

from __future__ import annotations

from typing import Any, BinaryIO

import msgspec

from tailrace.errors import ContractViolation
from tailrace.events import Event, encode_event


class JsonLines:
    """Writes each event as one line."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out

    async def show(self, event: Event) -> None:
        """Write one event that the contract has accepted. Keys that are not text become text."""
        try:
            line = encode_event(event)
        except ContractViolation:
            line = msgspec.json.encode(_with_text_keys(msgspec.to_builtins(event)))
        self._out.write(line + b"\n")
        self._out.flush()


def _with_text_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _with_text_keys(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_text_keys(item) for item in value]
    return value
