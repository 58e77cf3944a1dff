"""Events as lines of JSON for another program: one object per line, each written out at once.

JSON cannot carry everything Python can. Halves of surrogate pairs are replaced. A value that is no JSON value
at all is the agent's mistake and fails its turn, so it is looked for before the contract sees the event.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, BinaryIO

import msgspec

from tailrace.cli.turns import closing
from tailrace.errors import ContractViolation
from tailrace.events import EVENT_CLASSES, Event, TurnFailed, encode_event

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tailrace.ports import Prompt, Runtime

_SURROGATE = re.compile("[\ud800-\udfff]")


class JsonLines:
    """Writes each event it is shown as one line."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out

    async def show(self, event: Event) -> None:
        """Write one event."""
        self._out.write(_encode(event) + b"\n")
        self._out.flush()


class JsonRuntime:
    """A runtime whose events JSON can carry: its turn fails at the first that it cannot."""

    def __init__(self, runtime: Runtime) -> None:
        self.name = runtime.name
        self._runtime = runtime

    async def run(self, prompt: Prompt) -> AsyncIterator[Event]:
        """Run the turn and let pass what can be written."""
        async with closing(self._runtime.run(prompt)) as events:
            async for event in events:
                try:
                    if isinstance(event, EVENT_CLASSES):
                        _encode(event)
                except ContractViolation as violation:
                    yield TurnFailed(code=violation.diagnostic.code, message=violation.diagnostic.message)
                    return
                yield event


def _encode(event: Event) -> bytes:
    try:
        return encode_event(event)
    except ContractViolation:
        return encode_event(msgspec.convert(_mended(msgspec.to_builtins(event)), type(event)))


def _mended(value: Any) -> Any:
    """The value with every half of a surrogate pair replaced."""
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {_mended(key): _mended(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_mended(item) for item in value]
    return value
