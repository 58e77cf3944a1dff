"""Events as lines of JSON for another program: one object per line, each written out at once."""

from __future__ import annotations

import re
from typing import Any, BinaryIO

import msgspec

from tailrace.errors import ContractViolation
from tailrace.events import Event, encode_event

_SURROGATE = re.compile("[\ud800-\udfff]")


class JsonLines:
    """Writes each event as one line."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out

    async def show(self, event: Event) -> None:
        """Write one event of a turn that has passed the contract.

        Two things that the contract lets through are repaired: lone surrogates, which UTF-8 cannot encode, are
        replaced, and keys that are not text become text.
        """
        try:
            line = encode_event(event)
        except ContractViolation:
            line = msgspec.json.encode(_repaired(msgspec.to_builtins(event)))
        self._out.write(line + b"\n")
        self._out.flush()


def _repaired(value: Any) -> Any:
    """The value with valid text, and with text as keys."""
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {_repaired(str(key)): _repaired(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_repaired(item) for item in value]
    return value
