"""Events as lines of JSON for another program: one object per line, each written out at once."""

from __future__ import annotations

import re
from typing import Any, BinaryIO

import msgspec

from tailrace.errors import ContractViolation
from tailrace.events import Event, encode_event

_SURROGATE = re.compile("[\ud800-\udfff]")


class JsonLines:
    """Writes each event it is shown as one line."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out

    async def show(self, event: Event) -> None:
        """Write one event of a turn that has passed the contract.

        Two things the contract lets through are mended: halves of surrogate pairs, which UTF-8 cannot carry,
        are replaced, and keys that are no text become text.
        """
        try:
            line = encode_event(event)
        except ContractViolation:
            line = msgspec.json.encode(_mended(msgspec.to_builtins(event)))
        self._out.write(line + b"\n")
        self._out.flush()


def _mended(value: Any) -> Any:
    """The value with its text valid and its keys text."""
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {_mended(str(key)): _mended(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_mended(item) for item in value]
    return value
